"""Sums by index: the loop used by all gradients and variances."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tiltyard.foundation.arrays import Floats

Ints = npt.NDArray[np.integer[Any]]


def sum_by_index(index: Ints, values: Floats, size: int) -> Floats:
    """``out[k]`` is the sum of ``values`` where ``index`` is k."""
    return np.asarray(np.bincount(index, values, size), dtype=np.float64)


def laplacians(a: Ints, b: Ints, value: Floats, cluster: Ints, shape: tuple[int, int]) -> Floats:
    """For each cluster the sum of value·(e_a − e_b)(e_a − e_b)ᵀ over its battles; ``shape`` is clusters by models."""
    parts = np.zeros((shape[0], shape[1], shape[1]))
    for i, j, sign in ((a, a, 1.0), (b, b, 1.0), (a, b, -1.0), (b, a, -1.0)):
        np.add.at(parts, (cluster, i, j), sign * value)
    return parts
