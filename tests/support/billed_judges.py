"""What the tests of this folder share: a billed server in the same process, requests, and judges to ask."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import pytest

from support.servers.behaviour import Behaviour
from support.servers.billed_app import BilledApp
from support.servers.paid_llm import served_app
from support.servers.replies import Prices
from tiltyard.core.judging.question import ChatPrompt
from tiltyard.core.judging.verdict import QuestionState, VerdictForm, read_reply
from tiltyard.judges import batch_calls, live_calls
from tiltyard.judges.batch_calls import BatchCalls
from tiltyard.judges.concurrency_limiter import ConcurrencyLimiter
from tiltyard.judges.ledger import Attempt, AttemptIntent, Ledger, RunRow, Settlement
from tiltyard.judges.ledger_batcher import LedgerBatcher
from tiltyard.judges.live_calls import LiveCalls
from tiltyard.judges.providers.local_replies import open_provider
from tiltyard.judges.providers.provider import Body, Provider
from tiltyard.judges.requests import JudgeCaller, JudgeRequest, request_key, token_upper_bound
from tiltyard.settings.prices import Price

KINDS = ("openai", "anthropic")
RUN = "pilot"


def price_of(prices: Prices) -> Price:
    """What the billed server charges, as the house writes it."""
    return Price(
        input=prices.input,
        output=prices.output,
        cache_write_5m=-(-prices.input * 5 // 4),
        cache_write_1h=prices.input * 2,
        cache_read=-(-prices.input // 10),
        batch_share=Fraction(1, 2),
    )


@dataclass
class Billed:
    """The server's address, and its own books."""

    app: BilledApp
    url: str

    @property
    def paid(self) -> int:
        return self.app.till.picodollars

    @property
    def calls(self) -> int:
        return self.app.till.live_calls + self.app.till.batch_calls

    def base_url(self, kind: str) -> str:
        return f"{self.url}/v1" if kind == "openai" else self.url


@asynccontextmanager
async def billed(**behaviour: Any) -> AsyncIterator[Billed]:
    """The billed server on the loop of the test: new books, nothing shared with other tests."""
    async with served_app(Behaviour(**{"batch_seconds": 0.0, **behaviour})) as (app, url):
        yield Billed(app, url)


@dataclass
class Asker:
    """One judge at the billed server, its ledger, and all that was heard."""

    provider: Provider
    price: Price | None
    books: LedgerBatcher
    heard: list[tuple[str, int | None]] = field(default_factory=list)
    run: str = RUN

    def requests(
        self, count: int, *, about: str = "", max_tokens: int = 32, batch: bool = False
    ) -> list[JudgeRequest]:
        return [self._request(f"{about} {number}", max_tokens, batch) for number in range(count)]

    def _request(self, user: str, max_tokens: int, batch: bool) -> JudgeRequest:
        body = self.provider.body(
            "small", ChatPrompt("End with VERDICT.", user, max_tokens, VerdictForm.TEXT), {}
        )
        key, size = request_key(self.provider, body, 0)
        worst = None
        if self.price is not None:
            worst = self.price.worst(token_upper_bound(size), max_tokens, batch=batch)
        return JudgeRequest(key, f"q{user}", "judge", "overall", body, size, worst, user)

    def caller(self, **given: Any) -> JudgeCaller:
        gate = given.pop("gate", None) or ConcurrencyLimiter(given.pop("concurrency", 8))
        stated = {"name": "judge", "provider": self.provider, "price": self.price, "retries": 3, **given}
        return JudgeCaller(gate=gate, read=self.read, **stated)

    def read(self, body: Body) -> QuestionState:
        return read_reply(self.provider.read(body)[0], VerdictForm.TEXT).state

    def live(self, worker: str = "worker-0") -> LiveCalls:
        return LiveCalls(self.run, worker, self.books, self._sync_clock)

    def batches(self, shard: str = "0", worker: str = "worker-0") -> BatchCalls:
        return BatchCalls(self.run, shard, worker, self.books, self._sync_clock)

    async def row(self) -> RunRow:
        await self.books.drained()
        return await self.books.run(Ledger.run, self.run)

    async def attempts(self) -> list[Attempt]:
        await self.books.drained()
        return await self.books.run(lambda ledger: list(ledger.attempts(self.run)))

    async def states(self) -> Counter[str]:
        return Counter(attempt.state for attempt in await self.attempts())

    def _sync_clock(self, state: str, cost: int | None) -> None:
        self.heard.append((state, cost))


@asynccontextmanager
async def asker(
    server: Billed, kind: str, database: str, *, cap: int | None = None, run: str = RUN, priced: bool = True
) -> AsyncIterator[Asker]:
    """A judge of one provider at the billed server, with a run in the ledger."""
    books = LedgerBatcher(database)
    provider = open_provider(kind, server.base_url(kind), "key", 10)
    try:
        await books.run(Ledger.open_run, run, "plan", cap)
        price = price_of(server.app.behaviour.prices) if priced else None
        yield Asker(provider, price, books, run=run)
    finally:
        await provider.aclose()
        await books.drained()
        books.close()


class Interrupted:
    """A provider whose caller is stopped just before, or just after, a batch is created."""

    def __init__(self, inner: Provider, *, after: bool) -> None:
        self._inner = inner
        self._after = after
        self.reached = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def submit_batch(self, items: Any, mark: str) -> str:
        if self._after:
            await self._inner.submit_batch(items, mark)
        self.reached.set()
        await asyncio.get_running_loop().create_future()
        raise AssertionError


async def stopped(work: Any, reached: asyncio.Event) -> None:
    """Run until a moment is reached, then no further."""
    task = asyncio.create_task(work)
    await asyncio.wait_for(reached.wait(), 60)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def intent(key: str = "k", reserved: int = 10, **given: Any) -> AttemptIntent:
    stated = {
        "attempt_id": f"a-{key}-{next(_numbers)}",
        "run": RUN,
        "request_key": key,
        "ask": 0,
        "question_id": f"q-{key}",
        "judge": "judge",
        "dimension": "overall",
        "worker": "worker-0",
        "reserved": reserved,
    }
    return AttemptIntent(**{**stated, **given})


def settlement(
    of: AttemptIntent, cost: int | None, *, state: str = QuestionState.OK, **given: Any
) -> Settlement:
    return Settlement(of.attempt_id, of.run, of.request_key, of.ask, of.reserved, state, cost, **given)


_numbers = iter(range(10**9))


async def until(condition: Callable[[], object]) -> None:
    """Until something is so; not for ever."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        await asyncio.sleep(0.001)


def shorten(monkeypatch: pytest.MonkeyPatch) -> None:
    """All waits of the house a hundred times shorter."""
    monkeypatch.setattr(live_calls, "_FIRST_RETRY_SECONDS", 0.002)
    monkeypatch.setattr(live_calls, "_FIRST_POLL_SECONDS", 0.002)
    monkeypatch.setattr(live_calls, "_MAX_POLL_SECONDS", 0.02)
    monkeypatch.setattr(batch_calls, "_FIRST_POLL_SECONDS", 0.002)
    monkeypatch.setattr(batch_calls, "_OTHER_SHARD_POLL_SECONDS", 0.02)
    monkeypatch.setattr(batch_calls, "_FIRST_SEARCH_SECONDS", 0.002)
    monkeypatch.setattr(batch_calls, "_MAX_SEARCH_SECONDS", 0.02)
    monkeypatch.setattr(batch_calls, "_SEARCH_TIMEOUT_SECONDS", 0.02)
    monkeypatch.setattr(batch_calls, "_BATCH_QUEUE_RETRY_SECONDS", 0.002)
