"""The desk of an arena: everything that voters do, in small batches.

Whoever asks waits in line. A batch takes the arena's lock, folds what others have written, decides for
everybody in line, writes all of it at once and commits; then those in line are told. So a matchup is
chosen from counts that are complete to the last event, and a vote that was acknowledged is in the log.
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
    count_settled_pairs,
    repeat_ending,
    repeat_undo,
    require_open_matchup,
    reveal_matchup,
    review_matchup,
)
from tiltyard.arena.voting.remarks import Remark, RemarkAuthor, find_remark, keep_remark, read_own_pairs
from tiltyard.arena.voting.session_end import session_progress
from tiltyard.arena.voting.state_loader import catch_up, fold_rows, load_arena_state
from tiltyard.arena.voting.voter_requests import (
    Contribution,
    EndedMatchup,
    OfferedMatchup,
    RevealedMatchup,
    ReviewedMatchup,
    SentVote,
    SessionProgress,
    Voter,
)
from tiltyard.core.battles import Kind
from tiltyard.core.policy.state.pair_counts import pair_key
from tiltyard.core.policy.state.strengths import Strengths
from tiltyard.errors import Closed, Crowded, StoreFault
from tiltyard.postgres.connection_pool import ConnectionPool
from tiltyard.retries import Backoff, Retries
from tiltyard.settings.arena_settings import ArenaSettings

__all__ = ["VotingQueue"]

_LOG = logging.getLogger(__name__)

#: How many asks are answered in one batch.
_BATCH_REQUEST_LIMIT = 256
#: Seconds between looks at the log while nobody asks.
_IDLE_POLL_SECONDS = 2.0
#: Seconds before the first new attempt after a fault; the most that those in line wait for one, who would
#: rather be told; and the most while nobody is in line.
_FIRST_RETRY_SECONDS = 0.25
_MAX_RETRY_WITH_WAITERS_SECONDS = 2.0
_MAX_IDLE_RETRY_SECONDS = 30.0
#: Seconds between refusals of those who come while the database is silent.
_REFUSAL_SECONDS = 0.25
#: Seconds without an ask after which the log is no longer looked at.
_IDLE_AFTER_SECONDS = 60.0
#: Seconds that a batch may take before those in line are told to ask again. A server that is well cuts
#: a batch short before that.
_BATCH_TIMEOUT_SECONDS = 20.0

Reply = TypeVar("Reply")


class VotingQueue:
    """One arena in one process."""

    def __init__(self, pool: ConnectionPool, arena: int, name: str, settings: ArenaSettings) -> None:
        self.arena = arena
        self.name = name
        self.settings = settings
        #: ``None`` while it cannot be loaded.
        self.live: ArenaState | None = None
        #: Batches so far, and asks that were answered in them.
        self.batches = self.answered = 0
        self._pool = pool
        self._log_connection, self._reading = LogConnection(pool, arena), LogConnection(pool, arena)
        self._lookup = asyncio.Lock()
        self._line: list[Ask[object]] = []
        self._wake_event = asyncio.Event()
        self._rng = np.random.default_rng()
        #: The database's time when it was last heard, and our steady clock then.
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
        """Load the arena and begin."""
        await self._load()
        await self._sync_clock()
        self._task = asyncio.create_task(self._run_batches(), name=f"voting queue {self.name}")

    async def close(self) -> None:
        """Stop; those in line are told to ask again."""
        await cancel_and_wait(self._task)
        _refuse(self._line, StoreFault("the server is stopping; ask again in a moment"))

    @property
    def ready(self) -> bool:
        """Whether the arena is loaded."""
        return self.live is not None

    async def next_matchup(self, voter: Voter, *, ahead: bool = False) -> OfferedMatchup:
        """The matchup that the voter has before it, or a new one.

        With ``ahead`` it may have a second one, to be shown next; a third is never served.
        """
        return await self._ask(
            lambda live, batch: offer(live, batch, voter, self.name, self._rng, ahead=ahead), voter=voter
        )

    async def open_matchups(self, voter: Voter) -> list[OfferedMatchup]:
        """What the voter has been served and has not answered."""
        return await self._ask(
            lambda live, batch: [
                to_offered_matchup(one, self.name)
                for one in live.open_matchups_of(voter.source, voter.session, batch.now)
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
        """Settle a matchup. The same vote on the same ballot has the same answer; another one is refused."""
        one = parse_matchup_id(matchup)
        cast = SentVote(one, kind, ballot, reveal, detail)
        ended = await self._ask(lambda live, batch: vote(live, batch, voter, cast), voter=voter)
        if ended is not NOT_IN_MEMORY:
            return ended
        found = await self._found(voter, one)
        return repeat_ending(one, found, self.live, self._now(), LogKind.VOTE, kind, ballot)

    async def skip(self, voter: Voter, matchup: str) -> EndedMatchup:
        """Pass a matchup over; it will not come back."""
        one = parse_matchup_id(matchup)
        ended = await self._ask(lambda live, batch: skip(live, batch, voter, one))
        if ended is not NOT_IN_MEMORY:
            return ended
        return repeat_ending(one, await self._found(voter, one), self.live, self._now(), LogKind.SKIP, None)

    async def undo(self, voter: Voter, matchup: str, *, ballot: int = 0) -> EndedMatchup:
        """Undo the vote on a ballot, soon after it and before the names were shown: the next ballot is open."""
        one = parse_matchup_id(matchup)
        ended = await self._ask(lambda live, batch: undo(live, batch, voter, one, ballot=ballot), voter=voter)
        if ended is not NOT_IN_MEMORY:
            return ended
        return repeat_undo(matchup, await self._found(voter, one), ballot)

    async def reveal(self, voter: Voter, matchup: str) -> RevealedMatchup:
        """Show the names of a matchup that was voted on; from now on the vote is final."""
        one = parse_matchup_id(matchup)
        found = await self._voted(voter, one)

        async def look(batch: LogBatch) -> None:
            if found.position is None or not await batch.stands(found.source, found.serial, found.position):
                raise _no_vote()

        if found.revealed_at is None:
            await self._ask(lambda live, batch: reveal(live, batch, voter, found), look, voter=voter)
        return reveal_matchup(matchup, found, self.live)

    async def finish(self, voter: Voter) -> int:
        """End a person's session: the names of all its votes are told, and these are final; how many they are."""
        return await self._ask(lambda live, batch: finish(live, batch, voter), voter=voter)

    async def session_progress(self, voter: Voter) -> SessionProgress:
        """How many votes of this voter wait for their names."""
        return await self._ask(lambda live, _batch: session_progress(live, voter), voter=voter)

    async def find(self, voter: Voter, matchup: str, *, voted: bool = False) -> OfferedMatchup:
        """An open matchup of this voter; with ``voted``, also one with a vote of theirs that stands."""
        one = parse_matchup_id(matchup)
        opened = None if self.live is None else self.live.open.get(one)
        if opened is not None and (opened.source, opened.session) == (voter.source, voter.session):
            if opened.expires_at <= self._now():
                raise matchup_expired_error()
            return to_offered_matchup(opened, self.name)
        return require_open_matchup(
            matchup, self.name, await self._found(voter, one), self._now(), voted=voted
        )

    async def review(self, voter: Voter, matchup: str) -> ReviewedMatchup:
        """A matchup of this voter in any state: open, voted on, skipped or run out."""
        found = await self._found(voter, parse_matchup_id(matchup))
        return review_matchup(matchup, self.name, found, self._now(), self.settings.undo_seconds)

    async def remark(self, voter: Voter, matchup: str, tags: Sequence[str], comment: str | None) -> None:
        """Say why one voted so, after the vote and before the names; another remark replaces the first."""
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
                "the names were shown, or the time for it has passed: nothing is added to this vote any more"
            )

    async def remarked(self, voter: Voter, matchup: str) -> Remark:
        """What this voter said of a vote of theirs."""
        one = parse_matchup_id(matchup)
        async with self._lookup, self._reading.connected() as connection:
            return await find_remark(connection, self._author(voter), one)

    async def contribution(self, voter: Voter) -> Contribution:
        """What this voter's final votes come to."""
        final = self._now() - timedelta(seconds=self.settings.undo_seconds)
        async with self._lookup, self._reading.connected() as connection:
            own = await read_own_pairs(connection, self._author(voter), final)
        decided = {pair_key(pair.a, pair.b) for pair in own if pair.decisive}
        settled = 0 if self.live is None else count_settled_pairs(self.live, voter.source, sorted(decided))
        return Contribution(sum(pair.votes for pair in own), settled)

    async def responses_by_prompt(self) -> list[int]:
        """How many enabled models have answered each prompt."""
        return await self._ask(lambda live, _batch: live.standings[HUMAN].cells.n_playing.tolist())

    def mark_shown(self, matchup: str) -> None:
        """This open matchup is before its voter's eyes: an undo of the vote before it leaves it open."""
        if self.live is not None:
            self.live.mark_shown(parse_matchup_id(matchup))

    def holds(self, matchup: UUID) -> bool:
        """Whether this is an open matchup here, or one that was voted on just now."""
        return self.live is not None and (matchup in self.live.open or matchup in self.live.voted)

    def change(self, settings: ArenaSettings) -> None:
        """Go by other settings from now on."""
        self.settings = settings
        if self.live is not None:
            self.live.settings = settings

    def rank(self, source: int, generation: int, strengths: Strengths) -> None:
        """Ratings of a new snapshot. One of a new generation makes the counts be loaded afresh."""
        known = self._strengths.get(source)
        self._strengths[source] = (generation, strengths)
        if self.live is not None:
            self.live.stale |= known is not None and known[0] != generation
            self.live.rank(source, strengths)

    def _now(self) -> datetime:
        """The database's time, as nearly as we know: our own clock may be wrong."""
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
        """Batch after batch, for ever; a fault refuses those in line and starts from the log again."""
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
                _refuse(asks, StoreFault("the server is stopping; ask again in a moment"))
                raise
            except Exception as fault:  # noqa: BLE001 - whatever it is, those in line must hear of it
                if not isinstance(fault, Crowded):
                    self.live = None
                _refuse(asks, fault)
                await self._pause(self._retries.failed(fault))
            else:
                self._retries.succeeded()
            finally:
                self._silent.cancel()

    async def _pause(self, seconds: float) -> None:
        """Between a fault and the next attempt. Whoever asks ends a long wait, though not a short one."""
        self._silent.cancel()
        await asyncio.sleep(min(seconds, _MAX_RETRY_WITH_WAITERS_SECONDS))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(
                self._wake_event.wait(), max(seconds - _MAX_RETRY_WITH_WAITERS_SECONDS, 0.0)
            )

    def _patience(self) -> float | None:
        """How long to wait for somebody. A desk at which nobody stands, and nothing waits, looks at nothing."""
        if (
            time.monotonic() - self._asked < _IDLE_AFTER_SECONDS
            or self.live is None
            or self.live.open
            or self.live.fresh
        ):
            return _IDLE_POLL_SECONDS
        return None

    def _refuse_waiting(self, asks: list[Ask[object]]) -> None:
        """The database is silent: tell those who wait for it. What they asked may still be done."""
        silence = StoreFault("the database has not answered for long; ask again in a moment")
        self._retries.report(silence)
        for ask in (*asks, *self._line):
            ask.refuse(silence)
        self._line.clear()
        self._silent = asyncio.get_running_loop().call_later(_REFUSAL_SECONDS, self._refuse_waiting, asks)

    def _call(self, asks: list[Ask[object]]) -> None:
        """Those in line join the batch: at its beginning, and once more when it has the lock."""
        free = _BATCH_REQUEST_LIMIT - len(asks)
        asks += self._line[:free]
        del self._line[:free]
        if self._line:
            self._wake_event.set()
        else:
            self._wake_event.clear()

    async def _batch(self, asks: list[Ask[object]]) -> None:
        live = await self._loaded(hurried=bool(asks))
        if not asks and not await self._due(live):
            return
        async with self._log_connection.appending(live.position) as batch:
            self._heard = (batch.now, time.monotonic())
            await self._catch_up(live, batch)
            self._call(asks)
            live.settle(batch.now, batch.horizon)
            expire_due(live, batch)
            for ask in asks:
                await ask.settle(live, batch)
        self.batches += 1
        self.answered += len(asks)
        for ask in asks:
            ask.tell()

    async def _catch_up(self, live: ArenaState, batch: LogBatch) -> None:
        await fold_rows(live, self._log_connection, batch.tail)
        if len(batch.tail) == TAIL_ROWS:
            await catch_up(live, self._log_connection)
        if live.position != batch.head:
            raise StoreFault(
                f"the log of {self.name} ends at {batch.head}, and {live.position} events are known: it has a gap"
            )

    async def _due(self, live: ArenaState) -> bool:
        """Nobody asks: fold what has come, and see whether anything has run out."""
        await catch_up(live, self._log_connection)
        now, horizon = await self._sync_clock()
        live.settle(now, horizon)
        return bool(live.due(now, most=1))

    async def _sync_clock(self) -> tuple[datetime, int]:
        """The database's time, from which ours is reckoned, and up to where votes are final."""
        now, horizon = await self._log_connection.clock()
        self._heard = (now, time.monotonic())
        return now, horizon

    def _must_load(self) -> bool:
        return self.live is None or self.live.stale

    async def _loaded(self, *, hurried: bool) -> ArenaState:
        if self.live is not None and not self.live.stale:
            return self.live
        if hurried:
            return await self._load()
        async with self._pool.unhurried:
            return await self._load()

    async def _load(self) -> ArenaState:
        live = await load_arena_state(self._log_connection, self.settings)
        for source, (_, strengths) in self._strengths.items():
            live.rank(source, strengths)
        self.live = live
        return live

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
    return Closed("names are shown only after a vote: this matchup has none")
