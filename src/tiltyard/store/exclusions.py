"""Votes that an operator leaves out of the ratings, and may let in again. None is ever deleted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from tiltyard.errors import Conflict, NotFound
from tiltyard.store.arenas import Connection
from tiltyard.store.connecting import translated
from tiltyard.store.statements import statement

__all__ = [
    "Exclusion",
    "Selection",
    "add_exclusion",
    "list_exclusions",
    "read_sessions",
    "restore_exclusion",
]


@dataclass(frozen=True, slots=True)
class Selection:
    """Which votes: those that fit everything that is said. What is ``None`` says nothing."""

    sessions: Sequence[int] | None = None
    matchups: Sequence[UUID] | None = None
    #: Cast from then on, and before then.
    since: datetime | None = None
    until: datetime | None = None
    source: int | None = None


@dataclass(frozen=True, slots=True)
class Exclusion:
    """Votes that were excluded together: positions of the events by which they left and came back."""

    exclusion: int
    reason: str
    excluded: int
    restored: int | None
    made_at: datetime
    votes: int


async def add_exclusion(
    connection: Connection, arena: int, selection: Selection, reason: str, position: int, at: datetime
) -> tuple[int, int]:
    """Exclude what fits: the exclusion's number and how many votes. The caller adds the event."""
    about = {"arena": arena, "reason": reason, "position": position, "at": at}
    made = await (await connection.execute(statement("exclusions_add"), about)).fetchone()
    assert made is not None
    values = {
        "exclusion": made[0],
        "arena": arena,
        "source": selection.source,
        "sessions": None if selection.sessions is None else list(selection.sessions),
        "matchups": None if selection.matchups is None else list(selection.matchups),
        "first": await _position(connection, arena, selection.since),
        "end": await _position(connection, arena, selection.until),
    }
    chosen = await (await connection.execute(statement("exclusions_choose"), values)).fetchone()
    assert chosen is not None
    return int(made[0]), int(chosen[0])


async def list_exclusions(connection: Connection, arena: int) -> list[Exclusion]:
    """Every exclusion, newest first."""
    with translated("list the exclusions"):
        found = await connection.execute(statement("exclusions_list"), {"arena": arena})
        return [Exclusion(*row) for row in await found.fetchall()]


async def restore_exclusion(connection: Connection, arena: int, exclusion: int, position: int) -> None:
    """Let its votes in again; the caller adds the event."""
    values = {"arena": arena, "exclusion": exclusion, "position": position}
    row = await (await connection.execute(statement("exclusions_find"), values)).fetchone()
    if row is None:
        raise NotFound(f"there is no exclusion {exclusion} in this arena; ask for the list of exclusions")
    if row[0] is not None:
        raise Conflict(f"exclusion {exclusion} was restored already; its votes count")
    await connection.execute(statement("exclusions_restore"), values)


async def read_sessions(connection: Connection, arena: int) -> list[int]:
    """Every session that was ever served in this arena."""
    with translated("read the sessions of an arena"):
        found = await connection.execute(statement("exclusions_sessions"), {"arena": arena})
        return sorted(int(session) for (session,) in await found.fetchall())


async def _position(connection: Connection, arena: int, at: datetime | None) -> int | None:
    if at is None:
        return None
    values = {"arena": arena, "at": at}
    row = await (await connection.execute(statement("exclusions_position_at"), values)).fetchone()
    assert row is not None
    return int(row[0])
