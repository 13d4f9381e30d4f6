"""Compiled loops: the one place that knows numba, which the `fast` extra brings.

A loop exists in plain NumPy or Python and, where it is worth waiting for a compiler, compiled.
Both give the same numbers to rounding. Which one ran is part of every result, because "bit
for bit" holds only for the kernel that made it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any, Literal, TypeVar, cast

from tiltyard.errors import BadOption, MissingExtra

__all__ = ["Kernel", "KernelChoice", "choose_kernel", "compile_kernel"]

KernelChoice = Literal["auto", "plain", "compiled"]
Kernel = Literal["plain", "compiled"]
F = TypeVar("F", bound=Callable[..., Any])

#: Steps of work from which waiting for the compiler pays.
_COMPILE_WORK_STEPS = 2_000_000


def choose_kernel(choice: KernelChoice, work: int) -> Kernel:
    """The kernel to run for this many steps of work."""
    if choice not in ("auto", "plain", "compiled"):
        raise BadOption(f"kernel is {choice!r}; expected auto, plain or compiled")
    if choice == "plain":
        return "plain"
    present = find_spec("numba") is not None
    if choice == "compiled" and not present:
        raise MissingExtra("fast", "The compiled kernel")
    return "compiled" if present and (choice == "compiled" or work >= _COMPILE_WORK_STEPS) else "plain"


@cache
def compile_kernel(function: F) -> F:
    """The function compiled by numba, kept on disk between runs."""
    from numba import njit

    return cast("F", njit(cache=True, nogil=True, error_model="numpy")(function))
