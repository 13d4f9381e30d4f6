"""Truncated tables and number formats shared by the sections of a validity report."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from tiltyard.report.report_parts import ReportTable

#: Longer tables are truncated, with a note.
MAX_TABLE_ROWS = 60


def limited_table(
    title: str,
    heads: tuple[str, ...],
    rows: Sequence[tuple[str, ...]],
    *,
    words: int = 1,
    folded: bool = False,
) -> ReportTable:
    """A table with a limited number of rows."""
    return ReportTable(
        heads, tuple(rows[:MAX_TABLE_ROWS]), words, title, folded, max(len(rows) - MAX_TABLE_ROWS, 0)
    )


def format_date(time: int) -> str:
    """Seconds since 1970, as a date."""
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M UTC")


def format_count(value: float | None) -> str:
    """An integer, or a dash if missing."""
    return "–" if value is None else f"{value:,.0f}"


def format_share(n: int, of: int) -> str:
    """A percentage; a dash if the total is zero."""
    return f"{n / of:.1%}" if of else "–"


def format_before(before: float | None) -> str:
    """The value before the span, in parentheses."""
    return "" if before is None else f" ({before:,.0f} before)"


def format_times(n: int) -> str:
    """The number of times, in words."""
    return {0: "never", 1: "once", 2: "twice"}.get(n, f"{n} times")
