"""A task that is told to stop stops, though a cancellation was lost on its way."""

import asyncio

import pytest

from tiltyard.arena import stopping
from tiltyard.arena.stopping import stopped


@pytest.mark.parametrize("lost", [0, 1, 3])
def test_a_lost_cancellation_is_repeated(lost, monkeypatch):
    monkeypatch.setattr(stopping, "_AGAIN", 0.01)
    heard = []

    async def stubborn():
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                heard.append(1)
                if len(heard) > lost:
                    raise

    async def scene():
        task = asyncio.create_task(stubborn())
        await asyncio.sleep(0)
        await asyncio.wait_for(stopped(task), 20)
        assert task.cancelled()

    asyncio.run(scene())
    assert len(heard) == lost + 1


def test_nothing_is_stopped_and_what_went_wrong_is_raised():
    async def wrong():
        raise ValueError("what went wrong")

    async def scene():
        await stopped(None)
        task = asyncio.create_task(wrong())
        await asyncio.sleep(0)
        with pytest.raises(ValueError, match="what went wrong"):
            await stopped(task)

    asyncio.run(scene())
