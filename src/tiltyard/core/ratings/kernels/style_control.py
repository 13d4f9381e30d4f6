"""One pass over the log for style control: gradient and information at given parameters."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from tiltyard.core.ratings.pairs import sum_by_index
from tiltyard.foundation.arrays import Floats

Ints = npt.NDArray[np.integer[Any]]

#: Rows per block of the vectorised pass, chosen to fit in the cache.
_BLOCK_ROWS = 1 << 15


def gradient_loop(
    a: Ints, b: Ints, y: Floats, w: Floats, z: Floats, theta: Floats, beta: Floats, curved: bool
) -> tuple[Floats, Floats]:
    """Gradient and, if ``curved``, information (models, then covariates); meant to be compiled."""
    m, k, n = len(theta), len(beta), len(y)
    gradient = np.zeros(m + k)
    pair = np.zeros((m, m))
    information = np.zeros((m + k, m + k))
    stride = 1 if len(w) == n else 0
    for row in range(n):
        if y[row] != y[row]:
            continue
        i, j, weight = a[row], b[row], w[row * stride]
        eta = theta[i] - theta[j]
        for c in range(k):
            eta += z[row, c] * beta[c]
        p = 1.0 / (1.0 + math.exp(min(-eta, 700.0)))
        r = weight * (y[row] - p)
        gradient[i] += r
        gradient[j] -= r
        for c in range(k):
            gradient[m + c] += r * z[row, c]
        if curved:
            h = weight * p * (1.0 - p)
            pair[i, j] += h
            for c in range(k):
                hz = h * z[row, c]
                information[m + c, i] += hz
                information[m + c, j] -= hz
                for c2 in range(c + 1):
                    information[m + c, m + c2] += hz * z[row, c2]
    for i in range(m):
        for j in range(m):
            information[i, j] -= pair[i, j] + pair[j, i]
            information[i, i] += pair[i, j] + pair[j, i]
    for c in range(m, m + k):
        for c2 in range(c):
            information[c2, c] = information[c, c2]
    return gradient, information


def gradient_vectors(
    a: Ints, b: Ints, y: Floats, w: Floats, z: Floats, theta: Floats, beta: Floats, curved: bool
) -> tuple[Floats, Floats]:
    """The same as `gradient_loop` in NumPy, in blocks of rows."""
    m, k = len(theta), len(beta)
    gradient = np.zeros(m + k)
    pair = np.zeros(m * m)
    information = np.zeros((m + k, m + k))
    for first in range(0, len(y), _BLOCK_ROWS):
        rows = slice(first, first + _BLOCK_ROWS)
        used = ~np.isnan(y[rows])
        ai, bi, yi = a[rows][used].astype(np.int64), b[rows][used].astype(np.int64), y[rows][used]
        zi = z[rows][used]
        wi = w[rows][used] if len(w) == len(y) else w
        p = expit(theta[ai] - theta[bi] + zi @ beta)
        r = wi * (yi - p)
        gradient[:m] += sum_by_index(ai, r, m) - sum_by_index(bi, r, m)
        gradient[m:] += zi.T @ r
        if curved:
            h = wi * p * (1.0 - p)
            pair += sum_by_index(ai * m + bi, h, m * m)
            hz = zi * h[:, None]
            for c in range(k):
                information[:m, m + c] += sum_by_index(ai, hz[:, c], m) - sum_by_index(bi, hz[:, c], m)
            information[m:, m:] += hz.T @ zi
    information[m:, :m] = information[:m, m:].T
    both = pair.reshape(m, m) + pair.reshape(m, m).T
    information[:m, :m] = np.diag(both.sum(axis=1)) - both
    return gradient, information
