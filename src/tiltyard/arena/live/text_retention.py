"""Deletes the prompts and answers of live battles that an arena does not keep any longer. The votes stay."""

from __future__ import annotations

from datetime import datetime

from tiltyard.postgres.connection_pool import Connection, ConnectionPool, connect_from_pool
from tiltyard.postgres.connections import translate_errors
from tiltyard.postgres.statements import statement

__all__ = ["delete_old_texts", "forget_unwritten_prompts"]


async def delete_old_texts(pool: ConnectionPool, moment: datetime) -> int:
    """Delete the texts that are older than their arenas keep them; return the number of turns."""
    async with connect_from_pool(pool) as connection, connection.transaction():
        with translate_errors("delete old texts of live battles"):
            found = await connection.execute(statement("retention_delete"), {"moment": moment})
            arenas = [int(arena) for (arena,) in await found.fetchall()]
        for arena in sorted(set(arenas)):
            await forget_unwritten_prompts(connection, arena)
    return len(arenas)


async def forget_unwritten_prompts(connection: Connection, arena: int) -> None:
    """Delete the hashes of prompts whose texts are deleted everywhere. Their numbers stay: votes have them."""
    with translate_errors("delete hashes of prompts"):
        await connection.execute(statement("retention_forget"), {"arena": arena})
