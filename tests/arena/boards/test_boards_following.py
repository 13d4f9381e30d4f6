"""Boards go on being followed, whatever one of them was."""

import asyncio

from tiltyard.arena.boards import board_cache
from tiltyard.arena.boards.board_cache import BoardCache
from tiltyard.errors import StoreFault


async def test_what_cannot_be_taken_does_not_end_the_following(monkeypatch, caplog):
    monkeypatch.setattr(board_cache, "_RETRY_SECONDS", 0.0)
    faults = [KeyError("of another version"), StoreFault("the database is away"), None]

    following = BoardCache("postgresql://nowhere", None)
    looked = asyncio.Event()

    async def nothing():
        await asyncio.sleep(0)

    async def look(_announced):
        fault = faults.pop(0)
        if fault is not None:
            raise fault
        looked.set()
        await asyncio.Event().wait()

    following._news.next, following._look = nothing, look
    following._task = asyncio.create_task(following._follow())
    await asyncio.wait_for(looked.wait(), 60)
    await following.stop()
    assert "of another version" in caplog.text
