"""Progress on standard error: of judging, of downloads, of reading battles and of simulations."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import typer

from tiltyard.foundation.fetch_listener import FetchListener, listen_to_fetches
from tiltyard.report.escapes import escape_controls

if TYPE_CHECKING:
    from rich.progress import Progress

    from tiltyard.judges.judging_run import RunProgress


#: Seconds between progress lines in a log.
_LOG_LINE_SECONDS = 10.0
_REPLIED = ("ok", "refused", "truncated", "unparseable")
_SHOWN = ("ok", "refused", "truncated", "unparseable", "provider_error", "expired", "lost")


class JudgingProgress:
    """Shows finished calls by result, dollars spent, and the time left."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._task: Any = None
        self._total = 0
        self._spent = 0
        self._cap: int | None = None
        self._printed_at = self._began = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close_bar()

    def _close_bar(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def begun(self, out: Path, calls: int, spent: int, cap: int | None, *, resumed: bool) -> None:
        self._close_bar()
        self._total, self._spent, self._cap = calls, spent, cap
        self._printed_at = self._began = time.monotonic()
        self._tell_begin(out, resumed)
        if calls and sys.stderr.isatty():
            self._bar = _open_bar(
                "judging", "BarColumn", "MofNCompleteColumn", "{task.description}", "TimeRemainingColumn"
            )
            self._task = self._bar.add_task("", total=calls)
            self._bar.start()

    def _tell_begin(self, out: Path, resumed: bool) -> None:
        verb = "Resuming" if resumed else "Writing to"
        place = escape_controls(str(out))
        bound = "at most " if resumed and self._spent else ""
        limit = (
            "" if self._cap is None else f", {bound}{_dollars(self._spent)} of {_dollars(self._cap)} spent"
        )
        typer.echo(f"{verb} {place}: {self._total:,} calls to make{limit}.", err=True)

    def tick(self, progress: RunProgress) -> None:
        # A reply that could not be parsed is retried once and then counts twice: cap the count at the total.
        done = min(sum(progress.states[name] for name in _REPLIED), self._total)
        if self._bar is not None:
            self._bar.update(self._task, completed=done, description=self._line(progress))
            return
        now = time.monotonic()
        if now - self._printed_at >= _LOG_LINE_SECONDS:
            self._printed_at = now
            left = (self._total - done) * (now - self._began) / done if done else None
            eta = "" if left is None else f", about {_duration(left)} left"
            typer.echo(f"{done:,} of {self._total:,} calls ({self._line(progress)}){eta}", err=True)

    def _line(self, progress: RunProgress) -> str:
        states = ", ".join(f"{name} {progress.states[name]:,}" for name in _SHOWN if progress.states[name])
        spent = None if progress.spent is None else self._spent + progress.spent
        money = _dollars(spent) if self._cap is None else f"{_dollars(spent)} of {_dollars(self._cap)}"
        if spent and progress.states["lost"]:
            money = f"at most {money}"
        return f"{states or 'none yet'}; {money}"

    def note(self, sentence: str) -> None:
        self.tell(f"{sentence}.")

    def tell(self, line: str) -> None:
        """Print a line, above the bar if there is one."""
        if self._bar is not None:
            self._bar.console.print(escape_controls(line), markup=False, highlight=False, soft_wrap=True)
        else:
            typer.echo(escape_controls(line), err=True)

    def rating(self) -> None:
        if self._bar is not None:
            self._bar.update(self._task, description="rating")


class QuietProgress(JudgingProgress):
    """The progress of a run that is made of many short ones: only the first says where it is written."""

    _told = False

    def _tell_begin(self, out: Path, resumed: bool) -> None:
        if not self._told:
            self._told = True
            super()._tell_begin(out, resumed)


def _dollars(amount: int | None) -> str:
    # Prices load pydantic, and every command loads this module.
    from tiltyard.settings.prices import format_dollars

    return format_dollars(amount)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


class FetchProgress(FetchListener):
    """A bar for each file of the web; huggingface_hub shows its own."""

    def __init__(self) -> None:
        self._bar: Progress | None = None

    def receive(self, _name: str, size: int, total: int | None, /) -> None:
        if not sys.stderr.isatty():
            return
        if self._bar is None:
            self._bar = _open_bar("{task.description}", "BarColumn", "DownloadColumn", "TimeRemainingColumn")
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


@contextmanager
def show_read_progress(rows: Sequence[int | None]) -> Iterator[Callable[[int], None] | None]:
    """Show how many battles have been read, then that they are being rated; only on a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    total = None if any(count is None for count in rows) else sum(count or 0 for count in rows)
    with counting_bar() as bar:
        task = bar.add_task("reading battles", total=total)

        def read(count: int) -> None:
            if count:
                bar.advance(task, count)
            else:
                bar.update(task, description="rating", total=None)

        yield read


@contextmanager
def simulation_progress() -> Iterator[Callable[[str, int, int], None]]:
    """Show a progress bar on a terminal. On Ctrl-C, say that finished worlds are kept."""
    try:
        if not sys.stderr.isatty():
            yield lambda _what, _done, _total: None
            return
        with counting_bar() as bar:
            task = bar.add_task("simulating", total=None)
            yield lambda what, done, total: bar.update(
                task, description=f"simulating {what}", completed=done, total=total
            )
    except KeyboardInterrupt:
        typer.echo("Finished results are kept: run the same command to resume.", err=True)
        raise


@contextmanager
def count_progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show how many are done: as a bar on a terminal, elsewhere as a line from time to time."""
    if sys.stderr.isatty():
        with counting_bar() as bar:
            task = bar.add_task(what, total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)
        return
    printed_at = time.monotonic()

    def tell(done: int, total: int) -> None:
        nonlocal printed_at
        if time.monotonic() - printed_at >= _LOG_LINE_SECONDS:
            printed_at = time.monotonic()
            typer.echo(f"{what}: {done:,} of {total:,}", err=True)

    yield tell


def counting_bar() -> Progress:
    """A bar that counts what is done."""
    return _open_bar("{task.description}", "BarColumn", "MofNCompleteColumn", "TimeRemainingColumn")


def _open_bar(*columns: str) -> Progress:
    """A bar on standard error, which goes when it is done: of texts, and of columns of rich by their names."""
    from rich import progress
    from rich.console import Console

    parts = [
        getattr(progress, name)() if name.endswith("Column") else progress.TextColumn(name)
        for name in columns
    ]
    return progress.Progress(*parts, console=Console(stderr=True), transient=True)
