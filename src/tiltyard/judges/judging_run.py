"""The sitting: questions put to judges, by one worker or several, until all are answered."""

from __future__ import annotations

import asyncio
import hashlib
import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from tiltyard.errors import JudgeUnusable
from tiltyard.jobs import Engine, Shard, WorkerHooks, open_engine
from tiltyard.judges.batch_calls import BatchCalls
from tiltyard.judges.concurrency_limiter import ConcurrencyLimiter
from tiltyard.judges.judge_setup import JudgeSetup
from tiltyard.judges.ledger import Ledger
from tiltyard.judges.ledger_batcher import LedgerBatcher
from tiltyard.judges.live_calls import LiveCalls
from tiltyard.judges.reply_limits import LearnedLimits
from tiltyard.judges.requests import JudgeCaller, JudgeRequest
from tiltyard.judges.unusable_judges import UNUSABLE, UnusableReplies
from tiltyard.settings.environment import Environment

__all__ = ["JudgingDatabases", "JudgingOutcome", "JudgingWorker", "RequestPlan", "RunProgress", "run_judging"]

#: Shards of batches that may be under way at once: each waits for hours and does nothing meanwhile.
_BATCH_SHARD_LIMIT = 64
#: Seconds for which a helping worker waits for its leader to begin.
_LEADER_WAIT_SECONDS = 60.0


@dataclass(frozen=True)
class JudgingDatabases:
    """Where the ledger and the engine keep their tables."""

    ledger: str
    engine: str
    #: Where workers' locks are; ``None`` where the server holds them.
    folder: Path | None

    @classmethod
    def of(cls, environment: Environment, judgments: Path | None) -> JudgingDatabases:
        """A PostgreSQL server where the environment names one, else files in a folder."""
        if environment.database_url is not None:
            return cls(environment.database_url, environment.database_url, None)
        folder = (judgments or environment.home).resolve()
        return cls(f"sqlite:///{folder}/ledger.sqlite", f"sqlite:///{folder}/dbos.sqlite", folder / "workers")

    @property
    def shown(self) -> str:
        """Where that is, for people; an address may hold a password."""
        return (
            "the database of DATABASE_URL" if self.folder is None else self.ledger.removeprefix("sqlite:///")
        )


@dataclass
class RunProgress:
    """What this worker has heard so far, for those who watch."""

    states: Counter[str] = field(default_factory=Counter)
    #: Picodollars; ``None`` once a call came back whose price is unknown.
    spent: int | None = 0
    #: Told of it about four times a second.
    on_tick: Callable[[RunProgress], None] | None = None

    def __call__(self, state: str, cost: int | None) -> None:
        self.states[state] += 1
        self.spent = None if cost is None or self.spent is None else self.spent + cost

    @property
    def calls(self) -> int:
        return sum(self.states.values())

    def tick(self) -> None:
        """Tell whoever watches."""
        if self.on_tick is not None:
            self.on_tick(self)


class RequestPlan(Protocol):
    """What is to be asked of whom: requests with numbers, in stretches that can be done by anyone."""

    @property
    def seats(self) -> Sequence[JudgeSetup]: ...
    def requests(self, first: int, last: int) -> Iterator[JudgeRequest]:
        """Requests ``first`` up to, not including, ``last``."""
        ...

    def shards(self, run: str, generation: int, size: int) -> Iterator[Shard]: ...
    def prewarm_requests(self) -> Iterator[JudgeRequest]:
        """One request for each prompt cache that is worth filling beforehand."""
        ...

    def trial(self) -> Iterator[JudgeRequest]:
        """A few requests of each judge that is asked live, on different prompts.

        They are asked first: an unusable judge is found out before much is spent.
        """
        ...


@dataclass(frozen=True)
class JudgingOutcome:
    """How a sitting ended: shards by state, and why some failed."""

    shards: Counter[str]
    failures: Mapping[str, str]

    @property
    def unusable(self) -> str | None:
        """Why a judge is not to be asked any more, where one of the workers found that."""
        return next((why for why in self.failures.values() if why.startswith(UNUSABLE)), None)


