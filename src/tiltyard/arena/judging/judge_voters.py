"""LLM judges as voters: they judge each matchup of an arena in both orders, and cast one vote.

A judge sees the prompt and two responses, like any voter, and never a name. Spending is recorded in the
ledger, as in a tournament: a request that was paid for is never repeated, and the budget holds even if the
process crashes.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from tiltyard.arena.judging.judge_panel import (
    ArenaPanel,
    MatchupJudges,
    open_matchup_judges,
    settle_dead_workers,
)
from tiltyard.client import AsyncClient
from tiltyard.core.judging.matches import stable_id
from tiltyard.core.judging.question import QuestionTexts
from tiltyard.core.judging.reconciliation import MatchResult
from tiltyard.core.judging.verdict import QuestionState
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
from tiltyard.jobs.worker_locks import WorkerLocks
from tiltyard.judges.judging_run import RunProgress
from tiltyard.wire.voting import Matchup

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
