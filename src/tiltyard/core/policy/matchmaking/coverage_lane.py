"""The coverage lane: serves the model with the largest deficit, against the opponent and on the prompt it lacks most.

It also serves the models whose exposures are below their guarded tolerance, before any lane is drawn. The upper bound
is part of `EligiblePairs`: a model that has had its share is not eligible. Serving models that are behind would not
be sufficient on its own.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tiltyard.core.policy.matchmaking.eligible_pairs import (
    REPEAT_WEIGHT,
    DrawnPair,
    EligiblePairs,
    draw_largest,
)
from tiltyard.core.policy.state.standing import Standing
from tiltyard.foundation.arrays import Floats, Ints

#: The weight of an opponent's exposure lag, larger than that of any one cell.
LAG_WEIGHT = 2.0
#: The number of cells scored at a time, chosen to fit in the cache.
_BLOCK_CELLS = 1 << 15
#: The number of equally good cells that is sufficient to draw from.
_TIED_CELL_LIMIT = 1 << 14
#: Needs are in single precision: a bound may be smaller than a score by this much.
_SCORE_TOLERANCE = 1e-6


def missing_prompts(standing: Standing) -> Floats:
    """The share of a model's eligible prompts in deficit, by the general floor: from 0 to 1.

    With the band's own, higher floor its models would always have the largest deficit: this lane would
    use up their exposures, and the contender lane would find them at their upper bound.
    """
    cells = standing.cells
    lacking = cells.n_eligible - cells.n_filled - cells.n_exhausted
    return np.asarray(lacking / np.maximum(cells.n_eligible, 1))


def missing_opponents(standing: Standing) -> Floats:
    """The share of a model's opponents with too few decisive votes against it: from 0 to 1."""
    return standing.thin / max(standing.n_enabled - 1, 1)


def anchor_score(field: EligiblePairs) -> Floats:
    """A model's deficit: prompts, opponents, exposure.

    ======================================  ========  ==========  =====  ====
    model                                   prompts   opponents   lag    sum
    ======================================  ========  ==========  =====  ====
    a newcomer that was never served        1         1           1      3
    half of its cells filled, on its due    0.5       0           0      0.5
    nothing missing, a tenth above its due  0         0           −0.1   −0.1
    ======================================  ========  ==========  =====  ====
    """
    return missing_prompts(field.standing) + missing_opponents(field.standing) + field.lag()


def pair_novelty(standing: Standing, model: int) -> Floats:
    """How new each opponent is to this model: 1 below the pair's floor, then 1/(1 + attempts)."""
    meetings = standing.meetings
    news = 1.0 / (1.0 + meetings.attempts[model])
    return np.where(meetings.decisive[model] < standing.policy.pair_floor, 1.0, news)


def draw_coverage(
    field: EligiblePairs, rng: np.random.Generator, *, anchor: int | None = None
) -> DrawnPair | None:
    """Anchor, then opponent and prompt together, each with the largest score; ``None`` if no pair is eligible."""
    if anchor is not None:
        return _matched(field, anchor, rng, 1.0, "under-exposed")
    score = np.where(field.free, anchor_score(field), -np.inf)
    while True:
        chosen, equals = draw_largest(score, rng)
        if score[chosen] == -np.inf:
            return None
        draw = _matched(field, chosen, rng, 1.0 / equals, "covers most")
        if draw is not None:
            return draw
        score[chosen] = -np.inf


def _matched(
    field: EligiblePairs, anchor: int, rng: np.random.Generator, chance: float, reason: str
) -> DrawnPair | None:
    """The opponent and prompt that reduce the two models' deficits most."""
    opponents = np.flatnonzero(field.opponents(anchor))
    if not len(opponents):
        return None
    appeal = (pair_novelty(field.standing, anchor) + LAG_WEIGHT * field.lag())[opponents]
    found = _best_cells(field, anchor, opponents, appeal, rng)
    if found is None:
        return None
    opponent, prompt, equals = found
    return DrawnPair(anchor, opponent, prompt, reason, chance / equals)


def _best_cells(
    field: EligiblePairs, anchor: int, opponents: Ints, appeal: Floats, rng: np.random.Generator
) -> tuple[int, int, int] | None:
    """Opponent and prompt with the largest score, at random among ties, and the number of ties.

    The score of a cell is the opponent's appeal, plus what either model needs on the prompt,
    minus the cost of repeating it; a category of free prompts is no repetition. Opponents are examined in descending order of an upper bound, so
    that most cells of a large arena are never computed.
    """
    cells, least = field.standing.cells, field.standing.meetings.least
    bound = appeal + cells.best[anchor] + cells.best[opponents]
    if not field.standing.policy.free_prompts:
        bound -= REPEAT_WEIGHT * least[anchor, opponents]
    # Equal bounds are in random order, so that all ties have a chance even if the search stops early.
    order = np.lexsort((rng.random(len(bound)), -bound))
    most = max(_BLOCK_CELLS // len(field.standing.prompts), 1)
    best, equals, first, abreast = -np.inf, 0, 0, 1
    held: list[tuple[Ints, Ints]] = []
    while first < len(order):
        block = order[first : first + abreast]
        first, abreast = first + abreast, min(2 * abreast, most)
        if bound[block[0]] < best - _SCORE_TOLERANCE or (
            equals >= _TIED_CELL_LIMIT and bound[block[0]] <= best + _SCORE_TOLERANCE
        ):
            break
        scores = _scores(field, anchor, opponents[block], appeal[block])
        top = scores.max()
        if top == -np.inf or top < best:
            continue
        if top > best:
            best, equals, held = top, 0, []
        rows, prompts = (scores == top).nonzero()
        held.append((opponents[block[rows]], prompts))
        equals += len(prompts)
    if not held:
        return None
    nth = int(rng.random() * equals)
    against, on = (np.concatenate(columns) for columns in zip(*held, strict=True))
    return int(against[nth]), int(on[nth]), equals


def _scores(field: EligiblePairs, anchor: int, opponents: Ints, appeal: Floats) -> npt.NDArray[np.float32]:
    """Scores of every prompt with each of these opponents; −∞ if they may not meet."""
    meetings = field.standing.meetings
    scores = field.need[opponents]
    scores += field.need[anchor]
    scores += appeal.astype(np.float32)[:, None]
    if field.standing.policy.free_prompts:
        return scores
    for row, opponent in enumerate(opponents.tolist()):
        met = meetings.cells(anchor, opponent)
        if met is None and not meetings.reserved:
            continue
        dense_attempts = None if met is None else met.dense_attempts(scores.shape[1])
        if dense_attempts is not None:
            scores[row] -= np.float32(REPEAT_WEIGHT) * dense_attempts
        elif met is not None and len(met):
            prompts, attempts = met.attempts()
            scores[row, prompts] -= REPEAT_WEIGHT * attempts
        withheld = field.withheld(anchor, opponent)
        if withheld:
            scores[row, withheld] = -np.inf
    return scores


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
