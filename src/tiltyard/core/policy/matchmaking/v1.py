"""Version 1 of matchmaking, still used in phase 1 of a rollout: a random prompt, then models
weighted by how rarely they have been shown."""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from tiltyard.core.policy.matchmaking.anchored_draw import draw_pair, pair_chance
from tiltyard.core.policy.matchmaking.choice import DrawnPair
from tiltyard.core.policy.matchmaking.eligible_pairs import EligiblePairs

__all__ = ["draw_v1"]

Floats = npt.NDArray[np.float64]


def draw_v1(field: EligiblePairs, rng: np.random.Generator) -> DrawnPair | None:
    """A uniform prompt, and two models that answered it, weighted by 1/(1 + times shown)."""
    standing = field.standing
    prompts = (standing.cells.n_playing >= 2).nonzero()[0]
    if not len(prompts):
        return None
    prompt = int(prompts[int(rng.random() * len(prompts))])
    servable = field.free & (field.need[:, prompt] > 0.0)
    weights = np.where(servable, 1.0 / (1.0 + standing.shown[:, 0]), 0.0)

    @cache
    def opponents(model: int) -> Floats:
        return np.where(field.opponents(model), weights, 0.0)

    pair = draw_pair(weights, opponents, rng)
    if pair is None or not field.prompts(*pair)[prompt]:
        return None
    return DrawnPair(*pair, prompt, "v1", pair_chance(weights, opponents, *pair) / len(prompts))
