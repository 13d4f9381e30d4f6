"""Measures the coverage of intervals in worlds with a known truth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from tiltyard.core.battles import CodedBattles, Kind, Table
from tiltyard.core.ratings import BradleyTerry, Elo, Ratings
from tiltyard.simulation.worlds import POINTS_PER_LOGIT, draw_world

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class IntervalCoverage:
    """Share of true ratings inside their intervals, and its standard error over worlds."""

    prompts: int
    worlds: int
    made_by: str
    covered: float
    error: float
    #: Mean half-width, in points.
    half_width: float


Intervals = Callable[[Table], tuple[Floats, Floats, Floats]]


def centre_ratings(ratings: Ratings) -> tuple[Floats, Floats, Floats]:
    """Ratings and interval ends with mean zero, to compare with the true ratings."""
    assert ratings.interval is not None
    centre = float(ratings.rating.mean())
    return ratings.rating - centre, ratings.interval.low - centre, ratings.interval.high - centre


def _order_sem(table: Table) -> tuple[Floats, Floats, Floats]:
    """The mean ± 1.96 standard errors over permutations, treated as an interval."""
    ratings = Elo(n_permutations=100, interval="none")(table)
    middle = ratings.rating - ratings.rating.mean()
    half = 1.96 * ratings.extras["order_noise"]
    return middle, middle - half, middle + half


#: The intervals that are compared.
MADE_BY: dict[str, Intervals] = {
    "prompt-clustered sandwich": lambda table: centre_ratings(BradleyTerry()(table)),
    "prompt-clustered bootstrap": lambda table: centre_ratings(
        BradleyTerry(interval="bootstrap", n_bootstraps=200)(table)
    ),
    "battle-level bootstrap": lambda table: centre_ratings(
        BradleyTerry(interval="bootstrap", clusters="battle", n_bootstraps=200)(table)
    ),
    "order SEM of Elo": _order_sem,
}


def coverage(
    prompts: int, worlds: int, *, models: int = 10, battles: int = 3000, effect_sd: float = 0.5, seed: int = 0
) -> list[IntervalCoverage]:
    """How often each kind of interval contains the true rating on the prompt population."""
    hits: dict[str, list[float]] = {name: [] for name in MADE_BY}
    widths: dict[str, list[float]] = {name: [] for name in MADE_BY}
    for k in range(worlds):
        rng = np.random.default_rng([seed, prompts, k])
        world = draw_world(models, prompts, rng, effect_sd=effect_sd)
        truth, table = world.truth(), world.table(battles, rng)
        for name, intervals in MADE_BY.items():
            _, low, high = intervals(table)
            hits[name].append(float(np.mean((low <= truth) & (truth <= high))))
            widths[name].append(float(np.mean(high - low) / 2.0))
    return [
        IntervalCoverage(
            prompts,
            worlds,
            name,
            float(np.mean(hits[name])),
            float(np.std(hits[name], ddof=1) / np.sqrt(worlds)),
            float(np.mean(widths[name])),
        )
        for name in MADE_BY
    ]


@dataclass(frozen=True, slots=True)
class PriorCoverage:
    """Share of true ratings inside their intervals, for models that (almost) only won or lost."""

    #: Maximum points that such a model lost (or won).
    most: float
    models: int
    covered: float
    error: float
    #: Mean width, in points.
    width: float


def prior_coverage(
    worlds: int,
    *,
    models: int = 6,
    battles: int = 90,
    prior_sd: float = 300.0,
    most: tuple[float, ...] = (0.0, 4.0),
    seed: int = 0,
) -> list[PriorCoverage]:
    """How often intervals with a prior contain the truth, if strengths are drawn from that prior.

    Counts models that lost, or won, at most the points in ``most``. Every battle has its own prompt, and
    there are no ties.
    """
    found: list[tuple[float, bool, float]] = []
    for k in range(worlds):
        rng = np.random.default_rng([seed, k])
        strength = rng.normal(0.0, prior_sd / POINTS_PER_LOGIT, models)
        a = rng.integers(0, models, battles)
        b = (a + rng.integers(1, models, battles)) % models
        won = rng.random(battles) < expit(strength[a] - strength[b])
        codes = CodedBattles(
            a.astype(np.uint16), b.astype(np.uint16), np.where(won, Kind.WIN_A, Kind.WIN_B).astype(np.uint8)
        )
        names = [f"model-{model:03}" for model in range(models)]
        ratings = BradleyTerry(prior_sd=prior_sd)(Table.from_codes(names, codes))
        _, low, high = centre_ratings(ratings)
        truth = POINTS_PER_LOGIT * (strength - strength.mean())
        least = np.minimum(ratings.record.wins, ratings.record.losses)
        inside = (low <= truth) & (truth <= high)
        found += zip(least.tolist(), inside.tolist(), (high - low).tolist(), strict=True)
    coverages: list[PriorCoverage] = []
    for limit in most:
        chosen = [(inside, width) for least, inside, width in found if least <= limit]
        share, width = (float(np.mean(column)) for column in zip(*chosen, strict=True))
        error = float(np.sqrt(share * (1.0 - share) / len(chosen)))
        coverages.append(PriorCoverage(limit, len(chosen), share, error, width))
    return coverages
