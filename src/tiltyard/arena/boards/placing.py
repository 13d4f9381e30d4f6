"""Where models stand on a published board, looked up by name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from tiltyard.arena.boards.boards import Boards
from tiltyard.errors import NotFound

__all__ = ["SCORES", "Place", "newest_places", "places_on"]

#: Which number orders a board, by the board's ``order``.
SCORES = {"conservative": "conservative", "bradley-terry": "bradley_terry", "legacy-elo": "legacy_elo"}


@dataclass(frozen=True, slots=True)
class Place:
    """One model's place. What the votes do not support is ``None``."""

    rank: int | None
    #: What the board is ordered by.
    score: float | None
    badge: str | None
    votes: int


@lru_cache(maxsize=32)
def places_on(document: str) -> Mapping[str, Place]:
    """Every model's place on a board, from the document of its snapshot."""
    board = json.loads(document)
    score = SCORES[board["order"]]
    return {row["model"]: Place(row["rank"], row[score], row["badge"], row["votes"]) for row in board["rows"]}


async def newest_places(boards: Boards, arena: int, source: int) -> Mapping[str, Place] | None:
    """Every model's place on the newest board of a source; none before there is a board."""
    try:
        newest = await boards.latest(arena, source)
    except NotFound:
        return None
    return places_on(newest.document)
