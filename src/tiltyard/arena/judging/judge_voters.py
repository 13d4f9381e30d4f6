"""LLM judges as voters: they judge each matchup of an arena in both orders, and cast one vote.

A judge sees the prompt and two responses, like any voter, and never a name. Spending is recorded in the ledger, as in a
tournament: a request that was paid for is never repeated, and the budget holds even if the process crashes. Each matchup
has its own requests: a reply is never used for two battles."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tiltyard.client import AsyncClient
from tiltyard.core.judging.matches import stable_id
from tiltyard.core.judging.question import QuestionTexts, Rubric, build_chat_prompt
from tiltyard.core.judging.reconciliation import MatchResult, panel_name, panel_result, reconcile
from tiltyard.core.judging.verdict import QuestionState, Verdict
from tiltyard.errors import (
    BadOption,
    Closed,
    Expired,
    JudgeUnusable,
    NoMatchup,
    NotAllowed,
    NotFound,
    Paused,
    TiltyardError,
)
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
from tiltyard.wire.voting import Matchup

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


#: Matchups that one voter may have open at once.
_OPEN_MATCHUP_LIMIT = 2
#: Consecutive matchups without a reply from the provider that stop the judge.
_CONSECUTIVE_FAILURE_LIMIT = 5
#: Seconds between checks for dead workers, and of our own lock.
_DEAD_WORKER_CHECK_SECONDS, _LOCK_CHECK_SECONDS = 20.0, 1.0
_BUDGET_SPENT_MESSAGE = "the budget is used up; raise it to continue"


@dataclass
class JudgedVotes:
    """Counts of matchups, votes and spending so far."""

    #: Votes by label: win, lean, tie, inconsistent.
    votes: Counter[str] = field(default_factory=Counter)
    #: Votes that call both responses bad.
    both_bad: int = 0
    #: Skipped matchups, by reason.
    skipped: Counter[str] = field(default_factory=Counter)
    #: Matchups that expired or were withdrawn before the vote.
    ended: int = 0
    #: Calls by state, and what they cost.
    heard: RunProgress = field(default_factory=RunProgress)
    #: Total spending on this arena in picodollars: before this run, now, and the budget.
    before: int = 0
    spent: int | None = 0
    cap: int | None = None
    #: Why it stopped, and whether a provider failed.
    stopped: str = ""
    failed: bool = False
    #: Whether it stopped because a judge gives no usable verdicts.
    unusable: bool = False

    @property
    def matchups(self) -> int:
        return self.votes.total() + self.skipped.total() + self.ended

    @property
    def spent_so_far(self) -> int | None:
        """The total spending while judging is running; ``None`` if a price is unknown."""
        return None if self.heard.spent is None else self.before + self.heard.spent


async def judge_arena(
    panel: ArenaPanel,
    clients: Sequence[AsyncClient],
    arena: str,
    *,
    place: str,
    matchups: int | None = None,
    on_tick: Callable[[JudgedVotes], None] = lambda _votes: None,
) -> JudgedVotes:
    """Vote until the budget or the number of matchups is reached, or there are no more matchups.

    Each of the ``clients`` is a separate voter, with two open matchups at a time. ``place`` identifies the server:
    budget and spending are per arena and server. An interrupted run can be resumed: open matchups are served
    again, and paid replies are in the ledger.
    """
    if panel.cap is None and matchups is None:
        raise BadOption("give a limit: a budget in dollars, or a number of matchups")
    for client in clients:
        await _check_judge(client)
    run = stable_id(["judge", place, arena])
    votes = JudgedVotes(cap=panel.cap)
    async with open_matchup_judges(panel, run, votes.heard) as (asking, locks):
        votes.before = await asking.spent()
        if panel.cap is not None and votes.before >= panel.cap:
            votes.spent, votes.stopped = votes.before, _BUDGET_SPENT_MESSAGE
            return votes
        round_ = _JudgeVoting(panel, asking, arena, votes, matchups)
        watching = asyncio.create_task(_watch_lock(panel, run, locks, asking.worker, round_, on_tick))
        try:
            await round_.run(clients)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        # Calls without a price are not in the ledger's sum.
        spent = await asking.spent()
        votes.spent = None if votes.heard.spent is None else spent
    return votes


async def _check_judge(client: AsyncClient) -> None:
    """Raise unless the token has the scope judge; without it, the votes would count as a person's."""
    me = await client.me()
    if "judge" not in me.scopes:
        raise NotAllowed(
            f"{me.name} does not have the scope judge; create a token with it: tiltyard arena token create NAME --scope judge",
            known=True,
        )


async def _watch_lock(
    panel: ArenaPanel,
    run: str,
    locks: WorkerLocks,
    own: str,
    round_: _JudgeVoting,
    on_tick: Callable[[JudgedVotes], None],
) -> None:
    """Report progress, clean up after dead workers, and stop everything if our own lock is lost."""
    since = 0.0
    while await asyncio.to_thread(locks.kept):
        on_tick(round_.votes)
        await asyncio.sleep(_LOCK_CHECK_SECONDS)
        since += _LOCK_CHECK_SECONDS
        if since >= _DEAD_WORKER_CHECK_SECONDS:
            since = 0.0
            await settle_dead_workers(panel, run, locks, own)
    round_.fail(
        TiltyardError(
            "lost the connection that held the worker's lock, and stopped before another worker could repeat requests; "
            "run the command again to continue"
        )
    )


