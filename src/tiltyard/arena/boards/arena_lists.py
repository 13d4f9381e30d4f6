"""Lists of arenas, a page at a time, with what their newest boards say. No board is read for them."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass

from tiltyard.arena.boards.snapshots import parsed_board
from tiltyard.arena.content.arenas import Arena
from tiltyard.arena.log.buckets import fetch_rows
from tiltyard.core.board.board_summary import BoardSummary
from tiltyard.postgres.connections import Database
from tiltyard.settings.arena_settings import ArenaSettings

#: Words that are searched for; further ones are ignored.
_SEARCHED_WORD_LIMIT = 10


@dataclass(frozen=True, slots=True)
class ListReader:
    """Which arenas are listed for somebody besides those that everybody may read; each must still be checked."""

    everything: bool = False
    names: Sequence[str] = ()
    arenas: Sequence[int] = ()
    signed_in: bool = False


@dataclass(frozen=True, slots=True)
class ListedArena:
    """An arena, and what its newest board says; ``None`` before there is any."""

    arena: Arena
    summary: BoardSummary | None


async def list_arena_page(
    database: Database,
    reader: ListReader,
    *,
    after: str = "",
    search: str = "",
    limit: int,
    archived: bool = True,
) -> list[ListedArena]:
    """Arenas by name, after a name; with ``search``, those whose names or titles have words that begin so.

    ``archived``: also those in which nobody votes any more, or not yet.
    """
    words = " & ".join(f"{word}:*" for word in re.findall(r"[^\W_]+", search)[:_SEARCHED_WORD_LIMIT])
    values: dict[str, object] = {"after": after, "words": words or None, "limit": limit, "archived": archived}
    values["known"] = reader != ListReader()
    values |= {name: list(one) if isinstance(one, tuple) else one for name, one in asdict(reader).items()}
    rows = await fetch_rows(database, "arena_lists_page", values)
    return [
        ListedArena(
            Arena(number, name, title, ArenaSettings.kept(settings), created_at), _summary(summary, document)
        )
        for number, name, title, settings, created_at, summary, document in rows
    ]


@dataclass(frozen=True, slots=True)
class BoardState:
    """What pages of an arena's newest boards are made of."""

    arena: int
    name: str
    #: Whether everybody may read them.
    public: bool
    #: How often votes were excluded or restored.
    generation: int
    #: A hash: pages of one are the same, in one version of Tiltyard.
    version: str


async def list_public_boards(database: Database) -> list[int]:
    """The arenas that everybody may read and that have a board."""
    return [arena for (arena,) in await fetch_rows(database, "arena_lists_public", {})]


async def read_board_states(database: Database, arenas: Collection[int]) -> list[BoardState]:
    """The states of these arenas' boards; arenas that do not exist are left out."""
    rows = await fetch_rows(database, "arena_lists_states", {"arenas": sorted(arenas)})
    return [BoardState(*row) for row in rows]


def _summary(summary: dict[str, object] | None, document: str | None) -> BoardSummary | None:
    if summary is not None:
        return BoardSummary.from_dict(summary)
    return None if document is None else BoardSummary.of(parsed_board(document))
