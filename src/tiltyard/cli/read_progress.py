"""A progress bar on standard error, for work that takes a while and a person who watches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

__all__ = ["show_read_progress"]


@contextmanager
def show_read_progress(rows: Sequence[int | None]) -> Iterator[Callable[[int], None] | None]:
    """Count battles as they are read, then say that they are being rated; silent where nobody watches."""
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
