"""The lanes: how each draws a pair.

- *Coverage*: serves the model with the largest deficit, against the opponent and on the prompt it lacks most. It also
  serves the models whose exposures are below their guarded tolerance, before any lane is drawn. The upper bound is part
  of `EligiblePairs`: a model that has had its share is not eligible. Serving models that are behind would not be
  sufficient on its own.
- *Contender*: close rivals at the top meet often, so that their order is settled.
- *Uncertainty*: uncertain models in close matches, which are the most informative.
- *Exploration*: independent of the policy's estimates. Its choices have known, positive probabilities: a board from this
  lane alone validates the others.
- *Version 1*, in phase 1 of a rollout: a random prompt, then models weighted by how rarely they have been shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tiltyard.core.policy.matchmaking.eligible_pairs import (
    REPEAT_WEIGHT,
    DrawnPair,
    EligiblePairs,
    draw_largest,
    draw_least_met_prompt,
    draw_most_needed_prompt,
    draw_pair,
    draw_under_covered_prompt,
    pair_chance,
)
from tiltyard.core.policy.state.standing import Standing
from tiltyard.foundation.arrays import Floats, Ints

#: The weight of an opponent's exposure lag, larger than that of any one cell.
LAG_WEIGHT = 2.0
#: The number of cells scored at a time, chosen to fit in the cache.
_BLOCK_CELLS = 1 << 15
#: The opponents that are scored first; then twice as many each time.
_FIRST_OPPONENT_COUNT = 8
#: The number of equally good cells that is sufficient to draw from.
_TIED_CELL_LIMIT = 1 << 14
#: Needs are in single precision: a bound may be smaller than a score by this much.
_SCORE_TOLERANCE = 1e-6
#: The share of the contender lane's draws for adjacent pairs short of their floor, if there are any.
SHORT_PAIR_PROBABILITY = 0.5
#: The shares of the other draws: nearest neighbour, nearest rating, challenger.
OPPONENT_BUCKET_SHARES = (0.7, 0.2, 0.1)
#: The draws of a random lane for one request: they share what does not depend on chance. ``None`` for a draw without a
#: pair.
Draws: TypeAlias = Iterator[DrawnPair | None]
#: What a pair that has never met adds to an opponent's score.
NOVELTY_WEIGHT = 0.25


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


def anchor_score(field: EligiblePairs, lag: Floats) -> Floats:
    """A model's deficit: prompts, opponents, exposure.

    ======================================  ========  ==========  =====  ====
    model                                   prompts   opponents   lag    sum
    ======================================  ========  ==========  =====  ====
    a newcomer that was never served        1         1           1      3
    half of its cells filled, on its due    0.5       0           0      0.5
    nothing missing, a tenth above its due  0         0           −0.1   −0.1
    ======================================  ========  ==========  =====  ====
    """
    return missing_prompts(field.standing) + missing_opponents(field.standing) + lag


def pair_novelty(standing: Standing, model: int) -> Floats:
    """How new each opponent is to this model: 1 below the pair's floor, then 1/(1 + attempts)."""
    meetings = standing.meetings
    news = 1.0 / (1.0 + meetings.attempts[model])
    return np.where(meetings.decisive[model] < standing.policy.pair_floor, 1.0, news)


def draw_coverage(
    field: EligiblePairs, rng: np.random.Generator, *, anchor: int | None = None
) -> DrawnPair | None:
    """Anchor, then opponent and prompt together, each with the largest score; ``None`` if no pair is eligible."""
    lag = field.lag()
    if anchor is not None:
        return _matched(field, lag, anchor, rng, 1.0, "under-exposed")
    score = np.where(field.free, anchor_score(field, lag), -np.inf)
    while True:
        chosen, equals = draw_largest(score, rng)
        if score[chosen] == -np.inf:
            return None
        draw = _matched(field, lag, chosen, rng, 1.0 / equals, "covers most")
        if draw is not None:
            return draw
        score[chosen] = -np.inf


