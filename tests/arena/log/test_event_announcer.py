"""Announcements of new events: few, complete, and repeated after a fault."""

import asyncio
import contextlib

from tiltyard.arena import registry as event_announcer
from tiltyard.arena.registry import EventAnnouncer
from tiltyard.errors import StoreFault
from tiltyard.foundation.retries import Backoff
from tiltyard.postgres.connections import connect, open_pool


def heard_of(url, act):
    """What a listener hears while ``act`` uses an announcer."""

    async def scene():
        async with open_pool(url, most=2) as pool:
            announcer = EventAnnouncer(pool)
            announcer.start()
            await act(announcer, pool)
            await announcer.stop()

    with connect(url) as listening, connect(url) as other:
        listening.execute("LISTEN tiltyard_log")
        asyncio.run(scene())
        # Announcements arrive in the order of their transactions, and some time after them.
        other.execute("NOTIFY tiltyard_log, 'end'")
        heard = []
        while "end" not in heard:
            new = [one.payload for one in listening.notifies(timeout=60.0, stop_after=1)]
            assert new, "nothing came for a minute"
            heard += new
        return heard[:-1]


def test_arenas_are_announced_together_and_none_is_left_at_the_end(database):
    async def act(announcer, _pool):
        announcer.add(7)
        while announcer._arenas:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        for arena in (9, 8, 9):
            announcer.add(arena)

    assert heard_of(database, act) == ["7", "8 9"]


def test_an_announcement_fits_into_what_postgresql_allows(database):
    async def act(announcer, _pool):
        for arena in range(1, 1101):
            announcer.add(10_000_000 + arena)

    heard = heard_of(database, act)
    assert [len(payload.split()) for payload in heard] == [500, 500, 100]
    assert all(len(payload) < 8_000 for payload in heard)


def test_what_could_not_be_announced_is_announced_again(database, monkeypatch):
    monkeypatch.setattr(event_announcer, "_PAUSE_SECONDS", 0.0)

    async def act(announcer, pool):
        announcer._retries._backoff = Backoff(0.0)
        faults = [StoreFault("away"), StoreFault("away")]
        connection = pool.connection

        @contextlib.asynccontextmanager
        async def failing():
            if faults:
                raise faults.pop()
            async with connection() as one:
                yield one

        monkeypatch.setattr(pool, "connection", failing)
        announcer.add(3)
        while announcer._arenas:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        assert not faults

    assert heard_of(database, act) == ["3"]
