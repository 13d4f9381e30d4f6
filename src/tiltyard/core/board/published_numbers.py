"""Numbers as they are published: rounded, so that every machine that computes a board writes the same bytes.

Batch fits call the processor's linear algebra, whose last bits differ between machines: by about 10⁻¹² where it was
measured. Seven digits are more than any vote supports, and far coarser than that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, TypeVar

__all__ = ["published_number", "with_published_numbers"]

T = TypeVar("T")
_KEPT_DIGITS = 7
#: Ratings, and numbers that may be counts, keep these decimals all the same.
_LEAST_DECIMALS = 6


def published_number(value: float) -> float:
    """A number with seven digits, and at least six decimals."""
    # Adding 0.0 turns a negative zero into an ordinary one.
    if value == 0 or not math.isfinite(value):
        return value + 0.0
    decimals = _KEPT_DIGITS - 1 - math.floor(math.log10(abs(value)))
    return round(value, max(decimals, _LEAST_DECIMALS))


def with_published_numbers(record: T) -> T:
    """A frozen record with every number in it as it is published."""
    rounded: T = _rounded(record)
    return rounded


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return published_number(value)
    if value is None or isinstance(value, str | int | Enum):
        return value
    if isinstance(value, Mapping):
        return {name: _rounded(part) for name, part in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return type(value)(*[_rounded(getattr(value, part.name)) for part in fields(value)])
    return tuple(_rounded(part) for part in value)
