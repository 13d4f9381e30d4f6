"""Kernels compiled with numba, which the `fast` extra installs. No other module imports numba.

Every loop exists in plain NumPy or Python; those worth the compile time also exist compiled.
Both give the same numbers up to rounding. Every result records which kernel made it, because
results are bit-for-bit reproducible only with the same kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any, Literal, TypeVar, cast

from tiltyard.errors import BadOption, MissingExtra

KernelChoice = Literal["auto", "plain", "compiled"]
Kernel = Literal["plain", "compiled"]
F = TypeVar("F", bound=Callable[..., Any])

#: The amount of work, in steps, from which compiling pays off.
_COMPILE_WORK_STEPS = 2_000_000


def choose_kernel(choice: KernelChoice, work: int) -> Kernel:
    """Choose the kernel for this amount of work, in steps."""
    if choice not in ("auto", "plain", "compiled"):
        raise BadOption(f"kernel is {choice!r}; expected auto, plain or compiled")
    if choice == "plain":
        return "plain"
    present = find_spec("numba") is not None
    if choice == "compiled" and not present:
        raise MissingExtra("fast", "The compiled kernel")
    return "compiled" if present and (choice == "compiled" or work >= _COMPILE_WORK_STEPS) else "plain"


@cache
def compile_kernel(function: F, *called: Callable[..., Any]) -> F:
    """Compile the function with numba, with a disk cache between runs. ``called`` are functions of ours in it."""
    from numba import njit
    from numba.extending import register_jitable

    for inner in called:
        register_jitable(inner)
    return cast("F", njit(cache=True, nogil=True, error_model="numpy")(function))
