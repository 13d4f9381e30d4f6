"""A fingerprint of floating-point arithmetic: where it is the same, a replay gives the same bits.

Versions and the machine's architecture do not identify it: linear algebra libraries are tuned to the
processor, and their sums are rounded differently. So a fixed calculation is done once, and its bits are
part of the fingerprint.
"""

from __future__ import annotations

import hashlib
import platform
import sys
from functools import cache

import numpy as np
import scipy
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.blas import dsyrk

from tiltyard.arena.rating.checkpoints import STATE_VERSION

__all__ = ["numeric_fingerprint"]

#: Matrix size of the calculation: large enough for blocked and multi-threaded algorithms.
_MODEL_COUNT = 160


@cache
def numeric_fingerprint() -> str:
    """Identifies everything that the bits of ratings depend on."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    return (
        f"{STATE_VERSION}python-{python} numpy-{np.__version__} scipy-{scipy.__version__} "
        f"{platform.machine()} {_arithmetic()}"
    )


def _arithmetic() -> str:
    """Eight hex digits of the hash of sums, products, a factorisation and an exponential."""
    rows = np.sin(np.arange(_MODEL_COUNT * _MODEL_COUNT, dtype=np.float64)).reshape(
        _MODEL_COUNT, _MODEL_COUNT
    )
    squares = dsyrk(1.0, rows) + np.eye(_MODEL_COUNT) * _MODEL_COUNT
    solved = cho_solve(cho_factor(squares), rows[:, :3])
    digest = hashlib.sha256(np.exp(rows[0]).tobytes())
    for part in (squares, solved, rows @ rows[0], rows.sum(axis=0)):
        digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()[:8]
