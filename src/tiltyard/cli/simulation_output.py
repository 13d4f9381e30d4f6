"""Progress and result files of simulations."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import typer

from tiltyard.errors import BadOption
from tiltyard.report.terminal_escape import escape_controls


@contextmanager
def simulation_progress() -> Iterator[Callable[[str, int, int], None]]:
    """Show a progress bar on a terminal. On Ctrl-C, say that finished worlds are kept."""
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
        typer.echo("Finished results are kept: run the same command to resume.", err=True)
        raise


def prepare_folder(out: Path | None) -> None:
    """Create the folder before the work starts, so that a wrong path fails early."""
    if out is None:
        return
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadOption(f"cannot write to {out}: {error.strerror or error}; name another folder") from None


def write_files(out: Path, files: Mapping[str, str]) -> None:
    from tiltyard.foundation.local_files import atomic_write

    for name, text in files.items():
        with atomic_write(str(out / name)) as file:
            file.write(text.encode())
    typer.echo(f"Written to {escape_controls(str(out))}: {', '.join(files)}", err=True)


def document_json(document: Mapping[str, object]) -> str:
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
