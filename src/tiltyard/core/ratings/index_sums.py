"""Sums by index: the loop used by all gradients and variances."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["sum_by_index"]


def sum_by_index(
    index: npt.NDArray[np.integer[Any]], values: npt.NDArray[np.float64], size: int
) -> npt.NDArray[np.float64]:
    """``out[k]`` is the sum of ``values`` where ``index`` is k."""
    return np.asarray(np.bincount(index, values, size), dtype=np.float64)
