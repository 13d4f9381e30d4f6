"""Which prompt two models meet on."""

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

#: What each earlier attempt of the same pair on the same prompt takes off a prompt's score.
REPEAT_WEIGHT = 0.5
#: What the two models' needs weigh where only attempts should decide: enough to choose among equals.
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
    """The prompt that this pair has met least on; among equals, the one that the two need most."""
    allowed = field.prompts(one, other)
    if not allowed.any():
        return None
    need = field.standing.cells.need
    # Two needs add up to little over 2: below one attempt, whatever they are.
    score = TIE_BREAK_WEIGHT * (need[one] + need[other]) - pair_attempts(field.standing, one, other)
    return draw_largest(np.where(allowed, score, -np.inf), rng)


def draw_most_needed_prompt(
    field: EligiblePairs, one: int, other: int, rng: np.random.Generator
) -> tuple[int, int] | None:
    """The prompt that fills most of what the two still lack; and how many equal it."""
    allowed = field.prompts(one, other)
    if not allowed.any():
        return None
    need = field.standing.cells.need
    score = need[one] + need[other] - REPEAT_WEIGHT * pair_attempts(field.standing, one, other)
    return draw_largest(np.where(allowed, score, -np.inf), rng)


def draw_under_covered_prompt(
    field: EligiblePairs, one: int, other: int, rng: np.random.Generator
) -> tuple[int, int] | None:
    """A prompt at random among those where either lacks votes, else among all; and out of how many."""
    allowed = field.prompts(one, other)
    short = field.standing.cells.short
    lacking = allowed & (short[one] | short[other])
    among = np.flatnonzero(lacking if lacking.any() else allowed)
    if not len(among):
        return None
    return int(among[int(rng.random() * len(among))]), len(among)
