"""Dollar amounts as decimal text, added without rounding."""

from __future__ import annotations

import re

from tiltyard.errors import UnreadableFile

_DECIMAL_DIGIT_COUNT = 12
_DECIMAL = re.compile(r"([0-9]{1,15})(?:\.([0-9]{1,12}))?")


def picodollars_of(text: str, where: str) -> int:
    """Parse decimal text as integer picodollars; more than twelve decimals are rejected."""
    found = _DECIMAL.fullmatch(text)
    if found is None:
        raise UnreadableFile(f"{where} is {text!r}; expected dollars as decimal text, such as 0.0125")
    return int(found[1] + (found[2] or "").ljust(_DECIMAL_DIGIT_COUNT, "0"))


def dollars_text(picodollars: int) -> str:
    """The amount as decimal text, without trailing zeros."""
    whole, rest = divmod(picodollars, 10**_DECIMAL_DIGIT_COUNT)
    return f"{whole}.{rest:0{_DECIMAL_DIGIT_COUNT}d}".rstrip("0").rstrip(".")
