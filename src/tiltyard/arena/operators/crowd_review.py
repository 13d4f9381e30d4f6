"""Operators look at changes of the crowd, and say why they happened."""

from __future__ import annotations

from tiltyard.arena.accounts import write_audit_entry
from tiltyard.arena.content.arenas import find_arena
from tiltyard.arena.log.crowd_changes import FoundChange, explain_change, list_changes
from tiltyard.arena.log.event_log import append_batch
from tiltyard.arena.operators.arena_changes import validate_reason
from tiltyard.postgres.connection_pool import ConnectionPool, connect_from_pool

__all__ = ["explain_crowd_change", "read_crowd_changes"]


async def read_crowd_changes(pool: ConnectionPool, arena: int) -> list[FoundChange]:
    """All changes of an arena's crowd, newest first."""
    async with connect_from_pool(pool) as connection:
        return await list_changes(connection, arena)


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
