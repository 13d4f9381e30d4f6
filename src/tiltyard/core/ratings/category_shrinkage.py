"""Ratings of each category, moved towards those of all categories as far as noise explains how they differ.

Empirical Bayes: models differ by category with a variance that all categories share, and that the ratings themselves
tell. Its own uncertainty is part of the intervals: every number is a mean over equally likely values of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtri

from tiltyard.core.ratings.result import Ratings
from tiltyard.core.ratings.variance import ZERO_VARIANCE_TOLERANCE, critical_value
from tiltyard.foundation.arrays import Bools, Floats

#: With fewer categories or models the variance between categories is hardly known.
_MIN_CATEGORY_COUNT = 3
_MIN_MODEL_COUNT = 3
#: How many equally likely values of the variance between categories stand for its distribution.
_VALUE_COUNT = 33
#: No standard deviation of effects of categories above this is looked for, in points.
_MAX_EFFECT_POINTS = 4000.0
_HALVING_COUNT = 40


@dataclass(frozen=True, slots=True, eq=False)
class ShrunkRatings:
    """Of one category, by its models: the moved rating and its interval; NaN where there is none."""

    rating: Floats
    low: Floats
    high: Floats


def shrink_categories(categories: Sequence[Ratings], level: float) -> list[ShrunkRatings] | None:
    """The moved ratings of each category; ``None`` if there are too few, or they say nothing of their noise.

    Only the first group of each category is compared. Categories must not share battles.
    """
    names = sorted({name for one in categories for name in one.models})
    column = {name: k for k, name in enumerate(names)}
    raw = np.full((len(categories), len(names)), np.nan)
    variance, dof = np.full(raw.shape, np.inf), np.full(raw.shape, np.inf)
    for row, one in enumerate(categories):
        if one.uncertainty is None:
            return None
        own = one.uncertainty.ratings()
        rated = np.flatnonzero((one.group == 0) & (own > ZERO_VARIANCE_TOLERANCE) & np.isfinite(one.rating))
        place = [column[one.models[k]] for k in rated]
        raw[row, place], variance[row, place] = one.rating[rated], own[rated]
        dof[row, place] = one.uncertainty.dof[rated]
    known = np.isfinite(raw)
    used, compared = known.sum(axis=1) >= _MIN_MODEL_COUNT, known.sum(axis=0) >= 2
    known &= used[:, None] & compared[None, :]
    spare = int(known.sum()) - int(known.any(axis=0).sum()) - int(known.any(axis=1).sum()) + 1
    if known.any(axis=1).sum() < _MIN_CATEGORY_COUNT or spare < 2:
        return None
    zero = _zeros(raw, known)
    weight = np.where(known, variance, np.inf)
    rating, error = _shrunk(np.where(known, raw - zero[:, None], 0.0), weight, spare)
    half = critical_value(level, dof) * error
    rating = np.where(known, rating + zero[:, None], np.nan)
    places = [[column[name] for name in one.models] for one in categories]
    return [
        ShrunkRatings(rating[row, place], (rating - half)[row, place], (rating + half)[row, place])
        for row, place in enumerate(places)
    ]


def _zeros(raw: Floats, known: Bools) -> Floats:
    """What each category adds to all its ratings: its zero is the mean of the models that it has, which differ."""
    row, column = np.nonzero(known)
    categories, models = raw.shape
    design = np.zeros((len(row), categories + models))
    design[np.arange(len(row)), row] = design[np.arange(len(row)), categories + column] = 1.0
    return np.asarray(np.linalg.lstsq(design, raw[known], rcond=None)[0][:categories])


def _shrunk(raw: Floats, variance: Floats, spare: int) -> tuple[Floats, Floats]:
    """Moved ratings and their standard errors. A cell of infinite variance is not known, and moves nothing.

    The sum of squares about the weighted means of models is χ² at the true variance between categories; each quantile
    of χ² gives a value of it.
    """
    known = np.isfinite(variance)
    models = known.any(axis=0).sum()

    def mean_of(value: float) -> tuple[Floats, Floats, float]:
        weight = np.where(known, 1.0 / (value + variance), 0.0)
        total = np.where(known.any(axis=0), weight.sum(axis=0), 1.0)
        mean = (weight * raw).sum(axis=0) / total
        return mean, 1.0 / total, float((weight * (raw - mean) ** 2).sum())

    values = []
    for quantile in chdtri(spare, (np.arange(_VALUE_COUNT) + 0.5) / _VALUE_COUNT):
        low, high = 0.0, _MAX_EFFECT_POINTS**2
        for _ in range(_HALVING_COUNT):
            middle = (low + high) / 2.0
            low, high = (middle, high) if mean_of(middle)[2] > quantile else (low, middle)
        values.append(0.0 if mean_of(0.0)[2] <= quantile else high)
    moved, errors = [], []
    # Ratings of a category are contrasts, whose effects vary less than the effects themselves.
    for value in np.array(values) * models / (models - 1.0):
        mean, mean_variance, _ = mean_of(value)
        kept = np.where(known, value / (value + variance), 0.0)
        moved.append(mean + kept * (raw - mean))
        errors.append(kept * np.where(known, variance, 0.0) + (1.0 - kept) ** 2 * mean_variance)
    return np.mean(moved, axis=0), np.sqrt(np.mean(errors, axis=0) + np.var(moved, axis=0))
