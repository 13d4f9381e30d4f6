"""Parses numbers from forms."""

from __future__ import annotations

import math
import re

__all__ = ["finite_number", "whole_number"]

#: At most as many digits as fit in all our columns.
_WHOLE = re.compile(r"-?[0-9]{1,15}")


def whole_number(text: str) -> int | None:
    """Parse an integer; ``None`` if the text is not one, or is too long."""
    return int(text) if _WHOLE.fullmatch(text) else None


def finite_number(text: str) -> float | None:
    """Parse a number; ``None`` if the text is not one, or not finite."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