def _matched(
    field: EligiblePairs, lag: Floats, anchor: int, rng: np.random.Generator, chance: float, reason: str
) -> DrawnPair | None:
    """The opponent and prompt that reduce the two models' deficits most."""
    opponents = field.opponents(anchor).nonzero()[0]
    if not len(opponents):
        return None
    appeal = (pair_novelty(field.standing, anchor) + LAG_WEIGHT * lag)[opponents]
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
    weight = 0.0 if field.standing.policy.free_prompts else REPEAT_WEIGHT
    fewest = (weight * least[anchor][opponents]).astype(np.float32)
    bound -= fewest
    # Equal bounds are in random order, so that all ties have a chance even if the search stops early.
    order = np.lexsort((rng.random(len(bound)), -bound))
    most = max(_BLOCK_CELLS // len(field.standing.prompts), 1)
    best, equals, first, abreast = -np.inf, 0, 0, min(_FIRST_OPPONENT_COUNT, most)
    held: list[tuple[int, int, Ints]] = []
    while first < len(order):
        start, block = first, order[first : first + abreast]
        first, abreast = first + abreast, min(2 * abreast, most)
        if bound[block[0]] < best - _SCORE_TOLERANCE or (
            equals >= _TIED_CELL_LIMIT and bound[block[0]] <= best + _SCORE_TOLERANCE
        ):
            break
        needs = field.need[opponents[block]]
        needs += field.need[anchor]
        extra = appeal[block].astype(np.float32)
        # What follows only lowers scores: most opponents cannot reach the best one any more.
        reach = np.maximum.reduce(needs, axis=1) + extra - fewest[block]
        for row in np.argsort(-reach).tolist():
            if reach[row] < best or reach[row] == -np.inf:
                break
            scores, opponent = needs[row] + extra[row], int(opponents[block[row]])
            top = _lower_scores(field, anchor, opponent, scores, best)
            if top == -np.inf or top < best:
                continue
            if top > best:
                best, equals, held = top, 0, []
            prompts = (scores == top).nonzero()[0]
            held.append((start + row, opponent, prompts))
            equals += len(prompts)
    nth = int(rng.random() * equals) if held else 0
    # In the random order of equals, which is the same on every machine.
    for _, opponent, prompts in sorted(held, key=lambda one: one[0]):
        if nth < len(prompts):
            return opponent, int(prompts[nth]), equals
        nth -= len(prompts)
    return None


def _lower_scores(
    field: EligiblePairs, anchor: int, opponent: int, scores: npt.NDArray[np.float32], best: float
) -> float:
    """Subtract the cost of repeating each prompt with this opponent; return the largest score.

    If it reaches the best one, prompts on which they may not meet have −∞.
    """
    standing = field.standing
    met = None if standing.policy.free_prompts else standing.meetings.cells(anchor, opponent)
    dense_attempts = None if met is None else met.dense_attempts(len(scores))
    if dense_attempts is not None:
        scores -= np.float32(REPEAT_WEIGHT) * dense_attempts
    elif met is not None and len(met):
        prompts, attempts = met.attempts()
        scores[prompts] -= REPEAT_WEIGHT * attempts
    top = float(np.maximum.reduce(scores))
    if top >= best and (withheld := field.withheld(anchor, opponent)):
        scores[withheld] = -np.inf
        top = float(scores.max())
    return top


def starved_models(field: EligiblePairs) -> list[int]:
    """Models below their guarded tolerance, worst first."""
    if not field.standing.window.active():
        return []
    below = field.due.starved(field.exposures)
    found = ((below > 0.0) & field.free).nonzero()[0]
    return found[np.argsort(-below[found], kind="stable")].tolist() if len(found) else []


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


def contender_draws(field: EligiblePairs, rng: np.random.Generator) -> Draws:
    """A pair short of its floor, or an anchor of the band and a rival; on the prompt on which it met least."""
    # Adjacent eligible pairs of the top with the largest floor deficit.
    standing = field.standing
    top = standing.order[: max(standing.policy.contenders, standing.policy.published_top)]
    deficit = floor_deficit(standing, top[:-1], top[1:]).tolist()
    pairs = [
        (missing, (above, below))
        for missing, above, below in zip(deficit, top[:-1].tolist(), top[1:].tolist(), strict=True)
        if missing > 0.0 and field.meets(above, below)
    ]
    largest = max((missing for missing, _ in pairs), default=0.0)
    short, anchors = [pair for missing, pair in pairs if missing == largest], contender_anchors(field)

    @cache
    def opponents(model: int) -> Floats:
        return contender_opponents(field, model)

    while True:
        if short and rng.random() < SHORT_PAIR_PROBABILITY:
            pair: tuple[int, int] | None = short[int(rng.random() * len(short))]
            reason = "adjacent pair short of its floor"
        else:
            pair = draw_pair(anchors, opponents, rng)
            reason = "rivals at the top"
        on = None if pair is None else draw_least_met_prompt(field, *pair, rng)
        if pair is None or on is None:
            yield None
            continue
        chance = pair_chance(anchors, opponents, *pair)
        if short:
            floor_chance = (pair in short or pair[::-1] in short) / len(short)
            chance = SHORT_PAIR_PROBABILITY * floor_chance + (1.0 - SHORT_PAIR_PROBABILITY) * chance
        yield DrawnPair(*pair, on[0], reason, chance / on[1])


def floor_deficit(standing: Standing, above: Ints, below: Ints) -> Floats:
    """How far these adjacent pairs are from their floor, 0 to 2: the missing votes plus the missing prompts.

    A pair that has used all its attempts has no deficit: it is indistinguishable so far.

    ==================================  =====
    never met                           2
    6 votes of 12 on 3 prompts of 6     1
    12 votes on 4 prompts               1/3
    12 votes on 6 prompts               0
    36 attempts, 5 of them decisive     0
    ==================================  =====
    """
    policy, meetings = standing.policy, standing.meetings
    shared = standing.cells.shared[above, below]
    # Of free prompts there is always one more.
    most = policy.adjacent_prompts * (shared > 0) if policy.free_prompts else shared
    prompts = np.minimum(policy.adjacent_prompts, most)
    for few in (prompts < policy.adjacent_prompts).nonzero()[0].tolist():
        prompts[few] = standing.prompts_needed(int(above[few]), int(below[few]))
    votes_missing = policy.adjacent_votes - meetings.decisive[above, below]
    prompts_missing = prompts - standing.prompt_meetings.prompts[above, below]
    deficit = np.maximum(votes_missing, 0) / policy.adjacent_votes
    deficit += np.maximum(prompts_missing, 0) / policy.adjacent_prompts
    return np.where(meetings.attempts[above, below] >= policy.adjacent_attempts, 0.0, deficit)


def contender_anchors(field: EligiblePairs) -> Floats:
    """Half uniform over the band, half by the probability of being on the wrong side of a neighbour."""
    standing = field.standing
    band = standing.in_band & field.free
    weights = np.zeros(len(standing.models))
    if not band.any():
        return weights
    weights[band] = 0.5 / band.sum()
    misorder = np.where(band, standing.strengths.misorder, 0.0)
    if misorder.sum() > 0.0:
        weights += 0.5 * misorder / misorder.sum()
    return weights


def contender_opponents(field: EligiblePairs, anchor: int) -> Floats:
    """70 % a neighbour in rank, 20 % the contender of nearest rating, 10 % a challenger from below.

    The share of an empty bucket goes to the next one; that of the last, to those that are not empty.
    """
    standing, weights = field.standing, np.zeros(len(field.standing.models))
    allowed = field.opponents(anchor)
    left = 0.0
    size = standing.policy.contenders
    order: list[int] = standing.order[: size + standing.policy.challengers].tolist()
    place = order.index(anchor)
    around = order[max(place - 1, 0) : place + 2]
    neighbours = [model for model in around if allowed[model]]
    others = [model for model in order[:size] if allowed[model] and model not in around]
    rating = standing.strengths.rating
    gaps = [abs(rating[model] - rating[anchor]) for model in others]
    nearest = [model for model, gap in zip(others, gaps, strict=True) if gap == min(gaps)]
    challengers = [model for model in order[size:] if allowed[model] and model not in around]
    for share, bucket in zip(OPPONENT_BUCKET_SHARES, (neighbours, nearest, challengers), strict=True):
        if bucket:
            weights[bucket] += (share + left) / len(bucket)
            left = 0.0
        else:
            left += share
    return weights


def uncertainty_draws(field: EligiblePairs, rng: np.random.Generator) -> Draws:
    """An anchor by uncertainty, the most informative opponent, the prompt that both need most."""
    anchors = uncertain_anchors(field)

    @cache
    def opponents(model: int) -> Floats:
        return informative_opponents(field, model)

    while True:
        pair = draw_pair(anchors, opponents, rng)
        on = None if pair is None else draw_most_needed_prompt(field, *pair, rng)
        if pair is None or on is None:
            yield None
        else:
            chance = pair_chance(anchors, opponents, *pair)
            yield DrawnPair(*pair, on[0], "most to learn", chance / on[1])


def uncertain_anchors(field: EligiblePairs) -> Floats:
    """Standard error of online Bradley–Terry or, if the policy says so, RD; up to doubled for prompts not covered.

    Glicko-2's RDs become nearly equal over time, so they could not distinguish models.
    """
    standing = field.standing
    covered = standing.cells.n_filled / np.maximum(standing.cells.n_eligible, 1)
    uncertainty = standing.strengths.rd if standing.policy.uncertainty == "rd" else standing.strengths.se
    return np.asarray(np.where(field.free, uncertainty * (2.0 - covered), 0.0))


def informative_opponents(field: EligiblePairs, anchor: int) -> Floats:
    """Uniform over the opponents with the largest sum of closeness and novelty, 0 for all others."""
    standing = field.standing
    score = np.where(
        field.opponents(anchor), closeness(standing, anchor) + novelty(standing, anchor), -np.inf
    )
    largest = score.max()
    return (score == largest).astype(np.float64) if largest > -np.inf else np.zeros(len(score))


def closeness(standing: Standing, model: int) -> Floats:
    """4p(1 − p) for each opponent: 1 for an even match, 0.36 at 9 to 1, near 0 for a certain result."""
    p = standing.strengths.expected(model)
    return np.asarray(4.0 * p * (1.0 - p))


def novelty(standing: Standing, model: int) -> Floats:
    """0.25/(1 + attempts): a small bonus for pairs that have met rarely."""
    return np.asarray(NOVELTY_WEIGHT / (1.0 + standing.meetings.attempts[model]))


def exploration_draws(field: EligiblePairs, rng: np.random.Generator) -> Draws:
    """Two models by scarcity, and a random prompt among those in deficit for either, else among all."""
    weights = scarcity(field)

    @cache
    def opponents(model: int) -> Floats:
        return np.where(field.opponents(model), weights, 0.0)

    while True:
        pair = draw_pair(weights, opponents, rng)
        on = None if pair is None else draw_under_covered_prompt(field, *pair, rng)
        if pair is None or on is None:
            yield None
        else:
            yield DrawnPair(*pair, on[0], "chance", pair_chance(weights, opponents, *pair) / on[1])


def scarcity(field: EligiblePairs) -> Floats:
    """1/(1 + exposures in the window). With lifetime counts a new model would get nearly all matchups."""
    return np.where(field.free, 1.0 / (1.0 + field.exposures), 0.0)


def v1_draws(field: EligiblePairs, rng: np.random.Generator) -> Draws:
    """A uniform prompt, and two models that answered it, weighted by 1/(1 + times shown)."""
    prompts = (field.standing.cells.n_playing >= 2).nonzero()[0]
    while len(prompts):
        yield _draw_v1(field, prompts, rng)


def _draw_v1(field: EligiblePairs, prompts: Ints, rng: np.random.Generator) -> DrawnPair | None:
    prompt = int(prompts[int(rng.random() * len(prompts))])
    servable = field.free & (field.need[:, prompt] > 0.0)
    weights = np.where(servable, 1.0 / (1.0 + field.standing.shown[:, 0]), 0.0)

    @cache
    def opponents(model: int) -> Floats:
        return np.where(field.opponents(model), weights, 0.0)

    pair = draw_pair(weights, opponents, rng)
    if pair is None or not field.prompts(*pair)[prompt]:
        return None
    return DrawnPair(*pair, prompt, "v1", pair_chance(weights, opponents, *pair) / len(prompts))
