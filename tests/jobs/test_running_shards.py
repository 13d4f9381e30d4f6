"""Shards in hand: done once, halted without losing what was finished."""

import asyncio

import pytest

from tiltyard.jobs.engine import RunningShards, Shard

SHARD = Shard("run", 0, 0, 0, 10)


def test_a_shard_that_comes_twice_is_done_once_and_both_hear_the_outcome():
    begun: list[str] = []

    async def work(shard: Shard) -> dict[str, int]:
        begun.append(shard.id)
        await asyncio.sleep(0.01)
        if len(begun) > 1:
            raise ValueError("no")
        return {"questions": 10}

    async def twice() -> list[object]:
        both = (running.do(SHARD), running.do(SHARD))
        return list(await asyncio.gather(*both, return_exceptions=True))

    running = RunningShards(work, None)
    assert asyncio.run(twice()) == [{"questions": 10}] * 2
    assert [str(error) for error in asyncio.run(twice())] == ["ValueError: no"] * 2
    assert len(begun) == 2


def test_the_shard_of_one_who_no_longer_waits_is_still_done_for_the_other():
    async def work(shard: Shard) -> dict[str, int]:
        await asyncio.sleep(0.01)
        return {"questions": 10}

    async def leave_one() -> dict[str, int]:
        first, second = (asyncio.create_task(running.do(SHARD)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        return await second

    running = RunningShards(work, None)
    assert asyncio.run(leave_one()) == {"questions": 10}


async def test_a_halt_cancels_work_holds_what_comes_later_and_settles_once():
    events: list[str] = []

    async def work(shard: Shard) -> dict[str, int]:
        try:
            await asyncio.sleep(60)
        finally:
            events.append("cancelled")
        return {}

    async def stop() -> None:
        events.append("stop")

    running = RunningShards(work, stop)
    early = asyncio.create_task(running.do(SHARD))
    await asyncio.sleep(0.01)
    running.halt()
    with pytest.raises(asyncio.CancelledError):
        await early
    late = asyncio.create_task(running.do(SHARD))
    await asyncio.sleep(0.01)
    await running.settle()
    await running.settle()
    assert not late.done()
    late.cancel()
    assert events == ["cancelled", "stop"]
