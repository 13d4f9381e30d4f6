"""The coverage lane: equal opportunity. The model that lacks most meets whom it lacks, where it lacks."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tiltyard.core.policy.matchmaking.choice import DrawnPair
from tiltyard.core.policy.matchmaking.eligible_pairs import EligiblePairs, draw_largest
from tiltyard.core.policy.matchmaking.prompt_choice import REPEAT_WEIGHT
from tiltyard.core.policy.state.standing import Standing

__all__ = ["anchor_score", "draw_coverage", "missing_opponents", "missing_prompts", "pair_novelty"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

#: An opponent that lags behind its due weighs this much more than any one cell.
LAG_WEIGHT = 2.0
#: Cells scored at a time: what stays in the cache.
_BLOCK_CELLS = 1 << 15
#: So many equal cells are enough to draw from.
_TIED_CELL_LIMIT = 1 << 14


def missing_prompts(standing: Standing) -> Floats:
    """Share of a model's eligible prompts in deficit, by everybody's floor. All of them: 1. None: 0.

    By the band's own, higher floor its models would always lack most: this lane would use up
    their exposures, and the contender lane would find them at their bound.
    """
    cells = standing.cells
    lacking = cells.n_eligible - cells.n_filled - cells.n_exhausted
    return np.asarray(lacking / np.maximum(cells.n_eligible, 1))


def missing_opponents(standing: Standing) -> Floats:
    """Share of a model's opponents with too few decisive votes between them. All of them: 1."""
    return standing.thin / max(standing.n_enabled - 1, 1)


def anchor_score(field: EligiblePairs) -> Floats:
    """What each model lacks: prompts, opponents, exposure.

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
    """Anchor, then opponent and prompt together, each by its largest score; none if nobody may meet."""
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
    """Opponent and prompt of largest score, at random among equals, and how many are equal.

    The score of a cell is the opponent's appeal, plus what either model needs on the prompt,
    less the cost of repeating it. Opponents are looked at from the highest bound downwards, so
    that most of the cells of a large arena are never touched.
    """
    cells, least = field.standing.cells, field.standing.meetings.least
    bound = appeal + cells.best[anchor] + cells.best[opponents]
    bound -= REPEAT_WEIGHT * least[anchor, opponents]
    # Equal bounds in random order: where there are more equals than enough, each has its chance.
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


#: Needs are kept in single precision: a bound may fall short of a score by this much.
_SCORE_TOLERANCE = 1e-6


def _scores(field: EligiblePairs, anchor: int, opponents: Ints, appeal: Floats) -> npt.NDArray[np.float32]:
    """Scores of every prompt with each of these opponents; −∞ where they may not meet."""
    meetings = field.standing.meetings
    scores = field.need[opponents]
    scores += field.need[anchor]
    scores += appeal.astype(np.float32)[:, None]
    for row, opponent in enumerate(opponents.tolist()):
        met = meetings.cells(anchor, opponent)
        if met is None:
            continue
        dense_attempts = met.dense_attempts(scores.shape[1])
        if dense_attempts is not None:
            scores[row] -= np.float32(REPEAT_WEIGHT) * dense_attempts
        elif len(met):
            prompts, attempts = met.attempts()
            scores[row, prompts] -= REPEAT_WEIGHT * attempts
        withheld = field.withheld(anchor, opponent, met)
        if withheld:
            scores[row, withheld] = -np.inf
    return scores
