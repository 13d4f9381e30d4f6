"""The coverage heatmap of one model: on which prompts, and against whom, votes are still wanted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tiltyard.core.policy.state.prompt_cells import LOSS, WIN
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.policy.validity.neighbours import neighbours_of
from tiltyard.core.policy.validity.pair_floors import floor_of, pair_coverage

__all__ = ["Heatmap", "coverage_heatmap", "opponent_deficits", "prompt_deficits"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


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
