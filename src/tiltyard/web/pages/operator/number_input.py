"""Parses numbers from forms."""

from __future__ import annotations

import math
import re

from tiltyard.errors import InputError

__all__ = ["finite_number", "session_number", "whole_number"]

#: At most as many digits as fit in all our columns.
_WHOLE = re.compile(r"-?[0-9]{1,15}")
#: Digits of the greatest number of a session.
_SESSION_DIGITS = 19


def whole_number(text: str) -> int | None:
    """Parse an integer; ``None`` if the text is not one, or is too long."""
    return int(text) if _WHOLE.fullmatch(text) else None


def session_number(text: str) -> int:
    """Parse the number of a session; raise `InputError` if the text is not one."""
    if not (text.isascii() and text.isdigit() and len(text) <= _SESSION_DIGITS and int(text) < 2**63):
        raise InputError(
            f"{text[:40]!r} is no number of a session; the page of voters and each voter's page Your data have it"
        )
    return int(text)


def finite_number(text: str) -> float | None:
    """Parse a number; ``None`` if the text is not one, or not finite."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
