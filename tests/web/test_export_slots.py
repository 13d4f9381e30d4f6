"""Slow readers keep an export's slot only while nobody else wants it."""

import asyncio

import pytest
from starlette.exceptions import HTTPException

from tiltyard.web.routes import battles as export_slots
from tiltyard.web.routes.battles import ExportSlots, StalledReader

PIECE = {"type": "http.response.body", "body": b"x" * 1000, "more_body": True}


async def never(_):
    await asyncio.Event().wait()


async def at_once(_):
    pass


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test sets; the event loop has its own."""

    class Clock:
        now = 1000.0

        def monotonic(self):
            return self.now

    made = Clock()
    monkeypatch.setattr(export_slots, "time", made)
    return made


def test_a_slot_that_is_given_back_can_be_taken():
    slots = ExportSlots(at_once=1)
    first = slots.take()
    with pytest.raises(HTTPException) as refused:
        slots.take()
    assert (refused.value.status_code, refused.value.headers) == (503, {"Retry-After": "10"})
    first.release()
    second = slots.take()
    first.release()
    assert len(slots) == 1
    second.release()
    assert len(slots) == 0


def test_a_client_that_does_not_read_gives_way_at_once(clock):
    async def scene():
        slots = ExportSlots(at_once=1)
        slow = slots.take()
        await slow.send(at_once, PIECE)
        stuck = asyncio.create_task(slow.send(never, PIECE))
        await asyncio.sleep(0)
        clock.now += 14
        with pytest.raises(HTTPException):
            slots.take()
        clock.now += 2
        other = slots.take()
        async with asyncio.timeout(30):
            with pytest.raises(StalledReader):
                await stuck
        with pytest.raises(StalledReader):
            await slow.send(at_once, PIECE)
        slow.release()
        assert len(slots) == 1
        other.release()

    asyncio.run(scene())


@pytest.mark.parametrize(("bytes_a_second", "slow"), [(1024, True), (200 * 1024, True), (300 * 1024, False)])
def test_only_slow_readers_give_way(clock, bytes_a_second, slow):
    async def second(_):
        clock.now += 1

    async def scene():
        slots = ExportSlots(at_once=1)
        slot = slots.take()
        for _ in range(20):
            await slot.send(second, {**PIECE, "body": b"x" * bytes_a_second})
        return slot.is_slow()

    assert asyncio.run(scene()) is slow


def test_the_time_that_we_need_ourselves_does_not_count(clock):
    async def scene():
        slot = ExportSlots().take()
        for _ in range(20):
            await slot.send(at_once, PIECE)
            clock.now += 60
        return slot.is_slow()

    assert not asyncio.run(scene())
