"""The pairs that are eligible at this moment, for this voter.

Models at the fairness controller's upper bound are excluded, and so are the pairs and prompts
that the session has just seen, and prompts that the voter cannot judge.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tiltyard.core.policy.state.exposure_window import ExposureTargets
from tiltyard.core.policy.state.pair_counts import pair_key, unpack_pair_key
from tiltyard.core.policy.state.session_memory import SessionMemory
from tiltyard.core.policy.state.standing import Standing
from tiltyard.foundation.arrays import Bools, Floats, Ints

Needs = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class EligiblePairs:
    """A standing as seen by one request."""

    standing: Standing
    memory: SessionMemory
    #: How many of the session's last pairs are excluded, and whether its prompts are.
    depth: int
    fresh_prompts: bool
    #: Which models may be served.
    free: Bools
    exposures: Ints
    due: ExposureTargets
    #: How useful a vote on each cell is; −∞ if it cannot be served, or not to this voter.
    need: Needs
    #: Whether a pair may repeat a prompt without limit.
    repeats: bool = False

    @classmethod
    def of(
        cls,
        standing: Standing,
        memory: SessionMemory,
        *,
        capped: bool,
        depth: int,
        fresh_prompts: bool = True,
        need: Needs | None = None,
        repeats: bool = False,
    ) -> EligiblePairs:
        """The eligible pairs, without models at their upper bound if ``capped`` and the bound is active."""
        due, exposures = standing.window.planned()
        free = standing.enabled
        if capped and standing.window.active():
            free = np.logical_and(free, ~due.capped(exposures))
        need = standing.cells.need if need is None else need
        if need is not standing.cells.need:
            # Without this a draw would spend chances on models that this voter cannot be served.
            # The models with a response to a prompt that another model has answered too.
            answered = need > 0.0
            free = np.logical_and(free, np.asarray(answered[:, answered.sum(axis=0) > 1].any(axis=1)))
        return cls(standing, memory, depth, fresh_prompts, free, exposures, due, need, repeats)

    @property
    def recent(self) -> list[int]:
        """The pairs that the session must not see again yet."""
        return self.memory.pairs[len(self.memory.pairs) - self.depth :]

    def lag(self) -> Floats:
        """How far behind its target each model is, as a share of it, within ±1."""
        return self.due.lag(self.exposures)

    def opponents(self, model: int) -> Bools:
        """The opponents this model may meet: eligible, with a prompt in common, and new to the session."""
        allowed: Bools = self.free & (self.standing.cells.shared[model] > 0)
        if self.need is not self.standing.cells.need:
            allowed &= (self.need[:, self.need[model] > 0.0] > 0.0).any(axis=1)
        allowed[model] = False
        for low, high in map(unpack_pair_key, self.recent):
            if model in (low, high):
                allowed[low + high - model] = False
        return allowed

    def meets(self, one: int, other: int) -> bool:
        """Whether these two may meet."""
        shared = self.standing.cells.shared[one, other] > 0
        if shared and self.need is not self.standing.cells.need:
            shared = bool(((self.need[one] > 0.0) & (self.need[other] > 0.0)).any())
        return bool(
            self.free[one] and self.free[other] and shared and pair_key(one, other) not in self.recent
        )

    def has_eligible_pair(self) -> bool:
        """Whether some eligible pair has a prompt that is new to the session."""
        standing, free = self.standing, self.free.nonzero()[0]
        if self.need is not standing.cells.need and not has_servable_pair(self.need[free]):
            return False
        shared = standing.cells.shared[np.ix_(free, free)]
        left = (int(shared.sum()) - int(shared.trace())) // 2
        for key, seen in self.memory.prompts.items():
            one, other = unpack_pair_key(key)
            if self.free[one] and self.free[other]:
                need = standing.cells.need
                both = (need[one, seen] > 0.0) & (need[other, seen] > 0.0)
                known = int(both.sum()) if self.fresh_prompts else 0
                left -= int(standing.cells.shared[one, other]) if key in self.recent else known
        return left > 0

    def prompts(self, one: int, other: int) -> Bools:
        """Prompts on which the two may meet: both have answered, and no rule excludes them."""
        need = self.need
        allowed: Bools = (need[one] > 0.0) & (need[other] > 0.0)
        allowed[self.withheld(one, other)] = False
        return allowed

    def withheld(self, one: int, other: int) -> list[int]:
        """Prompts that the session saw with this pair, and those repeated too often in its last meetings."""
        memory = self.memory.prompts
        seen = memory.get(pair_key(one, other), []) if memory and self.fresh_prompts else []
        if self.repeats or self.standing.policy.free_prompts:
            return seen
        # The next meeting will be one of the last ten, so the oldest of those stored no longer counts.
        met = self.standing.meetings.recent(one, other)
        recent = met[max(len(met) - self.standing.policy.meetings + 1, 0) :]
        if len(recent) == len(set(recent)) and self.standing.policy.repeats > 1:
            return seen
        most = self.standing.policy.repeats_of(int(self.standing.cells.shared[one, other]))
        return seen + [prompt for prompt in set(recent) if recent.count(prompt) >= most]


def voter_need(
    standing: Standing,
    told: Sequence[tuple[int, int]],
    judgeable: Bools | None = None,
    resting: Sequence[int] = (),
) -> Needs:
    """Needs without the cells whose responses the voter knows by name, prompts that the voter cannot judge, and models
    that cannot be served at present.
    """
    if not told and judgeable is None and not resting:
        return standing.cells.need
    need = standing.cells.need.copy()
    if told:
        models, prompts = zip(*told, strict=True)
        need[list(models), list(prompts)] = -np.inf
    if judgeable is not None:
        need[:, ~judgeable] = -np.inf
    if resting:
        need[list(resting)] = -np.inf
    return need


def has_servable_pair(need: Needs) -> bool:
    """Whether some prompt has two responses that can be served."""
    return bool(((need > 0.0).sum(axis=0) > 1).any())


def draw_index(weights: Floats, rng: np.random.Generator) -> int:
    """Draw an index by weight; at least one weight must be above 0."""
    sums = weights.cumsum()
    # Rounding must not move the draw to the end, where weights may be 0.
    drawn = min(rng.random() * sums[-1], np.nextafter(sums[-1], 0.0))
    return int(sums.searchsorted(drawn, side="right"))


def draw_largest(scores: npt.NDArray[np.floating], rng: np.random.Generator) -> tuple[int, int]:
    """The index of a largest score, at random among ties, and the number of ties.

    Simultaneous requests must not all get the same pair.
    """
    largest = (scores == scores.max()).nonzero()[0]
    return int(largest[int(rng.random() * len(largest))]), len(largest)


# The steps that lanes share: a pair by weight, an anchor and then its opponent, and the prompt on which the two meet.


#: The penalty of each earlier attempt of the same pair on the same prompt.
REPEAT_WEIGHT = 0.5
#: Maps a model to the weights of its opponents.
Opponents = Callable[[int], Floats]
#: The weight of the two models' needs if attempts should decide: only enough to break ties.
TIE_BREAK_WEIGHT = 0.49


@dataclass(frozen=True, slots=True)
class DrawnPair:
    """A lane's choice: two models and a prompt, the reason, and its probability in one draw of that lane.

    In random lanes the probability covers both ways to draw the pair. In the coverage lane it covers
    only this anchor, this opponent and this prompt.
    """

    one: int
    other: int
    prompt: int
    reason: str
    chance: float


def draw_pair(anchors: Floats, opponents: Opponents, rng: np.random.Generator) -> tuple[int, int] | None:
    """Anchor and opponent; ``None`` if the drawn anchor has no eligible opponent."""
    if not anchors.sum() > 0.0:
        return None
    anchor = draw_index(anchors, rng)
    against = opponents(anchor)
    return (anchor, draw_index(against, rng)) if against.sum() > 0.0 else None


def pair_chance(anchors: Floats, opponents: Opponents, one: int, other: int) -> float:
    """The probability that `draw_pair` chooses these two, whichever is the anchor."""
    chance = 0.0
    for anchor, against in ((one, other), (other, one)):
        if anchors[anchor] > 0.0:
            weights = opponents(anchor)
            if weights[against] > 0.0:
                chance += float(anchors[anchor] * weights[against] / weights.sum())
    return chance / float(anchors.sum()) if chance else 0.0


def pair_attempts(standing: Standing, one: int, other: int) -> Ints:
    """Votes of any kind of this pair, by prompt."""
    attempts = np.zeros(len(standing.prompts), dtype=np.int64)
    cells = standing.meetings.cells(one, other)
    if cells is not None:
        prompts, votes = cells.attempts()
        attempts[prompts] = votes
    return attempts


def draw_least_met_prompt(
    field: EligiblePairs, one: int, other: int, rng: np.random.Generator
) -> tuple[int, int] | None:
    """The prompt on which this pair has met least; ties are broken by the two models' needs."""
    allowed = field.prompts(one, other)
    if not allowed.any():
        return None
    need = field.standing.cells.need
    # Two needs sum to little over 2, which is always less than one attempt.
    score = TIE_BREAK_WEIGHT * (need[one] + need[other]) - pair_attempts(field.standing, one, other)
    return draw_largest(np.where(allowed, score, -np.inf), rng)


def draw_most_needed_prompt(
    field: EligiblePairs, one: int, other: int, rng: np.random.Generator
) -> tuple[int, int] | None:
    """The prompt with the largest need of the two models, and the number of ties."""
    allowed = field.prompts(one, other)
    if not allowed.any():
        return None
    need = field.standing.cells.need
    score = need[one] + need[other] - REPEAT_WEIGHT * pair_attempts(field.standing, one, other)
    return draw_largest(np.where(allowed, score, -np.inf), rng)


def draw_under_covered_prompt(
    field: EligiblePairs, one: int, other: int, rng: np.random.Generator
) -> tuple[int, int] | None:
    """A random prompt among those where either lacks votes, else among all; and the number of candidates."""
    allowed = field.prompts(one, other)
    short = field.standing.cells.short
    lacking = allowed & (short[one] | short[other])
    among = np.flatnonzero(lacking if lacking.any() else allowed)
    if not len(among):
        return None
    return int(among[int(rng.random() * len(among))]), len(among)
