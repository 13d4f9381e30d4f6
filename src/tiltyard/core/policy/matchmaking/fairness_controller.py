"""The fairness controller: models that must be served before any lane is drawn.

The upper bound is part of `EligiblePairs`: a model that has had its share is not eligible. Serving
models that are behind would not be sufficient on its own.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tiltyard.core.policy.matchmaking.choice import DrawnPair
from tiltyard.core.policy.matchmaking.coverage_lane import draw_coverage
from tiltyard.core.policy.matchmaking.eligible_pairs import EligiblePairs

__all__ = ["draw_starved", "starved_models"]


def starved_models(field: EligiblePairs) -> list[int]:
    """Models below their guarded tolerance, worst first."""
    if not field.standing.window.active():
        return []
    below = np.where(field.free, field.due.starved(field.exposures), 0.0)
    found = (below > 0.0).nonzero()[0]
    return [int(model) for model in found[np.argsort(-below[found], kind="stable")]]


def draw_starved(field: EligiblePairs, rng: np.random.Generator) -> DrawnPair | None:
    """The worst of them meets another of them, if possible; else the opponent with the most coverage."""
    waiting = starved_models(field)
    if len(waiting) > 1:
        # If they were served one at a time, the last of them would leave its tolerance in the meantime.
        among = np.zeros_like(field.free)
        among[waiting] = True
        draw = _first(replace(field, free=among), waiting, rng)
        if draw is not None:
            return draw
    return _first(field, waiting, rng)


def _first(field: EligiblePairs, anchors: list[int], rng: np.random.Generator) -> DrawnPair | None:
    for anchor in anchors:
        draw = draw_coverage(field, rng, anchor=anchor)
        if draw is not None:
            return draw
    return None
