"""The exploration lane: random choices, independent of the policy's estimates.

Its choices have known, positive probabilities: a board from this lane alone validates the others.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from tiltyard.core.policy.matchmaking.anchored_draw import draw_pair, pair_chance
from tiltyard.core.policy.matchmaking.choice import DrawnPair
from tiltyard.core.policy.matchmaking.eligible_pairs import EligiblePairs
from tiltyard.core.policy.matchmaking.prompt_choice import draw_under_covered_prompt

__all__ = ["draw_exploration", "scarcity"]

Floats = npt.NDArray[np.float64]


def scarcity(field: EligiblePairs) -> Floats:
    """1/(1 + exposures in the window). With lifetime counts a new model would get nearly all matchups."""
    return np.where(field.free, 1.0 / (1.0 + field.exposures), 0.0)


def draw_exploration(field: EligiblePairs, rng: np.random.Generator) -> DrawnPair | None:
    """Two models by scarcity, and a random prompt among those in deficit for either, else among all."""
    weights = scarcity(field)

    @cache
    def opponents(model: int) -> Floats:
        return np.where(field.opponents(model), weights, 0.0)

    pair = draw_pair(weights, opponents, rng)
    on = None if pair is None else draw_under_covered_prompt(field, *pair, rng)
    if pair is None or on is None:
        return None
    return DrawnPair(*pair, on[0], "chance", pair_chance(weights, opponents, *pair) / on[1])
