"""Cut tables and turns of phrase that the sections of a validity report share."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from tiltyard.report.parts import Rows

__all__ = ["MOST_ROWS", "cut", "moment", "number", "share", "times", "was"]

#: Longer tables are cut, and say so.
MOST_ROWS = 60


def cut(
    title: str,
    heads: tuple[str, ...],
    rows: Sequence[tuple[str, ...]],
    *,
    words: int = 1,
    folded: bool = False,
) -> Rows:
    """A table of at most so many rows."""
    return Rows(heads, tuple(rows[:MOST_ROWS]), words, title, folded, max(len(rows) - MOST_ROWS, 0))


def moment(time: int) -> str:
    """Seconds since 1970 as a date."""
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M UTC")


def number(value: float | None) -> str:
    """A whole number, or a dash."""
    return "–" if value is None else f"{value:,.0f}"


def share(n: int, of: int) -> str:
    """A share in per cent; a dash of nothing."""
    return f"{n / of:.1%}" if of else "–"


def was(before: float | None) -> str:
    """What it was before the span, in brackets."""
    return "" if before is None else f" ({before:,.0f} before)"


def times(n: int) -> str:
    """So many times, as one says it."""
    return {0: "never", 1: "once", 2: "twice"}.get(n, f"{n} times")
