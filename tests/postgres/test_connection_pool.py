"""The pool of a process: bounded, shared fairly, and well again as soon as its server is."""

import asyncio

import pytest

from support.postgres_servers import fresh_database
from tiltyard.errors import Crowded, StoreFault
from tiltyard.postgres import connections
from tiltyard.postgres.connections import connect, open_pool

CLOSED = "postgresql://someone:s3cret@127.0.0.1:1/nothing"


async def pid_of(connection):
    return (await (await connection.execute("SELECT pg_backend_pid()")).fetchone())[0]


def terminate(server, *pids):
    with connect(server) as other:
        for pid in pids:
            other.execute("SELECT pg_terminate_backend(%s, 1000)", [pid])


async def test_a_connection_is_used_again(server):
    async with open_pool(server, most=4) as pool:
        seen = set()
        for _ in range(5):
            async with pool.connection() as connection:
                assert connection.autocommit
                seen.add(await pid_of(connection))
            async with pool.voting_connection() as connection:
                seen.add(await pid_of(connection))
        assert len(seen) == 1
        assert (pool.in_use, pool.opened) == (0, 1)
    assert pool.closed
    assert pool.opened == 0


def test_there_are_never_more_than_the_bound(server):
    async def scene():
        async with open_pool(server, most=3) as pool:
            most = 0

            async def ask(take):
                nonlocal most
                async with take() as connection:
                    most = max(most, pool.opened)
                    await connection.execute("SELECT pg_sleep(0.01)")

            await asyncio.gather(*(ask((pool.connection, pool.voting_connection)[k % 2]) for k in range(40)))
            assert most == 3
            assert (pool.in_use, pool.opened) == (0, 3)

    asyncio.run(scene())


@pytest.mark.parametrize("slow", ["connection", "voting_connection"])
async def test_neither_desks_nor_pages_take_all_connections(server, monkeypatch, slow):
    """However many of one kind are slow, the other kind is served at once."""
    monkeypatch.setattr(connections, "WAIT_SECONDS", 0.3)
    quick = {"connection": "voting_connection", "voting_connection": "connection"}[slow]
    async with open_pool(server, most=4) as pool:
        release = asyncio.Event()

        async def hold():
            async with getattr(pool, slow)():
                await release.wait()

        holders = [asyncio.create_task(hold()) for _ in range(3)]
        await asyncio.sleep(0.1)
        with pytest.raises(Crowded, match="4 connections"):
            await hold()
        async with getattr(pool, quick)() as connection:
            assert await pid_of(connection)
        release.set()
        await asyncio.gather(*holders)


async def test_whoever_waits_gets_the_next_that_comes_free(server):
    async with open_pool(server, most=1) as pool:
        order = []

        async def ask(number):
            async with pool.connection():
                order.append(number)
                await asyncio.sleep(0.01)

        await asyncio.gather(*(ask(k) for k in range(10)))
        assert order == list(range(10))


async def test_who_gives_up_waiting_takes_nothing_along(server):
    async with open_pool(server, most=1) as pool:
        async with pool.connection():
            waiting = [asyncio.create_task(pool.connection().__aenter__()) for _ in range(3)]
            await asyncio.sleep(0.05)
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
        for _ in range(3):
            async with asyncio.timeout(30), pool.voting_connection() as connection:
                await pid_of(connection)
        assert pool.in_use == 0


def test_connections_that_died_are_replaced_at_once(server):
    async def scene(url):
        async with open_pool(url, most=4) as pool:
            async with pool.connection() as a, pool.connection() as b, pool.connection() as c:
                dead = [await pid_of(each) for each in (a, b, c)]
            terminate(server, *dead)
            async with pool.connection() as connection:
                assert await pid_of(connection) not in dead
            assert pool.opened == 1

    with fresh_database(server) as url:
        asyncio.run(scene(url))


async def test_a_connection_that_is_not_as_it_was_is_not_used_again(server):
    """The driver may give up in the middle of a statement, and then refuses every other one."""
    async with open_pool(server, most=1) as pool:
        async with pool.connection() as connection:
            active = await pid_of(connection)
            connection.pgconn.send_query(b"SELECT pg_sleep(60)")
        async with pool.connection() as connection:
            begun = await pid_of(connection)
            await connection.execute("BEGIN")
        async with pool.connection() as connection:
            assert await pid_of(connection) not in {active, begun}


async def test_where_the_server_opens_no_more_those_in_use_are_waited_for(server, monkeypatch):
    async with open_pool(server, most=4) as pool:

        async def refused(*_, **__):
            raise StoreFault("too many clients already")

        async def ask():
            async with pool.connection() as connection:
                return await pid_of(connection)

        async with pool.connection() as connection:
            first = await pid_of(connection)
            monkeypatch.setattr(connections, "connect_async", refused)
            waiting = asyncio.create_task(ask())
            await asyncio.sleep(0.05)
            assert not waiting.done()
        assert await waiting == first
        terminate(server, first)
        with pytest.raises(StoreFault, match="too many clients"):
            await ask()
        assert pool.in_use == 0


async def test_connections_that_nobody_needs_are_closed(server, monkeypatch):
    monkeypatch.setattr(connections, "IDLE_SECONDS", 0.1)
    async with open_pool(server, most=4) as pool:
        async with pool.connection(), pool.connection(), pool.connection():
            pass
        assert pool.opened == 3
        await asyncio.sleep(0.2)
        async with pool.connection():
            pass
        assert pool.opened == 1


def test_a_pool_is_opened_only_when_asked_and_gives_up_in_our_words():
    async def scene():
        pool = open_pool(CLOSED)
        assert pool.closed
        with pytest.raises(StoreFault, match="stopping"):
            async with pool.connection():
                pass
        await pool.open(within=0.3)

    with pytest.raises(StoreFault, match="cannot connect") as caught:
        asyncio.run(scene())
    assert "s3cret" not in str(caught.value)
