"""Batches on a server that bills: none created twice, nothing paid twice, never more in flight than is left."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from support.billed_judges import KINDS, RUN, Asker, Billed, asker, billed, until
from support.servers.replies import say
from tiltyard.core.judging.verdict import QuestionState
from tiltyard.errors import ProviderFault
from tiltyard.judges import batch_calls as module
from tiltyard.judges.ledger import Ledger
from tiltyard.judges.providers.provider import BatchEntry, BatchStatus
from tiltyard.judges.requests import JudgeRequest

pytestmark = pytest.mark.usefixtures("quick")
both = pytest.mark.parametrize("kind", KINDS)


@both
async def test_every_request_is_answered_by_its_own_result_and_paid_once(kind: str, file: str) -> None:
    async with billed() as server, asker(server, kind, file) as judge:
        requests = judge.requests(30, batch=True)
        assert await judge.batches().ask(requests * 2, judge.caller(batch=True)) == {"ok": 30}
        assert (server.calls, len(server.app.desk.batches)) == (30, 1)
        replies = await judge.books.replies(request.key for request in requests)
        for request in requests:
            (reply,) = replies[request.key]
            assert judge.provider.read(reply)[0].text == say(request.body).text
        row = await judge.row()
        assert (row.held, row.spent) == (0, server.paid)
        assert {row.batch for row in await judge.attempts()} == set(server.app.desk.batches)
        assert await judge.batches().ask(requests, judge.caller(batch=True)) == {"ok": 30}
        assert server.calls == 30


@both
async def test_another_run_and_live_calls_find_the_replies(kind: str, file: str) -> None:
    async with billed() as server, asker(server, kind, file) as judge:
        requests = judge.requests(5, batch=True)
        await judge.batches().ask(requests, judge.caller(batch=True))
        judge.run = "another"
        await judge.books.run(Ledger.open_run, "another", "plan", 0)
        assert await judge.batches("7").ask(requests, judge.caller(batch=True)) == {"ok": 5}
        assert await judge.live().ask(requests, judge.caller()) == {"ok": 5}
        assert (server.calls, await judge.states()) == (5, {})


@both
@pytest.mark.parametrize(("fault", "state"), [("expire", "expired"), ("item_error", "provider_error")])
async def test_what_may_succeed_next_time_is_sent_again(kind: str, fault: str, state: str, file: str) -> None:
    async with billed(**{fault: 0.5}, times=1) as server, asker(server, kind, file) as judge:
        requests = judge.requests(20, batch=True)
        assert await judge.batches().ask(requests, judge.caller(batch=True)) == {"ok": 20}
        failed = server.app.till.faults[fault]
        assert 0 < failed < 20
        assert await judge.states() == {"ok": 20, state: failed}
        assert sum(len(batch.items) for batch in server.app.desk.batches.values()) == 20 + failed
        row = await judge.row()
        assert (row.held, row.spent) == (0, server.paid)


@both
async def test_a_bad_request_is_sent_once_and_hurts_no_other(kind: str, file: str) -> None:
    async with billed(bad_item=0.3) as server, asker(server, kind, file) as judge:
        counts = await judge.batches().ask(judge.requests(20, batch=True), judge.caller(batch=True))
        bad = server.app.till.faults["bad_item"]
        assert counts == {"ok": 20 - bad, "provider_error": bad}
        assert len(server.app.desk.batches) == 1


@both
async def test_what_keeps_failing_is_given_up_after_its_retries(kind: str, file: str) -> None:
    async with billed(expire=1.0, times=99) as server, asker(server, kind, file) as judge:
        counts = await judge.batches().ask(judge.requests(3, batch=True), judge.caller(batch=True, retries=2))
        assert counts == {"provider_error": 3}
        assert len(server.app.desk.batches) == 3
        assert await judge.states() == {"expired": 9}


@both
async def test_what_cannot_be_read_is_sent_once_more_and_never_a_third_time(kind: str, file: str) -> None:
    async with billed(garble=1.0) as server, asker(server, kind, file) as judge:
        for _ in range(2):
            counts = await judge.batches().ask(judge.requests(4, batch=True), judge.caller(batch=True))
            assert counts == {"unparseable": 4}
        assert server.calls == 8
        assert Counter(row.ask for row in await judge.attempts()) == {0: 4, 1: 4}


@both
async def test_a_death_while_polling_or_reading_pays_for_nothing_twice(kind: str, file: str) -> None:
    async with (
        billed(results_pause=30.0, batch_seconds=0.01) as server,
        asker(server, kind, file) as judge,
    ):
        requests = judge.requests(6, batch=True)
        for seconds in (0.005, 0.1):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(judge.batches().ask(requests, judge.caller(batch=True)), seconds)
        server.app.behaviour = replace(server.app.behaviour, results_pause=0.0)
        assert await judge.batches().ask(requests, judge.caller(batch=True)) == {"ok": 6}
        assert (len(server.app.desk.batches), server.calls) == (1, 6)
        assert (await judge.row()).held == 0


@both
async def test_results_that_break_off_are_read_on_and_none_is_forgotten(kind: str, file: str) -> None:
    async with billed(cut_results=2, poll_fault_every=3) as server, asker(server, kind, file) as judge:
        counts = await asyncio.wait_for(
            judge.batches().ask(judge.requests(20, batch=True), judge.caller(batch=True, retries=9)), 20
        )
        assert counts == {"ok": 20}
        assert (server.calls, await judge.states()) == (20, {"ok": 20})
        assert (await judge.row()).held == 0


@both
@pytest.mark.parametrize("fault", ["short_results", "late_files"])
async def test_results_that_end_early_as_if_they_were_whole_are_read_again(
    kind: str, fault: str, file: str
) -> None:
    async with billed(**{fault: 3}) as server, asker(server, kind, file) as judge:
        counts = await judge.batches().ask(judge.requests(9, batch=True), judge.caller(batch=True))
        assert counts == {"ok": 9}
        assert (server.calls, await judge.states()) == (9, {"ok": 9})
        assert server.app.till.faults[fault] == (0 if (fault, kind) == ("late_files", "anthropic") else 3)


@both
async def test_a_result_that_is_missing_counts_as_paid(kind: str, file: str) -> None:
    async with billed() as server, asker(server, kind, file) as judge:
        requests = judge.requests(4, batch=True)
        results, first = judge.provider.results, []

        async def without_the_first(batch_id: str):
            async for entry in results(batch_id):
                first.append(entry.name)
                if entry.name != first[0]:
                    yield entry

        judge.provider.results = without_the_first
        assert await judge.batches().ask(requests, judge.caller(batch=True)) == {"ok": 4}
        assert server.calls == 5
        assert await judge.states() == {"ok": 4, "lost": 1}
        assert (await judge.row()).spent >= server.paid


async def test_a_batch_that_failed_as_a_whole_costs_nothing_and_is_offered_again(file: str) -> None:
    # The provider has too many waiting: it is asked again however few retries there are.
    async with billed(failed_batches=3) as server, asker(server, "openai", file) as judge:
        counts = await judge.batches().ask(judge.requests(4, batch=True), judge.caller(batch=True, retries=0))
        assert counts == {"ok": 4}
        row = await judge.row()
        assert (server.paid, row.held) == (row.spent, 0)
        assert server.app.till.batch_calls == 4


@both
async def test_a_batch_that_is_gone_is_not_bought_again_and_comes_in_when_it_is_back(
    kind: str, file: str
) -> None:
    async with billed(batch_seconds=0.05) as server, asker(server, kind, file) as judge:
        requests = judge.requests(2, batch=True)
        asking = asyncio.create_task(judge.batches().ask(requests, judge.caller(batch=True)))
        await until(lambda: server.app.desk.batches)
        hidden, server.app.desk.batches = server.app.desk.batches, {}
        for _ in range(2):
            with pytest.raises(ProviderFault, match=r"API key.*29 days.*start a new run"):
                await asking
            assert (await judge.row()).held == sum(request.worst for request in requests)
            asking = asyncio.create_task(judge.batches().ask(requests, judge.caller(batch=True)))
        await asyncio.gather(asking, return_exceptions=True)
        server.app.desk.batches = hidden
        assert await judge.batches().ask(requests, judge.caller(batch=True)) == {"ok": 2}
        assert (server.calls, len(hidden)) == (2, 1)


async def test_a_key_that_no_longer_serves_ends_the_polling_however_much_failed_before(file: str) -> None:
    async with billed() as server, asker(server, "openai", file) as judge:
        polls = []

        async def failing(batch_id: str) -> BatchStatus:
            polls.append(batch_id)
            status = 503 if len(polls) <= 2 * module._READ_ATTEMPT_LIMIT else 401
            raise ProviderFault(f"status {status}", status=status, retryable=status == 503)

        judge.provider.poll = failing
        asking = judge.batches().ask(judge.requests(2, batch=True), judge.caller(batch=True))
        with pytest.raises(ProviderFault, match="401"):
            await asyncio.wait_for(asking, 10)


@both
async def test_the_budget_cuts_batches_so_that_no_more_is_in_flight_than_is_left(
    kind: str, file: str
) -> None:
    async with billed() as server, asker(server, kind, file) as judge:
        requests = judge.requests(9, batch=True)
        worst = max(request.worst for request in requests)
        await judge.books.run(Ledger.open_run, RUN, "plan", 3 * worst + 1)
        assert await judge.batches().ask(requests, judge.caller(batch=True)) == {"ok": 9}
        sizes = [len(batch.items) for batch in server.app.desk.batches.values()]
        assert sum(sizes) == 9
        assert len(sizes) >= 3
        assert max(sizes) == 3
        assert server.paid <= 3 * worst + 1


@both
async def test_what_the_budget_does_not_cover_is_not_asked(kind: str, file: str) -> None:
    async with billed() as server, asker(server, kind, file) as judge:
        requests = judge.requests(9, about="word " * 2000, batch=True)
        await judge.books.run(Ledger.open_run, RUN, "plan", 2 * requests[0].worst)
        counts = await judge.batches().ask(requests, judge.caller(batch=True))
        assert set(counts) == {"ok", "unasked"}
        assert server.paid == (await judge.row()).spent <= 2 * requests[0].worst
        await judge.books.run(Ledger.open_run, RUN, "plan", 0)
        assert await judge.batches().ask(requests, judge.caller(batch=True)) == counts


async def test_batches_are_split_by_number_and_by_bytes(file: str) -> None:
    async with billed() as server, asker(server, "openai", file) as judge:
        requests = judge.requests(10, batch=True)
        size = requests[0].size + 400
        for number, bytes_, expected in (
            (4, 10**9, [4, 4, 2]),
            (10**9, 3 * size, [3, 3, 3, 1]),
            (9, 1, [1] * 10),
        ):
            limits = replace(judge.provider.capabilities, batch_requests=number, batch_bytes=bytes_)
            judge.provider.capabilities = limits
            pieces, left = [], requests
            while left:
                piece, left = module._cut(left, judge.caller(batch=True))
                pieces.append(piece)
            assert [len(piece) for piece in pieces] == expected
            assert [one for piece in pieces for one in piece] == requests
        judge.provider.capabilities = replace(limits, batch_requests=4, batch_bytes=10**9)
        assert await judge.batches().ask(requests, judge.caller(batch=True)) == {"ok": 10}
        assert sorted(len(batch.items) for batch in server.app.desk.batches.values()) == [2, 4, 4]


async def test_two_judges_of_one_shard_share_a_small_budget_without_hurry(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = []
    begin = Ledger.begin_batch
    monkeypatch.setattr(Ledger, "begin_batch", lambda *given: looks.append(given) or begin(*given))

    def of(requests: list[JudgeRequest], name: str) -> list[JudgeRequest]:
        return [replace(request, judge=name) for request in requests]

    async with billed(batch_seconds=0.3) as server, asker(server, "openai", file) as judge:
        requests = judge.requests(4, batch=True)
        await judge.books.run(Ledger.open_run, RUN, "plan", 2 * requests[0].worst)
        counts = await asyncio.gather(
            *(
                judge.batches().ask(of(half, name), judge.caller(batch=True, name=name))
                for name, half in (("one", requests[:2]), ("two", requests[2:]))
            )
        )
        assert counts == [{"ok": 2}, {"ok": 2}]
        assert server.calls == 4
        assert len(looks) < 60


async def test_two_shards_that_ask_the_same_pay_once(file: str) -> None:
    async with billed(batch_seconds=0.05) as server, asker(server, "openai", file) as judge:
        requests = judge.requests(6, batch=True)
        counts = await asyncio.gather(
            judge.batches("0").ask(requests[:5], judge.caller(batch=True)),
            judge.batches("1").ask(requests[3:], judge.caller(batch=True)),
        )
        assert counts == [{"ok": 5}, {"ok": 3}]
        assert server.calls == 6


@pytest.mark.parametrize(
    "name", ["", "x", "-", "mark-", "mark-x", "mark--1", "mark-1x", "mark-²", "other-1", "mark-" + "9" * 5000]
)
def test_a_name_that_is_none_of_ours_has_no_place(name: str) -> None:
    assert module._place("mark-12", "mark") == 12
    assert module._place(name, "mark") == -1


def test_how_a_request_of_a_batch_ended() -> None:
    ok, odd = QuestionState.OK, QuestionState.UNPARSEABLE
    assert module._ending("k", [odd, ok], set()) == "ok"
    assert module._ending("k", [odd], {"k"}) == "unparseable"
    assert module._ending("k", [], {"k"}) == "unasked"
    assert module._ending("k", [], set()) == "provider_error"


# Batches that nobody waits for any more: what they hold stays held, and nobody waits for that either.


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
