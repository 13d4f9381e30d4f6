"""The uncertainty lane: serves uncertain models in close matches, which are the most informative."""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from tiltyard.core.policy.matchmaking.anchored_draw import draw_pair, pair_chance
from tiltyard.core.policy.matchmaking.choice import DrawnPair
from tiltyard.core.policy.matchmaking.eligible_pairs import EligiblePairs
from tiltyard.core.policy.matchmaking.prompt_choice import draw_most_needed_prompt
from tiltyard.core.policy.state.standing import Standing

__all__ = ["anchor_weights", "closeness", "draw_uncertainty", "novelty", "opponent_weights"]

Floats = npt.NDArray[np.float64]

#: What a pair that has never met adds to an opponent's score.
NOVELTY_WEIGHT = 0.25


def anchor_weights(field: EligiblePairs) -> Floats:
    """Standard error of online Bradley–Terry, up to doubled for prompts that are not covered.

    Glicko-2's RDs become nearly equal over time, so they could not distinguish models.
    """
    standing = field.standing
    covered = np.nan_to_num(standing.cells.coverage())
    return np.asarray(np.where(field.free, standing.strengths.se * (2.0 - covered), 0.0))


def closeness(standing: Standing, model: int) -> Floats:
    """4p(1 − p) for each opponent: 1 for an even match, 0.36 at 9 to 1, near 0 for a certain result."""
    p = standing.strengths.expected(model)
    return np.asarray(4.0 * p * (1.0 - p))


def novelty(standing: Standing, model: int) -> Floats:
    """0.25/(1 + attempts): a small bonus for pairs that have met rarely."""
    return np.asarray(NOVELTY_WEIGHT / (1.0 + standing.meetings.attempts[model]))


def opponent_weights(field: EligiblePairs, anchor: int) -> Floats:
    """Uniform over the opponents with the largest sum of closeness and novelty, 0 for all others."""
    standing = field.standing
    score = np.where(
        field.opponents(anchor), closeness(standing, anchor) + novelty(standing, anchor), -np.inf
    )
    largest = score.max()
    return (score == largest).astype(np.float64) if largest > -np.inf else np.zeros(len(score))


def draw_uncertainty(field: EligiblePairs, rng: np.random.Generator) -> DrawnPair | None:
    """An anchor by uncertainty, the most informative opponent, the prompt that both need most."""
    anchors = anchor_weights(field)

    @cache
    def opponents(model: int) -> Floats:
        return opponent_weights(field, model)

    pair = draw_pair(anchors, opponents, rng)
    on = None if pair is None else draw_most_needed_prompt(field, *pair, rng)
    if pair is None or on is None:
        return None
    return DrawnPair(*pair, on[0], "most to learn", pair_chance(anchors, opponents, *pair) / on[1])
