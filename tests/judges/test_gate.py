"""The gate: how many at once, how fast, and for how long nobody."""

import asyncio
import time
from contextlib import closing

import pytest

from tiltyard.errors import ProviderFault
from tiltyard.judges.concurrency_limiter import ConcurrencyLimiter
from tiltyard.judges.ledger import Ledger


def gate_on(ledger: Ledger, concurrency: int = 50, **given) -> ConcurrencyLimiter:
    async def permits(count: int, interval: float) -> tuple[float, float]:
        return ledger.take_permits("key", count, interval)

    async def pause(until: float) -> None:
        ledger.pause("key", until)

    return ConcurrencyLimiter(concurrency, permits=permits, pause=pause, **given)


async def test_calls_at_once_double_each_round_until_the_provider_asks_for_fewer() -> None:
    gate = ConcurrencyLimiter(100)
    for expected in (8, 16, 32, 64, 100, 100):
        assert int(gate.allowed) == expected
        for _ in range(expected):
            await gate.enter()
        for _ in range(expected):
            gate.leave(well=True)
    await gate.throttle(None)
    await gate.throttle(None)
    assert gate.allowed == 50
    for _ in range(50):
        await gate.enter()
    for _ in range(50):
        gate.leave(well=True)
    assert 50.9 < gate.allowed < 51.1


async def test_a_gate_never_closes_altogether() -> None:
    gate = ConcurrencyLimiter(4)
    for _ in range(5):
        gate._cut_at = -10.0
        await gate.throttle(None)
    assert gate.allowed == 1
    await asyncio.wait_for(gate.enter(), 1)


async def test_no_more_than_allowed_are_inside_and_the_first_to_come_is_the_first_to_go_in() -> None:
    gate, inside, most, order = ConcurrencyLimiter(3), 0, 0, []

    async def one(number: int) -> None:
        nonlocal inside, most
        await gate.enter()
        order.append(number)
        inside += 1
        most = max(most, inside)
        await asyncio.sleep(0.001)
        inside -= 1
        gate.leave(well=number % 2 == 0)

    await asyncio.gather(*(one(number) for number in range(40)))
    assert most == 3
    assert order == list(range(40))
    assert gate.in_flight == 0


async def test_whoever_stops_waiting_takes_no_place_and_breaks_nothing() -> None:
    gate = ConcurrencyLimiter(1)
    await gate.enter()
    waiting = [asyncio.create_task(gate.enter()) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    waiting[1].cancel()
    # Both are cancelled, and have not heard of it, when a place becomes free.
    gate.leave(well=False)
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(result) for result in results] == [
        asyncio.CancelledError,
        asyncio.CancelledError,
        type(None),
    ]
    assert gate.in_flight == 1
    late = asyncio.create_task(gate.enter())
    await asyncio.sleep(0)
    late.cancel()
    await asyncio.sleep(0)
    next_one = asyncio.create_task(gate.enter())
    await asyncio.sleep(0)
    # The place is handed over, and whoever has it is told to stop in the same moment.
    gate.leave(well=False)
    next_one.cancel()
    with pytest.raises(asyncio.CancelledError):
        await next_one
    assert gate.in_flight == 0
    await asyncio.wait_for(gate.enter(), 1)


def test_a_pause_holds_everybody_with_the_same_key(file: str) -> None:
    async def two_workers() -> float:
        with closing(Ledger(file)) as ledger:
            mine, theirs = gate_on(ledger), gate_on(ledger)
            began = time.time()
            await mine.throttle(0.15)
            await asyncio.gather(mine.enter(), theirs.enter())
            return time.time() - began

    assert 0.15 <= asyncio.run(two_workers()) < 60


def test_a_pause_that_grows_while_somebody_waits_is_waited_for() -> None:
    async def one() -> float:
        gate = ConcurrencyLimiter(4)
        began = time.time()
        await gate.throttle(0.05)
        waiting = asyncio.create_task(gate.enter())
        await asyncio.sleep(0.02)
        await gate.throttle(0.15)
        await waiting
        return time.time() - began

    assert asyncio.run(one()) >= 0.17


