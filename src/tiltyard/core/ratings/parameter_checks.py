"""Checks the parameters of rating methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tiltyard.errors import BadOption

__all__ = ["require_above_zero", "require_at_least", "require_level", "require_number"]


def require_number(name: str, value: Any, holds: Callable[[Any], bool], expected: str) -> None:
    """Raise `BadOption`, which names the parameter, if its value is no number or the condition does not hold."""
    try:
        fits = holds(value)
    except TypeError:
        fits = False
    if not fits:
        raise BadOption(f"{name} is {value!r}; expected {expected}")


def require_level(level: float) -> None:
    """Raise `BadOption` unless this can be a confidence level."""
    require_number("level", level, lambda value: 0.0 < value < 1.0, "a number between 0 and 1")


def require_above_zero(name: str, value: float) -> None:
    require_number(name, value, lambda value: value > 0.0, "a number above 0")


def require_at_least(name: str, value: float, least: int) -> None:
    require_number(name, value, lambda value: value >= least, f"a number, {least} or more")
