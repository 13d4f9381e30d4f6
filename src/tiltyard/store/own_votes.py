"""One voter's own votes, as far as they are final.

A vote is final once its names were shown, once it is rated, or once the time to take it back has passed.
Before that nothing here tells of it but that it exists: who is shown its names must not be able to undo it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from tiltyard.store.arenas import Connection
from tiltyard.store.connecting import translated
from tiltyard.store.statements import statement

__all__ = ["OwnTotals", "OwnVote", "read_own_counts", "read_own_recent", "read_own_totals"]


@dataclass(frozen=True, slots=True)
class OwnTotals:
    """How many matchups of a voter ended how."""

    votes: int
    #: Votes that can still be taken back.
    pending: int
    skipped: int


@dataclass(frozen=True, slots=True)
class OwnVote:
    """One final vote; models and prompts by number."""

    matchup: UUID
    at: datetime
    a: int
    b: int
    prompt: int
    outcome: int


async def read_own_totals(
    connection: Connection, arena: int, source: int, session: int, *, undo_seconds: float
) -> OwnTotals:
    """Final votes, votes that are not final yet, and matchups that were passed over."""
    with translated("count a voter's votes"):
        values = _values(arena, source, session, undo_seconds)
        row = await (await connection.execute(statement("own_votes_totals"), values)).fetchone()
    assert row is not None
    return OwnTotals(*row)


async def read_own_counts(
    connection: Connection, arena: int, source: int, session: int, *, undo_seconds: float
) -> list[tuple[int, int, int, int, int]]:
    """Left model, right model, prompt, outcome, and how often: all final votes."""
    with translated("count a voter's votes"):
        values = _values(arena, source, session, undo_seconds)
        return await (await connection.execute(statement("own_votes_counts"), values)).fetchall()


async def read_own_recent(
    connection: Connection, arena: int, source: int, session: int, *, undo_seconds: float, limit: int = 50
) -> list[OwnVote]:
    """The last final votes, newest first."""
    with translated("read a voter's votes"):
        values = _values(arena, source, session, undo_seconds) | {"limit": limit}
        rows = await (await connection.execute(statement("own_votes_recent"), values)).fetchall()
    return [OwnVote(*row) for row in rows]


def _values(arena: int, source: int, session: int, undo_seconds: float) -> dict[str, object]:
    return {"arena": arena, "source": source, "session": session, "undo_seconds": undo_seconds}
