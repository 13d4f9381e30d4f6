"""Live calls to a server that bills: each request paid once, each attempt written down, each fault in its state."""

import asyncio
import time
from collections import Counter
from contextlib import closing
from dataclasses import replace

import pytest

from support.billed_judges import KINDS, RUN, Asker, asker, billed, until
from support.servers.replies import say
from tiltyard.core.judging.matches import Match
from tiltyard.core.judging.verdict import QuestionState
from tiltyard.judges.concurrency_limiter import ConcurrencyLimiter
from tiltyard.judges.ledger import Ledger
from tiltyard.judges.live_calls import PREWARM, retry_delay
from tiltyard.judges.providers.provider import Usage

pytestmark = pytest.mark.usefixtures("quick")
both = pytest.mark.parametrize("kind", KINDS)


@both
async def test_every_request_is_paid_once_and_never_again(kind: str, file: str) -> None:
    async with billed(latency=0.001) as server, asker(server, kind, file) as judge:
        requests = judge.requests(40)
        assert await judge.live().ask([*requests, *requests[:9]], judge.caller()) == {"ok": 40}
        assert server.calls == len(server.app.till.paid) == 40
        replies = await judge.books.replies(request.key for request in requests)
        for request in requests:
            (reply,) = replies[request.key]
            assert judge.provider.read(reply)[0].text == say(request.body).text
        assert await judge.live().ask(requests, judge.caller()) == {"ok": 40}
        assert server.calls == 40
        row = await judge.row()
        assert (row.held, row.spent) == (0, server.paid)
        assert sum(cost for _, cost in judge.heard) == server.paid


