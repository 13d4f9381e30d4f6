"""What votes say of one model alone: opponent by opponent, and prompt by prompt.

A standing of one model's votes knows as much of that model as a standing of all votes does; its counts of
anybody else are not to be shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tiltyard.core.policy.state.events import NO_SESSION, Event, Events
from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.policy.state.strengths import Strengths
from tiltyard.core.policy.validity.heatmap import opponent_deficits
from tiltyard.core.policy.validity.recent_form import VoteRecord, expected_scores

__all__ = [
    "OpponentRecord",
    "VoteColumns",
    "build_standing",
    "opponent_records",
    "prompt_records",
    "score_of",
]

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class VoteColumns:
    """Votes as columns: ``a`` on the left, ``b`` on the right, and the kind in which each ended."""

    a: Ints
    b: Ints
    prompt: Ints
    kind: Ints
    #: The prompts that were written, where these are free; ``prompt`` is then the category.
    free_prompt: Ints | None = None


@dataclass(frozen=True, slots=True)
class OpponentRecord:
    """Another model: how votes against it went, and how the ratings expect them to go."""

    model: int
    record: VoteRecord
    #: Mean result of the votes that rate skill.
    score: float | None
    #: By rating, a tie counting half: no probability of winning.
    expected: float
    #: Share of its floor that the pair lacks; ``None`` for a model that is retired.
    deficit: float | None


def build_standing(
    policy: Policy,
    models: Sequence[str],
    prompts: Sequence[str],
    *,
    answered: Bools,
    enabled: Bools,
    votes: VoteColumns,
    strengths: Strengths,
) -> Standing:
    """The standing that these votes make of this roster, under these strengths."""
    standing = Standing(policy, models, prompts, answered)
    roster = Events.of([{"event": Event.ENABLE, "a": k} for k in np.flatnonzero(enabled).tolist()])
    standing.fold(Events.joined([roster, _events(votes)]))
    standing.rank(strengths)
    return standing


def opponent_records(standing: Standing, model: int) -> tuple[OpponentRecord, ...]:
    """Every other model, those met most often first; then by number."""
    expected = expected_scores(standing, model).tolist()
    deficit = opponent_deficits(standing, model).tolist()
    found = []
    for other in range(len(standing.models)):
        if other == model:
            continue
        record = _against(standing, model, other)
        lacking = None if deficit[other] != deficit[other] else deficit[other]
        found.append(OpponentRecord(other, record, score_of(record), expected[other], lacking))
    return tuple(sorted(found, key=lambda one: (-one.record.votes, one.model)))


def prompt_records(standing: Standing, model: int) -> tuple[tuple[int, VoteRecord], ...]:
    """The model's record on each prompt on which it has votes, those with most first; then by number."""
    tally = standing.cells.tally[model]
    found = [
        (prompt, VoteRecord(*tally[prompt].tolist())) for prompt in np.flatnonzero(tally.any(axis=1)).tolist()
    ]
    return tuple(sorted(found, key=lambda each: (-each[1].votes, each[0])))


def score_of(record: VoteRecord) -> float | None:
    """Mean result of the votes that rate skill: a win counts 1, a tie ½, a loss 0."""
    return (record.wins + record.ties / 2.0) / record.rated if record.rated else None


def _against(standing: Standing, model: int, other: int) -> VoteRecord:
    cells = standing.meetings.cells(model, other)
    low, high, ties, both_bad = (0, 0, 0, 0) if cells is None else cells.tally.sum(axis=0).tolist()
    wins, losses = (low, high) if model < other else (high, low)
    return VoteRecord(wins, losses, ties, both_bad)


def _events(votes: VoteColumns) -> Events:
    n = len(votes.kind)
    zero, small = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.uint8)
    return Events(
        event=np.full(n, Event.VOTE, dtype=np.uint8),
        a=votes.a,
        b=votes.b,
        prompt=votes.prompt,
        kind=votes.kind.astype(np.uint8),
        lane=small,
        nominal=small,
        serial=zero,
        session=np.full(n, NO_SESSION, dtype=np.int64),
        time=zero,
        free_prompt=zero if votes.free_prompt is None else votes.free_prompt,
    )
