"""Draws a pair in two steps: an anchor by weight, then its opponent by weight."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from tiltyard.core.policy.matchmaking.eligible_pairs import draw_index

__all__ = ["Opponents", "draw_pair", "pair_chance"]

Floats = npt.NDArray[np.float64]

#: Maps a model to the weights of its opponents.
Opponents = Callable[[int], Floats]


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
