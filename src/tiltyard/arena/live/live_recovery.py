"""Finds out where turns of live battles run, and whose process may be gone."""

from __future__ import annotations

from uuid import UUID

from tiltyard.postgres.connections import ConnectionPool, connect_from_pool, translate_errors
from tiltyard.postgres.statements import statement

__all__ = ["arenas_with_running_turns", "running_process"]


async def arenas_with_running_turns(pool: ConnectionPool) -> list[int]:
    """The arenas in which turns run, or were left by a process that is gone."""
    async with connect_from_pool(pool) as connection:
        with translate_errors("look for lost turns"):
            found = await connection.execute(statement("live_running_arenas"))
            return [arena for (arena,) in await found.fetchall()]


async def running_process(pool: ConnectionPool, arena: int, matchup: UUID) -> int | None:
    """The number of the process in which a turn of a battle runs; ``None`` if none does."""
    async with connect_from_pool(pool) as connection:
        with translate_errors("look for a running turn"):
            found = await connection.execute(
                statement("live_running_process"), {"arena": arena, "matchup": matchup}
            )
            row = await found.fetchone()
    return None if row is None else int(row[0])
