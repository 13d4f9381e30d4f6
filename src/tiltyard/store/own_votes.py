"""One voter's own votes, as far as their names may be told.

They may once they were shown, or so many seconds ``after`` the vote that it can neither be taken back nor
remarked upon. Before that nothing here tells of it but that it exists.
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
    #: Votes that may not be told yet.
    pending: int
    skipped: int


@dataclass(frozen=True, slots=True)
class OwnVote:
    """One vote; models and prompts by number."""

    matchup: UUID
    at: datetime
    a: int
    b: int
    prompt: int
    outcome: int


async def read_own_totals(
    connection: Connection, arena: int, source: int, session: int, *, after: float
) -> OwnTotals:
    """Votes that may be told, votes that may not be yet, and matchups that were passed over."""
    with translated("count a voter's votes"):
        values = _values(arena, source, session, after)
        row = await (await connection.execute(statement("own_votes_totals"), values)).fetchone()
    assert row is not None
    return OwnTotals(*row)


async def read_own_counts(
    connection: Connection, arena: int, source: int, session: int, *, after: float
) -> list[tuple[int, int, int, int, int]]:
    """Left model, right model, prompt, outcome, and how often: all votes that may be told."""
    with translated("count a voter's votes"):
        values = _values(arena, source, session, after)
        return await (await connection.execute(statement("own_votes_counts"), values)).fetchall()


async def read_own_recent(
    connection: Connection, arena: int, source: int, session: int, *, after: float, limit: int = 50
) -> list[OwnVote]:
    """The last of them, newest first."""
    with translated("read a voter's votes"):
        values = _values(arena, source, session, after) | {"limit": limit}
        rows = await (await connection.execute(statement("own_votes_recent"), values)).fetchall()
    return [OwnVote(*row) for row in rows]


def _values(arena: int, source: int, session: int, after: float) -> dict[str, object]:
    return {"arena": arena, "source": source, "session": session, "after": after}