async def test_somebody_cancelled_in_a_pause_leaves_their_place() -> None:
    gate = ConcurrencyLimiter(1)
    await gate.throttle(60)
    waiting = asyncio.create_task(gate.enter())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert gate.in_flight == 0


@pytest.mark.parametrize("shared", [True, False])
def test_the_rate_is_kept_by_all_gates_of_one_key(file: str, shared: bool) -> None:
    per_minute = 6000.0

    async def crowd() -> list[float]:
        left: list[float] = []
        with closing(Ledger(file)) as ledger:
            gates = [gate_on(ledger, per_minute=per_minute) for _ in range(2)]
            gates = gates if shared else [ConcurrencyLimiter(50, per_minute=per_minute)] * 2

            async def one(gate: ConcurrencyLimiter) -> None:
                await gate.enter()
                left.append(time.time())
                gate.leave(well=True)

            await asyncio.gather(*(one(gates[number % 2]) for number in range(30)))
        return sorted(left)

    began = time.time()
    moments = asyncio.run(crowd())
    interval = 60 / per_minute
    assert all(moment - began >= number * interval - 0.002 for number, moment in enumerate(moments))
    assert moments[-1] - began < 60


def fault(status: int | None, **given: bool) -> ProviderFault:
    return ProviderFault(f"status {status}", status=status, **given)


def is_closed(gate: ConcurrencyLimiter) -> bool:
    async def enter() -> None:
        await gate.enter()
        gate.leave(well=False)

    try:
        asyncio.run(asyncio.wait_for(enter(), 5))
    except ProviderFault:
        return True
    return False


def test_eight_in_a_row_are_enough():
    gate = ConcurrencyLimiter(4)
    for _ in range(7):
        gate.tell(fault(404, fatal=True))
    assert not is_closed(gate)
    gate.tell(fault(404, fatal=True))
    assert is_closed(gate)


@pytest.mark.parametrize(("concurrency", "sent"), [(1, 8), (4, 8), (8, 8), (12, 12), (40, 40)])
def test_no_more_calls_are_refused_than_it_takes_or_were_in_flight(concurrency, sent):
    """All calls in flight meet a model that was retired; none is added to them but those that are needed to be sure."""

    async def crowd() -> tuple[int, int]:
        gate, begun, refused = ConcurrencyLimiter(concurrency), 0, 0
        gate.allowed = float(concurrency)
        gate.tell(None)

        async def one() -> None:
            nonlocal begun, refused
            await gate.enter()
            begun += 1
            await asyncio.sleep(0.001 * begun)
            refused += 1
            gate.tell(fault(404, fatal=True))
            gate.leave(well=False)

        ended = await asyncio.gather(*(one() for _ in range(100)), return_exceptions=True)
        assert sum(isinstance(ending, ProviderFault) for ending in ended) == 100 - refused
        return begun, gate.in_flight

    assert asyncio.run(crowd()) == (sent, 0)


async def test_after_a_call_that_is_served_all_may_be_sent_again():
    gate = ConcurrencyLimiter(8)
    for _ in range(6):
        gate.tell(fault(403, fatal=True))
    for _ in range(2):
        await gate.enter()
    waiting = asyncio.create_task(gate.enter())
    await asyncio.sleep(0)
    assert not waiting.done()
    gate.tell(None)
    gate.leave(well=True)
    await asyncio.wait_for(waiting, 5)
    for _ in range(6):
        await asyncio.wait_for(gate.enter(), 5)


def test_throttled_for_a_quarter_of_an_hour_it_gives_up(monkeypatch):
    def slower() -> ProviderFault:
        return ProviderFault("status 429", status=429, retryable=True, throttled=True)

    gate, now = ConcurrencyLimiter(4), time.monotonic()
    monkeypatch.setattr("tiltyard.judges.concurrency_limiter.time.monotonic", lambda: now)
    for served in (True, False):
        gate.tell(slower())
        now += 890.0
        gate.tell(slower())
        if served:
            gate.tell(None)
    now += 20.0
    monkeypatch.undo()
    assert not is_closed(gate)
    monkeypatch.setattr("tiltyard.judges.concurrency_limiter.time.monotonic", lambda: now)
    gate.tell(slower())
    monkeypatch.undo()
    assert is_closed(gate)
    with pytest.raises(ProviderFault, match="throttled for 15"):
        gate.check()


