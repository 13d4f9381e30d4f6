"""Chooses the prompt on which two models meet."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tiltyard.core.policy.matchmaking.eligible_pairs import EligiblePairs, draw_largest
from tiltyard.core.policy.state.standing import Standing

__all__ = [
    "REPEAT_WEIGHT",
    "draw_least_met_prompt",
    "draw_most_needed_prompt",
    "draw_under_covered_prompt",
    "pair_attempts",
]

Ints = npt.NDArray[np.int64]

#: The penalty of each earlier attempt of the same pair on the same prompt.
REPEAT_WEIGHT = 0.5
#: The weight of the two models' needs if attempts should decide: only enough to break ties.
TIE_BREAK_WEIGHT = 0.49


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
