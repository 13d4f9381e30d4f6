"""The posterior of Bradley–Terry strengths from the sums by pair, with the same bits on every machine.

The mode is that of `newton.fit_pairs` with a prior, which uses LAPACK and is for boards: published numbers are
rounded, folded state is not.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tiltyard.core.ratings.index_sums import sum_by_index
from tiltyard.core.ratings.pairs import PairScores, pairs_from_points
from tiltyard.core.ratings.portable_functions import logistic_each
from tiltyard.core.ratings.portable_matrices import invert, sum_rows, weighted_sum

__all__ = ["refit"]

Floats = npt.NDArray[np.float64]

#: After a step this small (in logits), and a quarter of the one before at most, the error is a third of it.
_LAST_STEP_LOGITS = 1e-8
_MAX_ITERATIONS = 200
#: Steps with the same covariance must shrink at least so much; otherwise it is computed anew.
_SHRINKING_RATIO = 0.25


def refit(points: Floats, prior_variance: float, start: Floats, covariance: Floats) -> tuple[Floats, Floats]:
    """Mean and covariance of all strengths, in logits: the posterior mode and the inverse of its information.

    ``points`` are total scores of the row model against the column model. From ``start``, Newton's method goes on
    with the given ``covariance`` as long as steps shrink, which they do if it is that of the filter.
    """
    pairs = pairs_from_points(points)
    x, last, slope, step = start, np.inf, 0.0, np.zeros_like(start)
    for _ in range(_MAX_ITERATIONS):  # pragma: no branch (Newton's method needs about six)
        gradient = _gradient(pairs, prior_variance, x)
        if _dot(gradient, step) < -slope:
            # The step went so far that the slope along it changed its sign. The next one has a new covariance.
            step, slope, last = step / 2.0, slope / 2.0, 0.0
            x = x - step
            continue
        step = weighted_sum(gradient, covariance)
        size = float(np.abs(step).max(initial=0.0))
        if size > _SHRINKING_RATIO * last:
            covariance, last = _covariance(pairs, prior_variance, x), np.inf
            step = weighted_sum(gradient, covariance)
            size = float(np.abs(step).max(initial=0.0))
        x, slope = x + step, _dot(gradient, step)
        if size < _LAST_STEP_LOGITS:
            break
        last = size
    # Every gain sums to nought: what is left of the sum is rounding.
    x = x - float(sum_rows(x.copy())) / len(x)
    return x, _covariance(pairs, prior_variance, x)


def _gradient(pairs: PairScores, prior_variance: float, x: Floats) -> Floats:
    """Points less expected points, less the pull of the prior."""
    residual = pairs.score - pairs.weight * logistic_each(x[pairs.i] - x[pairs.j])
    m = pairs.n_models
    return sum_by_index(pairs.i, residual, m) - sum_by_index(pairs.j, residual, m) - x / prior_variance


def _covariance(pairs: PairScores, prior_variance: float, x: Floats) -> Floats:
    """The inverse of the information at x."""
    p = logistic_each(x[pairs.i] - x[pairs.j])
    w = pairs.weight * (p * (1.0 - p))
    m = pairs.n_models
    information = np.zeros((m, m))
    information[pairs.i, pairs.j] = information[pairs.j, pairs.i] = -w
    information[range(m), range(m)] = (
        sum_by_index(pairs.i, w, m) + sum_by_index(pairs.j, w, m) + 1.0 / prior_variance
    )
    return invert(information)


def _dot(one: Floats, other: Floats) -> float:
    return float(sum_rows(one * other))
