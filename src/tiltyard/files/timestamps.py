"""Normalises timestamps in files for `Battle`, which reads ISO 8601 and seconds since 1970."""

from __future__ import annotations

from typing import Any

#: Smaller numbers in text are years or dates (2026, 20260301), not seconds: this is in 1973.
_MIN_TIMESTAMP_SECONDS = 100_000_000

#: Larger numbers of seconds since 1970 are implausible: the number is in milliseconds.
_MAX_TIMESTAMP_SECONDS = 100_000_000_000


def parse_time_text(text: str) -> float | str:
    """Seconds since 1970 if the text is such a number; any other text unchanged."""
    try:
        number = float(text)
    except ValueError:
        return text
    return number if abs(number) >= _MIN_TIMESTAMP_SECONDS else text


def parse_arena_time(moment: Any) -> Any:
    """The time of a vote: some exports use milliseconds, and numbers in CSV are text."""
    if isinstance(moment, str):
        moment = parse_time_text(moment)
    if isinstance(moment, int | float) and abs(moment) >= _MAX_TIMESTAMP_SECONDS:
        try:
            return moment / 1000
        except OverflowError:
            return moment
    return moment
