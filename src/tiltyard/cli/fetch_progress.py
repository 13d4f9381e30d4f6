"""Shows downloads of input files on standard error: a bar on a terminal, then which bytes they were."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from tiltyard.foundation.fetch_listener import listen_to_fetches
from tiltyard.report.terminal_escape import escape_controls

if TYPE_CHECKING:
    from rich.progress import Progress


class FetchProgress:
    """A bar for each file of the web; huggingface_hub shows its own."""

    def __init__(self) -> None:
        self._bar: Progress | None = None

    def receive(self, _name: str, size: int, total: int | None, /) -> None:
        if not sys.stderr.isatty():
            return
        if self._bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._bar.add_task("fetching", total=total)
            self._bar.start()
        self._bar.update(self._bar.task_ids[0], completed=size, total=total)

    def finish(self, note: str, /) -> None:
        self.stop()
        typer.echo(escape_controls(note), err=True)

    def stop(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


@contextmanager
def show_fetches() -> Iterator[None]:
    """Show the downloads of a command. The hub's client asks for nothing else than these."""
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    if not sys.stderr.isatty():
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    shown = FetchProgress()
    try:
        with listen_to_fetches(shown):
            yield
    finally:
        shown.stop()
