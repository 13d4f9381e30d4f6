"""Look up models' ranks on a published board by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from tiltyard.arena.boards.board_cache import BoardCache
from tiltyard.arena.boards.published_boards import parsed_board
from tiltyard.core.board.arena_board import ArenaRow, ShownOrder
from tiltyard.errors import NotFound

__all__ = ["ModelRank", "newest_ranks", "ranks_on_board"]


@dataclass(frozen=True, slots=True)
class ModelRank:
    """One model's rank and score; values that the votes do not support are ``None``."""

    rank: int | None
    #: The score by which the board is ordered.
    score: float | None
    badge: str | None
    votes: int


@lru_cache(maxsize=32)
def ranks_on_board(document: str) -> Mapping[str, ModelRank]:
    """The rank of every model on a board, from the document of its snapshot."""
    board = parsed_board(document)
    return {row.model: _place(row, board.order) for row in board.rows}


async def newest_ranks(boards: BoardCache, arena: int, source: int) -> Mapping[str, ModelRank] | None:
    """The rank of every model on the newest board of a source; ``None`` if there is no board yet."""
    try:
        newest = await boards.latest(arena, source)
    except NotFound:
        return None
    return ranks_on_board(newest.document)


def _place(row: ArenaRow, order: ShownOrder) -> ModelRank:
    badge = None if row.badge is None else row.badge.value
    return ModelRank(row.rank, row.score(order), badge, row.votes)
