"""Numbers as somebody types them into a form."""

from __future__ import annotations

import math
import re

__all__ = ["finite_number", "whole_number"]

#: As many digits as every number of ours has room for.
_WHOLE = re.compile(r"-?[0-9]{1,15}")


def whole_number(text: str) -> int | None:
    """A whole number; ``None`` if it is none, or longer than any that makes sense."""
    return int(text) if _WHOLE.fullmatch(text) else None


def finite_number(text: str) -> float | None:
    """A number; ``None`` if it is none, or endless."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
