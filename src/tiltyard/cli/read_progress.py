"""Progress bar for reading battles, on standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager


@contextmanager
def show_read_progress(rows: Sequence[int | None]) -> Iterator[Callable[[int], None] | None]:
    """Show how many battles have been read, then that they are being rated; only on a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    total = None if any(count is None for count in rows) else sum(count or 0 for count in rows)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading battles", total=total)

        def read(count: int) -> None:
            if count:
                bar.advance(task, count)
            else:
                bar.update(task, description="rating", total=None)

        yield read
