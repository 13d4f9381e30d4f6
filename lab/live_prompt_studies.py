"""Studies of arenas in which voters write their own prompts: do intervals hold the truth, is a claimed order true?

One study runs one arena, with uniform pairs or under the policy's lanes, and looks at its board as a rater makes it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from lab.live_worlds import LiveWorld, LiveWorldSettings, SimulatedLiveArena, draw_live_world
from tiltyard.core.board.cross_check import BatchRatings, batch_ratings
from tiltyard.core.board.settled_order import LIKE_THESE, settled_orders
from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.ratings import BradleyTerry
from tiltyard.core.ratings.variance import critical_value
from tiltyard.simulation.studies import Study

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

#: True differences below this are equal.
_EQUAL_POINTS = 1e-6


@dataclass(frozen=True, slots=True)
class LivePromptSettings:
    """A kind of world, the numbers of votes at which intervals are compared with the truth, and how often somebody looks."""

    world: LiveWorldSettings = field(default_factory=LiveWorldSettings)
    sizes: tuple[int, ...] = (500, 1500, 4500)
    #: Whether the policy chooses pairs; otherwise they are uniform.
    lanes: bool = False
    #: Votes between looks at what is settled; 0: only at the sizes.
    every: int = 0
    since: int = 300


@dataclass(frozen=True, slots=True)
class LivePromptLook:
    """One look. Shares are of ratings, and of differences, that have an interval."""

    votes: int
    #: Different prompts that were typed.
    prompts: int
    ratings_covered: float | None
    differences_covered: float | None
    #: The same for ratings if every vote were taken for independent.
    unclustered_covered: float | None
    refused: float
    half_width: float | None
    error: float
    dof: float | None
    #: Whether rank ranges claim an order that is not true, and how many orders they claim.
    ranges_false: bool
    ranges: int
    settled: int


@dataclass(frozen=True, slots=True)
class LivePromptResult:
    """One arena."""

    looks: tuple[LivePromptLook, ...]
    #: Whether any order was called settled, at any look, that is not true; and the same for rank ranges.
    settled_false: bool
    ranges_ever_false: bool
    #: Under lanes: matchups for which a rule was relaxed; windows that were watched, and those out of tolerance.
    given_up: int = 0
    watched: int = 0
    outside: int = 0


class _WatchedVotes:
    """An arena of uniform pairs."""

    def __init__(self, settings: LiveWorldSettings, seed: int) -> None:
        self.world = draw_live_world(settings, np.random.default_rng([seed, 0]))
        self._rng = np.random.default_rng([seed, 1])
        categories = [f"category-{k}" for k in range(settings.categories)]
        self.standing = Standing(Policy(free_prompts=True), self.world.models, categories)
        for model in range(settings.models):
            self.standing.enable(model)

    def advance(self, votes: int) -> None:
        self.standing.fold(self.world.votes(votes - self.standing.votes, self._rng))


class _WatchedLanes(SimulatedLiveArena):
    """An arena under the policy's lanes."""

    def advance(self, votes: int) -> None:
        while self.standing.votes < votes:
            self.step()


def study_live_prompts(settings: LivePromptSettings, seed: int) -> LivePromptResult:
    """Run one arena, and compare what its board claims with what is true."""
    arena: _WatchedVotes | _WatchedLanes
    arena = (_WatchedLanes if settings.lanes else _WatchedVotes)(settings.world, seed)
    truth, looks = arena.world.truth(), []
    settled_false = ranges_false = False
    moments = set(settings.sizes)
    if settings.every:
        moments |= set(range(settings.since, max(settings.sizes) + 1, settings.every))
    for votes in sorted(moments):
        arena.advance(votes)
        batch = batch_ratings(arena.standing)
        settled = settled_orders(arena.standing, batch)[LIKE_THESE]
        settled_false |= _contradicts(settled, truth)
        ranges_false |= _contradicts(batch.above, truth)
        if votes in settings.sizes:
            looks.append(_look(arena.world, arena.standing, batch, truth, int(settled.sum())))
    if isinstance(arena, _WatchedVotes):
        return LivePromptResult(tuple(looks), settled_false, ranges_false)
    exposures = arena.exposures
    return LivePromptResult(
        tuple(looks), settled_false, ranges_false, arena.given_up, exposures.watched, exposures.outside
    )


def _look(
    world: LiveWorld, standing: Standing, batch: BatchRatings, truth: Floats, settled: int
) -> LivePromptLook:
    interval, uncertainty = batch.interval, batch.uncertainty
    assert interval is not None
    assert uncertainty is not None
    given = ~np.isnan(interval.low) & (not batch.prompts_lacking)
    centre = float(np.mean(batch.rating))
    plain = batch_ratings(standing, BradleyTerry(clusters="battle")).interval
    assert plain is not None
    half = (interval.high - interval.low)[given] / 2.0
    return LivePromptLook(
        votes=standing.votes,
        prompts=world.n_prompts,
        ratings_covered=_mean(_inside(interval.low, interval.high, truth + centre)[given]),
        differences_covered=_mean(_differences_covered(batch, truth, given)),
        unclustered_covered=_mean(_inside(plain.low, plain.high, truth + centre)),
        refused=float(1.0 - given.mean()),
        half_width=float(np.median(half)) if given.any() else None,
        error=float(np.sqrt(np.mean((batch.rating - centre - truth) ** 2))),
        dof=float(np.median(uncertainty.dof[given])) if given.any() else None,
        ranges_false=_contradicts(batch.above, truth),
        ranges=int(batch.above.sum()),
        settled=settled,
    )


def _inside(low: Floats, high: Floats, truth: Floats) -> Bools:
    return np.asarray((low <= truth) & (truth <= high))


def _differences_covered(batch: BatchRatings, truth: Floats, given: Bools) -> Bools:
    """For each pair whose difference has an interval: whether that holds the truth."""
    assert batch.uncertainty is not None
    i, j = np.triu_indices(len(truth), 1)
    pairs = given[i] & given[j]
    i, j = i[pairs], j[pairs]
    half = critical_value(batch.method.level, batch.uncertainty.difference_dof()[i, j])
    half = half * np.sqrt(batch.uncertainty.differences()[i, j])
    wrong = (batch.rating[i] - batch.rating[j]) - (truth[i] - truth[j])
    return np.asarray(np.abs(wrong) <= half)


def _contradicts(above: Bools, truth: Floats) -> bool:
    return bool((above & (truth[:, None] <= truth[None, :] + _EQUAL_POINTS)).any())


def _mean(values: Bools) -> float | None:
    return float(values.mean()) if len(values) else None


LIVE_PROMPTS: Study[LivePromptSettings, LivePromptResult] = Study(
    "live-prompts",
    1,
    study_live_prompts,
    LivePromptResult,
    depends=(
        "tiltyard.core",
        "lab.live_prompt_studies",
        "lab.live_worlds",
        "tiltyard.simulation.simulated_arena",
        "tiltyard.simulation.worlds",
    ),
)
