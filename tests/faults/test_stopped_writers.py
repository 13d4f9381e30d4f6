"""Whoever stops in the middle of a batch loses the arena's lock, on the oldest server that is supported too."""

import asyncio
import time

import pytest

from support.live_arenas import make_arena
from support.postgres_servers import fresh_database, migrated_template
from tiltyard.arena.log.event_log import LogKind, append_batch
from tiltyard.errors import StoreFault
from tiltyard.postgres.connections import connect_async


@pytest.fixture(scope="module")
def old(debian):
    with fresh_database(debian, migrated_template(debian)) as url:
        yield url


@pytest.mark.slow
def test_a_writer_that_stops_in_the_middle_is_followed_after_ten_seconds(old):
    async def stops(arena, holding):
        connection = await connect_async(old)
        try:
            async with append_batch(connection, arena) as batch:
                batch.add(LogKind.RETIRE, a=0)
                holding.set()
                await asyncio.sleep(14)
        finally:
            await connection.close()

    async def follows(arena):
        connection = await connect_async(old)
        began = time.monotonic()
        while True:
            try:
                async with append_batch(connection, arena) as batch:
                    head = batch.head
                break
            except StoreFault:
                assert time.monotonic() - began < 20
        await connection.close()
        return head, time.monotonic() - began

    async def scene():
        arena = (await make_arena(old)).arena
        holding = asyncio.Event()
        stopped = asyncio.create_task(stops(arena, holding))
        await holding.wait()
        head, waited = await follows(arena)
        with pytest.raises(StoreFault):
            await stopped
        connection = await connect_async(old)
        async with append_batch(connection, arena) as batch:
            assert batch.head == head
        await connection.close()
        return waited

    assert 5.0 < asyncio.run(scene()) < 13.0
