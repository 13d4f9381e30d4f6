"""The sessions of an operator: where it is signed in, and signing out of one or of all."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tiltyard.arena.accounts import write_audit_entry
from tiltyard.arena.log.buckets import fetch_row, fetch_rows
from tiltyard.errors import NotFound
from tiltyard.postgres.connections import ConnectionPool, connect_from_pool


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """A session that is valid."""

    session: int
    created_at: datetime
    last_seen_at: datetime
    address: str
    #: What the browser calls itself.
    browser: str


async def list_sessions(pool: ConnectionPool, operator: int) -> list[SessionRecord]:
    """The sessions of an operator that are valid, the last used first."""
    async with connect_from_pool(pool) as connection:
        rows = await fetch_rows(connection, "operator_sessions_list", {"operator": operator})
        return [SessionRecord(*row) for row in rows]


async def end_session(pool: ConnectionPool, operator: int, session: int, *, actor: str) -> None:
    """End one session of an operator; `NotFound` if it has none with this number."""
    values = {"operator": operator, "session": session}
    async with connect_from_pool(pool) as connection, connection.transaction():
        row = await fetch_row(connection, "operator_sessions_end", values)
        if row is None:
            raise NotFound(f"no session {session} that is signed in; see the list of sessions")
        about = {"operator": row[0], "session": session, "signed_in": [True, False]}
        await write_audit_entry(connection, actor, "sign out", about)


async def end_sessions(pool: ConnectionPool, operator: int, *, kept: int | None = None, actor: str) -> int:
    """End all sessions of an operator, except one that is kept; return how many."""
    values = {"operator": operator, "kept": kept}
    async with connect_from_pool(pool) as connection, connection.transaction():
        ended = await fetch_rows(connection, "end_sessions_of", values)
        row = await fetch_row(connection, "operator_name", values)
        left = 0 if kept is None else 1
        about = {"operator": None if row is None else row[0], "sessions": [len(ended) + left, left]}
        if ended:
            await write_audit_entry(connection, actor, "sign out", about)
    return len(ended)
