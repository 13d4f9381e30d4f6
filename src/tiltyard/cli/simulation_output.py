"""What long simulations share on a terminal: progress, and results written to a folder."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from tiltyard.errors import BadOption
from tiltyard.report.terminal_escape import escape_controls

__all__ = ["document_json", "prepare_folder", "simulation_progress", "write_files"]


@contextmanager
def simulation_progress() -> Iterator[Callable[[str, int, int], None]]:
    """A bar where a person watches. Whoever stops it hears that nothing is lost."""
    try:
        if not sys.stderr.isatty():
            yield lambda _what, _done, _total: None
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task("simulating", total=None)
            yield lambda what, done, total: bar.update(
                task, description=f"simulating {what}", completed=done, total=total
            )
    except KeyboardInterrupt:
        typer.echo("What is finished is kept: the same command goes on from there.", err=True)
        raise


def prepare_folder(out: Path | None) -> None:
    """Find out before the work whether its results can be written."""
    if out is None:
        return
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadOption(f"cannot write to {out}: {error.strerror or error}; name another folder") from None


def write_files(out: Path, files: Mapping[str, str]) -> None:
    from tiltyard.files.battle_writer import atomic_write

    for name, text in files.items():
        with atomic_write(str(out / name)) as file:
            file.write(text.encode())
    typer.echo(f"Written to {escape_controls(str(out))}: {', '.join(files)}", err=True)


def document_json(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
