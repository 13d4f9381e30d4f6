"""Operators look at changes of the crowd, and say why they happened."""

from __future__ import annotations

from dataclasses import replace

from tiltyard.arena.accounts import write_audit_entry
from tiltyard.arena.content.arenas import find_arena
from tiltyard.arena.log.buckets import fetch_rows
from tiltyard.arena.log.crowd_changes import FoundChange, explain_change, list_changes
from tiltyard.arena.log.event_details import CrowdChangedDetail
from tiltyard.arena.log.event_log import append_batch
from tiltyard.arena.operators.arena_changes import validate_reason
from tiltyard.postgres.connections import Connection, ConnectionPool, connect_from_pool, translate_errors

#: Sessions that are named with a change.
_SESSION_LIMIT = 1_000


async def read_crowd_changes(pool: ConnectionPool, arena: int) -> list[FoundChange]:
    """All changes of an arena's crowd, newest first.

    Whoever changed it goes on after it was found: one that is not explained also names the sessions since then.
    """
    async with connect_from_pool(pool) as connection:
        changes = await list_changes(connection, arena)
        return [
            await _with_later_sessions(connection, arena, change) if change.explained is None else change
            for change in changes
        ]


async def _with_later_sessions(connection: Connection, arena: int, change: FoundChange) -> FoundChange:
    values = {
        "arena": arena,
        "after": change.detail["until"],
        "model": change.model,
        "rises": change.detail["shift"] > 0.0,
        "limit": _SESSION_LIMIT,
    }
    with translate_errors("read the sessions behind a change of the crowd"):
        rows = await fetch_rows(connection, "crowd_later_sessions", values)
    sessions = list(dict.fromkeys([*change.detail["sessions"], *(session for (session,) in rows)]))
    detail: CrowdChangedDetail = {**change.detail, "sessions": sessions[:_SESSION_LIMIT]}
    return replace(change, detail=detail)


async def explain_crowd_change(
    pool: ConnectionPool, arena: str, change: int, reason: str, *, actor: str
) -> int:
    """Say why the crowd changed, with the change's position; return the position of the event.

    From there on the change no longer holds back the board, and votes before it are no evidence of another one.
    """
    reason = validate_reason(reason)
    async with connect_from_pool(pool) as connection:
        found = await find_arena(connection, arena)
        async with append_batch(connection, found.arena) as batch:
            position = await explain_change(batch, change, reason)
            about = {"change": change, "explained": [False, True], "reason": reason}
            await write_audit_entry(
                connection, actor, "explain a change of the crowd", about, arena=found.arena
            )
    return position
