"""Floors of pairs: whether neighbours in rank have met often enough, and on enough prompts.

Adjacent contenders need ``policy.adjacent_votes`` decisive votes on ``policy.adjacent_prompts``
prompts, or on all that they share if these are fewer; a prompt that was withdrawn after they met on
it still counts on both sides (`prompts_needed`). Where prompts are free, they are the different prompts that
voters wrote, of any category. A pair still short after
``policy.adjacent_attempts`` votes of any kind is *indistinguishable so far*: voters cannot tell
the two apart. It is no longer sought, and its floor stays unmet.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.policy.validity.rules import pair_decisive_share, votes_to_gain
from tiltyard.foundation.arrays import Ints


@dataclass(frozen=True, slots=True)
class PairFloor:
    """How far two models are from the floor of neighbours."""

    above: int
    below: int
    votes: int
    attempts: int
    prompts: int
    votes_needed: int
    #: 0 for a pair that shares no prompt, whose floor cannot be met.
    prompts_needed: int
    met: bool
    indistinguishable: bool

    @property
    def lacking(self) -> int:
        """Decisive votes still missing: each new prompt takes one of them."""
        return max(self.votes_needed - self.votes, self.prompts_needed - self.prompts, 0)


def floor_of(standing: Standing, above: int, below: int) -> PairFloor:
    """The floor of this pair, adjacent or not."""
    policy, meetings = standing.policy, standing.meetings
    votes, attempts = int(meetings.decisive[above, below]), int(meetings.attempts[above, below])
    prompts = int(standing.prompt_meetings.prompts[above, below])
    needed = standing.prompts_needed(above, below)
    met = needed > 0 and votes >= policy.adjacent_votes and prompts >= needed
    return PairFloor(
        above,
        below,
        votes,
        attempts,
        prompts,
        policy.adjacent_votes,
        needed,
        met,
        not met and attempts >= policy.adjacent_attempts,
    )


def adjacent_floors(standing: Standing, top: Ints) -> tuple[PairFloor, ...]:
    """Floors of the adjacent pairs among these models, best first."""
    return tuple(floor_of(standing, one, other) for one, other in pairwise(top.tolist()))


def votes_to_floor(floor: PairFloor, overall: float) -> float:
    """Direct votes until the floor is met: decisive votes lacking over the pair's decisive share.

    ``overall`` is the arena's decisive share. Infinite for a pair that is no longer sought, or that
    shares no prompt.
    """
    if floor.met:
        return 0.0
    if floor.indistinguishable or not floor.prompts_needed:
        return math.inf
    return votes_to_gain(floor.lacking, pair_decisive_share(floor.votes, floor.attempts, overall))


def pair_coverage(floor: PairFloor) -> float:
    """min(1, votes / 12, prompts / 6): how full one floor is; 0 where it cannot be met."""
    if not floor.prompts_needed:
        return 0.0
    return min(1.0, floor.votes / floor.votes_needed, floor.prompts / floor.prompts_needed)


def neighbours_of(standing: Standing, model: int) -> tuple[int | None, int | None]:
    """The models just above and just below by conservative score; ``None`` at an end or if retired."""
    place = np.flatnonzero(standing.order == model)
    if not len(place):
        return None, None
    at, order = int(place[0]), standing.order
    above = int(order[at - 1]) if at > 0 else None
    below = int(order[at + 1]) if at + 1 < len(order) else None
    return above, below


def pair_coverage_score(standing: Standing, model: int) -> float | None:
    """Mean of `pair_coverage` over the model's neighbours in rank; ``None`` without any."""
    around = [other for other in neighbours_of(standing, model) if other is not None]
    scores = [pair_coverage(floor_of(standing, model, other)) for other in around]
    return sum(scores) / len(scores) if scores else None


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
