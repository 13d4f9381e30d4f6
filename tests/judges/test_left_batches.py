"""Batches that nobody waits for any more: what they hold stays held, and nobody waits for that either."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from support.billed_judges import KINDS, RUN, Asker, Billed, asker, billed, until
from tiltyard.errors import ProviderFault
from tiltyard.judges.ledger import Ledger
from tiltyard.judges.providers.provider import BatchEntry
from tiltyard.judges.requests import JudgeRequest

pytestmark = pytest.mark.usefixtures("quick")
both = pytest.mark.parametrize("kind", KINDS)


async def unreadable(batch_id: str) -> AsyncIterator[BatchEntry]:
    raise ProviderFault(f"no results of {batch_id}", status=500, retryable=True)
    yield


async def left_batch(judge: Asker, requests: list[JudgeRequest], money: int) -> None:
    """Shard 0 fails with an open batch of these requests, in a run of so much money."""
    await judge.books.run(Ledger.open_run, RUN, "plan", money)
    results, judge.provider.results = judge.provider.results, unreadable
    with pytest.raises(ProviderFault, match="no results"):
        await judge.batches("0").ask(requests, judge.caller(batch=True))
    judge.provider.results = results


async def ended(judge: Asker, requests: list[JudgeRequest], batch: bool) -> dict[str, int]:
    asking = judge.batches("1") if batch else judge.live()
    return await asyncio.wait_for(asking.ask(requests, judge.caller(batch=batch)), 60)


@both
@pytest.mark.parametrize("batch", [False, True])
async def test_another_shard_ends_as_unasked_where_the_batch_holds_what_it_needs(
    kind: str, batch: bool, file: str
) -> None:
    async def ask(server: Billed, judge: Asker) -> None:
        requests = judge.requests(4, batch=True)
        await left_batch(judge, requests[:3], 3 * requests[0].worst)
        # One question that is under way already, and one that only lacks the money.
        assert await ended(judge, requests[2:], batch) == {"unasked": 2}
        assert await ended(judge, requests[2:3], batch) == {"unasked": 1}
        assert server.calls == 3
        # Going on brings the batch in, and then there is money again.
        assert await judge.batches("0").ask(requests[:3], judge.caller(batch=True)) == {"ok": 3}
        assert await ended(judge, requests[2:], batch) == {"ok": 2}
        row = await judge.row()
        assert (server.calls, row.held, row.spent) == (4, 0, server.paid)

    async with billed() as server, asker(server, kind, file) as judge:
        await ask(server, judge)


async def test_a_shard_that_waits_already_is_told_when_the_other_fails(file: str) -> None:
    waited = asyncio.Event()

    async def unreadable_later(batch_id: str) -> AsyncIterator[BatchEntry]:
        await waited.wait()
        async for entry in unreadable(batch_id):
            yield entry

    async with billed() as server, asker(server, "openai", file) as judge:
        requests = judge.requests(4, batch=True)
        await judge.books.run(Ledger.open_run, RUN, "plan", 3 * requests[0].worst)
        judge.provider.results = unreadable_later
        first = asyncio.create_task(judge.batches("0").ask(requests[:3], judge.caller(batch=True)))
        await until(lambda: server.app.desk.batches)
        waiting = asyncio.create_task(ended(judge, requests[2:], batch=True))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        waited.set()
        with pytest.raises(ProviderFault):
            await first
        assert await waiting == {"unasked": 2}


async def test_a_piece_that_is_left_behind_keeps_nobody_from_asking_the_next(file: str) -> None:
    async with billed() as server, asker(server, "openai", file) as judge:
        requests = judge.requests(4, batch=True)
        await left_batch(judge, requests[:2], 10 * requests[0].worst)
        limits = judge.provider.capabilities
        judge.provider.capabilities = type(limits)(
            **{name: getattr(limits, name) for name in limits.__slots__} | {"batch_requests": 2}
        )
        assert await ended(judge, requests, batch=True) == {"ok": 2, "unasked": 2}
        assert server.calls == 4


async def test_warming_does_not_wait_for_money_that_a_batch_holds(file: str) -> None:
    async with billed() as server, asker(server, "anthropic", file) as judge:
        requests = judge.requests(3, batch=True)
        await left_batch(judge, requests[:2], 2 * requests[0].worst)
        (row,) = await judge.books.run(Ledger.open_batches, RUN, "0")
        await judge.books.run(Ledger.watch_batch, row.batch)
        assert not await asyncio.wait_for(judge.live().prewarm(requests[2], judge.caller()), 60)
        assert server.app.till.prewarms == 0
