"""Creating batches: whatever happens around it, a batch is not created twice."""

import time
from dataclasses import replace
from datetime import datetime

import pytest

from support.billed_judges import KINDS, Asker, Billed, Interrupted, asker, billed, stopped
from tiltyard.errors import ProviderFault
from tiltyard.judges import batch_calls as module
from tiltyard.judges.concurrency_limiter import ConcurrencyLimiter
from tiltyard.judges.ledger import Ledger
from tiltyard.judges.providers.provider import BatchItem

pytestmark = pytest.mark.usefixtures("quick")
both = pytest.mark.parametrize("kind", KINDS)


@both
@pytest.mark.parametrize("fault", ["lost_creates", "late_creates"])
async def test_a_batch_whose_creation_went_unanswered_is_found_and_not_created_again(
    kind: str, fault: str, file: str
) -> None:
    async with billed() as server, asker(server, kind, file) as judge:
        before = await batches_of_others(server, judge)
        server.app.behaviour = replace(server.app.behaviour, **{fault: 1})
        counts = await judge.batches().ask(judge.requests(6, batch=True), judge.caller(batch=True))
        assert counts == {"ok": 6}
        assert len(server.app.desk.batches) == before + 1
        assert server.app.till.paid.most_common(1)[0][1] == 1
        assert await judge.states() == {"ok": 6}


async def batches_of_others(server: Billed, judge: Asker) -> int:
    """Batches by somebody else with the same key: of the same size, and of another. How many."""
    for size in (6, 2):
        asked = judge.requests(size, about=f"theirs {size}")
        items = [BatchItem(f"theirs-{number}", one.body) for number, one in enumerate(asked)]
        await judge.provider.submit_batch(items, f"theirs-{size}")
    return len(server.app.desk.batches)


@both
async def test_it_is_found_though_lists_fail_and_sizes_are_not_counted_yet(kind: str, file: str) -> None:
    async with billed(batch_seconds=0.1) as server, asker(server, kind, file) as judge:
        await batches_of_others(server, judge)
        server.app.behaviour = replace(server.app.behaviour, lost_creates=1)
        list_batches, asked = judge.provider.list_batches, []

        async def unsteady(since: datetime):
            asked.append(since)
            if len(asked) <= 3:
                raise ProviderFault("status 500", status=500, retryable=True)
            async for status in list_batches(since):
                yield status if status.ended else replace(status, size=0)

        judge.provider.list_batches = unsteady
        counts = await judge.batches().ask(judge.requests(6, batch=True), judge.caller(batch=True))
        assert counts == {"ok": 6}
        assert len(server.app.desk.batches) == 3
        assert await judge.states() == {"ok": 6}


