"""The bare kernel of style control: Bradley-Terry with covariates, one row a battle."""

from __future__ import annotations

from math import exp

import numba
import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotrs

from timing import Floats

Codes = NDArray[np.int32]
Rows = tuple[Codes, Codes, NDArray[np.uint8], Floats]

PRECISION = 1e-8  # in logits
SHARE_OF_A = (1.0, 0.0, 0.5)
FIRST_PART = 16  # one battle in so many gives the starting point

compiled = numba.njit(error_model="numpy")


@compiled
def derivatives(
    a: Codes, b: Codes, winner: NDArray[np.uint8], style: Floats, at: Floats, curved: bool
) -> tuple[Floats, Floats, Floats, Floats]:
    """The gradient and, if `curved`, the sums the Hessian is made of: by pair, crossed, by effect."""
    effects = style.shape[1]
    models = at.size - effects
    slope = np.zeros(at.size)
    pairs = np.zeros((models, models))
    crossed = np.zeros((models, effects))
    squared = np.zeros((effects, effects))
    for i in range(a.size):
        p, q = np.uint32(a[i]), np.uint32(b[i])  # unsigned: spares the test for a negative index
        logit = at[p] - at[q]
        for k in range(effects):
            logit += style[i, k] * at[models + k]
        chance = 1.0 / (1.0 + exp(-logit))
        surprise = SHARE_OF_A[winner[i]] - chance
        slope[p] += surprise
        slope[q] -= surprise
        for k in range(effects):
            slope[models + k] += surprise * style[i, k]
        if curved:
            weight = chance * (1.0 - chance)
            pairs[p, q] += weight
            for k in range(effects):
                weighted = weight * style[i, k]
                crossed[p, k] += weighted
                crossed[q, k] -= weighted
                for other in range(k + 1):
                    squared[k, other] += weighted * style[i, other]
    return slope, pairs, crossed, squared


def newton_step(rows: Rows, at: Floats) -> tuple[Floats, Floats]:
    """The step and the Cholesky factor it came from."""
    slope, pairs, crossed, squared = derivatives(*rows, at, True)
    models = len(pairs)
    pairs = pairs + pairs.T
    hessian = np.zeros((at.size, at.size), order="F")
    hessian[:models, :models] = 1.0 - pairs  # the 1 pins the constant the ratings are free up to
    hessian[np.arange(models), np.arange(models)] += pairs.sum(1)
    hessian[models:, :models] = crossed.T
    hessian[models:, models:] = squared
    factor, _ = dpotrf(hessian, lower=1, overwrite_a=1)
    return dpotrs(factor, slope, lower=1)[0], factor


def style_control(rows: Rows, models: int) -> Floats:
    """Ratings and style effects in logits, to PRECISION.

    A sixteenth of the battles gives a start; two Newton steps on all of them follow, and then
    cheaper steps that keep the last Hessian until the error still left is foreseen to be small.
    """
    part = tuple(column[: len(column) // FIRST_PART] for column in rows)
    at = np.zeros(models + rows[3].shape[1])
    step = np.array([np.inf])
    while np.abs(step).max() > 0.02:
        step, _ = newton_step(part, at)
        at += step
    for _ in range(2):
        step, factor = newton_step(rows, at)
        at += step
    while True:
        before = np.abs(step).max()
        step, _ = dpotrs(factor, derivatives(*rows, at, False)[0], lower=1)
        at += step
        size = np.abs(step).max()
        if size * (size / before) < PRECISION / 10:
            return at
