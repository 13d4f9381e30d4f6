"""The board of the exploration lane alone, beside the official one.

The other lanes choose by ratings or by what is missing, so that their votes are no random sample of
pairs; reweighting cannot mend it, because most pairs had no chance of being chosen at all. The
exploration lane looks at exposures only. Its board is noisier, and free of that.
"""

from __future__ import annotations

import numpy as np

from tiltyard.core.policy.state.events import Event, Events
from tiltyard.core.policy.state.policy import Lane
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.policy.state.vote_log import VoteLog
from tiltyard.core.policy.validity.report.report_records import (
    ExplorationBoard,
    ExplorationPlace,
    ReversedPair,
)
from tiltyard.core.policy.validity.rules import float_or_none
from tiltyard.core.ratings.bradley_terry import BradleyTerry
from tiltyard.core.ratings.ranks import Ranks, rank_models
from tiltyard.core.ratings.result import Ratings
from tiltyard.errors import BadOption

__all__ = ["exploration_board", "votes_of_lane"]


def votes_of_lane(events: Events, lane: Lane) -> Events:
    """Votes on matchups that this lane chose. The log must begin with the first matchup."""
    served = events[events.event == Event.SERVED]
    rows = np.flatnonzero(events.event == Event.VOTE)
    votes = events[rows]
    by_serial = np.argsort(served.serial, kind="stable")
    place = np.searchsorted(served.serial[by_serial], votes.serial)
    known = place < len(served)
    ended = served[by_serial[np.where(known, place, 0)]] if len(served) else votes
    known &= ended.serial == votes.serial
    same = known & (votes.a == ended.a) & (votes.b == ended.b) & (votes.prompt == ended.prompt)
    if not same.all():
        wrong = int(np.flatnonzero(~same)[0])
        raise BadOption(
            f"the vote in row {rows[wrong]} of the log ends matchup {votes.serial[wrong]}, which was not "
            "served with these models, sides and prompt; give votes the serial of their matchup"
        )
    return votes[ended.lane == lane]


def exploration_board(standing: Standing, votes: VoteLog, method: BradleyTerry) -> ExplorationBoard:
    """Rate the lane's votes and lay the order of enabled models beside the official one."""
    official = standing.order.tolist()
    if not len(votes):
        unplaced = tuple(standing.models[model] for model in official)
        return ExplorationBoard(0, 0, method.level, (), unplaced, 0, 0, ())
    ratings, code_of = _rated(standing, votes, method)
    mine = [k for k in ratings.order().tolist() if ratings.group[k] == 0]
    place_of = {code_of[k]: k for k in mine}
    placed = [model for model in official if model in place_of]
    order = [code_of[k] for k in mine if standing.enabled[code_of[k]]]
    ranks = rank_models(ratings, level=method.level) if len(placed) > 1 else None
    same, reversed_ = _compared(standing.models, placed, place_of, ratings, ranks)
    return ExplorationBoard(
        len(votes),
        len(np.unique(votes.columns()["prompt"])),
        method.level,
        tuple(
            _placed(place, 1 + official.index(model), standing.models[model], ratings, place_of[model])
            for place, model in enumerate(order, start=1)
        ),
        tuple(standing.models[model] for model in official if model not in place_of),
        len(placed) * (len(placed) - 1) // 2,
        same,
        reversed_,
    )


def _rated(standing: Standing, votes: VoteLog, method: BradleyTerry) -> tuple[Ratings, list[int]]:
    """Ratings of the models that have a vote, and the code of each."""
    models, columns = standing.models, votes.columns()
    code_of = sorted({*columns["a"].tolist(), *columns["b"].tolist()}, key=lambda code: models[code])
    place = np.zeros(len(models), dtype=np.int64)
    place[code_of] = np.arange(len(code_of))
    log = VoteLog.of({**columns, "a": place[columns["a"]], "b": place[columns["b"]]})
    return method(log.table([models[code] for code in code_of], standing.compared_prompts)), code_of


def _placed(place: int, official: int, model: str, ratings: Ratings, k: int) -> ExplorationPlace:
    interval = ratings.interval
    low, high = (
        (None, None)
        if interval is None
        else (float_or_none(interval.low[k]), float_or_none(interval.high[k]))
    )
    return ExplorationPlace(place, official, model, float(ratings.rating[k]), low, high)


def _compared(
    models: tuple[str, ...],
    official: list[int],
    place_of: dict[int, int],
    ratings: Ratings,
    ranks: Ranks | None,
) -> tuple[int, tuple[ReversedPair, ...]]:
    """Pairs in the same order on both boards; and those the lane proves to stand the other way."""
    if ranks is None:
        return 0, ()
    at = np.array([place_of[model] for model in official])
    gap = ratings.rating[at][None, :] - ratings.rating[at][:, None]
    upper = np.triu(np.ones_like(gap, dtype=bool), 1)
    wrong = np.argwhere(ranks.above[np.ix_(at, at)].T & upper)
    worst = sorted(wrong.tolist(), key=lambda pair: -gap[pair[0], pair[1]])
    return int(np.count_nonzero((gap < 0.0) & upper)), tuple(
        ReversedPair(models[official[i]], models[official[j]], float(gap[i, j])) for i, j in worst
    )
