"""The steps that lanes share: a pair by weight, an anchor and then its opponent, and the prompt on which the two meet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tiltyard.core.policy.matchmaking.eligible_pairs import EligiblePairs, draw_index, draw_largest
from tiltyard.core.policy.state.standing import Standing
from tiltyard.foundation.arrays import Floats, Ints

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
