"""Neighbours in rank, and how a model did against them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.policy.validity.pair_floors import PairFloor, floor_of, pair_coverage

__all__ = ["NeighbourRecord", "challenge_record", "challenges_of", "neighbours_of", "pair_coverage_score"]


@dataclass(frozen=True, slots=True)
class NeighbourRecord:
    """One model's votes against another: the neighbour challenge record."""

    model: int
    other: int
    #: Votes of any kind.
    votes: int
    wins: int
    losses: int
    ties: int
    both_bad: int
    floor: PairFloor


def neighbours_of(standing: Standing, model: int) -> tuple[int | None, int | None]:
    """The models just above and just below by conservative score; ``None`` at an end or if retired."""
    place = np.flatnonzero(standing.order == model)
    if not len(place):
        return None, None
    at, order = int(place[0]), standing.order
    above = int(order[at - 1]) if at > 0 else None
    below = int(order[at + 1]) if at + 1 < len(order) else None
    return above, below


def challenge_record(standing: Standing, model: int, other: int) -> NeighbourRecord:
    """How their direct votes went, seen from ``model``."""
    cells = standing.meetings.cells(model, other)
    counts = [0, 0, 0, 0] if cells is None else cells.tally.sum(axis=0).tolist()
    low_wins, high_wins, ties, both_bad = counts
    wins, losses = (low_wins, high_wins) if model < other else (high_wins, low_wins)
    return NeighbourRecord(
        model, other, sum(counts), wins, losses, ties, both_bad, floor_of(standing, model, other)
    )


def challenges_of(standing: Standing, model: int) -> tuple[NeighbourRecord | None, NeighbourRecord | None]:
    """The record against the neighbours above and below."""
    above, below = neighbours_of(standing, model)
    return (
        None if above is None else challenge_record(standing, model, above),
        None if below is None else challenge_record(standing, model, below),
    )


def pair_coverage_score(standing: Standing, model: int) -> float | None:
    """Mean of `pair_coverage` over the model's neighbours in rank; ``None`` without any."""
    around = [other for other in neighbours_of(standing, model) if other is not None]
    scores = [pair_coverage(floor_of(standing, model, other)) for other in around]
    return sum(scores) / len(scores) if scores else None
