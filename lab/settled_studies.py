"""Studies of what an arena claims while votes come in: is an order that is called settled ever false?

One study runs one simulated arena under the policy's lanes. It looks at the board again and again, as readers
do, and compares every claim with the truth of its scope.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from tiltyard.core.board.cross_check import (
    BatchRatings,
    EvaluatedOrder,
    batch_ratings,
    cross_check,
    votes_table,
)
from tiltyard.core.board.settled_order import LIKE_THESE, THESE, settled_orders
from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.ratings.newton import fit_pairs
from tiltyard.core.ratings.pairs import PairScores, Scoring, sum_by_index
from tiltyard.simulation.simulated_arena import SimulatedArena, SimulationSettings
from tiltyard.simulation.studies import Study
from tiltyard.simulation.worlds import POINTS_PER_LOGIT, World, WorldSettings

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

#: True differences below this, in points, are equal.
_EQUAL_POINTS = 1e-6
_NODE_COUNT = 21


@dataclass(frozen=True, slots=True)
class SettledSettings:
    """A kind of world, how many votes its arena gets, and how often somebody looks."""

    world: WorldSettings = field(default_factory=WorldSettings)
    votes: int = 4500
    every: int = 50
    since: int = 300


@dataclass(frozen=True, slots=True)
class SettledLook:
    """One look: how many pairs are settled in each scope, and how many the rank ranges of a fixed size separate."""

    votes: int
    these: int
    like_these: int
    ranges: int


@dataclass(frozen=True, slots=True)
class SettledResult:
    """One arena, with looks at every thousand votes and at the end."""

    looks: tuple[SettledLook, ...]
    #: Whether any order was called settled, at any look, that is not true.
    these_false: bool
    like_these_false: bool
    #: The same for rank ranges of a fixed size, which are not made for looking again.
    ranges_false: bool
    #: Evaluations, and those at which the cross-check rang.
    evaluations: int
    alarms: int


class WatchedArena(SimulatedArena):
    """An arena that is looked at while it runs."""

    def __init__(self, settings: SettledSettings, seed: int) -> None:
        super().__init__(SimulationSettings(settings.world, Policy(), votes=settings.votes), seed)
        self.truth_like_these = self.world.truth()
        self.expected = _ExpectedScores(self.world)
        self.watch = settings
        self.looks: list[SettledLook] = []
        self.false = {THESE: False, LIKE_THESE: False}
        self.ranges_false = False
        self.evaluations = self.alarms = 0
        self.evaluated: tuple[EvaluatedOrder, ...] = ()

    def look(self) -> None:
        batch = batch_ratings(self.standing)
        found = settled_orders(self.standing, batch)
        above = {scope: marks for scope, marks in found.items() if marks.any()}
        if THESE in above:
            self.false[THESE] |= _contradicts(above[THESE], self.expected.truth(self, batch))
        if LIKE_THESE in above:
            self.false[LIKE_THESE] |= _contradicts(above[LIKE_THESE], self.truth_like_these)
        self.ranges_false |= _contradicts(batch.above, self.truth_like_these)
        if self.votes % 1000 == 0 or self.votes == self.watch.votes:
            counts = (found[THESE].sum(), found[LIKE_THESE].sum(), batch.above.sum())
            self.looks.append(SettledLook(self.votes, *(int(count) for count in counts)))

    def _evaluate(self) -> None:
        super()._evaluate()
        batch = batch_ratings(self.standing)
        self.evaluated = (*self.evaluated[-1:], EvaluatedOrder(self.standing.order.copy(), batch))
        self.evaluations += 1
        check = cross_check(self.standing, replace(batch, evaluated=self.evaluated))
        self.alarms += check.alarm is not None


def watch_arena(settings: SettledSettings, seed: int) -> WatchedArena:
    """Run one arena, and look at it again and again."""
    arena = WatchedArena(settings, seed)
    while arena.votes < settings.votes:
        before = arena.votes
        arena.step()
        if before < arena.votes >= settings.since and arena.votes % settings.every == 0:
            arena.look()
    return arena


def study_settled(settings: SettledSettings, seed: int) -> SettledResult:
    """What one arena claimed at any look."""
    arena = watch_arena(settings, seed)
    return SettledResult(
        looks=tuple(arena.looks),
        these_false=arena.false[THESE],
        like_these_false=arena.false[LIKE_THESE],
        ranges_false=arena.ranges_false,
        evaluations=arena.evaluations,
        alarms=arena.alarms,
    )


def _contradicts(above: Bools, truth: Floats) -> bool:
    return bool((above & (truth[:, None] <= truth[None, :] + _EQUAL_POINTS)).any())


class _ExpectedScores:
    """What infinitely many votes of such voters on the same matchups would say: the truth of *these prompts*."""

    def __init__(self, world: World) -> None:
        self._world = world
        nodes, weights = np.polynomial.hermite_e.hermegauss(_NODE_COUNT)
        spread = 0.0 if world.crowd is None else world.crowd.effect_sd
        self._shifts = math.sqrt(2.0) * spread * nodes
        self._weights = weights / weights.sum()

    def truth(self, arena: SimulatedArena, batch: BatchRatings) -> Floats:
        """The ratings that the votes so far estimate, with the weights that the estimate gives them."""
        world, m = self._world, len(self._world.models)
        table = batch.method.limited(votes_table(arena.standing)).table
        log = table.log()
        assert arena.standing.vote_log is not None
        votes = arena.standing.vote_log.columns()
        used = ~np.isnan(Scoring().of(log))
        a, b, prompt = (votes[name][used].astype(np.int64) for name in ("a", "b", "prompt"))
        weight = np.ones(len(a)) if log.weight is None else log.weight[used]
        gap = world.strength[a] - world.strength[b] + world.effect[a, prompt] - world.effect[b, prompt]
        sides = [
            expit(gap[:, None] + self._shifts + bias) for bias in (world.position_bias, -world.position_bias)
        ]
        won = 0.5 * (sides[0] + sides[1]) @ self._weights
        won = world.lazy / 2.0 + (1.0 - world.lazy) * won
        ties = world.ties / (1.0 - world.both_bad)
        score = ties / 2.0 + (1.0 - ties) * won
        pair = np.minimum(a, b) * m + np.maximum(a, b)
        total = sum_by_index(pair, weight, m * m)
        points = sum_by_index(pair, weight * np.where(a < b, score, 1.0 - score), m * m)
        met = np.flatnonzero(total)
        pairs = PairScores(m, met // m, met % m, total[met], points[met], np.zeros(len(met)))
        return np.asarray(fit_pairs(pairs, bread=False).theta) * POINTS_PER_LOGIT


SETTLED: Study[SettledSettings, SettledResult] = Study(
    "settled",
    1,
    study_settled,
    SettledResult,
    depends=(
        "tiltyard.core",
        "lab.settled_studies",
        "tiltyard.simulation.simulated_arena",
        "tiltyard.simulation.worlds",
    ),
)
