"""One pass over the log for style control: gradient and information at given parameters."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from tiltyard.ratings.sums import sum_by

__all__ = ["pass_loop", "pass_vectors"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.integer[Any]]

#: Rows that the vectorised pass takes at a time: what stays in the cache.
_ROWS = 1 << 15


def pass_loop(
    a: Ints, b: Ints, y: Floats, w: Floats, z: Floats, theta: Floats, beta: Floats
) -> tuple[Floats, Floats, float]:
    """Gradient, information (models, then covariates) and log-likelihood; meant to be compiled."""
    m, k, n = len(theta), len(beta), len(y)
    gradient = np.zeros(m + k)
    pair = np.zeros((m, m))
    cross = np.zeros((m, k))
    square = np.zeros((k, k))
    likelihood = 0.0
    stride = 1 if len(w) == n else 0
    for row in range(n):
        if y[row] != y[row]:
            continue
        i, j, weight = a[row], b[row], w[row * stride]
        eta = theta[i] - theta[j]
        for c in range(k):
            eta += z[row, c] * beta[c]
        e = math.exp(-abs(eta))
        p = 1.0 / (1.0 + e) if eta >= 0 else e / (1.0 + e)
        likelihood += weight * (y[row] * eta - max(eta, 0.0) - math.log1p(e))
        r = weight * (y[row] - p)
        h = weight * p * (1.0 - p)
        gradient[i] += r
        gradient[j] -= r
        pair[i, j] += h
        for c in range(k):
            gradient[m + c] += r * z[row, c]
            hz = h * z[row, c]
            cross[i, c] += hz
            cross[j, c] -= hz
            for c2 in range(c + 1):
                square[c, c2] += hz * z[row, c2]
    information = np.zeros((m + k, m + k))
    for i in range(m):
        for j in range(m):
            h = pair[i, j]
            information[i, j] -= h
            information[j, i] -= h
            information[i, i] += h
            information[j, j] += h
        for c in range(k):
            information[i, m + c] = information[m + c, i] = cross[i, c]
    for c in range(k):
        for c2 in range(c + 1):
            information[m + c, m + c2] = information[m + c2, m + c] = square[c, c2]
    return gradient, information, likelihood


def pass_vectors(
    a: Ints, b: Ints, y: Floats, w: Floats, z: Floats, theta: Floats, beta: Floats
) -> tuple[Floats, Floats, float]:
    """The same as `pass_loop` in NumPy, a block of rows at a time."""
    m, k = len(theta), len(beta)
    gradient = np.zeros(m + k)
    pair = np.zeros(m * m)
    information = np.zeros((m + k, m + k))
    likelihood = 0.0
    for first in range(0, len(y), _ROWS):
        rows = slice(first, first + _ROWS)
        ai, bi, zi = a[rows].astype(np.int64), b[rows].astype(np.int64), z[rows]
        wi = np.where(np.isnan(y[rows]), 0.0, w[rows] if len(w) == len(y) else w)
        yi = np.nan_to_num(y[rows], nan=0.5)
        eta = theta[ai] - theta[bi] + zi @ beta
        p = expit(eta)
        r, h = wi * (yi - p), wi * p * (1.0 - p)
        likelihood += float(wi @ (yi * eta - np.logaddexp(0.0, eta)))
        gradient[:m] += sum_by(ai, r, m) - sum_by(bi, r, m)
        gradient[m:] += zi.T @ r
        pair += sum_by(ai * m + bi, h, m * m)
        hz = zi * h[:, None]
        for c in range(k):
            information[:m, m + c] += sum_by(ai, hz[:, c], m) - sum_by(bi, hz[:, c], m)
        information[m:, m:] += hz.T @ zi
    information[m:, :m] = information[:m, m:].T
    both = pair.reshape(m, m) + pair.reshape(m, m).T
    information[:m, :m] = np.diag(both.sum(axis=1)) - both
    return gradient, information, likelihood
