"""Boards of a log, as the rater makes them, without some of its votes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from tiltyard.arena.log.event_log import HUMAN
from tiltyard.arena.log.log_columns import LogColumns
from tiltyard.arena.log.rosters import Roster
from tiltyard.arena.rating.log_replay import FoldProgress
from tiltyard.core.board.arena_board import ArenaBoard, make_arena_board
from tiltyard.core.board.cross_check import BatchHistory


def board_of_log(
    progress: FoldProgress,
    columns: LogColumns,
    dropped: Sequence[Collection[int]],
    roster: Callable[[], Roster],
) -> ArenaBoard:
    """The people's board after these events, without the votes that are dropped, by source."""
    for _ in progress.fold(columns, dropped, roster):
        pass
    fold = progress.followings[HUMAN]
    fold.rank()
    batch = BatchHistory().ratings(fold.standing, fold.history)
    return make_arena_board(fold.standing, fold.history, legacy_elo=fold.rater.elo, batch=batch)


def rank_among(board: ArenaBoard, models: Collection[str]) -> dict[str, int]:
    """Ranks of some models among each other."""
    ranked = [row.model for row in board.rows if row.rank is not None and row.model in models]
    return {model: place for place, model in enumerate(ranked, 1)}


def out_of_range(ranks: Mapping[str, int], reference: ArenaBoard, models: Collection[str]) -> int:
    """How many of these models have a rank outside their range on another board; without a range, that is the rank there."""
    wrong = 0
    for row in reference.rows:
        if row.rank is not None and row.model in models and row.model in ranks:
            low = row.rank if row.rank_low is None else row.rank_low
            high = row.rank if row.rank_high is None else row.rank_high
            wrong += not min(low, high) <= ranks[row.model] <= max(low, high)
    return wrong
