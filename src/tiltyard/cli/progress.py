"""A progress bar on standard error, for work that takes a while and a person who watches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

__all__ = ["battles_read"]


@contextmanager
def battles_read(rows: Sequence[int | None]) -> Iterator[Callable[[int], None] | None]:
    """Count battles as they are read; silent where nobody watches."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    total = None if any(count is None for count in rows) else sum(count or 0 for count in rows)
    columns = (TextColumn("reading battles"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("read", total=total)
        yield lambda count: bar.advance(task, count)
