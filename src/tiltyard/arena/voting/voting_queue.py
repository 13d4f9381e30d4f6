"""The voting queue of an arena: processes the requests of voters in small batches.

Requests wait in a queue. A batch takes the arena's lock, folds the events that other processes have written,
decides every waiting request, appends all their events at once and commits; only then are the replies sent.
So a matchup is chosen from counts that are complete up to the last event, and an acknowledged vote is in the log.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeVar
from uuid import UUID

import numpy as np

from tiltyard.arena.log.event_details import VoteDetail
from tiltyard.arena.log.event_log import (
    HUMAN,
    TAIL_ROWS,
    LogBatch,
    LogKind,
    MatchupRecord,
    matchup_not_found_error,
)
from tiltyard.arena.log.log_connection import LogConnection
from tiltyard.arena.tasks import cancel_and_wait
from tiltyard.arena.voting import voter_requests
from tiltyard.arena.voting.arena_state import ArenaState
from tiltyard.arena.voting.ask import Ask, Look
from tiltyard.arena.voting.matchup_ids import parse_matchup_id
from tiltyard.arena.voting.matchup_lifecycle import (
    NOT_IN_MEMORY,
    expire_due,
    finish,
    matchup_expired_error,
    offer,
    reveal,
    skip,
    to_offered_matchup,
    undo,
    vote,
)
from tiltyard.arena.voting.matchup_status import (
    repeat_ending,
    repeat_undo,
    require_open_matchup,
    reveal_matchup,
    review_matchup,
)
from tiltyard.arena.voting.remarks import Remark, RemarkAuthor, count_final_votes, find_remark, keep_remark
from tiltyard.arena.voting.state_loader import catch_up, fold_rows, load_arena_state
from tiltyard.arena.voting.voter_requests import (
    EndedMatchup,
    OfferedMatchup,
    RevealedMatchup,
    ReviewedMatchup,
    SentVote,
    Voter,
)
from tiltyard.core.battles import Kind
from tiltyard.core.policy.state.strengths import Strengths
from tiltyard.errors import Closed, Crowded, StoreFault
from tiltyard.postgres.connection_pool import ConnectionPool
from tiltyard.retries import Backoff, Retries
from tiltyard.settings.arena_settings import ArenaSettings

__all__ = ["VotingQueue"]

_LOG = logging.getLogger(__name__)

#: Requests that are processed in one batch.
_BATCH_REQUEST_LIMIT = 256
#: Seconds between reads of the log while there are no requests.
_IDLE_POLL_SECONDS = 2.0
#: After a fault: seconds before the first retry, the longest wait while requests are queued, and the longest
#: wait while none are.
_FIRST_RETRY_SECONDS = 0.25
_MAX_RETRY_WITH_WAITERS_SECONDS = 2.0
_MAX_IDLE_RETRY_SECONDS = 30.0
#: Seconds between refusals of new requests while the database does not respond.
_REFUSAL_SECONDS = 0.25
#: Seconds without a request after which the log is no longer polled.
_IDLE_AFTER_SECONDS = 60.0
#: Seconds that a batch may take before waiting requests are refused. A healthy server cancels
#: a batch before that.
_BATCH_TIMEOUT_SECONDS = 20.0

Reply = TypeVar("Reply")


class VotingQueue:
    """The voting queue of one arena in one process."""

    def __init__(self, pool: ConnectionPool, arena: int, name: str, settings: ArenaSettings) -> None:
        self.arena = arena
        self.name = name
        self.settings = settings
        #: ``None`` while it is not loaded.
        self.state: ArenaState | None = None
        #: Batches so far, and requests processed in them.
        self.batches = self.answered = 0
        self._pool = pool
        self._log_connection, self._reading = LogConnection(pool, arena), LogConnection(pool, arena)
        self._lookup = asyncio.Lock()
        self._line: list[Ask[object]] = []
        self._wake_event = asyncio.Event()
        self._rng = np.random.default_rng()
        #: The database's time when it was last read, and the monotonic clock at that moment.
        self._heard = (datetime.min.replace(tzinfo=UTC), 0.0)
        self._asked = time.monotonic()
        self._task: asyncio.Task[None] | None = None
        self._silent: asyncio.TimerHandle
        self._strengths: dict[int, tuple[int, Strengths]] = {}
        self._retries = Retries(
            _LOG,
            f"the voting queue of arena {name}",
            Backoff(_FIRST_RETRY_SECONDS, _MAX_IDLE_RETRY_SECONDS),
            facts={"arena": name},
        )

    async def open(self) -> None:
        """Load the arena and start to process requests."""
        await self._load()
        await self._sync_clock()
        self._task = asyncio.create_task(self._run_batches(), name=f"voting queue {self.name}")

    async def close(self) -> None:
        """Stop; waiting requests are refused."""
        await cancel_and_wait(self._task)
        _refuse(self._line, StoreFault("the server is stopping; try again in a moment"))

    @property
    def ready(self) -> bool:
        """Whether the arena is loaded."""
        return self.state is not None

    async def next_matchup(self, voter: Voter, *, ahead: bool = False) -> OfferedMatchup:
        """The voter's open matchup, or a new one.

        With ``ahead``, a second matchup, to be shown next; a voter never has a third.
        """
        return await self._ask(
            lambda state, batch: offer(state, batch, voter, self.name, self._rng, ahead=ahead), voter=voter
        )

    async def open_matchups(self, voter: Voter) -> list[OfferedMatchup]:
        """The voter's open matchups."""
        return await self._ask(
            lambda state, batch: [
                to_offered_matchup(one, self.name)
                for one in state.open_matchups_of(voter.source, voter.session, batch.now)
            ]
        )

    async def vote(
        self,
        voter: Voter,
        matchup: str,
        kind: Kind,
        *,
        ballot: int = 0,
        reveal: bool = False,
        detail: VoteDetail | None = None,
    ) -> EndedMatchup:
        """Vote on a matchup. Repeating a vote on the same ballot returns the same reply; a different vote is refused."""
        one = parse_matchup_id(matchup)
        cast = SentVote(one, kind, ballot, reveal, detail)
        ended = await self._ask(lambda state, batch: vote(state, batch, voter, cast), voter=voter)
        if ended is not NOT_IN_MEMORY:
            return ended
        found = await self._found(voter, one)
        return repeat_ending(one, found, self.state, self._now(), LogKind.VOTE, kind, ballot)

    async def skip(self, voter: Voter, matchup: str) -> EndedMatchup:
        """Skip a matchup: it ends without a vote."""
        one = parse_matchup_id(matchup)
        ended = await self._ask(lambda state, batch: skip(state, batch, voter, one))
        if ended is not NOT_IN_MEMORY:
            return ended
        return repeat_ending(one, await self._found(voter, one), self.state, self._now(), LogKind.SKIP, None)

    async def undo(self, voter: Voter, matchup: str, *, ballot: int = 0) -> EndedMatchup:
        """Undo the vote on a ballot, while that is possible: soon after the vote and before the names are revealed.

        The matchup is open again, with the next ballot number.
        """
        one = parse_matchup_id(matchup)
        ended = await self._ask(
            lambda state, batch: undo(state, batch, voter, one, ballot=ballot), voter=voter
        )
        if ended is not NOT_IN_MEMORY:
            return ended
        return repeat_undo(matchup, await self._found(voter, one), ballot)

    async def reveal(self, voter: Voter, matchup: str) -> RevealedMatchup:
        """Reveal the names of the models in a matchup that was voted on. The vote becomes final."""
        one = parse_matchup_id(matchup)
        found = await self._voted(voter, one)

        async def look(batch: LogBatch) -> None:
            if found.position is None or not await batch.stands(found.source, found.serial, found.position):
                raise _no_vote()

        if found.revealed_at is None:
            await self._ask(lambda state, batch: reveal(state, batch, voter, found), look, voter=voter)
        return reveal_matchup(matchup, found, self.state)

    async def finish(self, voter: Voter) -> int:
        """End a person's session: reveal the names of all its votes, which become final; return how many these are."""
        return await self._ask(lambda state, batch: finish(state, batch, voter), voter=voter)

    async def unrevealed_votes(self, voter: Voter) -> int:
        """The number of this voter's votes whose names are not revealed yet."""
        return await self._ask(
            lambda state, _batch: len(state.revealed.of(voter.session).pending), voter=voter
        )

    async def find(self, voter: Voter, matchup: str, *, voted: bool = False) -> OfferedMatchup:
        """An open matchup of this voter; with ``voted``, also one that they voted on and have not undone."""
        one = parse_matchup_id(matchup)
        opened = None if self.state is None else self.state.open.get(one)
        if opened is not None and (opened.source, opened.session) == (voter.source, voter.session):
            if opened.expires_at <= self._now():
                raise matchup_expired_error()
            return to_offered_matchup(opened, self.name)
        return require_open_matchup(
            matchup, self.name, await self._found(voter, one), self._now(), voted=voted
        )

    async def review(self, voter: Voter, matchup: str) -> ReviewedMatchup:
        """A matchup of this voter in any state: open, voted, skipped or expired."""
        found = await self._found(voter, parse_matchup_id(matchup))
        return review_matchup(matchup, self.name, found, self._now(), self.settings.undo_seconds)

    async def remark(self, voter: Voter, matchup: str, tags: Sequence[str], comment: str | None) -> None:
        """Save the reason for a vote, after the vote and before the names are revealed; replaces an earlier one."""
        one = parse_matchup_id(matchup)
        async with self._lookup, self._reading.connected() as connection:
            kept = await keep_remark(
                connection,
                self._author(voter),
                one,
                Remark(tuple(tags), comment),
                within=self.settings.undo_seconds + voter_requests.REMARK_GRACE_SECONDS,
            )
        if not kept:
            await self._voted(voter, one)
            raise Closed(
                "remarks on this vote are closed: its names have been revealed, or too much time has passed"
            )

    async def remarked(self, voter: Voter, matchup: str) -> Remark:
        """This voter's remark on one of their votes; empty if there is none."""
        one = parse_matchup_id(matchup)
        async with self._lookup, self._reading.connected() as connection:
            return await find_remark(connection, self._author(voter), one)

    async def final_votes(self, voter: Voter) -> int:
        """The number of this voter's final votes."""
        final = self._now() - timedelta(seconds=self.settings.undo_seconds)
        async with self._lookup, self._reading.connected() as connection:
            return await count_final_votes(connection, self._author(voter), final)

    async def responses_by_prompt(self) -> list[int]:
        """How many enabled models have answered each prompt."""
        return await self._ask(lambda state, _batch: state.standings[HUMAN].cells.n_playing.tolist())

    def mark_shown(self, matchup: str) -> None:
        """Note that the voter sees this open matchup, so that undoing the vote before it does not close it."""
        if self.state is not None:
            self.state.mark_shown(parse_matchup_id(matchup))

    def holds(self, matchup: UUID) -> bool:
        """Whether this matchup is in memory: open, or voted on so recently that the vote can be undone."""
        return self.state is not None and (matchup in self.state.open or matchup in self.state.voted)

    def change(self, settings: ArenaSettings) -> None:
        """Apply new settings."""
        self.settings = settings
        if self.state is not None:
            self.state.settings = settings

    def rank(self, source: int, generation: int, strengths: Strengths) -> None:
        """Use the ratings of a new snapshot. If its generation is new, the state is reloaded too."""
        known = self._strengths.get(source)
        self._strengths[source] = (generation, strengths)
        if self.state is not None:
            self.state.stale |= known is not None and known[0] != generation
            self.state.rank(source, strengths)

    def _now(self) -> datetime:
        """An estimate of the database's time; this machine's clock may be wrong."""
        moment, steady = self._heard
        return moment + timedelta(seconds=time.monotonic() - steady)

    async def _ask(
        self,
        decide: Callable[[ArenaState, LogBatch], Reply],
        look: Look | None = None,
        *,
        voter: Voter | None = None,
    ) -> Reply:
        ask = Ask(decide, look, voter)
        self._line.append(ask)
        self._asked = time.monotonic()
        self._wake_event.set()
        return await ask.reply()

    async def _run_batches(self) -> None:
        """Process batches until cancelled. After a fault, the requests of the batch are refused and the state is reloaded."""
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake_event.wait(), self._patience())
            asks: list[Ask[object]] = []
            self._call(asks)
            if not asks and self._must_load() and self._pool.unhurried.locked():
                continue
            self._silent = asyncio.get_running_loop().call_later(
                _BATCH_TIMEOUT_SECONDS, self._refuse_waiting, asks
            )
            try:
                await self._batch(asks)
            except asyncio.CancelledError:
                _refuse(asks, StoreFault("the server is stopping; try again in a moment"))
                raise
            except Exception as fault:  # noqa: BLE001 - any error must reach the waiting requests
                if not isinstance(fault, Crowded):
                    self.state = None
                _refuse(asks, fault)
                await self._pause(self._retries.failed(fault))
            else:
                self._retries.succeeded()
            finally:
                self._silent.cancel()

    async def _pause(self, seconds: float) -> None:
        """Wait between a fault and the next attempt. A new request ends a long wait, but not a short one."""
        self._silent.cancel()
        await asyncio.sleep(min(seconds, _MAX_RETRY_WITH_WAITERS_SECONDS))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(
                self._wake_event.wait(), max(seconds - _MAX_RETRY_WITH_WAITERS_SECONDS, 0.0)
            )

    def _patience(self) -> float | None:
        """Seconds to wait for a request before the log is polled; ``None`` for an idle queue, which does not poll."""
        if (
            time.monotonic() - self._asked < _IDLE_AFTER_SECONDS
            or self.state is None
            or self.state.open
            or self.state.fresh
        ):
            return _IDLE_POLL_SECONDS
        return None

    def _refuse_waiting(self, asks: list[Ask[object]]) -> None:
        """Refuse the waiting requests because the database does not respond. They may still be carried out."""
        silence = StoreFault("the database is not responding; try again in a moment")
        self._retries.report(silence)
        for ask in (*asks, *self._line):
            ask.refuse(silence)
        self._line.clear()
        self._silent = asyncio.get_running_loop().call_later(_REFUSAL_SECONDS, self._refuse_waiting, asks)

    def _call(self, asks: list[Ask[object]]) -> None:
        """Move waiting requests into the batch: when it starts, and once more when it has the lock."""
        free = _BATCH_REQUEST_LIMIT - len(asks)
        asks += self._line[:free]
        del self._line[:free]
        if self._line:
            self._wake_event.set()
        else:
            self._wake_event.clear()

    async def _batch(self, asks: list[Ask[object]]) -> None:
        state = await self._loaded(hurried=bool(asks))
        if not asks and not await self._due(state):
            return
        async with self._log_connection.appending(state.position) as batch:
            self._heard = (batch.now, time.monotonic())
            await self._catch_up(state, batch)
            self._call(asks)
            state.settle(batch.now, batch.horizon)
            expire_due(state, batch)
            for ask in asks:
                await ask.settle(state, batch)
        self.batches += 1
        self.answered += len(asks)
        for ask in asks:
            ask.tell()

    async def _catch_up(self, state: ArenaState, batch: LogBatch) -> None:
        await fold_rows(state, self._log_connection, batch.tail)
        if len(batch.tail) == TAIL_ROWS:
            await catch_up(state, self._log_connection)
        if state.position != batch.head:
            raise StoreFault(
                f"the log of {self.name} ends at {batch.head}, but only {state.position} events were read: it has a gap"
            )

    async def _due(self, state: ArenaState) -> bool:
        """Without requests: fold new events, and return whether an open matchup has expired."""
        await catch_up(state, self._log_connection)
        now, horizon = await self._sync_clock()
        state.settle(now, horizon)
        return bool(state.due(now, most=1))

    async def _sync_clock(self) -> tuple[datetime, int]:
        """Read the database's time, and the log position up to which votes are final."""
        now, horizon = await self._log_connection.clock()
        self._heard = (now, time.monotonic())
        return now, horizon

    def _must_load(self) -> bool:
        return self.state is None or self.state.stale

    async def _loaded(self, *, hurried: bool) -> ArenaState:
        if self.state is not None and not self.state.stale:
            return self.state
        if hurried:
            return await self._load()
        async with self._pool.unhurried:
            return await self._load()

    async def _load(self) -> ArenaState:
        state = await load_arena_state(self._log_connection, self.settings)
        for source, (_, strengths) in self._strengths.items():
            state.rank(source, strengths)
        self.state = state
        return state

    def _author(self, voter: Voter) -> RemarkAuthor:
        return RemarkAuthor(self.arena, voter.source, voter.session)

    async def _found(self, voter: Voter, matchup: UUID) -> MatchupRecord:
        async with self._lookup:
            found = await self._reading.find(matchup)
        if found is None or (found.source, found.session) != (voter.source, voter.session):
            raise matchup_not_found_error()
        return found

    async def _voted(self, voter: Voter, matchup: UUID) -> MatchupRecord:
        found = await self._found(voter, matchup)
        if found.kind != LogKind.VOTE or found.is_open:
            raise _no_vote()
        return found


def _refuse(asks: list[Ask[object]], fault: Exception) -> None:
    for ask in asks:
        ask.refuse(fault)
    asks.clear()


def _no_vote() -> Closed:
    return Closed("names are revealed only after a vote, and this matchup has none")
