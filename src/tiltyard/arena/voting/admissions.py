"""Admits votes that wait because their voters are new: each by an event, at whose position it is folded."""

from __future__ import annotations

from tiltyard.arena.log.buckets import fetch_rows
from tiltyard.arena.log.event_log import WaitingVote, append_batch
from tiltyard.postgres.connections import Connection, ConnectionPool, connect_from_pool, translate_errors
from tiltyard.postgres.statements import bucket_statement
from tiltyard.settings.arena_settings import ArenaSettings

#: A new voter need not wait any longer after so many votes over so long a time.
CHECKED_VOTE_COUNT = 20
CHECKED_MINUTES = 60
#: Votes that are admitted in one batch; voters wait as long as it takes.
_BATCH_VOTE_LIMIT = 500


async def admit_due_votes(pool: ConnectionPool) -> int:
    """Admit what has waited long enough, in all arenas; return the number of votes."""
    admitted = 0
    async with connect_from_pool(pool) as connection:
        for arena, hours in await _waiting_arenas(connection):
            while (count := await admit_votes(connection, arena, hours)) > 0:
                admitted += count
    return admitted


async def admit_votes(
    connection: Connection, arena: int, hours: float, *, limit: int = _BATCH_VOTE_LIMIT
) -> int:
    """Admit votes whose voters have waited so many hours or passed the checks, the oldest first; return how many."""
    async with append_batch(connection, arena) as batch:
        values = {
            "arena": arena,
            "horizon": batch.horizon,
            "now": batch.now,
            "hours": hours,
            "votes": CHECKED_VOTE_COUNT,
            "minutes": CHECKED_MINUTES,
            "limit": limit,
        }
        found = await connection.execute(bucket_statement("admissions_due", batch.bucket), values)
        rows = await found.fetchall()
        for row in rows:
            batch.admit(WaitingVote(*row))
    return len(rows)


async def _waiting_arenas(connection: Connection) -> list[tuple[int, float]]:
    """Arenas in which votes wait, and for how many hours. Votes that wait were cast where such votes wait by default."""
    with translate_errors("look for votes that wait"):
        buckets = await fetch_rows(connection, "raters_buckets", {})
        rows = []
        for (bucket,) in buckets:
            text = bucket_statement("admissions_arenas", bucket)
            rows += await (await connection.execute(text, {"bucket": bucket})).fetchall()
    return [(int(arena), ArenaSettings.kept(saved).ageing(on_public_address=True)) for arena, saved in rows]
