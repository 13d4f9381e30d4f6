"""The fairness controller: who must be served before any lane is asked.

The upper bound is in the `EligiblePairs`: a model that has had its share is not free. Raising those
below alone would not be enough.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tiltyard.core.policy.matchmaking.choice import DrawnPair
from tiltyard.core.policy.matchmaking.coverage_lane import draw_coverage
from tiltyard.core.policy.matchmaking.eligible_pairs import EligiblePairs

__all__ = ["draw_starved", "starved_models"]


def starved_models(field: EligiblePairs) -> list[int]:
    """Models below their guarded tolerance, the worst first."""
    if not field.standing.window.active():
        return []
    below = np.where(field.free, field.due.starved(field.exposures), 0.0)
    found = (below > 0.0).nonzero()[0]
    return [int(model) for model in found[np.argsort(-below[found], kind="stable")]]


def draw_starved(field: EligiblePairs, rng: np.random.Generator) -> DrawnPair | None:
    """The worst of them meets another of them, if it can; else whoever covers most."""
    waiting = starved_models(field)
    if len(waiting) > 1:
        # Served one at a time, the last of them would fall out of tolerance meanwhile.
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