@pytest.mark.parametrize("other", [None, 400, 500])
def test_anything_else_in_between_begins_the_count_anew(other):
    gate = ConcurrencyLimiter(4)
    for _ in range(5):
        for _ in range(7):
            gate.tell(fault(403, fatal=True))
        gate.tell(None if other is None else fault(other))
    assert not is_closed(gate)


def test_an_exhausted_quota_is_no_throttled_call():
    """Both have the status 429; only one of them is over after a while."""
    gate = ConcurrencyLimiter(4)
    for _ in range(20):
        gate.tell(ProviderFault("slower", status=429, retryable=True, throttled=True))
    assert not is_closed(gate)
    for _ in range(8):
        gate.tell(ProviderFault("no quota", status=429, fatal=True))
    assert is_closed(gate)


async def test_whoever_waits_hears_why_but_only_after_the_calls_under_way_have_come_back():
    gate = ConcurrencyLimiter(2)
    await gate.enter()
    await gate.enter()
    waiting = [asyncio.create_task(gate.enter()) for _ in range(5)]
    for _ in range(8):
        gate.tell(fault(401, fatal=True))
    gate.leave(well=False)
    await asyncio.sleep(0.01)
    assert not any(task.done() for task in waiting)
    gate.leave(well=True)
    ended = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 5)
    assert all(isinstance(one, ProviderFault) and one.status == 401 for one in ended)
    assert gate.in_flight == 0
    with pytest.raises(ProviderFault, match="status 401"):
        await asyncio.wait_for(gate.enter(), 5)


@pytest.mark.parametrize(("billed", "calls"), [(False, 32), (True, 16)], ids=["nobody there", "lost replies"])
def test_calls_without_an_answer_are_given_up_but_not_once_one_arrived(billed: bool, calls: int) -> None:
    gate = ConcurrencyLimiter(4)
    for _ in range(calls - 1):
        gate.tell(fault(None, billed=billed))
    assert not is_closed(gate)
    gate.tell(fault(None, billed=billed))
    assert is_closed(gate)
    lively = ConcurrencyLimiter(4)
    lively.tell(None)
    for _ in range(100):
        lively.tell(fault(None, billed=billed))
    assert not is_closed(lively)


def failing(calls_at_once: int, monkeypatch, *, served_after: int | None = None) -> tuple[int, bool]:
    """Requests that retry for ever while every call fails with an error that may pass; calls sent, and whether it gave up."""
    monkeypatch.setattr("tiltyard.judges.concurrency_limiter._FIRST_PROBE_SECONDS", 0.01)

    async def crowd() -> tuple[int, bool]:
        gate, sent = ConcurrencyLimiter(64), 0
        gate.allowed = float(calls_at_once)

        async def one() -> None:
            nonlocal sent
            while True:
                await gate.enter()
                sent += 1
                await asyncio.sleep(0.002)
                served = served_after is not None and sent > served_after
                gate.tell(None if served else fault(502, retryable=True, billed=True))
                gate.leave(well=served)
                if served:
                    return

        ended = await asyncio.gather(*(one() for _ in range(80)), return_exceptions=True)
        return sent, all(isinstance(one, ProviderFault) for one in ended)

    return asyncio.run(crowd())


@pytest.mark.parametrize(("calls_at_once", "most"), [(8, 8 + 7 + 6), (64, 64 + 7 + 6)])
def test_a_provider_that_answers_with_errors_alone_is_given_up(calls_at_once, most, monkeypatch):
    sent, gave_up = failing(calls_at_once, monkeypatch)
    assert gave_up
    assert sent <= most


def test_a_provider_that_comes_back_in_time_serves_all(monkeypatch):
    sent, gave_up = failing(8, monkeypatch, served_after=17)
    assert not gave_up
    assert sent == 17 + 80
