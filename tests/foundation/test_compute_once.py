"""One computation for all who wait for it, and few computations at a time."""

import asyncio

import pytest

from tiltyard.errors import Crowded
from tiltyard.foundation.caches import BoundedQueue, SingleFlight


class Work:
    """A computation that counts how often it was begun, and ends when the test says so."""

    def __init__(self):
        self.begun = 0
        self.ended = 0
        self.may_end = asyncio.Event()
        self.error = None

    async def __call__(self):
        self.begun += 1
        number = self.begun
        try:
            await self.may_end.wait()
        finally:
            self.ended += 1
        if self.error is not None:
            raise self.error
        return number


async def asked(shared, work, times, key="key"):
    tasks = [asyncio.create_task(shared(key, work)) for _ in range(times)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return tasks


def test_all_who_ask_meanwhile_get_one_result_and_who_asks_later_another():
    async def scene():
        shared, work = SingleFlight(), Work()
        tasks = await asked(shared, work, 5)
        assert len(shared.running) == 1
        work.may_end.set()
        assert await asyncio.gather(*tasks) == [1] * 5
        assert list(shared.running) == []
        assert await shared("key", work) == 2

    asyncio.run(scene())


def test_other_keys_do_not_wait():
    async def scene():
        shared, one, other = SingleFlight(), Work(), Work()
        [waiting] = await asked(shared, one, 1)
        other.may_end.set()
        assert await shared("other", other) == 1
        assert not waiting.done()
        await shared.stop()

    asyncio.run(scene())


def test_an_error_reaches_all_who_wait_and_is_not_kept():
    async def scene():
        shared, work = SingleFlight(), Work()
        work.error = ValueError("no")
        tasks = await asked(shared, work, 3)
        work.may_end.set()
        assert [str(error) for error in await asyncio.gather(*tasks, return_exceptions=True)] == ["no"] * 3
        work.error = None
        assert await shared("key", work) == 2

    asyncio.run(scene())


def test_who_no_longer_waits_takes_nothing_from_the_others():
    async def scene():
        shared, work = SingleFlight(), Work()
        first, second = await asked(shared, work, 2)
        first.cancel()
        await asyncio.sleep(0)
        assert first.cancelled()
        assert work.ended == 0
        work.may_end.set()
        assert await second == 1

    asyncio.run(scene())


def test_a_computation_goes_on_though_nobody_waits_and_its_error_is_no_noise():
    noise = []

    async def scene():
        asyncio.get_running_loop().set_exception_handler(lambda _, context: noise.append(context))
        shared, work = SingleFlight(), Work()
        work.error = ValueError("no")
        [waiting] = await asked(shared, work, 1)
        waiting.cancel()
        await asyncio.sleep(0)
        work.may_end.set()
        while shared.running:  # noqa: ASYNC110
            await asyncio.sleep(0)
        assert work.ended == 1

    asyncio.run(scene())
    assert noise == []


def test_what_is_stopped_has_ended_and_the_next_caller_begins_anew():
    async def scene():
        shared, work = SingleFlight(), Work()
        tasks = await asked(shared, work, 2)
        await shared.stop()
        assert work.ended == 1
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(end, asyncio.CancelledError) for end in ends)
        work.may_end.set()
        assert await shared("key", work) == 2
        await shared.stop()

    asyncio.run(scene())


@pytest.mark.parametrize("error", [None, ValueError("no")])
def test_a_kept_outcome_is_everybodys_until_its_time_is_over(error):
    async def scene():
        shared, work = SingleFlight(keep_seconds=0.2), Work()
        work.error = error
        work.may_end.set()
        for _ in range(3):
            [end] = await asyncio.gather(shared("key", work), return_exceptions=True)
            assert end == (error or 1)
        assert work.begun == 1
        await asyncio.sleep(0.3)
        await asyncio.gather(shared("key", work), return_exceptions=True)
        assert work.begun == 2

    asyncio.run(scene())


def test_a_cancelled_computation_is_not_kept():
    async def scene():
        shared, work = SingleFlight(keep_seconds=60.0), Work()
        [waiting] = await asked(shared, work, 1)
        shared.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        work.may_end.set()
        assert await shared("key", work) == 2

    asyncio.run(scene())


def test_turns_are_taken_a_few_at_a_time_and_few_wait():
    async def scene():
        turns, may_end, done = BoundedQueue(1, 2, "a chart"), asyncio.Event(), []

        async def one(k):
            async with turns.acquire_slot():
                await may_end.wait()
                done.append(k)

        asked = [asyncio.create_task(one(k)) for k in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(Crowded, match="2 others"):
            await one(9)
        asked[1].cancel()
        await asyncio.sleep(0)
        asked.append(asyncio.create_task(one(4)))
        may_end.set()
        await asyncio.gather(*asked, return_exceptions=True)
        assert done == [0, 2, 4]

    asyncio.run(scene())


def test_a_slot_is_free_again_after_an_error():
    async def scene():
        turns = BoundedQueue(1, 1, "a chart")
        for _ in range(3):
            with pytest.raises(ValueError, match="no"):
                async with turns.acquire_slot():
                    raise ValueError("no")

    asyncio.run(scene())
