"""The contender lane: close rivals at the top meet often, so that their order becomes certain."""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from tiltyard.core.policy.matchmaking.anchored_draw import draw_pair, pair_chance
from tiltyard.core.policy.matchmaking.choice import DrawnPair
from tiltyard.core.policy.matchmaking.eligible_pairs import EligiblePairs
from tiltyard.core.policy.matchmaking.prompt_choice import draw_least_met_prompt
from tiltyard.core.policy.state.standing import Standing

__all__ = ["anchor_weights", "draw_contender", "floor_deficit", "opponent_weights"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

#: The share of the lane's draws for adjacent pairs short of their floor, if there are any.
SHORT_PAIR_PROBABILITY = 0.5
#: The shares of the other draws: nearest neighbour, nearest rating, challenger.
OPPONENT_BUCKET_SHARES = (0.7, 0.2, 0.1)


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


def anchor_weights(field: EligiblePairs) -> Floats:
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


def opponent_weights(field: EligiblePairs, anchor: int) -> Floats:
    """70 % a neighbour in rank, 20 % the contender of nearest rating, 10 % a challenger from below.

    The share of an empty bucket goes to the next one; that of the last, to those that are not empty.
    """
    standing, weights = field.standing, np.zeros(len(field.standing.models))
    allowed = field.opponents(anchor)
    left = 0.0
    for share, bucket in zip(OPPONENT_BUCKET_SHARES, _buckets(standing, anchor, allowed), strict=True):
        if bucket:
            weights[bucket] += (share + left) / len(bucket)
            left = 0.0
        else:
            left += share
    return weights


def _buckets(standing: Standing, anchor: int, allowed: Bools) -> tuple[list[int], list[int], list[int]]:
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
    return neighbours, nearest, challengers


def draw_contender(field: EligiblePairs, rng: np.random.Generator) -> DrawnPair | None:
    """A pair short of its floor, or an anchor of the band and a rival; on the prompt on which it met least."""
    short, anchors = _short_pairs(field), anchor_weights(field)

    @cache
    def opponents(model: int) -> Floats:
        return opponent_weights(field, model)

    if short and rng.random() < SHORT_PAIR_PROBABILITY:
        pair: tuple[int, int] | None = short[int(rng.random() * len(short))]
        reason = "adjacent pair short of its floor"
    else:
        pair = draw_pair(anchors, opponents, rng)
        reason = "rivals at the top"
    on = None if pair is None else draw_least_met_prompt(field, *pair, rng)
    if pair is None or on is None:
        return None
    chance = pair_chance(anchors, opponents, *pair)
    if short:
        floor_chance = (pair in short or pair[::-1] in short) / len(short)
        chance = SHORT_PAIR_PROBABILITY * floor_chance + (1.0 - SHORT_PAIR_PROBABILITY) * chance
    return DrawnPair(*pair, on[0], reason, chance / on[1])


def _short_pairs(field: EligiblePairs) -> list[tuple[int, int]]:
    """Adjacent eligible pairs of the top with the largest floor deficit."""
    standing = field.standing
    top = standing.order[: max(standing.policy.contenders, standing.policy.published_top)]
    deficit = floor_deficit(standing, top[:-1], top[1:]).tolist()
    pairs = [
        (missing, (above, below))
        for missing, above, below in zip(deficit, top[:-1].tolist(), top[1:].tolist(), strict=True)
        if missing > 0.0 and field.meets(above, below)
    ]
    largest = max((missing for missing, _ in pairs), default=0.0)
    return [pair for missing, pair in pairs if missing == largest]
