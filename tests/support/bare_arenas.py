"""Arenas with nothing but events: for what treats a log as rows."""

import asyncio

from tiltyard.arena.content.arenas import add_arena, reserve_arena_number
from tiltyard.arena.log.buckets import shared_bucket
from tiltyard.postgres.connections import connect_async
from tiltyard.settings.arena_settings import ArenaSettings


def make_arena(url, name):
    async def made():
        async with await connect_async(url) as connection, connection.transaction():
            number = await reserve_arena_number(connection)
            return (await add_arena(connection, number, name, "Title", ArenaSettings())).arena

    return asyncio.run(made())


def append(connection, arena, count):
    """So many events at the end of the log, in one transaction."""
    connection.execute(
        f"INSERT INTO events_b{shared_bucket(arena)} (arena, position, at, kind)"
        " SELECT %(arena)s, h.head + n, now(), 2 FROM generate_series(1, %(count)s) n,"
        " (SELECT coalesce(max(position), 0) AS head FROM events WHERE arena = %(arena)s) h",
        {"arena": arena, "count": count},
    )
