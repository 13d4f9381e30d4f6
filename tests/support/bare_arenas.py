"""Arenas with nothing but events: for what treats a log as rows."""

import asyncio

from tiltyard.arena.log.buckets import create_partitions
from tiltyard.postgres.connections import connect_async


def make_arena(url, name):
    async def made():
        async with await connect_async(url) as connection, connection.transaction():
            row = await connection.execute(
                "INSERT INTO arenas (name, title, settings, bucket) VALUES (%s, 'Title', '{}', 1) RETURNING arena",
                [name],
            )
            (arena,) = await row.fetchone()
            await create_partitions(connection, 1)
            return arena

    return asyncio.run(made())


def append(connection, arena, count):
    """So many events at the end of the log, in one transaction."""
    connection.execute(
        "INSERT INTO events_b1 (arena, position, at, kind)"
        " SELECT %(arena)s, h.head + n, now(), 2 FROM generate_series(1, %(count)s) n,"
        " (SELECT coalesce(max(position), 0) AS head FROM events WHERE arena = %(arena)s) h",
        {"arena": arena, "count": count},
    )
