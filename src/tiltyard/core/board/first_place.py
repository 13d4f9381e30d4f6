"""How many votes would change first place: those of one direction, between the first two models of a board.

Each vote is one more win of the second model over the first, counted by what orders the board. Who wants
to change the order needs about so many votes that count.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tiltyard.core.board.arena_board import ArenaBoard, FirstPlaceMargin
from tiltyard.core.board.cross_check import votes_table
from tiltyard.core.policy.state.rating_fold import Rater
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.ratings import BradleyTerry, newton
from tiltyard.core.ratings.groups import comparable_groups
from tiltyard.core.ratings.pairs import PairScores, score_pairs

__all__ = ["FIRST_PLACE_VOTE_LIMIT", "with_first_place"]

#: More votes than this are not counted one by one.
FIRST_PLACE_VOTE_LIMIT = 1000


def with_first_place(board: ArenaBoard, standing: Standing, rater: Rater, method: BradleyTerry) -> ArenaBoard:
    """The board with the number of votes that would change its first place, where it has two ranked models."""
    first_two = [row.model for row in board.rows if row.rank in (1, 2)]
    if len(first_two) < 2:
        return board
    first, second = first_two
    ahead, behind = standing.models.index(first), standing.models.index(second)
    if board.order == "bradley-terry":
        votes = _by_bradley_terry(standing, method, ahead, behind)
    else:
        votes = rater.votes_to_pass(
            behind, ahead, elo=board.order == "legacy-elo", limit=FIRST_PLACE_VOTE_LIMIT
        )
    return replace(board, first_place=FirstPlaceMargin(first, second, votes, FIRST_PLACE_VOTE_LIMIT))


def _by_bradley_terry(standing: Standing, method: BradleyTerry, ahead: int, behind: int) -> int | None:
    """The fewest votes after which a fit of all votes at once puts the second model first, by bisection."""
    table = method.limited(votes_table(standing)).table
    names = table.models
    pairs = score_pairs(table.counts, len(names), method.scoring())
    members = np.flatnonzero(comparable_groups(pairs, prior=False) == 0)
    first, second = (
        int(np.searchsorted(members, names.index(standing.models[model]))) for model in (ahead, behind)
    )
    among = pairs.among(members)

    def passes(votes: int) -> bool:
        theta = newton.fit_pairs(_with_wins(among, second, first, votes), bread=False).theta
        return bool(theta[second] > theta[first])

    high = 1
    while not passes(high):
        if high == FIRST_PLACE_VOTE_LIMIT:
            return None
        high = min(2 * high, FIRST_PLACE_VOTE_LIMIT)
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if passes(middle) else (middle, high)
    return high


def _with_wins(pairs: PairScores, winner: int, loser: int, votes: int) -> PairScores:
    """The same with more wins of one model over another."""
    i, j = min(winner, loser), max(winner, loser)
    won = float(votes) if winner == i else 0.0
    found = np.flatnonzero((pairs.i == i) & (pairs.j == j))
    if not len(found):
        pairs = _with_pair(pairs, i, j)
        found = np.flatnonzero((pairs.i == i) & (pairs.j == j))
    weight, score = pairs.weight.copy(), pairs.score.copy()
    weight[found] += votes
    score[found] += won
    return replace(pairs, weight=weight, score=score)


def _with_pair(pairs: PairScores, i: int, j: int) -> PairScores:
    """The same with a pair that has not met, in its place."""
    at = int(np.searchsorted(pairs.i * pairs.n_models + pairs.j, i * pairs.n_models + j))

    return PairScores(
        pairs.n_models,
        np.insert(pairs.i, at, i),
        np.insert(pairs.j, at, j),
        *(np.insert(values, at, 0.0) for values in (pairs.weight, pairs.score, pairs.tie)),
    )
