"""Simultaneous rank ranges: which model is proven above which, all pairs at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from tiltyard.core.ratings.findings import MIN_DOF
from tiltyard.core.ratings.result import Ratings
from tiltyard.core.ratings.variance import ZERO_VARIANCE_TOLERANCE

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Ranks:
    """What the ratings prove about order, within each group of comparable models.

    ``low`` to ``high`` is the range of ranks that are not ruled out (1 is first; 0 for a model
    without a rating). All ranges hold simultaneously at ``level``: a pair counts as ordered only if
    its difference exceeds ``critical`` of its own standard errors (infinite if there is too little
    data), or if a third model is between the two. ``above[i, j]`` means that i is proven above j.
    """

    level: float
    critical: Floats
    low: Ints
    high: Ints
    tier: Ints
    above: Bools
    #: The one-sided confidence level of "i is above j", for one pair at a time: not corrected for looking at many.
    confidence: Floats


def rank_models(ratings: Ratings, *, level: float = 0.95) -> Ranks | None:
    """Rank ranges and tiers, or ``None`` for ratings without uncertainty."""
    uncertainty = ratings.uncertainty
    if uncertainty is None:
        return None
    m = len(ratings.models)
    same = (ratings.group[:, None] == ratings.group[None, :]) & (ratings.group >= 0)[:, None]
    known = uncertainty.ratings() > ZERO_VARIANCE_TOLERANCE
    same &= known[:, None] & known[None, :] & ~np.eye(m, dtype=bool)
    rating = np.nan_to_num(ratings.rating)
    difference = np.where(same, rating[:, None] - rating[None, :], 0.0)
    error, dof = np.sqrt(uncertainty.differences()), uncertainty.difference_dof()
    critical = _critical(dof, same, level)
    with np.errstate(invalid="ignore"):
        above = close_order(same & (error > 0.0) & (difference > critical * error))
    rated = ratings.group >= 0
    peers = (ratings.group[:, None] == ratings.group[None, :]).sum(axis=1)
    return Ranks(
        level,
        critical,
        np.where(rated, 1 + above.sum(axis=0), 0),
        np.where(rated, peers - above.sum(axis=1), 0),
        tiers_of(ratings.order(), ratings.group, above),
        above,
        _confidence(difference, error, dof, same),
    )


def _confidence(difference: Floats, error: Floats, dof: Floats, same: Bools) -> Floats:
    decided = same & (dof >= MIN_DOF)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(error > 0.0, difference / error, 0.0)
    finite = np.where(decided & np.isfinite(dof), dof, MIN_DOF)
    return np.where(decided, np.where(np.isinf(dof), ndtr(t), stdtr(finite, t)), np.nan)


def _critical(dof: Floats, same: Bools, level: float) -> Floats:
    """The critical number of standard errors: Student's t at a level shared by all pairs.

    Bonferroni: if each claim is wrong with probability (1 − level) / pairs at most, all hold
    simultaneously at ``level``, however they depend on each other. Two-sided, because either model may be ahead.
    """
    pairs = max(int(np.count_nonzero(same)) // 2, 1)
    upper = 1.0 - (1.0 - level) / pairs / 2.0
    decided = same & (dof >= MIN_DOF)
    finite = np.where(decided & np.isfinite(dof), dof, MIN_DOF)
    t = np.where(np.isinf(dof), ndtri(upper), stdtrit(finite, upper))
    return np.asarray(np.where(decided, t, np.inf), dtype=np.float64)


def close_order(above: Bools) -> Bools:
    """The transitive closure: if i is above j and j above k, then i is above k.

    All claims hold simultaneously, so their consequences do too.
    """
    while True:
        through = above.astype(np.float32)
        more = above | (through @ through > 0.0)
        if (more == above).all():
            return above
        above = more


def tiers_of(order: Ints, group: Ints, above: Bools) -> Ints:
    """Tiers within each group: a new one begins where every model above is proven above every model below; 0 if unrated.

    ``order`` is by group, best first.
    """
    tier = np.zeros(len(group), dtype=np.int64)
    for g in range(int(group.max(initial=-1)) + 1):
        members = order[group[order] == g]
        tier[members] = tier_numbers(above[np.ix_(members, members)])
    return tier


def tier_numbers(above: Bools) -> Ints:
    """The tiers of models in order, best first, from which of them is proven above which."""
    lines = [above[:k, k:].all() for k in range(1, len(above))]
    return 1 + np.cumsum([0, *lines])[: len(above)]
