"""Times as files write them, on their way to `Battle`, which reads ISO 8601 and seconds since 1970."""

from __future__ import annotations

from typing import Any

__all__ = ["arena_time", "time_in_text"]

#: Smaller numbers in text are years or dates (2026, 20260301), not seconds: these begin in 1973.
_SECONDS = 100_000_000

#: No vote is this many seconds after 1970: such a number is in milliseconds.
_MILLISECONDS = 100_000_000_000


def time_in_text(text: str) -> float | str:
    """Seconds since 1970 where the text is such a number; any other text as it is."""
    try:
        number = float(text)
    except ValueError:
        return text
    return number if abs(number) >= _SECONDS else text


def arena_time(moment: Any) -> Any:
    """The time of a vote: some exports count milliseconds, and numbers in CSV are text."""
    if isinstance(moment, str):
        moment = time_in_text(moment)
    if isinstance(moment, int | float) and abs(moment) >= _MILLISECONDS:
        return moment / 1000
    return moment
