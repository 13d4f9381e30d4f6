"""What votes say of one model alone: opponent by opponent, and prompt by prompt.

A standing of one model's votes knows as much of that model as a standing of all votes does; its counts of
anybody else are not to be shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tiltyard.core.policy.state.events import NO_SESSION, Event, Events
from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.state.prompt_cells import LOSS, WIN
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.policy.state.strengths import Strengths
from tiltyard.core.policy.validity.model_record import VoteRecord, expected_scores
from tiltyard.core.policy.validity.pair_floors import floor_of, neighbours_of, pair_coverage
from tiltyard.foundation.arrays import Bools, Floats, Ints


@dataclass(frozen=True, slots=True, eq=False)
class VoteColumns:
    """Votes as columns: ``a`` on the left, ``b`` on the right, and the kind in which each ended."""

    a: Ints
    b: Ints
    prompt: Ints
    kind: Ints
    #: The prompts that were written, where these are free; ``prompt`` is then the category.
    free_prompt: Ints | None = None


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


def opponent_records(standing: Standing, model: int) -> tuple[OpponentRecord, ...]:
    """Every other model, those met most often first; then by number."""
    expected = expected_scores(standing, model).tolist()
    deficit = opponent_deficits(standing, model).tolist()
    found = []
    for other in range(len(standing.models)):
        if other == model:
            continue
        cells = standing.meetings.cells(model, other)
        low, high, ties, both_bad = (0, 0, 0, 0) if cells is None else cells.tally.sum(axis=0).tolist()
        wins, losses = (low, high) if model < other else (high, low)
        record = VoteRecord(wins, losses, ties, both_bad)
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


@dataclass(frozen=True, slots=True)
class Heatmap:
    """Prompts down, opponents across, those with the largest deficits first.

    A cell's deficit is the mean of its prompt's and its opponent's, 0 to 1; ``None`` where the two
    models cannot meet. ``votes`` are those of any kind that the two have on the prompt.
    """

    model: int
    prompts: tuple[int, ...]
    opponents: tuple[int, ...]
    prompt_deficit: tuple[float, ...]
    opponent_deficit: tuple[float, ...]
    deficit: tuple[tuple[float | None, ...], ...]
    votes: tuple[tuple[int, ...], ...]
    #: What did not fit.
    prompts_left_out: int
    opponents_left_out: int


def coverage_heatmap(
    standing: Standing, model: int, *, most_prompts: int = 50, most_opponents: int = 30
) -> Heatmap:
    """Eligible prompts and enabled opponents of this model, at most so many of each."""
    by_prompt, by_opponent = prompt_deficits(standing, model), opponent_deficits(standing, model)
    prompts, opponents = _largest(by_prompt, most_prompts), _largest(by_opponent, most_opponents)
    rows, columns = by_prompt[prompts], by_opponent[opponents]
    meets = standing.cells.answered[np.ix_(opponents, prompts)].T
    mean = (rows[:, None] + columns[None, :]) / 2.0
    return Heatmap(
        model,
        tuple(prompts.tolist()),
        tuple(opponents.tolist()),
        tuple(rows.tolist()),
        tuple(columns.tolist()),
        tuple(
            tuple(value if met else None for value, met in zip(line, can, strict=True))
            for line, can in zip(mean.tolist(), meets.tolist(), strict=True)
        ),
        tuple(tuple(line) for line in _votes(standing, model, prompts, opponents).tolist()),
        int((~np.isnan(by_prompt)).sum()) - len(prompts),
        int((~np.isnan(by_opponent)).sum()) - len(opponents),
    )


def prompt_deficits(standing: Standing, model: int) -> Floats:
    """Share of its floor that each prompt lacks; 0 once exhausted, NaN where not eligible.

    The floor is the contender band's for a model in it.
    """
    cells = standing.cells
    floor = int(cells.floor[model])
    decisive = cells.tally[model, :, WIN] + cells.tally[model, :, LOSS]
    lacking = np.where(cells.short[model], np.maximum(floor - decisive, 0) / floor, 0.0)
    return np.where(cells.eligible[model], lacking, np.nan)


def opponent_deficits(standing: Standing, model: int) -> Floats:
    """Share of its floor that the pair with each enabled model lacks; NaN for others and for itself.

    A neighbour in rank needs the floor of adjacent pairs, unless the pair is indistinguishable so
    far; anybody else ``policy.pair_floor`` decisive votes.
    """
    floor = standing.policy.pair_floor
    lacking = np.maximum(floor - standing.meetings.decisive[model], 0) / floor
    for other in neighbours_of(standing, model):
        if other is not None:
            adjacent = floor_of(standing, model, other)
            lacking[other] = 0.0 if adjacent.indistinguishable else 1.0 - pair_coverage(adjacent)
    deficit = np.where(standing.enabled, lacking, np.nan)
    deficit[model] = np.nan
    return np.asarray(deficit)


def _largest(deficit: Floats, most: int) -> Ints:
    """Where deficits are largest, codes breaking ties; what is not known is left out."""
    known = np.flatnonzero(~np.isnan(deficit))
    return known[np.argsort(-deficit[known], kind="stable")][:most]


def _votes(standing: Standing, model: int, prompts: Ints, opponents: Ints) -> Ints:
    place = np.full(len(standing.prompts), -1)
    place[prompts] = np.arange(len(prompts))
    votes = np.zeros((len(prompts), len(opponents)), dtype=np.int64)
    for column, other in enumerate(opponents.tolist()):
        cells = standing.meetings.cells(model, other)
        if cells is not None:
            met, attempts = cells.attempts()
            rows = place[met.astype(np.int64)]
            votes[rows[rows >= 0], column] = attempts[rows >= 0]
    return votes
