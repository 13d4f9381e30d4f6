"""The law of the budget: whatever goes wrong, the server has never been paid more than the limit."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from support.billed_judges import KINDS, RUN, asker, billed, shorten
from support.servers.replies import Prices
from support.sizes import sized
from tiltyard.judges.ledger import Ledger

CHANCES = st.sampled_from([0.0, 0.0, 0.1, 0.4])
LIVE = ("throttle", "overload", "server_error", "drop_before", "drop_after", "truncate")
ITEMS = ("expire", "item_error", "bad_item")
COUNTS = ("lost_creates", "late_creates", "failed_creates", "failed_batches")
COUNTS += ("cut_results", "short_results", "late_files")


@dataclass(frozen=True)
class Schedule:
    """Everything that may differ: who is asked, what goes wrong, what it costs, and what there is."""

    kind: str
    batch: bool
    questions: int
    #: Share of what all of them would cost at worst.
    budget: float
    prices: Prices
    concurrency: int
    retries: int
    words: int
    faults: dict[str, float]


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    batch = draw(st.booleans())
    names = ITEMS if batch else LIVE
    faults = {name: draw(CHANCES) for name in names} | {"garble": draw(CHANCES), "refuse": draw(CHANCES)}
    faults |= {"seed": draw(st.integers(0, 999)), "times": draw(st.integers(1, 4)), "retry_after": 0.001}
    if batch:
        faults |= {name: draw(st.sampled_from([0, 0, 1, 2])) for name in COUNTS}
        faults["poll_fault_every"] = draw(st.sampled_from([0, 0, 7]))
    return Schedule(
        kind=draw(st.sampled_from(KINDS)),
        batch=batch,
        questions=draw(st.integers(1, 8)),
        budget=draw(st.integers(0, 26)) / 20,
        prices=Prices(draw(st.integers(1, 10**8)), draw(st.integers(1, 10**9))),
        concurrency=draw(st.integers(1, 8)),
        retries=draw(st.integers(0, 3)),
        words=draw(st.sampled_from([1, 1000])),
        faults=faults,
    )


async def run(schedule: Schedule) -> None:
    async with (
        billed(**schedule.faults, prices=schedule.prices) as server,
        asker(server, schedule.kind, "sqlite:///:memory:") as judge,
    ):
        requests = judge.requests(schedule.questions, about="word " * schedule.words, batch=schedule.batch)
        cap = int(sum(request.worst for request in requests) * schedule.budget)
        await judge.books.run(Ledger.open_run, RUN, "plan", cap)
        asking = judge.batches() if schedule.batch else judge.live()
        caller = judge.caller(
            batch=schedule.batch, concurrency=schedule.concurrency, retries=schedule.retries
        )
        counts = await asyncio.wait_for(asking.ask(requests, caller), 30)
        row = await judge.row()
        assert server.paid <= row.spent <= cap
        assert row.held == 0
        assert sum(counts.values()) == schedule.questions
        replies = await judge.books.replies(request.key for request in requests)
        answered = sum(counts[state] for state in ("ok", "refused", "unparseable", "truncated"))
        assert len(replies) == answered
        told = sum(cost for _, cost in judge.heard)
        assert told == row.spent
        for state in counts:
            event(f"{'batch' if schedule.batch else 'live'}: {state}")


@pytest.fixture(scope="module", autouse=True)
def _quick() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        shorten(patch)
        yield


@settings(max_examples=sized(15, 200), suppress_health_check=list(HealthCheck))
@given(schedules())
def test_the_budget_is_never_exceeded_by_a_picodollar(schedule: Schedule) -> None:
    asyncio.run(run(schedule))


@settings(max_examples=sized(5, 40), suppress_health_check=list(HealthCheck))
@given(schedules(), st.floats(0.0, 0.05))
def test_nor_when_the_work_is_stopped_anywhere_and_taken_up_again(schedule: Schedule, seconds: float) -> None:
    asyncio.run(stop_and_go_on(schedule, seconds))


async def stop_and_go_on(schedule: Schedule, seconds: float) -> None:
    async with (
        billed(**schedule.faults, prices=schedule.prices, latency=0.002, batch_seconds=0.002) as server,
        asker(server, schedule.kind, "sqlite:///:memory:") as judge,
    ):
        requests = judge.requests(schedule.questions, about="word " * schedule.words, batch=schedule.batch)
        cap = int(sum(request.worst for request in requests) * schedule.budget)
        await judge.books.run(Ledger.open_run, RUN, "plan", cap)
        for patience in (seconds, seconds, 120):
            asking = judge.batches() if schedule.batch else judge.live()
            caller = judge.caller(
                batch=schedule.batch, concurrency=schedule.concurrency, retries=schedule.retries
            )
            task = asyncio.create_task(asking.ask(requests, caller))
            await asyncio.wait([task], timeout=patience)
            assert patience < 120 or task.done()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await judge.books.drained()
            await judge.books.run(Ledger.lose, "worker-0")
        counts = task.result()
        row = await judge.row()
        assert server.paid <= row.spent <= cap
        assert row.held == 0
        assert sum(counts.values()) == schedule.questions
