"""The typed board of a snapshot, parsed once and cached."""

from __future__ import annotations

from functools import lru_cache

from tiltyard.arena.boards.snapshots import Snapshot
from tiltyard.core.board.document import BoardDocument
from tiltyard.errors import InputError, StoreFault

#: Parsed boards that a process caches, the most recently used ones.
_CACHED_BOARD_LIMIT = 32


def board_of(snapshot: Snapshot) -> BoardDocument:
    """The board that a snapshot published."""
    return parsed_board(snapshot.document)


@lru_cache(maxsize=_CACHED_BOARD_LIMIT)
def parsed_board(written: str) -> BoardDocument:
    """The board of a stored document; `StoreFault` if this version cannot read it."""
    try:
        return BoardDocument.from_json(written)
    except InputError as error:
        raise StoreFault(f"a stored board cannot be read: {error}; run tiltyard arena doctor") from None
