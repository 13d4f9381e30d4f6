"""Where models stand on a published board, looked up by name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from tiltyard.arena.boards.board_cache import BoardCache
from tiltyard.errors import NotFound

__all__ = ["SCORE_FIELDS", "ModelRank", "newest_ranks", "ranks_on_board"]

#: Which number orders a board, by the board's ``order``.
SCORE_FIELDS = {"conservative": "conservative", "bradley-terry": "bradley_terry", "legacy-elo": "legacy_elo"}


@dataclass(frozen=True, slots=True)
class ModelRank:
    """One model's place. What the votes do not support is ``None``."""

    rank: int | None
    #: What the board is ordered by.
    score: float | None
    badge: str | None
    votes: int


@lru_cache(maxsize=32)
def ranks_on_board(document: str) -> Mapping[str, ModelRank]:
    """Every model's place on a board, from the document of its snapshot."""
    board = json.loads(document)
    score = SCORE_FIELDS[board["order"]]
    return {
        row["model"]: ModelRank(row["rank"], row[score], row["badge"], row["votes"]) for row in board["rows"]
    }


async def newest_ranks(boards: BoardCache, arena: int, source: int) -> Mapping[str, ModelRank] | None:
    """Every model's place on the newest board of a source; none before there is a board."""
    try:
        newest = await boards.latest(arena, source)
    except NotFound:
        return None
    return ranks_on_board(newest.document)
