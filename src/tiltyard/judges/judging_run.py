"""Judges a plan: sends its requests to judges, with one worker or several, and reads the results of its questions."""

from __future__ import annotations

import asyncio
import hashlib
import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Protocol

from tiltyard.core.judging.judged_question import JudgedQuestion, match_id_of
from tiltyard.core.judging.question import Question, QuestionPurpose
from tiltyard.core.judging.verdict import ParsedReply, QuestionState, Reply
from tiltyard.errors import JudgeUnusable
from tiltyard.jobs.engine import Engine, Shard, WorkerHooks, open_engine
from tiltyard.judges.batch_calls import BatchCalls
from tiltyard.judges.concurrency_limiter import ConcurrencyLimiter
from tiltyard.judges.ledger import Ledger
from tiltyard.judges.ledger_batcher import LedgerBatcher
from tiltyard.judges.live_calls import LiveCalls
from tiltyard.judges.providers.provider import Body
from tiltyard.judges.requests import (
    UNUSABLE,
    JudgeCaller,
    JudgeRequest,
    JudgeSetup,
    LearnedLimits,
    UnusableReplies,
)
from tiltyard.settings.environment import Environment

#: Shards of batches in progress at the same time: each only waits, for hours.
_BATCH_SHARD_LIMIT = 64
#: How long an additional worker waits for its leader to submit the shards.
_LEADER_WAIT_SECONDS = 60.0
_QUESTION_BATCH_COUNT = 500


@dataclass(frozen=True)
class JudgingDatabases:
    """The databases of the ledger and the job engine."""

    ledger: str
    engine: str
    #: The folder of the worker locks; ``None`` if PostgreSQL holds them.
    folder: Path | None

    @classmethod
    def of(cls, environment: Environment, judgments: Path | None) -> JudgingDatabases:
        """DATABASE_URL if it is set, else SQLite files in a folder."""
        if environment.database_url is not None:
            return cls(environment.database_url, environment.database_url, None)
        folder = (judgments or environment.home).resolve()
        return cls(f"sqlite:///{folder}/ledger.sqlite", f"sqlite:///{folder}/dbos.sqlite", folder / "workers")

    @property
    def shown(self) -> str:
        """The location to show to users; a URL may contain a password."""
        return (
            "the database of DATABASE_URL" if self.folder is None else self.ledger.removeprefix("sqlite:///")
        )


@dataclass
class RunProgress:
    """Progress of this worker: calls by state, and money spent."""

    states: Counter[str] = field(default_factory=Counter)
    #: Picodollars; ``None`` after a call with an unknown price.
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
    """Numbered requests to judges, divided into shards that any worker can process."""

    @property
    def seats(self) -> Sequence[JudgeSetup]: ...
    def requests(self, first: int, last: int) -> Iterator[JudgeRequest]:
        """Requests ``first`` (included) to ``last`` (excluded)."""
        ...

    def shards(self, run: str, generation: int, size: int) -> Iterator[Shard]: ...
    def prewarm_requests(self) -> Iterator[JudgeRequest]:
        """One request for each prompt cache to fill in advance."""
        ...

    def trial(self) -> Iterator[JudgeRequest]:
        """A few requests for each judge that is called live, on several prompts.

        They are sent first, to detect an unusable judge before much is spent.
        """
        ...


