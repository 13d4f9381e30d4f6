"""Cut tables and turns of phrase that the sections of a validity report share."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from tiltyard.report.report_parts import ReportTable

__all__ = [
    "MAX_TABLE_ROWS",
    "format_before",
    "format_count",
    "format_date",
    "format_share",
    "format_times",
    "limited_table",
]

#: Longer tables are cut, and say so.
MAX_TABLE_ROWS = 60


def limited_table(
    title: str,
    heads: tuple[str, ...],
    rows: Sequence[tuple[str, ...]],
    *,
    words: int = 1,
    folded: bool = False,
) -> ReportTable:
    """A table of at most so many rows."""
    return ReportTable(
        heads, tuple(rows[:MAX_TABLE_ROWS]), words, title, folded, max(len(rows) - MAX_TABLE_ROWS, 0)
    )


def format_date(time: int) -> str:
    """Seconds since 1970 as a date."""
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M UTC")


def format_count(value: float | None) -> str:
    """A whole number, or a dash."""
    return "–" if value is None else f"{value:,.0f}"


def format_share(n: int, of: int) -> str:
    """A share in per cent; a dash of nothing."""
    return f"{n / of:.1%}" if of else "–"


def format_before(before: float | None) -> str:
    """What it was before the span, in brackets."""
    return "" if before is None else f" ({before:,.0f} before)"


def format_times(n: int) -> str:
    """So many times, as one says it."""
    return {0: "never", 1: "once", 2: "twice"}.get(n, f"{n} times")
