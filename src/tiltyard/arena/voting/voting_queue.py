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
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import TypeVar
from uuid import UUID

import numpy as np

from tiltyard.arena.log.event_details import SkipDetail, VoteDetail
from tiltyard.arena.log.event_log import (
    HUMAN,
    TAIL_ROWS,
    LogBatch,
    LogKind,
    MatchupRecord,
    find_matchup,
    matchup_not_found_error,
)
from tiltyard.arena.log.log_connection import LogConnection
from tiltyard.arena.log.rosters import read_judgeable
from tiltyard.arena.tasks import cancel_and_wait
from tiltyard.arena.voting import voter_requests
from tiltyard.arena.voting.arena_state import ArenaState
from tiltyard.arena.voting.ask import Ask, Look
from tiltyard.arena.voting.live_offers import end_void, offer_live, read_live_vote
from tiltyard.arena.voting.matchup_lifecycle import (
    NOT_IN_MEMORY,
    Draw,
    expire_due,
    finish,
    look_ahead,
    offer,
    reveal,
    show,
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
from tiltyard.arena.voting.sent_responses import NOTHING_SENT, SentSides, complete_sent, note_sent
from tiltyard.arena.voting.state_loader import catch_up, fold_rows, load_arena_state
from tiltyard.arena.voting.voter_requests import (
    DeclaredSkills,
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
from tiltyard.foundation.arrays import Ints
from tiltyard.foundation.caches import BoundedCache
from tiltyard.foundation.retries import Backoff, Retries
from tiltyard.foundation.telemetry import BATCH_REQUESTS, BATCH_SECONDS, describe_span, span
from tiltyard.postgres.connections import ConnectionPool
from tiltyard.settings.arena_settings import ArenaSettings

_LOG = logging.getLogger(__name__)

#: Requests that are processed in one batch.
_BATCH_REQUEST_LIMIT = 256
#: Seconds between reads of the log while there are no requests, to let open matchups expire.
_IDLE_POLL_SECONDS = 30.0
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

#: How many sets of languages and categories are remembered with their prompts, and for how long: so much later are
#: prompts that are added, or described, served to those who can judge them.
_JUDGEABLE_CACHE_LIMIT = 1_000
_JUDGEABLE_CACHE_SECONDS = 30.0

Reply = TypeVar("Reply")


class VotingQueue:
    """The voting queue of one arena in one process."""

    def __init__(
        self, pool: ConnectionPool, arena: int, name: str, settings: ArenaSettings, *, shard: int = 0
    ) -> None:
        self.arena = arena
        self.name = name
        self.settings = settings
        #: ``None`` while it is not loaded.
        self.state: ArenaState | None = None
        #: Called with the arena's number after events were added to its log.
        self.on_events: Callable[[int], None] | None = None
        #: Called before the arena is loaded, to pass the newest ratings.
        self.before_loading: Callable[[VotingQueue], Awaitable[None]] | None = None
        #: Batches so far, and requests processed in them.
        self.batches = self.answered = 0
        self._pool = pool
        self._shard = shard
        self._log_connection, self._reading = LogConnection(pool, arena), LogConnection(pool, arena)
        self._lookup = asyncio.Lock()
        self._line: list[Ask[object]] = []
        self._wake_event = asyncio.Event()
        self._rng = np.random.default_rng()
        #: The database's time when it was last read, and the monotonic clock at that moment.
        self._heard: tuple[datetime, float] | None = None
        self._asked = time.monotonic()
        self._task: asyncio.Task[None] | None = None
        self._opening = asyncio.Lock()
        self._closed = False
        self._silent: asyncio.TimerHandle
        self._strengths: dict[int, tuple[int, Strengths]] = {}
        #: Prompts by what voters say that they can judge.
        self._judgeable: BoundedCache[DeclaredSkills, Ints] = BoundedCache(
            _JUDGEABLE_CACHE_LIMIT, seconds=_JUDGEABLE_CACHE_SECONDS
        )
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

    async def ensure_open(self) -> None:
        """Load the arena unless it is loaded."""
        while self._task is None:
            async with self._opening:
                if self._closed:
                    raise _stopping()
                if self._task is None:
                    if self.before_loading is not None:
                        await self.before_loading(self)
                    await self.open()

    async def close(self) -> None:
        """Stop for good; waiting and later requests are refused."""
        self._closed = True
        await self.unload()

    async def unload(self) -> None:
        """Stop and free the memory. The next request loads the arena again."""
        task, self._task = self._task, None
        await cancel_and_wait(task)
        self.state = None
        _refuse(self._line, _stopping())

    @property
    def opened(self) -> bool:
        """Whether this process decides requests of the arena, or has done so lately."""
        return self._task is not None

    def idle_seconds(self) -> float:
        """Seconds since the last request that was decided here."""
        return 0.0 if self._line else time.monotonic() - self._asked

    @property
    def ready(self) -> bool:
        """Whether the arena is loaded."""
        return self.state is not None

    @property
    def waiting(self) -> int:
        """Requests that wait for a batch."""
        return len(self._line)

    async def next_matchup(self, voter: Voter, *, ahead: bool = False) -> OfferedMatchup:
        """The voter's open matchup, or a new one.

        With ``ahead``, a further one that is prefetched, to be shown next: it is no exposure until it is shown, by
        `show`, by a request without ``ahead`` or by a vote.
        """
        draw = await self._draw_for(voter)
        return await self._ask(
            lambda state, batch: offer(state, batch, voter, self.name, draw, ahead=ahead), voter=voter
        )

    async def begin_live(
        self, voter: Voter, category: int, free_prompt: int, *, resting: tuple[int, ...] = ()
    ) -> OfferedMatchup:
        """A new live battle in a category, on the prompt with this number, between two models that do not rest.

        `OpenBattle` if the voter has one that is neither voted on nor skipped.
        """
        draw = Draw(self._rng, np.array([category]), resting, free_prompt)
        return await self._ask(
            lambda state, batch: offer_live(state, batch, voter, self.name, draw), voter=voter
        )

    async def end_void(self, matchup: UUID, reason: str) -> bool:
        """End the matchup of a live battle in which an answer failed: nothing is rated. Return whether it was open."""
        return await self._ask(lambda state, batch: end_void(state, batch, matchup, reason))

    async def look_ahead(self, voter: Voter, shown: UUID | None) -> OfferedMatchup:
        """The matchup to load while the voter looks at the one that is ``shown``, which is recorded.

        One that waits already, or a new one that is prefetched.
        """
        draw = await self._draw_for(voter)
        return await self._ask(
            lambda state, batch: look_ahead(state, batch, voter, self.name, draw, shown=shown),
            voter=voter,
        )

    async def show(self, voter: Voter, matchup: UUID) -> OfferedMatchup:
        """Record that a prefetched matchup is shown to its voter."""
        shown = await self._ask(lambda state, batch: show(state, batch, voter, matchup, self.name))
        if shown is not NOT_IN_MEMORY:
            return shown
        return require_open_matchup(
            matchup, self.name, await self._found(voter, matchup), self._now(), voted=False
        )

    async def note_sent(self, matchup: UUID, side: int, characters: int) -> None:
        """Note that the bytes of a side (0 or 1) are sent to the matchup's voter, if votes depend on it.

        The caller has checked whose matchup it is.
        """
        if self.settings.checks_shown:
            await note_sent(self._pool, matchup, side, characters)

    async def now(self) -> datetime:
        """The database's time, as this process knows it."""
        async with self._lookup:
            await self._ensure_clock()
        return self._now()

    async def open_matchups(self, voter: Voter) -> list[OfferedMatchup]:
        """The voter's open matchups: those that were shown, then those that wait to be."""
        return await self._ask(
            lambda state, batch: [
                to_offered_matchup(one, self.name)
                for one in sorted(
                    state.open_matchups_of(voter.source, voter.session, batch.now), key=lambda one: one.unseen
                )
            ]
        )

    async def vote(
        self,
        voter: Voter,
        matchup: UUID,
        kind: Kind,
        *,
        ballot: int = 0,
        reveal: bool = False,
        detail: VoteDetail | None = None,
        sent: SentSides = NOTHING_SENT,
    ) -> EndedMatchup:
        """Vote on a matchup. Repeating a vote on the same ballot returns the same reply; a different vote is refused.

        ``sent`` is what the voter proves by a receipt to have been sent.
        """
        arrived = time.monotonic()
        checks, is_live = voter.source == HUMAN and self.settings.checks_shown, self.settings.is_live
        checked = await complete_sent(self._pool, matchup, sent) if checks and not is_live else None
        cast = SentVote(matchup, kind, ballot, reveal, detail, checked)

        async def look(batch: LogBatch) -> None:
            nonlocal cast
            cast = await read_live_vote(batch, cast, checks_shown=checks)

        ended = await self._ask(
            lambda state, batch: vote(state, batch, voter, cast, self._time_of(arrived)),
            look if is_live else None,
            voter=voter,
        )
        if ended is not NOT_IN_MEMORY:
            return ended
        found = await self._found(voter, matchup)
        return repeat_ending(matchup, found, self.state, self._now(), LogKind.VOTE, kind, ballot)

    async def skip(self, voter: Voter, matchup: UUID, *, detail: SkipDetail | None = None) -> EndedMatchup:
        """Skip a matchup: it ends without a vote. ``detail`` says why."""
        ended = await self._ask(lambda state, batch: skip(state, batch, voter, matchup, detail))
        if ended is not NOT_IN_MEMORY:
            return ended
        return repeat_ending(
            matchup, await self._found(voter, matchup), self.state, self._now(), LogKind.SKIP, None
        )

    async def undo(self, voter: Voter, matchup: UUID, *, ballot: int = 0) -> EndedMatchup:
        """Undo the vote on a ballot, while that is possible: soon after the vote and before the names are revealed.

        The matchup is open again, with the next ballot number.
        """
        ended = await self._ask(
            lambda state, batch: undo(state, batch, voter, matchup, ballot=ballot), voter=voter
        )
        if ended is not NOT_IN_MEMORY:
            return ended
        return repeat_undo(matchup, await self._found(voter, matchup), ballot)

    async def reveal(self, voter: Voter, matchup: UUID) -> RevealedMatchup:
        """Reveal the names of the models in a matchup that was voted on. The vote becomes final."""
        found = await self._voted(voter, matchup)

        async def look(batch: LogBatch) -> None:
            if found.position is None or not await batch.stands(found.source, found.serial, found.position):
                raise _no_vote()

        if found.revealed_at is None:
            await self._ask(lambda state, batch: reveal(state, batch, voter, found), look, voter=voter)
        else:
            # Another process may have revealed it: catch up with what is in the log, such as new models.
            await self._ask(lambda _state, _batch: None)
        return reveal_matchup(matchup, found, self.state)

    async def finish(self, voter: Voter) -> int:
        """End a person's session: reveal the names of all its votes, which become final; return how many these are."""
        return await self._ask(lambda state, batch: finish(state, batch, voter), voter=voter)

    async def unrevealed_votes(self, voter: Voter) -> int:
        """The number of this voter's votes whose names are not revealed yet."""
        return await self._ask(
            lambda state, _batch: len(state.revealed.of(voter.session).pending), voter=voter
        )

    async def find(self, voter: Voter, matchup: UUID, *, voted: bool = False) -> OfferedMatchup:
        """An open matchup of this voter; with ``voted``, also one that they voted on and have not undone."""
        opened = None if self.state is None else self.state.open.get(matchup)
        # One that has expired here may have been shown by another process since.
        if (
            opened is not None
            and (opened.source, opened.session) == (voter.source, voter.session)
            and opened.expires_at > self._now()
        ):
            return to_offered_matchup(opened, self.name)
        return require_open_matchup(
            matchup, self.name, await self._found(voter, matchup), self._now(), voted=voted
        )

    async def review(self, voter: Voter, matchup: UUID) -> ReviewedMatchup:
        """A matchup of this voter in any state: open, voted, skipped or expired."""
        found = await self._found(voter, matchup)
        return review_matchup(matchup, self.name, found, self._now(), self.settings.undo_seconds)

    async def remark(self, voter: Voter, matchup: UUID, tags: Sequence[str], comment: str | None) -> None:
        """Save the reason for a vote, after the vote and before the names are revealed; replaces an earlier one."""
        async with self._lookup:
            kept = await keep_remark(
                self._reading,
                self._author(voter),
                matchup,
                Remark(tuple(tags), comment),
                within=self.settings.undo_seconds + voter_requests.REMARK_GRACE_SECONDS,
            )
        if not kept:
            await self._voted(voter, matchup)
            raise Closed(
                "remarks on this vote are closed: its names have been revealed, or too much time has passed"
            )

    async def remarked(self, voter: Voter, matchup: UUID) -> Remark:
        """This voter's remark on one of their votes; empty if there is none."""
        async with self._lookup:
            return await find_remark(self._reading, self._author(voter), matchup)

    async def final_votes(self, voter: Voter) -> int:
        """The number of this voter's final votes."""
        final = await self.now() - timedelta(seconds=self.settings.undo_seconds)
        async with self._lookup:
            return await count_final_votes(self._reading, self._author(voter), final)

    async def responses_by_prompt(self) -> list[int]:
        """How many enabled models have answered each prompt."""
        return await self._ask(lambda state, _batch: state.standings[HUMAN].cells.n_playing.tolist())

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
        return self._time_of(time.monotonic())

    def _time_of(self, steady: float) -> datetime:
        """The database's time at a moment of the monotonic clock, by the time that was read last."""
        assert self._heard is not None
        moment, heard = self._heard
        return moment + timedelta(seconds=steady - heard)

    async def _ask(
        self,
        decide: Callable[[ArenaState, LogBatch], Reply],
        look: Look | None = None,
        *,
        voter: Voter | None = None,
    ) -> Reply:
        self._asked = time.monotonic()
        await self.ensure_open()
        ask = Ask(decide, look, voter)
        self._line.append(ask)
        self._wake_event.set()
        return await ask.reply()

    async def _run_batches(self) -> None:
        """Process batches until cancelled. After a fault, the requests of the batch are refused and the state is reloaded."""
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake_event.wait(), self._patience())
            asks: list[Ask[object]] = []
            self._call(asks)
            must_load = self.state is None or self.state.stale
            if not asks and must_load and self._pool.unhurried.locked():
                continue
            self._silent = asyncio.get_running_loop().call_later(
                _BATCH_TIMEOUT_SECONDS, self._refuse_waiting, asks
            )
            try:
                with span("batch"):
                    await self._batch(asks)
            except asyncio.CancelledError:
                _refuse(asks, _stopping())
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
        began = time.perf_counter()
        state = await self._loaded(hurried=bool(asks))
        if not asks:
            # Fold new events, and go on only if an open matchup has expired.
            await catch_up(state, self._log_connection)
            now, horizon = await self._sync_clock()
            state.settle(now, horizon)
            if not state.due(now, most=1):
                return
        async with self._log_connection.appending(state.position) as batch:
            self._heard = (batch.now, time.monotonic())
            await self._catch_up(state, batch)
            state.let_new_voters_wait(self.settings.waiting_hours > 0)
            self._call(asks)
            state.settle(batch.now, batch.horizon)
            expire_due(state, batch)
            for ask in asks:
                await ask.settle(state, batch)
        if self.on_events is not None and not batch.is_empty:
            self.on_events(self.arena)
        self.batches += 1
        self.answered += len(asks)
        BATCH_REQUESTS.record(len(asks))
        describe_span(tiltyard__requests=len(asks))
        BATCH_SECONDS.record(time.perf_counter() - began)
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

    async def _sync_clock(self) -> tuple[datetime, int]:
        """Read the database's time, and the log position up to which votes are final."""
        now, horizon = await self._log_connection.clock()
        self._heard = (now, time.monotonic())
        return now, horizon

    async def _ensure_clock(self) -> None:
        """Read the database's time if this process never has."""
        if self._heard is None:
            now, _ = await self._reading.clock()
            self._heard = (now, time.monotonic())

    async def _loaded(self, *, hurried: bool) -> ArenaState:
        if self.state is not None and not self.state.stale:
            return self.state
        if hurried:
            return await self._load()
        async with self._pool.unhurried:
            return await self._load()

    async def _load(self) -> ArenaState:
        state = await load_arena_state(self._log_connection, self.settings)
        state.shard = self._shard
        for source, (_, strengths) in self._strengths.items():
            state.rank(source, strengths)
        self.state = state
        return state

    async def _draw_for(self, voter: Voter) -> Draw:
        """What the voter's next matchup is drawn from. New prompts are among them a little later."""
        if voter.declared.is_everything:
            return Draw(self._rng)
        known = self._judgeable.get(voter.declared)
        if known is None:
            declared = voter.declared
            async with self._lookup:
                known = await read_judgeable(
                    self._reading, self.arena, declared.languages, declared.categories
                )
            self._judgeable.put(declared, known)
        return Draw(self._rng, known)

    def _author(self, voter: Voter) -> RemarkAuthor:
        return RemarkAuthor(self.arena, voter.source, voter.session)

    async def _found(self, voter: Voter, matchup: UUID) -> MatchupRecord:
        async with self._lookup:
            found = await find_matchup(self._reading, self.arena, matchup)
            await self._ensure_clock()
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


def _stopping() -> StoreFault:
    return StoreFault("the server is stopping; try again in a moment")


def _no_vote() -> Closed:
    return Closed("names are revealed only after a vote, and this matchup has none")
