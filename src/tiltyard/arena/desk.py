"""The desk of an arena: everything that voters do, in small batches.

Whoever asks waits in line. A batch takes the arena's lock, folds what others have written, decides for
everybody in line, writes all of it at once and commits; then those in line are told. So a matchup is
chosen from counts that are complete to the last event, and a vote that was acknowledged is in the log.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import numpy as np

from tiltyard.arena.asking import Ended, Offered, Revealed, Voter
from tiltyard.arena.deciding import (
    LOOK,
    expire_due,
    offer,
    offered,
    reveal,
    run_out,
    skip,
    undo,
    undoable_until,
    vote,
)
from tiltyard.arena.live import Live
from tiltyard.arena.loading import catch_up, fold_rows, load_live
from tiltyard.arena.matchup_ids import parse_matchup, shown_matchup
from tiltyard.battles import Kind
from tiltyard.errors import Closed, StoreFault, TiltyardError
from tiltyard.settings.arena import ArenaSettings
from tiltyard.standing.policy import Lane
from tiltyard.standing.strengths import Strengths
from tiltyard.store.door import Door
from tiltyard.store.log import TAIL, Appending, Found, LogKind, no_such_matchup

__all__ = ["Desk"]

#: How many asks are answered in one batch.
_LINE = 256
#: Seconds between looks at the log while nobody asks, and before trying again after a fault.
_TICK = 2.0
_RETRY = 0.25
#: Seconds without an ask after which connections are given back.
_IDLE = 60.0
#: Seconds that a batch may take before those in line are told to ask again. A server that is well cuts
#: a batch short before that.
_SILENCE = 20.0

Decide = Callable[[Live, Appending], Any]


@dataclass(slots=True, eq=False)
class _Ask:
    decide: Decide
    answer: asyncio.Future[Any]
    #: What must be read under the lock before it is decided.
    look: Callable[[Appending], Awaitable[None]] | None


class Desk:
    """One arena in one process."""

    def __init__(self, url: str, arena: int, name: str, settings: ArenaSettings) -> None:
        self.arena = arena
        self.name = name
        self.settings = settings
        #: ``None`` while it cannot be loaded.
        self.live: Live | None = None
        #: Batches so far, and asks that were answered in them.
        self.batches = self.answered = 0
        self._door, self._reading = Door(url, arena), Door(url, arena)
        self._lookup = asyncio.Lock()
        self._line: list[_Ask] = []
        self._bell = asyncio.Event()
        self._rng = np.random.default_rng()
        #: The database's time when it was last heard, and our steady clock then.
        self._heard = (datetime.min.replace(tzinfo=UTC), 0.0)
        self._asked = time.monotonic()
        self._task: asyncio.Task[None] | None = None
        self._silent: asyncio.TimerHandle
        self._strengths: dict[int, tuple[int, Strengths]] = {}

    async def open(self) -> None:
        """Load the arena and begin."""
        await self._load()
        self._task = asyncio.create_task(self._attend(), name=f"desk {self.name}")

    async def close(self) -> None:
        """Stop; those in line are told to ask again."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        _refuse(self._line, StoreFault("the server is stopping; ask again in a moment"))
        await self._door.hang_up()
        await self._reading.hang_up()

    @property
    def ready(self) -> bool:
        """Whether the arena is loaded."""
        return self.live is not None

    async def next_matchup(self, voter: Voter, *, ahead: bool = False) -> Offered:
        """The matchup that the voter has before it, or a new one.

        With ``ahead`` it may have a second one, to be shown next; a third is never served.
        """
        found: Offered = await self._ask(
            lambda live, batch: offer(live, batch, voter, self.name, self._rng, ahead=ahead)
        )
        return found

    async def open_matchups(self, voter: Voter) -> list[Offered]:
        """What the voter has been served and has not answered."""
        found: list[Offered] = await self._ask(
            lambda live, batch: [
                offered(one, self.name) for one in live.opened_by(voter.source, voter.session, batch.now)
            ]
        )
        return found

    async def vote(
        self,
        voter: Voter,
        matchup: str,
        kind: Kind,
        *,
        reveal: bool = False,
        detail: dict[str, Any] | None = None,
    ) -> Ended:
        """Settle a matchup. The same vote again has the same answer; another one is refused."""
        one = parse_matchup(matchup)
        ended = await self._ask(
            lambda live, batch: vote(live, batch, voter, one, kind, names=reveal, detail=detail)
        )
        return await self._ended(voter, one, LogKind.VOTE, kind) if ended is LOOK else ended

    async def skip(self, voter: Voter, matchup: str) -> Ended:
        """Pass a matchup over; it will not come back."""
        one = parse_matchup(matchup)
        ended = await self._ask(lambda live, batch: skip(live, batch, voter, one))
        return await self._ended(voter, one, LogKind.SKIP, None) if ended is LOOK else ended

    async def undo(self, voter: Voter, matchup: str) -> Ended:
        """Take a vote back, soon after it and before the names were shown. The matchup stays closed."""
        one = parse_matchup(matchup)
        ended = await self._ask(lambda live, batch: undo(live, batch, voter, one))
        if ended is not LOOK:
            return ended  # type: ignore[no-any-return]
        found = await self._found(voter, one)
        if found.kind != LogKind.VOTE or found.outcome is None or found.at is None:
            raise Closed("there is no vote to take back on this matchup")
        if found.undone is None:
            raise Closed("this vote is final: the time to take it back has passed, or the names were shown")
        return Ended(matchup, LogKind.UNDO, Kind(found.outcome), found.undone, found.at)

    async def reveal(self, voter: Voter, matchup: str) -> Revealed:
        """Show the names of a matchup that was voted on; from now on the vote is final."""
        one = parse_matchup(matchup)
        found = await self._voted(voter, one)

        async def look(batch: Appending) -> None:
            if not await batch.stands(found.source, found.serial):
                raise _no_vote()

        if found.revealed_at is None:
            await self._ask(lambda live, batch: reveal(live, batch, voter, found), look)
        return self._names(matchup, found)

    async def find(self, voter: Voter, matchup: str) -> Offered:
        """An open matchup of this voter."""
        one = parse_matchup(matchup)
        opened = None if self.live is None else self.live.open.get(one)
        if opened is not None and (opened.source, opened.session) == (voter.source, voter.session):
            if opened.expires_at <= self._now():
                raise run_out()
            return offered(opened, self.name)
        found = await self._found(voter, one)
        if found.kind == LogKind.EXPIRE or (found.kind is None and found.expires_at <= self._now()):
            raise run_out()
        if found.kind is not None:
            raise Closed("this matchup has ended; ask for another one")
        moments = (found.served_at, found.expires_at)
        return Offered(matchup, self.name, found.prompt, found.response_a, found.response_b, *moments)

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

    async def _ask(self, decide: Decide, look: Callable[[Appending], Awaitable[None]] | None = None) -> Any:
        answer = asyncio.get_running_loop().create_future()
        self._line.append(_Ask(decide, answer, look))
        self._asked = time.monotonic()
        self._bell.set()
        return await answer

    async def _attend(self) -> None:
        """Batch after batch, for ever; a fault refuses those in line and starts from the log again."""
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._bell.wait(), await self._patience())
            asks: list[_Ask] = []
            self._call(asks)
            self._silent = asyncio.get_running_loop().call_later(_SILENCE, self._give_up, asks)
            try:
                await self._batch(asks)
            except asyncio.CancelledError:
                _refuse(asks, StoreFault("the server is stopping; ask again in a moment"))
                raise
            except Exception as fault:  # noqa: BLE001 - whatever it is, those in line must hear of it
                self.live = None
                _refuse(asks, fault)
                await asyncio.sleep(_RETRY)
            finally:
                self._silent.cancel()

    async def _patience(self) -> float | None:
        """How long to wait for somebody. A desk at which nobody stands, and nothing waits, hangs up."""
        if time.monotonic() - self._asked < _IDLE or self.live is None or self.live.open or self.live.fresh:
            return _TICK
        await self._door.hang_up()
        async with self._lookup:
            await self._reading.hang_up()
        return None

    def _give_up(self, asks: list[_Ask]) -> None:
        """The database is silent: tell those who wait for it. What they asked may still be done."""
        for ask in (*asks, *self._line):
            if not ask.answer.done():
                ask.answer.set_exception(
                    StoreFault("the database has not answered for long; ask again in a moment")
                )
        self._line.clear()
        self._silent = asyncio.get_running_loop().call_later(_RETRY, self._give_up, asks)

    def _call(self, asks: list[_Ask]) -> None:
        """Those in line join the batch: at its beginning, and once more when it has the lock."""
        free = _LINE - len(asks)
        asks += self._line[:free]
        del self._line[:free]
        if self._line:
            self._bell.set()
        else:
            self._bell.clear()

    async def _batch(self, asks: list[_Ask]) -> None:
        live = self.live
        if live is None or live.stale:
            live = await self._load()
        if not asks and not await self._due(live):
            return
        async with self._door.appending(live.position) as batch:
            self._heard = (batch.now, time.monotonic())
            await self._catch_up(live, batch)
            self._call(asks)
            live.settle(batch.now, batch.horizon)
            expire_due(live, batch)
            answers = [await _decided(ask, live, batch) for ask in asks]
        self.batches += 1
        self.answered += len(asks)
        for ask, (told, fault) in zip(asks, answers, strict=True):
            if ask.answer.done():
                continue
            if fault is None:
                ask.answer.set_result(told)
            else:
                ask.answer.set_exception(fault)

    async def _catch_up(self, live: Live, batch: Appending) -> None:
        await fold_rows(live, self._door, batch.tail)
        if len(batch.tail) == TAIL:
            await catch_up(live, self._door)
        if live.position != batch.head:
            raise StoreFault(
                f"the log of {self.name} ends at {batch.head}, and {live.position} events are known: it has a gap"
            )

    async def _due(self, live: Live) -> bool:
        """Nobody asks: fold what has come, and see whether anything has run out."""
        await catch_up(live, self._door)
        now, horizon = await self._door.clock()
        self._heard = (now, time.monotonic())
        live.settle(now, horizon)
        return bool(live.due(now, most=1))

    async def _load(self) -> Live:
        live = await load_live(self._door, self.settings)
        for source, (_, strengths) in self._strengths.items():
            live.rank(source, strengths)
        self.live = live
        return live

    async def _found(self, voter: Voter, matchup: UUID) -> Found:
        async with self._lookup:
            found = await self._reading.find(matchup)
        if found is None or (found.source, found.session) != (voter.source, voter.session):
            raise no_such_matchup()
        return found

    async def _voted(self, voter: Voter, matchup: UUID) -> Found:
        found = await self._found(voter, matchup)
        if found.kind != LogKind.VOTE or found.undone is not None:
            raise _no_vote()
        return found

    async def _ended(self, voter: Voter, matchup: UUID, kind: LogKind, outcome: Kind | None) -> Ended:
        """A matchup that has ended already: the same once more, or a refusal."""
        found = await self._found(voter, matchup)
        if found.kind == LogKind.EXPIRE:
            raise run_out()
        if found.kind is None or found.position is None or found.at is None:
            raise StoreFault("this matchup is not known here yet; ask again in a moment")
        if found.undone is not None:
            raise Closed("the vote on this matchup was taken back; it takes no other")
        if found.kind != kind or found.outcome != (None if outcome is None else int(outcome)):
            how = "skipped" if found.kind == LogKind.SKIP else "voted on otherwise"
            raise Closed(f"this matchup was {how}; it takes no other vote")
        live, revealed = self.live, found.revealed_at is not None
        until = None if live is None or revealed else undoable_until(live, found.at)
        fresh = kind == LogKind.VOTE and until is not None
        return Ended(
            matchup=shown_matchup(matchup),
            kind=kind,
            outcome=outcome,
            position=found.position,
            at=found.at,
            undo_until=until if fresh else None,
            revealed=revealed,
        )

    def _names(self, matchup: str, found: Found) -> Revealed:
        live = self.live
        if live is None or found.outcome is None or found.position is None:
            raise StoreFault("the arena is being loaded; ask again in a moment")
        standing = live.standings[found.source]
        return Revealed(
            matchup=matchup,
            model_a=standing.models[found.a],
            model_b=standing.models[found.b],
            prompt=standing.prompts[found.prompt],
            outcome=Kind(found.outcome),
            lane=Lane(found.lane).name.lower(),
            reason=found.reason,
            position=found.position,
        )


async def _decided(ask: _Ask, live: Live, batch: Appending) -> tuple[Any, Exception | None]:
    """What this ask gets: refusals are answers too."""
    try:
        if ask.look is not None:
            await ask.look(batch)
        return ask.decide(live, batch), None
    except StoreFault:
        raise
    except TiltyardError as refusal:
        return None, refusal


def _refuse(asks: list[_Ask], fault: Exception) -> None:
    for ask in asks:
        if not ask.answer.done():
            ask.answer.set_exception(fault)
    asks.clear()


def _no_vote() -> Closed:
    return Closed("names are shown only after a vote: this matchup has none")
