"""Adaptive designs: which matches are judged next, by the verdicts so far, and whether the order is settled.

Each round is a function of the matches and battles before it, so a run can be resumed and verified. Leans and inconsistent
results count as by default, whatever the run's ratings do with them: rating again asks nothing new.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import combinations

import numpy as np

from tiltyard.core.battles import Battle, Table
from tiltyard.core.board.settled_order import ConfidenceSequence
from tiltyard.core.judging.match_design import MatchDesign, round_size
from tiltyard.core.judging.matches import Match, MatchList, stable_id
from tiltyard.core.ratings import BradleyTerry, Ratings
from tiltyard.core.ratings.variance import ZERO_VARIANCE_TOLERANCE
from tiltyard.foundation.arrays import Bools, Floats

#: Nothing is settled before so many battles.
_MIN_BATTLE_COUNT = 100
#: How much less a pair is asked the more standard errors it is apart: exp(−0.15·z²).
_NEARNESS_RATIO = 0.15

_Pair = tuple[str, str]


def settled_pairs(ratings: Ratings, models: int) -> Bools:
    """Which model (row) is settled above which (column), however often one looks, of so many models."""
    rule = ConfidenceSequence(min_votes=_MIN_BATTLE_COUNT)
    count = len(ratings.models)
    if ratings.uncertainty is None:
        return np.zeros((count, count), dtype=bool)
    level = np.full((count, count), rule.alpha / max(math.comb(models, 2), 1))
    return rule.settled(
        ratings.rating, ratings.group, ratings.uncertainty, level, int(ratings.record.battles.sum()) // 2
    )


def next_matches(
    pool: Sequence[Match], asked: Collection[Match], battles: Iterable[Battle], seed: int
) -> list[Match]:
    """The matches of one dimension that are judged next; none once every pair is settled or judged on all prompts.

    Of those whose order is open, pairs are asked in proportion to exp(−0.15·z²), z their distance in standard errors, on the
    prompts on which their models have met the fewest.
    """
    if not asked:
        return list(MatchDesign("adaptive", seed=seed).first(MatchList(pool, 0, {})).matches)
    weights = _weights(pool, battles)
    prompts = sorted({one.prompt_id for one in pool}, key=lambda name: stable_id([seed, name]))
    rank = {name: place for place, name in enumerate(prompts)}
    used: dict[str, Floats] = defaultdict(lambda: np.zeros(len(rank)))
    left: dict[_Pair, list[int]] = {}
    by_place = {(one.model_a, one.model_b, rank[one.prompt_id]): one for one in pool}
    for (model_a, model_b, place), match in by_place.items():
        if match not in asked:
            left.setdefault((model_a, model_b), []).append(place)
        else:
            used[model_a][place] += 1.0
            used[model_b][place] += 1.0
    # The pair with the highest average is next (Sainte-Laguë's divisors without fractions), as long as it has prompts.
    line = [(-weights[pair], pair, 1) for pair in sorted(weights.keys() & left.keys())]
    heapq.heapify(line)
    chosen, size = set[Match](), round_size(pool)
    while line and len(chosen) < size:
        _, pair, turn = heapq.heappop(line)
        free = np.array(left[pair])
        prompt = int(free[np.lexsort((free, used[pair[0]][free] + used[pair[1]][free]))[0]])
        left[pair].remove(prompt)
        for model in pair:
            used[model][prompt] += 1.0
        chosen.add(by_place[*pair, prompt])
        if left[pair]:
            heapq.heappush(line, (-weights[pair] / (turn + 1), pair, turn + 1))
    return [match for match in pool if match in chosen]


def _weights(pool: Sequence[Match], battles: Iterable[Battle]) -> dict[_Pair, float]:
    """How much is to be asked of the pairs whose order is open. Rounded, so that every machine has the same."""
    models = sorted({model for match in pool for model in (match.model_a, match.model_b)})
    weights = dict.fromkeys(combinations(models, 2), 1.0)
    table = Table.from_battles(battles)
    if not table.n_battles:
        return weights
    ratings = BradleyTerry()(table)
    settled = settled_pairs(ratings, len(models))
    for i, j, distance in _distances(ratings):
        pair = ratings.models[i], ratings.models[j]
        if settled[i, j] or settled[j, i]:
            del weights[pair]
        else:
            weights[pair] = round(math.exp(-_NEARNESS_RATIO * distance**2), 6)
    return weights


def _distances(ratings: Ratings) -> Iterator[tuple[int, int, float]]:
    """The pairs of comparable models, and how many standard errors they are apart."""
    if ratings.uncertainty is None:
        return
    variance = ratings.uncertainty.differences()
    for i, j in combinations(range(len(ratings.models)), 2):
        if ratings.group[i] == ratings.group[j] >= 0 and variance[i, j] > ZERO_VARIANCE_TOLERANCE:
            yield i, j, float(abs(ratings.rating[i] - ratings.rating[j]) / math.sqrt(variance[i, j]))
