"""A task that is told to stop stops, though a cancellation was lost on its way."""

import asyncio

import pytest

from tiltyard.arena import tasks
from tiltyard.arena.tasks import cancel_and_wait


@pytest.mark.parametrize("lost", [0, 1, 3])
async def test_a_lost_cancellation_is_repeated(lost, monkeypatch):
    monkeypatch.setattr(tasks, "_CANCEL_RETRY_SECONDS", 0.01)
    heard = []

    async def stubborn():
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                heard.append(1)
                if len(heard) > lost:
                    raise

    task = asyncio.create_task(stubborn())
    await asyncio.sleep(0)
    await asyncio.wait_for(cancel_and_wait(task), 20)
    assert task.cancelled()
    assert len(heard) == lost + 1


async def test_nothing_is_stopped_and_what_went_wrong_is_raised():
    async def wrong():
        raise ValueError("what went wrong")

    await cancel_and_wait(None)
    task = asyncio.create_task(wrong())
    await asyncio.sleep(0)
    with pytest.raises(ValueError, match="what went wrong"):
        await cancel_and_wait(task)
