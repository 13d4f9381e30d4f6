"""Ranks that hold all at once: which order is proven, and which is not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, stdtr

from tiltyard.ratings.result import Ratings
from tiltyard.ratings.uncertainty import Uncertainty
from tiltyard.ratings.variance import NO_SPREAD, quantile

__all__ = ["Ranks", "conservative_order", "rank_models", "tiers_of"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

#: Draws of all pairs together, and of each at least and at most.
_WORK = 6e7
_DRAWS = (2_000, 40_000)


@dataclass(frozen=True, slots=True, eq=False)
class Ranks:
    """What the ratings prove about order, within each group of comparable models.

    ``low`` to ``high`` is the range of ranks that are not ruled out (1 is first; 0 for a model
    without a rating). All ranges hold together at ``level``: a pair counts as ordered only if
    its difference exceeds ``critical`` of its own standard errors, the bound that the largest
    of all pairwise differences respects. ``above[i, j]`` says that i is proven above j.
    """

    level: float
    critical: float
    low: Ints
    high: Ints
    tier: Ints
    above: Bools
    #: P(i outranks j), one pair at a time: not corrected for looking at many.
    outranks: Floats


def rank_models(
    ratings: Ratings, *, level: float = 0.95, draws: int | None = None, seed: int = 0
) -> Ranks | None:
    """Rank ranges and tiers, or ``None`` for ratings that carry no uncertainty.

    ``draws`` from the fitted distribution make the critical value; fewer for more models, if
    not said.
    """
    uncertainty = ratings.uncertainty
    if uncertainty is None:
        return None
    m = len(ratings.models)
    same = (ratings.group[:, None] == ratings.group[None, :]) & (ratings.group >= 0)[:, None]
    known = uncertainty.ratings() > NO_SPREAD
    same &= known[:, None] & known[None, :] | np.eye(m, dtype=bool)
    error = np.sqrt(uncertainty.differences())
    rating = np.nan_to_num(ratings.rating)
    difference = np.where(same, rating[:, None] - rating[None, :], 0.0)
    critical = _critical(uncertainty, same & (error > 0.0), level, draws, seed)
    above = same & (error > 0.0) & (difference > critical * error)
    rated = ratings.group >= 0
    peers = (ratings.group[:, None] == ratings.group[None, :]).sum(axis=1)
    low = np.where(rated, 1 + above.sum(axis=0), 0)
    high = np.where(rated, peers - above.sum(axis=1), 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(error > 0, difference / error, 0.0)
    outranks = ndtr(t) if np.isinf(uncertainty.dof) else stdtr(uncertainty.dof, t)
    outranks = np.asarray(np.where(same & ~np.eye(m, dtype=bool), outranks, np.nan), dtype=np.float64)
    return Ranks(
        level,
        critical,
        low,
        high,
        tiers_of(ratings.order(), ratings.rating, ratings.group, above),
        above,
        outranks,
    )


def conservative_order(ratings: Ratings, errors: float = 2.0) -> Ints:
    """Models by rating minus some standard errors (RD for Glicko-2), best first, unrated last."""
    rd = ratings.extras.get("rd")
    if rd is None and ratings.uncertainty is not None:
        rd = np.sqrt(ratings.uncertainty.ratings())
    score = ratings.rating - errors * (0.0 if rd is None else rd)
    return np.lexsort((np.arange(len(score)), np.where(np.isnan(score), np.inf, -score)))


def _critical(uncertainty: Uncertainty, compared: Bools, level: float, draws: int | None, seed: int) -> float:
    """The ``level`` quantile of the largest standardised difference, by drawing from the fit.

    Differences are multivariate t with the fitted covariance (Hothorn, Bretz and Westfall,
    Biometrical Journal 50, 2008). One pair alone needs no drawing. Where there are several
    covariances, it is that of the first.
    """
    dof = uncertainty.dof
    pairs = int(np.count_nonzero(np.triu(compared, 1)))
    if pairs <= 1:
        return quantile(level, dof)
    draws = draws or int(np.clip(_WORK / pairs, *_DRAWS))
    rng = np.random.Generator(np.random.PCG64(seed))
    values, vectors = np.linalg.eigh(uncertainty.covariances[0])
    factor = vectors * np.sqrt(np.clip(values, 0.0, None))
    error = np.sqrt(Uncertainty((factor @ factor.T,), dof).differences())
    z = (rng.standard_normal((draws, len(values))) @ factor.T).T.astype(np.float32)
    inverse = np.where(compared & (error > 0), 1.0 / np.where(error > 0, error, 1.0), 0.0).astype(np.float32)
    largest = np.zeros(draws, dtype=np.float32)
    buffer = np.empty_like(z)
    for i in range(len(values) - 1):
        gaps = buffer[i + 1 :]
        np.subtract(z[i + 1 :], z[i], out=gaps)
        np.multiply(gaps, inverse[i, i + 1 :, None], out=gaps)
        np.maximum(largest, gaps.max(axis=0), out=largest)
        np.maximum(largest, -gaps.min(axis=0), out=largest)
    shrink = np.sqrt(rng.chisquare(dof, draws) / dof) if np.isfinite(dof) else 1.0
    return float(np.quantile(largest / shrink, level))


def tiers_of(order: Ints, rating: Floats, group: Ints, above: Bools) -> Ints:
    """A new tier starts at the first model proven below the first of its tier; 0 if unrated.

    ``order`` is by group, and within it by rating, best first.
    """
    tier = np.zeros(len(rating), dtype=np.int64)
    first, current, of = -1, 0, -1
    for k in order:
        if group[k] < 0 or np.isnan(rating[k]):
            continue
        if group[k] != of:
            first, current, of = k, 1, int(group[k])
        elif above[first, k]:
            first, current = k, current + 1
        tier[k] = current
    return tier
