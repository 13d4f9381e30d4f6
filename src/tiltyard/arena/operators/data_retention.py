"""Deletes what arenas do not keep any longer: prompts and answers, remarks, hashes of addresses. The votes stay."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tiltyard.arena.log.buckets import fetch_rows
from tiltyard.arena.processes.network_keys import delete_network_keys
from tiltyard.arena.voting.sent_responses import delete_old_sent
from tiltyard.postgres.connections import (
    Connection,
    ConnectionPool,
    connect_from_pool,
    translate_errors,
)
from tiltyard.postgres.statements import statement

#: For so long accounts of live battles are kept: calls that began before midnight are counted after it.
_ACCOUNT_DURATION = timedelta(days=2)
#: For so long it is kept which network a session came from, as some bits of a keyed hash.
_NETWORK_DURATION = timedelta(days=30)


async def delete_old_texts(pool: ConnectionPool, moment: datetime) -> int:
    """Delete the texts that are older than their arenas keep them; return the number of turns."""
    async with connect_from_pool(pool) as connection, connection.transaction():
        with translate_errors("delete old texts"):
            await connection.execute(statement("retention_remarks"), {"moment": moment})
            await connection.execute(statement("retention_notes"), {"moment": moment})
            found = await fetch_rows(connection, "retention_delete", {"moment": moment})
            arenas = [int(arena) for (arena,) in found]
        for arena in sorted(set(arenas)):
            await forget_unwritten_prompts(connection, arena)
    return len(arenas)


async def delete_old_accounts(pool: ConnectionPool, moment: datetime) -> None:
    """Delete the accounts of earlier days, which are hashes of networks and invitations, and the keys of these hashes;
    from which networks sessions of the month before came; and which responses were sent days ago."""
    before = (moment - _ACCOUNT_DURATION).astimezone(UTC).date()
    async with connect_from_pool(pool) as connection, connection.transaction():
        with translate_errors("delete hashes of addresses"):
            await connection.execute(statement("retention_networks"), {"until": moment - _NETWORK_DURATION})
            for name in ("retention_payers", "retention_spending"):
                await connection.execute(statement(name), {"before": before})
        await delete_network_keys(connection, before)
        await delete_old_sent(connection)


async def forget_unwritten_prompts(connection: Connection, arena: int) -> None:
    """Delete the hashes of prompts whose texts are deleted everywhere. Their numbers stay: votes have them."""
    with translate_errors("delete hashes of prompts"):
        await connection.execute(statement("retention_forget"), {"arena": arena})