class _JudgeVoting:
    def __init__(
        self, panel: ArenaPanel, asking: MatchupJudges, arena: str, votes: JudgedVotes, matchups: int | None
    ) -> None:
        self._panel = panel
        self._asking = asking
        self._arena = arena
        self.votes = votes
        self._left = matchups
        self._consecutive_failures = 0
        self._working: asyncio.Task[None] | None = None
        self._error: TiltyardError | None = None

    async def run(self, clients: Sequence[AsyncClient]) -> None:
        self._working = asyncio.current_task()
        try:
            async with asyncio.TaskGroup() as group:
                for client in clients:
                    voter = _JudgeVoter(client, self._arena)
                    for _ in range(_OPEN_MATCHUP_LIMIT):
                        group.create_task(self._vote_until_stopped(voter))
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        except asyncio.CancelledError:
            if self._error is None:
                raise
            if self._working is not None:
                self._working.uncancel()
            raise self._error from None

    def fail(self, error: TiltyardError) -> None:
        """Stop all voters with an error."""
        self._error = error
        if self._working is not None:
            self._working.cancel()

    async def _vote_until_stopped(self, voter: _JudgeVoter) -> None:
        while not self.votes.stopped:
            if self._left == 0:
                self.votes.stopped = "the number of matchups is reached"
                return
            if self._left is not None:
                self._left -= 1
            try:
                matchup = await voter.take()
            except NoMatchup:
                self.votes.stopped = "there is nothing to vote on"
                return
            except Paused:
                self.votes.stopped = "voting in this arena is paused"
                return
            if matchup is None:
                if self._left is not None:
                    self._left += 1
                await asyncio.sleep(_LOCK_CHECK_SECONDS / 10)
                continue
            await self._judge(voter.client, matchup)
            voter.finish_matchup(matchup)

    async def _judge(self, client: AsyncClient, matchup: Matchup) -> None:
        """One matchup to its end: a vote, a skip, or left open where the budget ends."""
        try:
            result = await self._result(client, matchup)
            if isinstance(result, MatchResult):
                await client.vote(
                    matchup.matchup,
                    result.outcome.value,
                    ballot=matchup.ballot,
                    label=result.label.value,
                    both_bad=result.both_bad,
                    pref=result.pref,
                    judge_model=self._panel.name,
                )
                self.votes.votes[result.label.value] += 1
                self.votes.both_bad += result.both_bad
            elif result is QuestionState.UNASKED:
                self.votes.stopped = _BUDGET_SPENT_MESSAGE
            else:
                await client.skip(matchup.matchup)
                self.votes.skipped[str(result)] += 1
        except (Expired, Closed, NotFound):
            self.votes.ended += 1
        except JudgeUnusable as reason:
            # The matchup stays open, and comes back when the judge has been changed.
            self.votes.stopped, self.votes.unusable = str(reason), True

    async def _result(self, client: AsyncClient, matchup: Matchup) -> MatchResult | QuestionState | str:
        """The panel's result, or why there is none."""
        kinds = {matchup.responses.a.kind, matchup.responses.b.kind}
        if kinds != {"text"}:
            return "not text"
        try:
            texts = [(await client.response(matchup.matchup, side)).decode() for side in ("a", "b")]
        except UnicodeDecodeError:
            return "not text"
        first, second = texts
        shown = QuestionTexts(matchup.prompt.text, first, second)
        swapped = QuestionTexts(matchup.prompt.text, second, first)
        requests = self._panel.requests(matchup.matchup, shown, swapped)
        verdicts = await self._asking.verdicts(requests)
        vain = {QuestionState.PROVIDER_ERROR, QuestionState.LOST}.intersection(verdicts.values())
        self._consecutive_failures = self._consecutive_failures + 1 if vain else 0
        if self._consecutive_failures >= _CONSECUTIVE_FAILURE_LIMIT:
            self.votes.stopped = "the provider fails; run the command again later"
            self.votes.failed = True
        return self._panel.result(requests, verdicts)


class _JudgeVoter:
    """One voter of the arena, and its matchups in progress."""

    def __init__(self, client: AsyncClient, arena: str) -> None:
        self.client = client
        self._arena = arena
        self._in_progress: set[str] = set()
        self._done: set[str] = set()
        self._left_open: deque[Matchup] | None = None
        self._turn = asyncio.Lock()

    async def take(self) -> Matchup | None:
        """The next matchup that is not in progress; first those left open by an earlier run. ``None`` if there is none."""
        async with self._turn:
            if self._left_open is None:
                self._left_open = deque(await self.client.open_matchups(self._arena))
            if self._left_open:
                matchup = self._left_open.popleft()
            else:
                matchup = await self.client.next_matchup(self._arena, ahead=bool(self._in_progress))
            name = matchup.matchup
            if name in self._done:
                raise TiltyardError(
                    f"matchup {name} was served again although it has ended; check the server's log"
                )
            if name in self._in_progress:
                return None
            # Work on it begins now: it must not expire like one that is kept for later.
            with suppress(Expired, Closed, NotFound):
                matchup = await self.client.show(name)
            self._in_progress.add(name)
            return matchup

    def finish_matchup(self, matchup: Matchup) -> None:
        """Mark a matchup as no longer in progress."""
        self._in_progress.discard(matchup.matchup)
        self._done.add(matchup.matchup)
