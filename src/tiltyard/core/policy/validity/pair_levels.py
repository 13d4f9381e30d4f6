"""How the probability of a false claim is shared among the pairs of an arena that grows."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from tiltyard.core.policy.state.standing import NEVER_ARRIVED_VOTES, Standing

__all__ = ["pair_levels"]

Floats = npt.NDArray[np.float64]

#: The share of alpha that is kept for models that arrive after the first vote.
_LATER_SHARE = 0.2


def pair_levels(standing: Standing, alpha: float, *, family: int | None = None) -> Floats:
    """The probability of ever claiming a false order that each pair of models is allowed.

    A level is fixed when the later model of a pair arrives, before the pair has a vote; all levels together never
    exceed ``alpha``, however many models will come. The m models that are there before the first vote share four fifths of
    it. The k-th model to arrive, k > m, shares α/5 · m/(k(k − 1)) among its k − 1 pairs, which adds up to α/5 for k
    without end.

    With ``family``, the number of pairs of the largest roster that is planned, all pairs have α/family instead, as long as
    there are no more of them.
    """
    models = len(standing.models)
    if family is not None and family >= math.comb(models, 2):
        return np.full((models, models), alpha / family)
    arrived = standing.arrived
    order = np.lexsort(
        (np.arange(models), np.where(arrived == NEVER_ARRIVED_VOTES, np.iinfo(np.int64).max, arrived))
    )
    founders = int(np.count_nonzero(arrived == 0))
    level = np.full(models, np.nan)
    for k, model in enumerate(order.tolist(), start=1):
        if k <= founders:
            level[model] = (1.0 - _LATER_SHARE) * alpha / max(math.comb(founders, 2), 1)
        else:
            level[model] = _LATER_SHARE * alpha * max(founders, 1) / (k * max(k - 1, 1) ** 2)
    return np.asarray(np.minimum(level[:, None], level[None, :]))
