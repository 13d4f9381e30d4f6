"""Studies of what ratings claim: do intervals hold the truth, and is a claimed order true?

One study runs one world of any kind: it rates its battles, and compares intervals and rank ranges with the truth
and with an oracle. The oracle makes the same estimate, but knows its covariance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from tiltyard.core.battles import Table
from tiltyard.core.board.cross_check import votes_table
from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.ratings import BradleyTerry, Ratings
from tiltyard.core.ratings.newton import fit_pairs
from tiltyard.core.ratings.pairs import Scoring, laplacians, score_pairs
from tiltyard.core.ratings.ranks import rank_models
from tiltyard.core.ratings.variance import critical_value
from tiltyard.simulation.simulated_arena import SimulatedArena, SimulationSettings
from tiltyard.simulation.studies import Study
from tiltyard.simulation.worlds import POINTS_PER_LOGIT, World, WorldSettings, draw_world_of

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

#: Draws of the oracle's largest difference, for its critical value.
_ORACLE_DRAW_COUNT = 1000
_NODE_COUNT = 21
#: True differences below this are equal.
_EQUAL_POINTS = 1e-6


@dataclass(frozen=True, slots=True)
class InferenceSettings:
    """A kind of world, and how many battles are rated."""

    world: WorldSettings = field(default_factory=WorldSettings)
    battles: int = 3000
    #: Whether the policy chooses pairs and prompts; otherwise pairs are uniform.
    lanes: bool = False
    method: BradleyTerry = field(default_factory=BradleyTerry)


@dataclass(frozen=True, slots=True)
class InferenceResult:
    """One world. Shares are of ratings, and of differences, that have an interval."""

    ratings_covered: float | None
    differences_covered: float | None
    #: Share of the ratings without an interval.
    refused: float
    #: Median half-width of the intervals of ratings in points, and its ratio to the oracle's.
    half_width: float | None
    to_oracle: float | None
    #: Root mean square error of the ratings, in points.
    error: float
    #: Median degrees of freedom of the ratings that have an interval.
    dof: float | None
    #: Whether some model is claimed to be above one that is as good or better.
    false_claim: bool
    #: Ordered pairs that are claimed, by rank ranges and by the oracle.
    claims: int
    oracle_claims: int


def study_inference(settings: InferenceSettings, seed: int) -> InferenceResult:
    """Rate one world, and compare what is claimed with what is true."""
    world, table = _log(settings, seed)
    ratings, truth = settings.method(table), world.truth()
    uncertainty, interval = ratings.uncertainty, ratings.interval
    assert uncertainty is not None
    assert interval is not None
    centre = float(ratings.rating.mean())
    oracle = _oracle_covariance(world, settings.method.limited(table).table)
    # In extreme draws one prompt has all battles: then intervals speak of it alone, and none of prompts like these.
    given = ~np.isnan(interval.low) & ("prompt" in interval.clusters)
    half = (interval.high - interval.low)[given] / 2.0
    inside = (interval.low - centre <= truth) & (truth <= interval.high - centre)
    ranks = rank_models(ratings)
    assert ranks is not None
    return InferenceResult(
        ratings_covered=_mean(inside[given]),
        differences_covered=_mean(_differences_covered(ratings, truth, given, settings.method.level)),
        refused=float(1.0 - given.mean()),
        half_width=float(np.median(half)) if given.any() else None,
        to_oracle=_median(
            half / (critical_value(settings.method.level, np.inf) * np.sqrt(np.diag(oracle)[given]))
        ),
        error=float(np.sqrt(np.mean((ratings.rating - centre - truth) ** 2))),
        dof=_median(uncertainty.dof[given]),
        false_claim=bool((ranks.above & (truth[:, None] <= truth[None, :] + _EQUAL_POINTS)).any()),
        claims=int(ranks.above.sum()),
        oracle_claims=_oracle_claims(ratings.rating, oracle, np.random.default_rng([seed, 3])),
    )


def _log(settings: InferenceSettings, seed: int) -> tuple[World, Table]:
    if settings.lanes:
        arena = SimulatedArena(SimulationSettings(settings.world, Policy(), votes=settings.battles), seed)
        arena.run()
        return arena.world, votes_table(arena.standing)
    rng = np.random.default_rng([seed, 0])
    world = draw_world_of(settings.world, rng)
    return world, world.table(settings.battles, rng)


def _differences_covered(
    ratings: Ratings, truth: Floats, given: npt.NDArray[np.bool_], level: float
) -> npt.NDArray[np.bool_]:
    """For each pair whose difference has an interval: whether that holds the truth."""
    assert ratings.uncertainty is not None
    i, j = np.triu_indices(len(truth), 1)
    pairs = given[i] & given[j]
    i, j = i[pairs], j[pairs]
    half = critical_value(level, ratings.uncertainty.difference_dof()[i, j])
    half = half * np.sqrt(ratings.uncertainty.differences()[i, j])
    wrong = (ratings.rating[i] - ratings.rating[j]) - (truth[i] - truth[j])
    return np.asarray(np.abs(wrong) <= half)


def _oracle_covariance(world: World, table: Table) -> Floats:
    """The covariance of the ratings in points squared, from the spread of effects that the world has.

    An effect of a logit moves the expected score of a battle by its slope; what effects explain of the variance
    of a score is shared by the battles of a prompt or voter, the rest is not.
    """
    m, log = len(world.models), table.log()
    used = np.flatnonzero(~np.isnan(Scoring().of(log)))
    a, b = log.a[used].astype(np.int64), log.b[used].astype(np.int64)
    weight = np.ones(len(used)) if log.weight is None else log.weight[used]
    theta = fit_pairs(score_pairs(table.counts, m, Scoring()), bread=False).theta
    chance = expit(theta[a] - theta[b])
    one = np.zeros_like(a)
    bread = np.linalg.inv(laplacians(a, b, weight * chance * (1.0 - chance), one, (1, m))[0] + 1.0)
    voter_sd = 0.0 if world.crowd is None else world.crowd.effect_sd
    slope = _slopes(world, math.hypot(world.effect_sd, voter_sd))[a, b]
    ties = world.ties / (1.0 - world.both_bad)
    alone = (1.0 - ties) * chance * (1.0 - chance) - 2.0 * slope**2 * (world.effect_sd**2 + voter_sd**2)
    middle = laplacians(a, b, weight**2 * alone, one, (1, m))[0]
    for keys, spread in ((log.prompt, world.effect_sd), (log.voter, voter_sd)):
        if keys is not None and spread:
            known, cluster = np.unique(keys[used], return_inverse=True)
            parts = laplacians(a, b, weight * slope, cluster, (len(known), m))
            middle += spread**2 * np.einsum("pij,pkj->ik", parts, parts)
    centred = np.eye(m) - 1.0 / m
    return np.asarray(centred @ bread @ middle @ bread @ centred) * POINTS_PER_LOGIT**2


def _slopes(world: World, effect_sd: float) -> Floats:
    """How far a logit moves the expected score of row model against column model, on average over effects."""
    gaps = world.strength[:, None] - world.strength[None, :]
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODE_COUNT)
    chances = expit(gaps[..., None] + math.sqrt(2.0) * effect_sd * nodes)
    decided = (1.0 - world.ties / (1.0 - world.both_bad)) * (1.0 - world.lazy)
    return np.asarray(decided * (chances * (1.0 - chances)) @ (weights / weights.sum()))


def _oracle_claims(rating: Floats, covariance: Floats, rng: np.random.Generator) -> int:
    """Pairs that the oracle claims at 95 % for all at once: the largest standardised difference of noise is drawn."""
    i, j = np.triu_indices(len(rating), 1)
    own = np.diag(covariance)
    error = np.sqrt(own[i] + own[j] - 2.0 * covariance[i, j])
    values, vectors = np.linalg.eigh(covariance)
    noise = rng.normal(size=(_ORACLE_DRAW_COUNT, len(rating))) @ (vectors * np.sqrt(values.clip(0.0))).T
    largest = np.abs((noise[:, i] - noise[:, j]) / error).max(axis=1)
    return int((np.abs(rating[i] - rating[j]) / error > np.quantile(largest, 0.95)).sum())


def _mean(values: npt.NDArray[np.bool_]) -> float | None:
    return float(values.mean()) if len(values) else None


def _median(values: Floats) -> float | None:
    return float(np.median(values)) if len(values) else None


INFERENCE: Study[InferenceSettings, InferenceResult] = Study(
    "inference",
    1,
    study_inference,
    InferenceResult,
    depends=(
        "tiltyard.core",
        "lab.inference_studies",
        "tiltyard.simulation.simulated_arena",
        "tiltyard.simulation.worlds",
    ),
)