@dataclass(frozen=True)
class JudgingOutcome:
    """How judging ended: shards by state, and the causes of failures."""

    shards: Counter[str]
    failures: Mapping[str, str]

    @property
    def unusable(self) -> str | None:
        """Why a judge is unusable, if a worker found one."""
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
    """Send all requests that are not cached. ``lead``: submit the shards too, instead of only processing them.

    Resumes an interrupted pass over the plan; after a complete one, a new pass retries the requests
    that ended without a reply.
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
                # The unfinished pass over the plan, or a new one.
                generation = ledger.run(run).generation
                before = engine.status(run, generation)
                if before and not (before["waiting"] or before["running"]):
                    generation = ledger.next_generation(run, generation)
                engine.submit(agenda.shards(run, generation, shard_size))
            else:
                generation = _submitted(engine, ledger, run)
            shards = engine.wait(run, generation, on_tick=heard.tick)
            return JudgingOutcome(shards, engine.failures(run, generation))
    finally:
        ledger.close()


def _submitted(engine: Engine, ledger: Ledger, run: str) -> int:
    """The pass that the leader has submitted; waits a moment for a leader that is starting."""
    end = time.monotonic() + _LEADER_WAIT_SECONDS
    while True:
        generation = ledger.run(run).generation
        if engine.status(run, generation) or time.monotonic() > end:
            return generation
        time.sleep(0.2)


def _parallel(agenda: RequestPlan, shard_size: int) -> int:
    """Enough parallel shards to use the full concurrency."""
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
        #: Results or errors of the trial requests, by key; their keys are known in advance.
        self._trial: asyncio.Task[dict[str, str | BaseException]] | None = None
        self._tried: frozenset[str] = frozenset()
        self.worker = ""

    def dead(self, worker: str) -> None:
        """Settle the calls that a dead worker had in flight, as lost."""
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
            # Runs in the background: it may have to wait for calls of another worker.
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
        """Send the requests of a shard; count them by final state."""
        by_judge: dict[str, list[JudgeRequest]] = defaultdict(list)
        tried: list[str] = []
        for request in self._agenda.requests(shard.first, shard.last):
            if request.key in self._tried:
                tried.append(request.key)
            else:
                by_judge[request.judge].append(request)
        # If one judge fails, still wait for the others: their calls in flight are paid for.
        ended = await asyncio.gather(
            *(
                self._asker(shard, caller).ask(by_judge[name], caller)
                for name, caller in self._callers.items()
                if name in by_judge
            ),
            return_exceptions=True,
        )
        total: Counter[str] = Counter()
        for outcome in ended:
            if isinstance(outcome, BaseException):
                raise outcome
            total += outcome
        return dict(total + await self._trial_endings(tried))

    async def _trial_endings(self, keys: Sequence[str]) -> Counter[str]:
        """Results of the trial requests in a shard; raises their errors."""
        if self._trial is None or not keys:
            return Counter()
        # Other shards wait for the same task: cancelling one shard must not cancel it.
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
            # A later pass collects the batches that an earlier one left open.
            return BatchCalls(self._run, str(shard.index), self.worker, self._books, self._heard)
        return self._live()

    def _live(self) -> LiveCalls:
        return LiveCalls(self._run, self.worker, self._books, self._heard)

    def _caller(self, seat: JudgeSetup) -> JudgeCaller:
        books, settings = self._books, seat.settings
        # One name for all workers that use the same URL and key; the key itself is never stored.
        identity = f"{seat.provider.name}\n{seat.provider.base_url}\n{settings.api_key_env}"
        name = hashlib.sha256(identity.encode()).hexdigest()[:32]

        async def permits(count: int, interval: float) -> tuple[float, float]:
            return await books.run(Ledger.take_permits, name, count, interval)

        async def pause(until: float) -> None:
            await books.run(Ledger.pause, name, until)

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
        """Send the trial requests; return results or errors by key."""
        asked = (self._live().ask([request], self._callers[request.judge]) for request in requests)
        endings = await asyncio.gather(*asked, return_exceptions=True)
        return {
            request.key: ending if isinstance(ending, BaseException) else next(iter(ending))
            for request, ending in zip(requests, endings, strict=True)
        }

    async def _warm(self) -> None:
        """Fill the prompt caches that pending requests will use."""
        for request in self._agenda.prewarm_requests():
            caller = self._callers[request.judge]
            known = await self._books.replies([request.key])
            if caller.due(request, known.get(request.key, [])) is not None:
                await self._live().prewarm(request, replace(caller, batch=False))


class PlannedQuestions(Protocol):
    """The questions of a plan with the keys of their requests, and who is asked."""

    def keys(self, dimension: str) -> Iterator[tuple[Question, str]]: ...
    def seat(self, question: Question) -> JudgeSetup: ...


class QuestionResults:
    """The results of a plan's questions. Raw replies are parsed again each time: the cache stores only them."""

    def __init__(
        self,
        plan: PlannedQuestions,
        ledger: Ledger,
        run: str,
        otherwise: Callable[[Question], JudgedQuestion | None] = lambda _question: None,
    ) -> None:
        """``otherwise``: the result of a question that has no reply in the ledger, if it is known elsewhere."""
        self._plan = plan
        self._ledger = ledger
        self._run = run
        self._otherwise = otherwise
        self._failed: dict[str, tuple[str, str | None]] | None = None
        self._states: dict[str, Counter[str]] = {}
        #: The first error message of each state, of the dimensions read so far.
        self.problems: dict[str, str] = {}
        #: The first question whose reply could not be parsed.
        self.first_unreadable: JudgedQuestion | None = None
        self._unasked_checks: dict[str, int] = {}

    @property
    def unasked_checks(self) -> int:
        """Questions without a reply that only test the judge, of the dimensions read so far."""
        return sum(self._unasked_checks.values())

    @property
    def states(self) -> Counter[str]:
        """Number of questions by state, of the dimensions read so far."""
        return sum(self._states.values(), Counter[str]())

    def dimension(self, name: str) -> Iterator[JudgedQuestion]:
        """All questions of one dimension with their results, in canonical order."""
        states = self._states[name] = Counter()
        self._unasked_checks[name] = 0
        for judged in self.of(self._plan.keys(name)):
            states[judged.state] += 1
            check = judged.question.purpose is not QuestionPurpose.MATCH
            self._unasked_checks[name] += check and judged.state is QuestionState.UNASKED
            if judged.problem is not None:
                self.problems.setdefault(judged.state, judged.problem)
            if judged.state is QuestionState.UNPARSEABLE and self.first_unreadable is None:
                self.first_unreadable = judged
            yield judged

    def of(self, questions: Iterator[tuple[Question, str]]) -> Iterator[JudgedQuestion]:
        """The results of these questions, each with its key."""
        while together := list(islice(questions, _QUESTION_BATCH_COUNT)):
            replies = self._ledger.replies(key for _, key in together)
            for question, key in together:
                yield self._judged(question, key, replies.get(key, []))

    def _judged(self, question: Question, key: str, bodies: Sequence[Body]) -> JudgedQuestion:
        if not bodies and (known := self._otherwise(question)) is not None:
            return known
        seat = self._plan.seat(question)
        readings: list[tuple[Reply | None, ParsedReply]] = [seat.reading(body) for body in bodies]
        if not readings:
            # State and error of the last attempt, by request without a reply.
            if self._failed is None:
                self._failed = {}
                for attempt in self._ledger.attempts(self._run):
                    # An attempt without a question ID only filled a prompt cache.
                    if attempt.question_id and attempt.state in (
                        QuestionState.PROVIDER_ERROR,
                        QuestionState.EXPIRED,
                        QuestionState.LOST,
                    ):
                        self._failed[attempt.request_key] = attempt.state, attempt.error
            state, problem = self._failed.get(key, (QuestionState.UNASKED, None))
            readings.append((None, ParsedReply(QuestionState(state), problem=problem)))
        reply, reading = next((pair for pair in readings if pair[1].state is QuestionState.OK), readings[-1])
        return JudgedQuestion(
            question=question,
            match_id=match_id_of(question),
            state=reading.state,
            verdict=reading.verdict,
            problem=reading.problem,
            reply=reply,
            form=seat.form,
            key=key,
            asks=len(bodies),
        )
