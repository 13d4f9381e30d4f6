"""The judges of an arena: their requests for a matchup, and the results in the ledger.

As in a tournament, a request that was paid for is never repeated, and the budget holds even if the process
crashes. Each matchup has its own requests: a reply is never used for two battles.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path

from tiltyard.core.judging.matches import stable_id
from tiltyard.core.judging.question import QuestionTexts, Rubric, build_chat_prompt
from tiltyard.core.judging.reconciliation import MatchResult, panel_name, panel_result, reconcile
from tiltyard.core.judging.verdict import QuestionState, Verdict
from tiltyard.errors import BadOption
from tiltyard.jobs.engine import Shard
from tiltyard.jobs.worker_locks import FileLocks, ServerLocks, WorkerLock, WorkerLocks, lock_worker_name
from tiltyard.judges.judging_run import JudgingDatabases, JudgingWorker, RunProgress
from tiltyard.judges.ledger import Ledger
from tiltyard.judges.providers.provider import Body
from tiltyard.judges.requests import JudgeRequest, JudgeSetup, open_judge, request_key
from tiltyard.settings.arena_judges import ArenaJudges
from tiltyard.settings.environment import read_environment
from tiltyard.settings.prices import (
    PriceEntry,
    format_dollars,
    merged_prices,
    open_prices,
    price_option,
    to_picodollars,
)

#: The plan's name in the ledger; there is no plan, as matchups are requested one at a time.
_PLAN = "arena"


@dataclass(frozen=True)
class ArenaPanel:
    """The judges, rubric, budget and databases for judging an arena."""

    seats: tuple[JudgeSetup, ...]
    rubric: Rubric
    quorum: int
    #: Picodollars.
    cap: int | None
    databases: JudgingDatabases

    @property
    def name(self) -> str:
        """The name that is sent as ``judge_model``."""
        return panel_name([seat.name for seat in self.seats])

    def requests(self, matchup: str, shown: QuestionTexts, swapped: QuestionTexts) -> list[JudgeRequest]:
        """The requests for a matchup: both orders for every judge."""
        return [
            self._request(seat, matchup, order, texts)
            for seat in self.seats
            for order, texts in enumerate((shown, swapped))
        ]

    def _request(self, seat: JudgeSetup, matchup: str, order: int, shown: QuestionTexts) -> JudgeRequest:
        ask = build_chat_prompt(shown, self.rubric, seat.form, seat.settings.max_tokens)
        body = seat.provider.body(seat.settings.model, ask, seat.options)
        question = stable_id([matchup, seat.name, order])
        # The key includes the matchup, so that the same pair in a later matchup is judged again.
        key, size = request_key(seat.provider, body, int(stable_id([matchup]), 16))
        worst = seat.worst(size, batch=False)
        prompt = stable_id([shown.prompt])
        return JudgeRequest(key, question, seat.name, self.rubric.dimension, body, size, worst, prompt)

    def result(
        self, requests: Sequence[JudgeRequest], verdicts: Mapping[str, Verdict | QuestionState]
    ) -> MatchResult | QuestionState:
        """The combined result of the judges; without enough verdicts, the state of a failed request."""
        results: list[MatchResult] = []
        for seat in self.seats:
            first, second = (verdicts[request.key] for request in requests if request.judge == seat.name)
            if isinstance(first, Verdict) and isinstance(second, Verdict):
                results.append(reconcile(first, second))
        states = [one for one in verdicts.values() if isinstance(one, QuestionState)]
        if QuestionState.UNASKED in states:
            return QuestionState.UNASKED
        agreed = panel_result(results, self.quorum) if len(self.seats) > 1 else next(iter(results), None)
        return agreed or states[0]


def open_panel(
    config_path: Path,
    *,
    budget_usd: float | None = None,
    beside: Path | None = None,
    prices: Mapping[str, PriceEntry] | None = None,
) -> ArenaPanel:
    """Read the configuration, the rubric, the keys and the prices; ``prices`` override those of the file."""
    config = ArenaJudges.load(config_path)
    environment = read_environment(beside or config.folder)
    book = open_prices(merged_prices(config.prices, prices or {}, config.folder))
    seats = [open_judge(settings, environment, book) for settings in config.complete()]
    stated = config.budget_usd if budget_usd is None else budget_usd
    cap = None if stated is None else to_picodollars(stated)
    for seat in seats:
        if cap is not None and seat.price is None:
            raise BadOption(
                f"a budget of {format_dollars(cap)} cannot be kept: the price of {seat.settings.model} at "
                f"{seat.provider.base_url} is unknown; give it with {price_option(seat.settings.model)} (dollars "
                f"for a million tokens), set it under prices: in {config.path}, or leave out the budget"
            )
    judgments = None if config.judgments_dir is None else config.folder / config.judgments_dir
    databases = JudgingDatabases.of(environment, judgments)
    return ArenaPanel(tuple(seats), config.read_rubric(), config.majority, cap, databases)


@asynccontextmanager
async def open_matchup_judges(
    panel: ArenaPanel, run: str, heard: RunProgress
) -> AsyncIterator[tuple[MatchupJudges, WorkerLocks]]:
    """Open the ledger as a worker. Calls of dead workers are settled as lost before anything is requested."""
    databases = panel.databases
    with ExitStack() as stack:
        locks: WorkerLocks = (
            ServerLocks(databases.ledger) if databases.folder is None else FileLocks(databases.folder)
        )
        stack.callback(locks.close)
        lock = lock_worker_name(locks, run)
        stack.callback(lock.release)
        asking = MatchupJudges(_UnplannedSeats(panel.seats), run, databases, heard)
        with closing(Ledger(databases.ledger)) as ledger:
            ledger.open_run(run, _PLAN, panel.cap)
        asking.dead(lock.name)
        await settle_dead_workers(panel, run, locks, lock.name)
        await asking.start()
        try:
            yield asking, locks
        finally:
            await asking.stop()


@dataclass(frozen=True)
class _UnplannedSeats:
    """Judges without a plan: there are no shards, and nothing to prewarm."""

    seats: Sequence[JudgeSetup]

    def requests(self, _first: int, _last: int) -> Iterator[JudgeRequest]:
        return iter(())

    def shards(self, _run: str, _generation: int, _size: int) -> Iterator[Shard]:
        return iter(())

    def prewarm_requests(self) -> Iterator[JudgeRequest]:
        return iter(())

    def trial(self) -> Iterator[JudgeRequest]:
        return iter(())


class MatchupJudges(JudgingWorker):
    """Requests the verdicts of judges for one matchup at a time."""

    async def verdicts(self, requests: Sequence[JudgeRequest]) -> dict[str, Verdict | QuestionState]:
        """Send the requests that the ledger has no reply for; return the result of each request, by key."""
        # Wait for all, even if one fails: calls in flight are paid for.
        endings = await asyncio.gather(
            *(self._live().ask([request], self._callers[request.judge]) for request in requests),
            return_exceptions=True,
        )
        ended: list[str] = []
        for ending in endings:
            if isinstance(ending, BaseException):
                raise ending
            ended += ending.elements()
        replies = await self._books.replies(request.key for request in requests)
        seats = {seat.name: seat for seat in self._agenda.seats}
        return {
            request.key: _verdict(seats[request.judge], replies.get(request.key, []), state)
            for request, state in zip(requests, ended, strict=True)
        }

    async def spent(self) -> int:
        """The total spending of this run, in picodollars."""
        return (await self._books.run(Ledger.run, self._run)).spent


async def settle_dead_workers(panel: ArenaPanel, run: str, locks: WorkerLocks, own: str) -> None:
    """Settle the calls in flight of workers that are dead, which means that their locks are free."""
    names = await asyncio.to_thread(_at_work, panel, run)
    taken: list[WorkerLock] = [
        lock for name in sorted(names - {own}) if (lock := locks.take(name)) is not None
    ]
    if taken:
        # A worker that lost its connection but is alive needs this long to notice.
        await asyncio.sleep(locks.grace)
    with closing(Ledger(panel.databases.ledger)) as ledger:
        for lock in taken:
            ledger.lose(lock.name)
            lock.release()


def _at_work(panel: ArenaPanel, run: str) -> set[str]:
    """Workers with calls in flight, alive or dead."""
    with closing(Ledger(panel.databases.ledger)) as ledger:
        return {one.worker for one in ledger.attempts(run) if one.state == "intent"}


def _verdict(seat: JudgeSetup, bodies: Sequence[Body], ending: str) -> Verdict | QuestionState:
    """The first readable verdict; without one, the state of the last reply, or of the request."""
    readings = [seat.reading(body)[1] for body in bodies]
    for reading in readings:
        if reading.verdict is not None:
            return reading.verdict
    return readings[-1].state if readings else QuestionState(ending)