@both
async def test_it_is_found_though_it_is_listed_late_and_its_results_come_later(
    kind: str, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SEARCH_TIMEOUT_SECONDS", 60.0)

    async with (
        billed(late_creates=1, short_results=2) as server,
        asker(server, kind, file) as judge,
    ):
        list_batches, looks = judge.provider.list_batches, []

        async def late(since: datetime):
            looks.append(since)
            if len(looks) > 6:
                async for status in list_batches(since):
                    yield status

        judge.provider.list_batches = late
        counts = await judge.batches().ask(judge.requests(1, batch=True), judge.caller(batch=True))
        assert counts == {"ok": 1}
        assert (len(server.app.desk.batches), server.calls) == (1, 1)


async def test_while_nobody_can_tell_whether_it_is_ours_nothing_is_created_again(file: str) -> None:
    async with billed(late_creates=1) as server, asker(server, "anthropic", file) as judge:
        requests = judge.requests(2, batch=True)

        async def empty(_batch_id: str):
            for entry in ():
                yield entry

        results, judge.provider.results = judge.provider.results, empty
        with pytest.raises(ProviderFault, match=r"msgbatch_.* may be it"):
            await judge.batches().ask(requests, judge.caller(batch=True))
        judge.provider.results = results
        assert await judge.batches().ask(requests, judge.caller(batch=True)) == {"ok": 2}
        assert (len(server.app.desk.batches), server.calls) == (1, 2)


async def test_it_is_looked_for_long_enough_before_it_is_held_never_to_have_been_created(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert module._SEARCH_TIMEOUT_SECONDS <= 0.1, "shortened for tests"
    monkeypatch.setattr(module, "_SEARCH_TIMEOUT_SECONDS", 0.3)

    async with billed(failed_creates=1) as server, asker(server, "openai", file) as judge:
        began = time.monotonic()
        counts = await judge.batches().ask(judge.requests(1, batch=True), judge.caller(batch=True))
        assert (counts, server.calls) == ({"ok": 1}, 1)
        assert time.monotonic() - began >= 0.3


async def test_while_nobody_can_look_for_it_nothing_is_created_again(file: str) -> None:
    async with billed(lost_creates=1) as server, asker(server, "openai", file) as judge:
        requests = judge.requests(2, batch=True)

        async def failing(since: datetime):
            raise ProviderFault(f"nothing since {since}", status=500, retryable=True)
            yield

        list_batches, judge.provider.list_batches = judge.provider.list_batches, failing
        with pytest.raises(ProviderFault, match="nothing since"):
            await judge.batches().ask(requests, judge.caller(batch=True))
        assert len(server.app.desk.batches) == 1
        judge.provider.list_batches = list_batches
        assert await judge.batches().ask(requests, judge.caller(batch=True)) == {"ok": 2}
        assert len(server.app.desk.batches) == 1


@both
@pytest.mark.parametrize("after", [False, True])
async def test_a_death_around_the_creation_pays_for_nothing_twice(kind: str, after: bool, file: str) -> None:
    async with billed() as server, asker(server, kind, file) as judge:
        requests = judge.requests(6, batch=True)
        dying = Interrupted(judge.provider, after=after)
        await stopped(judge.batches().ask(requests, judge.caller(batch=True, provider=dying)), dying.reached)
        assert (await judge.row()).held == sum(request.worst for request in requests)
        assert await judge.books.run(Ledger.lose, "worker-0") == 0
        assert await judge.batches(worker="worker-1").ask(requests, judge.caller(batch=True)) == {"ok": 6}
        assert (len(server.app.desk.batches), server.calls) == (1, 6)
        row = await judge.row()
        assert (row.held, row.spent) == (0, server.paid)
        assert await judge.states() == ({"ok": 6} if after else {"ok": 6, "provider_error": 6})


@both
async def test_a_creation_that_failed_is_tried_again(kind: str, file: str) -> None:
    async with billed(failed_creates=2) as server, asker(server, kind, file) as judge:
        counts = await judge.batches().ask(judge.requests(4, batch=True), judge.caller(batch=True))
        assert counts == {"ok": 4}
        assert len(server.app.desk.batches) == 1
        assert await judge.states() == {"ok": 4, "provider_error": 8}


@both
async def test_a_creation_that_is_refused_for_good_is_not_tried_again(kind: str, file: str) -> None:
    async with billed(key="another") as server, asker(server, kind, file) as judge:
        counts = await judge.batches().ask(judge.requests(4, batch=True), judge.caller(batch=True))
        assert counts == {"provider_error": 4}
        assert await judge.states() == {"provider_error": 4}
        row = await judge.row()
        assert (row.held, row.spent, server.calls) == (0, 0, 0)


async def test_the_gate_is_left_whatever_happens(file: str) -> None:
    async with billed(failed_creates=1, lost_creates=1) as server, asker(server, "openai", file) as judge:
        gate = ConcurrencyLimiter(2)
        requests = judge.requests(3, batch=True)
        assert await judge.batches().ask(requests, judge.caller(batch=True, gate=gate)) == {"ok": 3}
        dying = Interrupted(judge.provider, after=False)
        more = judge.requests(3, about="more", batch=True)
        await stopped(
            judge.batches().ask(more, judge.caller(batch=True, gate=gate, provider=dying)), dying.reached
        )
        assert gate.in_flight == 0
        assert server.calls == 3