@pytest.mark.parametrize("concurrency", [1, 4, 16])
async def test_a_match_is_begun_only_if_the_budget_covers_both_orders(concurrency: int, file: str) -> None:
    async with billed(latency=0.002) as server, asker(server, KINDS[0], file) as judge:
        requests = [
            replace(request, match=Match("d", str(number // 2), "a", "b"))
            for number, request in enumerate(judge.requests(40))
        ]
        worst = max(request.worst for request in requests)
        # Replies cost far less than the worst case: this pays for about half of them.
        cap = worst * 26 // 10
        await judge.books.run(Ledger.open_run, RUN, "plan", cap)
        counts = await judge.live().ask(requests, judge.caller(concurrency=concurrency))
        row = await judge.row()
        # What is left is less than the worst case of one more match.
        assert cap - row.spent < 2 * worst
        assert 4 < counts["ok"] < 36
        replies = await judge.books.replies(request.key for request in requests)
        answered = Counter(request.match for request in requests if request.key in replies)
        assert set(answered.values()) == {2}
        assert counts["ok"] == len(replies) == 40 - counts["unasked"]
        # With one order in the cache, only the other has to be paid for.
        await judge.books.run(Ledger.open_run, "another", "plan", requests[-1].worst)
        judge.run = "another"
        half = [replace(requests[0], match=requests[-1].match), requests[-1]]
        assert await judge.live().ask(half, judge.caller()) == {"ok": 2}


@both
@pytest.mark.parametrize(("garble", "limit", "state"), [(1.0, 32, "unparseable"), (0.0, 1, "truncated")])
async def test_what_cannot_be_read_is_asked_once_more_and_never_a_third_time(
    kind: str, garble: float, limit: int, state: str, file: str
) -> None:
    async with billed(garble=garble) as server, asker(server, kind, file) as judge:
        requests = judge.requests(4, max_tokens=limit)
        for _ in range(2):
            assert await judge.live().ask(requests, judge.caller()) == {state: 4}
            assert server.calls == 8
        assert Counter((row.ask, row.state) for row in await judge.attempts()) == {
            (0, state): 4,
            (1, state): 4,
        }


@both
async def test_a_refusal_is_an_answer(kind: str, file: str) -> None:
    async with billed(refuse=1.0) as server, asker(server, kind, file) as judge:
        assert await judge.live().ask(judge.requests(3), judge.caller()) == {"refused": 3}
        assert server.calls == 3


FAULTS = {
    "throttle": ("provider_error", False),
    "overload": ("provider_error", False),
    "server_error": ("provider_error", False),
    "drop_before": ("lost", False),
    "drop_after": ("lost", True),
    "truncate": ("lost", True),
}


@both
@pytest.mark.parametrize("fault", FAULTS)
async def test_each_fault_has_its_state_and_what_may_be_charged_counts_as_spent(
    kind: str, fault: str, file: str
) -> None:
    state, paid = FAULTS[fault]

    async with billed(**{fault: 1.0}, times=1) as server, asker(server, kind, file) as judge:
        requests = judge.requests(3)
        assert await judge.live().ask(requests, judge.caller()) == {"ok": 3}
        assert server.calls == (6 if paid else 3)
        assert await judge.states() == {"ok": 3, state: 3}
        failed = [row for row in await judge.attempts() if row.state == state]
        lost = state == "lost"
        assert sorted(row.cost for row in failed) == sorted(
            request.worst if lost else 0 for request in requests
        )
        assert all(row.error and row.finished_at is not None for row in failed)
        assert (await judge.row()).held == 0
        assert (await judge.row()).spent >= server.paid


@both
@pytest.mark.parametrize("fault", ["server_error", "drop_after"])
async def test_when_retries_run_out_it_is_an_error_of_the_provider(kind: str, fault: str, file: str) -> None:
    async with billed(**{fault: 1.0}, times=99) as server, asker(server, kind, file) as judge:
        assert await judge.live().ask(judge.requests(2), judge.caller(retries=2)) == {"provider_error": 2}
        assert server.app.till.requests["live"] == 6
        assert sum((await judge.states()).values()) == 6
        assert await judge.books.replies(one.key for one in judge.requests(2)) == {}


async def test_what_asking_again_cannot_help_is_not_asked_again(file: str) -> None:
    async with billed(key="another") as server, asker(server, "openai", file) as judge:
        assert await judge.live().ask(judge.requests(2), judge.caller()) == {"provider_error": 2}
        assert await judge.states() == {"provider_error": 2}
        assert (await judge.row()).spent == 0


async def test_an_unreadable_reply_stands_where_asking_again_fails(file: str) -> None:
    async with billed(garble=1.0) as server, asker(server, "openai", file) as judge:
        request = judge.requests(1)
        cap = server.app.behaviour.prices.input  # covers nothing more once the first is paid
        await judge.books.run(Ledger.open_run, RUN, "plan", request[0].worst + cap)
        assert await judge.live().ask(request, judge.caller()) == {"unparseable": 1}
        assert server.calls == 1


@both
async def test_retry_after_is_honoured_and_told_to_all(kind: str, file: str) -> None:
    async with (
        billed(throttle=1.0, times=1, retry_after=0.2) as server,
        asker(server, kind, file) as judge,
    ):
        gate = shared_gate(judge)
        began = time.time()
        asking = asyncio.create_task(judge.live().ask(judge.requests(1), judge.caller(gate=gate)))
        await until(lambda: server.app.till.faults["throttle"])
        paused = await paused_until(judge, began)
        other = shared_gate(judge)
        await other.enter()
        assert time.time() >= paused >= began + 0.2
        assert await asking == {"ok": 1}
        first, second = await judge.attempts()
        assert second.started_at - first.finished_at >= 0.2


async def paused_until(judge: Asker, after: float) -> float:
    """How long everybody with the key must wait, once somebody was told to, and wrote it down."""
    paused = 0.0
    async with asyncio.timeout(60):
        while paused <= after:
            _, paused = await judge.books.run(Ledger.take_permits, "key", 0, 0.0)
    return paused


def shared_gate(judge: Asker) -> ConcurrencyLimiter:
    async def permits(count: int, interval: float) -> tuple[float, float]:
        return await judge.books.run(Ledger.take_permits, "key", count, interval)

    async def pause(until: float) -> None:
        await judge.books.run(Ledger.pause, "key", until)

    return ConcurrencyLimiter(8, permits=permits, pause=pause)


async def test_concurrency_is_kept_and_halved_when_the_provider_asks_for_it(file: str) -> None:
    async with (
        billed(latency=0.01, throttle=0.3, times=1, retry_after=0.01) as server,
        asker(server, "openai", file) as judge,
    ):
        gate, allowed = ConcurrencyLimiter(8), []
        throttle = gate.throttle

        async def noted(retry_after: float | None) -> None:
            await throttle(retry_after)
            allowed.append(gate.allowed)

        gate.throttle = noted
        assert await judge.live().ask(judge.requests(60), judge.caller(gate=gate)) == {"ok": 60}
        assert server.app.till.peak_in_flight <= 8
        assert allowed[0] == 4
        assert gate.allowed > min(allowed)
        assert gate.in_flight == 0


@both
async def test_the_budget_stops_what_it_does_not_cover_and_keeps_the_rest(kind: str, file: str) -> None:
    async with billed(latency=0.002) as server, asker(server, kind, file) as judge:
        requests = judge.requests(12, about="word " * 2000)
        await judge.books.run(Ledger.open_run, RUN, "plan", 2 * requests[0].worst)
        counts = await judge.live().ask(requests, judge.caller())
        assert set(counts) == {"ok", "unasked"}
        assert server.calls == counts["ok"]
        row = await judge.row()
        assert (row.held, row.spent) == (0, server.paid)
        assert row.spent <= 2 * requests[0].worst < row.spent + requests[0].worst
        # A larger budget goes on where the smaller one ended.
        await judge.books.run(Ledger.open_run, RUN, "plan", None)
        assert await judge.live().ask(requests, judge.caller()) == {"ok": 12}
        assert server.calls == 12


async def test_an_unknown_price_is_never_a_cost_of_nothing(file: str) -> None:
    async with billed() as server, asker(server, "openai", file, priced=False) as judge:
        assert await judge.live().ask(judge.requests(2), judge.caller()) == {"ok": 2}
        assert [row.cost for row in await judge.attempts()] == [None, None]
        assert judge.heard == [("ok", None)] * 2


async def test_usage_that_is_not_stated_or_not_believable_costs_the_worst_case(file: str) -> None:
    async with billed() as server, asker(server, "openai", file) as judge:
        requests = judge.requests(2)
        read, stated = judge.provider.read, iter([None, Usage(10**30, 1)])
        judge.provider.read = lambda body: (read(body)[0], next(stated, None))
        judge.read = lambda _: QuestionState.OK
        assert await judge.live().ask(requests, judge.caller()) == {"ok": 2}
        assert [row.cost for row in await judge.attempts()] == [request.worst for request in requests]
        assert [row.input_tokens for row in await judge.attempts()] == [None, None]


@both
async def test_a_call_abandoned_in_flight_is_perhaps_paid_and_surely_lost(kind: str, file: str) -> None:
    async with billed(latency=30.0) as server, asker(server, kind, file) as judge:
        requests = judge.requests(20)
        gate = ConcurrencyLimiter(5)
        asking = asyncio.create_task(judge.live().ask(requests, judge.caller(gate=gate)))
        await until(lambda: server.app.till.in_flight == 5)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert await judge.states() == {"lost": 5}
        row = await judge.row()
        assert (row.held, row.spent) == (0, 5 * requests[0].worst)
        assert row.spent >= server.paid
        assert gate.in_flight == 0
        assert [state for state, _ in judge.heard] == ["lost"] * 5


async def test_a_process_that_dies_leaves_intents_which_lose_settles(file: str) -> None:
    """The loop is thrown away as it stands: nobody is told to stop."""

    async with billed(latency=30.0) as server, asker(server, "openai", file) as judge:
        requests = judge.requests(20)
        asking = asyncio.create_task(judge.live("dying").ask(requests, judge.caller(concurrency=5)))
        await until(lambda: server.app.till.in_flight == 5)
        with closing(Ledger(file)) as other:
            assert other.run(RUN).held == 5 * requests[0].worst
            assert other.lose("dying") == 5
            assert other.run(RUN).held == 0
            spent = other.run(RUN).spent
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        # What the dead one would still have said changes nothing.
        assert (await judge.row()).spent == spent == 5 * requests[0].worst
        assert await judge.states() == {"lost": 5}
        return server.paid


async def test_a_reply_that_breaks_the_reader_is_said_as_what_it_is_and_holds_no_money(file: str) -> None:
    async with billed(latency=0.005) as server, asker(server, "openai", file) as judge:
        judge.read = lambda _: 1 // 0
        with pytest.raises(ZeroDivisionError):
            await judge.live().ask(judge.requests(6), judge.caller())
        row = await judge.row()
        assert row.held == 0
        assert row.spent >= server.paid


async def test_two_who_ask_the_same_pay_once(file: str) -> None:
    async with billed(latency=0.01, garble=0.3) as server, asker(server, "openai", file) as judge:
        requests = judge.requests(20)
        counts = await asyncio.gather(
            judge.live("worker-0").ask(requests, judge.caller()),
            judge.live("worker-1").ask(requests[::-1], judge.caller()),
        )
        assert counts[0] == counts[1]
        assert set(counts[0]) == {"ok", "unparseable"}
        assert server.calls == 20 + counts[0]["unparseable"]


async def test_warming_the_prompt_cache_is_paid_written_down_and_no_reply(file: str) -> None:
    async with billed() as server, asker(server, "anthropic", file) as judge:
        (request,) = judge.requests(1)
        assert await judge.live().prewarm(request, judge.caller())
        assert server.app.till.prewarms == 1
        (row,) = await judge.attempts()
        assert (row.ask, row.question_id, row.state) == (PREWARM, "", "ok")
        assert (await judge.row()).spent == server.paid > 0
        assert sum(cost for _, cost in judge.heard) == server.paid
        assert await judge.books.replies([request.key]) == {}
        await judge.books.run(Ledger.open_run, RUN, "plan", 1)
        assert not await judge.live().prewarm(request, judge.caller())
    async with billed() as server, asker(server, "openai", file) as judge:
        assert not await judge.live().prewarm(judge.requests(1)[0], judge.caller())
        assert (await judge.states())["provider_error"] == 1


def test_waits_grow_and_are_never_shorter_than_asked() -> None:
    waits = [retry_delay(tries, None) for tries in range(2000)]
    assert waits[0] < waits[4] < waits[8]
    assert max(waits) <= 75
    assert retry_delay(0, 100.0) >= 100