def run_judging(
    agenda: RequestPlan,
    run: str,
    databases: JudgingDatabases,
    *,
    shard_size: int,
    prewarm: bool = False,
    lead: bool = True,
    heard: RunProgress | None = None,
) -> JudgingOutcome:
    """Ask everything that the cache does not hold. ``lead``: submit the shards, not only help with them.

    A pass over the plan that was cut short is gone on with; after a whole one, a new pass asks
    again what ended without a reply.
    """
    heard = heard or RunProgress()
    judging = JudgingWorker(agenda, run, databases, heard, prewarm=prewarm and lead, trial=lead)
    ledger = Ledger(databases.ledger)
    try:
        with open_engine(
            databases.engine,
            databases.folder,
            judging.work,
            run=run,
            parallel=_parallel(agenda, shard_size),
            hooks=WorkerHooks(judging.dead, judging.start, judging.stop),
        ) as engine:
            if lead:
                generation = _open_pass(engine, ledger, run)
                engine.submit(agenda.shards(run, generation, shard_size))
            else:
                generation = _submitted(engine, ledger, run)
            shards = engine.wait(run, generation, on_tick=heard.tick)
            return JudgingOutcome(shards, engine.failures(run, generation))
    finally:
        ledger.close()


def _open_pass(engine: Engine, ledger: Ledger, run: str) -> int:
    """The pass over the plan that is to be gone on with, or a new one."""
    generation = ledger.run(run).generation
    before = engine.status(run, generation)
    if before and not (before["waiting"] or before["running"]):
        return ledger.next_generation(run, generation)
    return generation


def _submitted(engine: Engine, ledger: Ledger, run: str) -> int:
    """The pass that the leader has begun; a little patience for one that is only starting."""
    end = time.monotonic() + _LEADER_WAIT_SECONDS
    while True:
        generation = ledger.run(run).generation
        if engine.status(run, generation) or time.monotonic() > end:
            return generation
        time.sleep(0.2)


def _parallel(agenda: RequestPlan, shard_size: int) -> int:
    """Enough shards at once that no place among the calls under way stays empty."""
    if any(seat.settings.batch for seat in agenda.seats):
        return _BATCH_SHARD_LIMIT
    most = max(seat.settings.concurrency for seat in agenda.seats)
    return max(2, math.ceil(2 * most / shard_size) + 1)


