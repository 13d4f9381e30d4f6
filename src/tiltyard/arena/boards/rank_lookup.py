"""Look up models' ranks on a published board by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from tiltyard.arena.boards.board_cache import BoardCache
from tiltyard.arena.boards.published_boards import parsed_board
from tiltyard.core.board.arena_board import ArenaRow, ShownOrder
from tiltyard.core.board.settled_order import claims_nothing
from tiltyard.errors import NotFound


@dataclass(frozen=True, slots=True)
class ModelRank:
    """One model's ranks and score; values that the votes do not support are ``None``."""

    #: The place in the order of the board, which claims nothing; and the ranks that are not ruled out.
    rank: int | None
    rank_low: int | None
    rank_high: int | None
    #: The score by which the board is ordered.
    score: float | None
    badge: str | None
    votes: int
    #: Whether the board claims no order at all, whatever the badge says.
    unordered: bool


@lru_cache(maxsize=32)
def ranks_on_board(document: str) -> Mapping[str, ModelRank]:
    """The rank of every model on a board, from the document of its snapshot."""
    board = parsed_board(document)
    unordered = claims_nothing(board.settled)
    return {row.model: _place(row, board.order, unordered=unordered) for row in board.rows}


async def newest_ranks(boards: BoardCache, arena: int, source: int) -> Mapping[str, ModelRank] | None:
    """The rank of every model on the newest board of a source; ``None`` if there is no board yet."""
    try:
        newest = await boards.latest(arena, source)
    except NotFound:
        return None
    return ranks_on_board(newest.document)


def _place(row: ArenaRow, order: ShownOrder, *, unordered: bool) -> ModelRank:
    return ModelRank(
        rank=row.rank,
        rank_low=row.rank_low,
        rank_high=row.rank_high,
        score=row.score(order),
        badge=None if row.badge is None else row.badge.value,
        votes=row.votes,
        unordered=unordered,
    )