class JudgingWorker:
    """The work of one worker, on the engine's event loop."""

    def __init__(
        self,
        agenda: RequestPlan,
        run: str,
        databases: JudgingDatabases,
        heard: RunProgress,
        *,
        prewarm: bool = False,
        trial: bool = False,
    ) -> None:
        self._agenda = agenda
        self._run = run
        self._databases = databases
        self._heard = heard
        self._prewarm = prewarm
        self._wants_trial = trial
        #: How the first questions ended, or why they did not, by key; their keys are known beforehand.
        self._trial: asyncio.Task[dict[str, str | BaseException]] | None = None
        self._tried: frozenset[str] = frozenset()
        self.worker = ""

    def dead(self, worker: str) -> None:
        """A worker is dead, or was before us under our name: what it had in flight is lost."""
        self.worker = self.worker or worker
        ledger = Ledger(self._databases.ledger)
        try:
            lost = ledger.lose(worker)
        finally:
            ledger.close()
        self._heard.states["lost"] += lost

    async def start(self) -> None:
        self._books = LedgerBatcher(self._databases.ledger)
        self._callers = {seat.name: self._caller(seat) for seat in self._agenda.seats}
        if self._prewarm:
            await self._warm()
        if self._wants_trial:
            # Not waited for: what another worker has in flight is only given up later.
            first = list(self._agenda.trial())
            self._tried = frozenset(request.key for request in first)
            self._trial = asyncio.get_running_loop().create_task(self._try_judges(first))

    async def stop(self) -> None:
        if self._trial is not None:
            self._trial.cancel()
            await asyncio.gather(self._trial, return_exceptions=True)
        await self._books.drained()
        for seat in self._agenda.seats:
            await seat.provider.aclose()
        self._books.close()

    async def work(self, shard: Shard) -> dict[str, int]:
        """Put the questions of a shard to their judges."""
        by_judge: dict[str, list[JudgeRequest]] = defaultdict(list)
        tried: list[str] = []
        for request in self._agenda.requests(shard.first, shard.last):
            if request.key in self._tried:
                tried.append(request.key)
            else:
                by_judge[request.judge].append(request)
        # To the end, whatever becomes of one of them: calls of the others that are under way are paid for.
        ended = await asyncio.gather(
            *(
                self._asker(shard, caller).ask(by_judge[name], caller)
                for name, caller in self._callers.items()
                if name in by_judge
            ),
            return_exceptions=True,
        )
        total: Counter[str] = Counter()
        for one in ended:
            if isinstance(one, BaseException):
                raise one
            total += one
        return dict(total + await self._trial_endings(tried))

    async def _trial_endings(self, keys: Sequence[str]) -> Counter[str]:
        """How questions of a shard ended that were asked first; an error there is an error here."""
        if self._trial is None or not keys:
            return Counter()
        # Other shards wait for the same: whoever is stopped does not stop it.
        endings = await asyncio.shield(self._trial)
        total: Counter[str] = Counter()
        for key in keys:
            ending = endings[key]
            if isinstance(ending, BaseException):
                raise ending
            total[ending] += 1
        return total

    def _asker(self, shard: Shard, caller: JudgeCaller) -> LiveCalls | BatchCalls:
        if caller.batch:
            # A later pass over the plan goes on with what an earlier one left under way.
            return BatchCalls(self._run, str(shard.index), self.worker, self._books, self._heard)
        return self._live()

    def _live(self) -> LiveCalls:
        return LiveCalls(self._run, self.worker, self._books, self._heard)

    def _caller(self, seat: JudgeSetup) -> JudgeCaller:
        books, name = self._books, _limit_name(seat)

        async def permits(count: int, interval: float) -> tuple[float, float]:
            return await books.run(Ledger.take_permits, name, count, interval)

        async def pause(until: float) -> None:
            await books.run(Ledger.pause, name, until)

        settings = seat.settings
        gate = ConcurrencyLimiter(
            settings.concurrency, per_minute=settings.requests_per_minute, permits=permits, pause=pause
        )
        counted = UnusableReplies(seat.name, seat.form, settings.max_tokens)

        def stop(reason: JudgeUnusable) -> None:
            for caller in self._callers.values():
                caller.gate.close(reason)

        return JudgeCaller(
            name=seat.name,
            provider=seat.provider,
            price=seat.price,
            gate=gate,
            read=seat.read,
            batch=settings.batch,
            ttl=seat.ttl,
            retries=settings.retries,
            limits=seat.limits,
            learned=LearnedLimits(context=seat.traits.context),
            unusable=counted if seat.judges else None,
            stop=stop,
        )

    async def _try_judges(self, requests: Sequence[JudgeRequest]) -> dict[str, str | BaseException]:
        """Ask each judge a few questions on different prompts, before and beside the shards."""
        asked = (self._live().ask([request], self._callers[request.judge]) for request in requests)
        endings = await asyncio.gather(*asked, return_exceptions=True)
        return {
            request.key: ending if isinstance(ending, BaseException) else next(iter(ending))
            for request, ending in zip(requests, endings, strict=True)
        }

    async def _warm(self) -> None:
        """Fill the prompt caches that the questions still to be asked will read from."""
        for request in self._agenda.prewarm_requests():
            caller = self._callers[request.judge]
            known = await self._books.replies([request.key])
            if caller.due(request, known.get(request.key, [])) is not None:
                await self._live().prewarm(request, replace(caller, batch=False))


def _limit_name(seat: JudgeSetup) -> str:
    """One name for all workers that call one address with one key; the key itself is never written down."""
    said = f"{seat.provider.name}\n{seat.provider.base_url}\n{seat.settings.api_key_env}"
    return hashlib.sha256(said.encode()).hexdigest()[:32]
