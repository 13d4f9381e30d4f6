"""The event log of an arena: one dense, commit-ordered sequence of positions.

Numbers that a database assigns before a commit are not in commit order: a reader that follows them
misses rows. Here a writer holds the arena's lock until its transaction has committed, so that a reader
that has seen position n has seen everything before it.
"""

from __future__ import annotations

import enum
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from psycopg import AsyncConnection, AsyncPipeline
from psycopg.errors import InvalidSqlStatementName
from psycopg.pq import TransactionStatus

from tiltyard.arena.log.array_literals import array_literal
from tiltyard.arena.log.buckets import (
    PARTITION_AHEAD_ROWS,
    PARTITION_ROWS,
    ensure_partition,
    fetch_row,
    fetch_rows,
    find_statement,
    shared_bucket,
)
from tiltyard.arena.log.event_details import (
    EventDetail,
    ServedDetail,
    SkipDetail,
    UndoDetail,
    VoidDetail,
    VoteDetail,
)
from tiltyard.arena.log.matchup_endings import EndingBuffer, MatchupEnding
from tiltyard.core.policy.state.events import NO_FREE_PROMPT, NO_MARK, Unrated, unrated_reason
from tiltyard.errors import NotFound, StoreFault
from tiltyard.foundation.telemetry import EVENTS, LOCK_WAIT_SECONDS
from tiltyard.postgres.connections import Database, roll_back, translate_errors
from tiltyard.postgres.statements import bucket_statement, statement
from tiltyard.settings.arena_settings import MAX_SESSION_VOTES

HUMAN, JUDGE = 0, 1
#: Names of the sources, by number.
SOURCES = ("human", "llm-judge")

#: Rows of a tail that are read at once.
TAIL_ROWS = 5_000


class LogKind(enum.IntEnum):
    """Kinds of events. The first eight are those of `core.policy.state.events.Event`.

    A matchup is either served, which shows it at once, or prefetched; a prefetched one is shown later or released.
    """

    #: A matchup was served to a voter, and shown at once.
    SERVED = 0
    #: Its voter voted.
    VOTE = 1
    #: Its voter skipped it.
    SKIP = 2
    #: It was shown and not answered in time, a response in it was withdrawn, or it had to make room.
    EXPIRE = 3
    #: A model (``a``) may be served from now on.
    ENABLE = 4
    #: A model is no longer served; its battles stay.
    RETIRE = 5
    #: A model has a response to a prompt; ``serial`` is the number of the response.
    RESPOND = 6
    #: A response is taken down.
    WITHDRAW = 7
    #: A vote was undone by its voter: the matchup is open again.
    UNDO = 8
    #: The names of a matchup were shown to its voter.
    REVEAL = 9
    #: An operator excludes votes, or a voter is erased.
    EXCLUDE = 10
    #: An exclusion is revoked.
    RESTORE = 11
    #: The ranking policy from here on.
    POLICY = 12
    #: The number of models (``a``) and prompts from here on.
    WIDEN = 13
    #: A matchup was served to be shown next.
    PREFETCHED = 14
    #: A prefetched matchup was shown.
    SHOWN = 15
    #: A prefetched matchup ended without having been shown.
    RELEASED = 16
    #: A vote that waited because its voter was new is admitted to the board, at this position.
    ADMIT = 17
    #: An expert panel was opened.
    PANEL_OPENED = 20
    #: It was closed; its figures are final.
    PANEL_CLOSED = 21
    #: Something of a vote stood here that its voter deleted: an admission, an undo, or a vote that was undone.
    REMOVED = 24
    #: The results of a model (``a``) shifted in a group of votes (``prompt``) by more than chance explains.
    CROWD_CHANGED = 26
    #: An operator said why.
    CROWD_EXPLAINED = 27


_KIND_NAMES = {int(kind): kind.name.lower() for kind in LogKind}


@dataclass(frozen=True, slots=True)
class LogRow:
    """One event. Numbers that do not apply are -1.

    Served, prefetched and shown matchups have ``matchup`` and ``expires_at``; these and reveals have the responses.
    """

    position: int
    at: datetime
    kind: int
    source: int = -1
    serial: int = -1
    session: int = -1
    a: int = -1
    b: int = -1
    prompt: int = -1
    outcome: int = -1
    nominal: int = -1
    lane: int = -1
    detail: EventDetail | None = None
    matchup: UUID | None = None
    response_a: int = -1
    response_b: int = -1
    expires_at: datetime | None = None
    #: For a vote: whether the voter knew neither name.
    blind: bool = True
    #: The number of the prompt that the voter wrote, for a matchup or a vote in a live arena; 0 elsewhere.
    free_prompt: int = NO_FREE_PROMPT
    #: For a vote: its `VoteMark`; 0 for none.
    mark: int = NO_MARK


@dataclass(frozen=True, slots=True)
class OpenMatchup:
    matchup: UUID
    source: int
    serial: int
    session: int
    a: int
    b: int
    prompt: int
    response_a: int
    response_b: int
    nominal: int
    lane: int
    served_at: datetime
    expires_at: datetime
    #: How often a vote on it was undone.
    ballot: int = 0
    #: Whether it was prefetched and has not been shown.
    unseen: bool = False
    #: The number of the prompt that the voter wrote; 0 if prompts are the operator's.
    free_prompt: int = NO_FREE_PROMPT
    #: When it was shown; ``None`` if it has not been.
    shown_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class MatchupRecord:
    """A matchup as it is stored, with its ending if it has ended."""

    arena: int
    source: int
    serial: int
    session: int
    a: int
    b: int
    prompt: int
    response_a: int
    response_b: int
    nominal: int
    lane: int
    reason: str
    served_at: datetime
    expires_at: datetime
    kind: int | None
    outcome: int | None
    position: int | None
    at: datetime | None
    revealed_at: datetime | None
    #: Position of the undo that reopened the matchup; kind, outcome and position are then those of the undone vote.
    undone: int | None
    ballot: int = 0
    #: For a vote: whether the voter knew neither name.
    blind: bool = True
    #: The number of the prompt that the voter wrote; 0 if prompts are the operator's.
    free_prompt: int = NO_FREE_PROMPT
    #: For a vote: its `VoteMark`, and whether it was admitted since.
    mark: int = NO_MARK
    admitted: bool = False

    @property
    def unrated(self) -> Unrated | None:
        """Why a vote is not rated now."""
        return unrated_reason(blind=self.blind, mark=NO_MARK if self.admitted else self.mark)

    @property
    def is_open(self) -> bool:
        """Whether it has not ended, or its vote was undone."""
        return self.kind is None or self.undone is not None


class ToldResponse(NamedTuple):
    """A response whose model's name was revealed to a voter."""

    response: int
    model: int
    prompt: int


class PendingNames(NamedTuple):
    """A vote whose names are not revealed to its voter yet."""

    serial: int
    a: int
    b: int
    prompt: int
    response_a: int
    response_b: int
    free_prompt: int = NO_FREE_PROMPT

    @classmethod
    def of(cls, one: OpenMatchup | MatchupRecord) -> PendingNames:
        """The vote on a matchup."""
        return cls(one.serial, one.a, one.b, one.prompt, one.response_a, one.response_b, one.free_prompt)


class WaitingVote(NamedTuple):
    """A vote that waits to be rated; the outcome as it is folded."""

    source: int
    serial: int
    session: int
    a: int
    b: int
    prompt: int
    outcome: int
    free_prompt: int = NO_FREE_PROMPT


class _LogHead(NamedTuple):
    """The last position of a log and its time, the time now, and the position up to which votes are final."""

    head: int
    last: datetime | None
    clock: datetime
    horizon: int


#: Numbers of an event, in the order of its columns from ``source`` to ``lane``.
_Numbers = tuple[int | None, ...]


class LogBatch:
    """One batch of events under the arena's lock. They are written when the ``append_batch`` block ends."""

    def __init__(self, connection: AsyncConnection, arena: int, place: _LogHead, tail: list[LogRow]) -> None:
        self.arena = arena
        self.connection = connection
        self.bucket = shared_bucket(arena)
        #: The last position, including the added events.
        self.head = place.head
        #: The time of all added events; never before that of the log's last event.
        self.now = place.clock if place.last is None else max(place.last, place.clock)
        #: Votes up to this position are final, whatever their age.
        self.horizon = place.horizon
        #: Events that others appended after the position passed to ``append_batch``.
        self.tail = tail
        #: How long the lock was held, once the batch is committed.
        self.held_seconds = 0.0
        self._first = place.head
        self._events: list[tuple[Any, ...]] = []
        self._matchups: list[tuple[Any, ...]] = []
        self._endings = EndingBuffer()

    def add(
        self,
        kind: LogKind,
        *,
        source: int | None = None,
        serial: int | None = None,
        session: int | None = None,
        a: int | None = None,
        prompt: int | None = None,
        detail: EventDetail | None = None,
    ) -> int:
        """Add an event that neither serves nor ends a matchup; return its position."""
        return self._add(kind, (source, serial, session, a, None, prompt, None, None, None), detail, None)

    def _add(
        self,
        kind: LogKind,
        numbers: _Numbers,
        detail: EventDetail | None,
        blind: bool | None,
        free_prompt: int = NO_FREE_PROMPT,
        mark: int = NO_MARK,
    ) -> int:
        self.head += 1
        self._events.append(
            (self.head, int(kind), *numbers, detail, blind, free_prompt or None, int(mark) or None)
        )
        return self.head

    def serve(
        self,
        one: OpenMatchup,
        *,
        reason: str,
        propensity: float,
        given_up: int = 0,
        detail: ServedDetail | None = None,
    ) -> int:
        """Add a matchup that is served or prefetched: its event and its row. Return the position.

        ``detail`` has what the voter had said to be able to judge: it was chosen among those prompts.
        """
        kind = LogKind.PREFETCHED if one.unseen else LogKind.SERVED
        cells = (one.session, one.a, one.b, one.prompt)
        numbers = (one.source, one.serial, *cells, None, one.nominal, one.lane)
        position = self._add(kind, numbers, detail, None, one.free_prompt)
        key = (one.source, one.serial, one.matchup, position)
        responses = (one.response_a, one.response_b)
        choice = (one.nominal, one.lane, reason, propensity, given_up)
        shown = (one.expires_at, one.unseen, one.free_prompt or None)
        self._matchups.append((*key, *cells, *responses, *choice, *shown))
        return position

    def show(self, one: OpenMatchup, expires_at: datetime) -> int:
        """Add that a prefetched matchup is shown, and can be voted on until ``expires_at``. Return the position."""
        self._endings.show((one.source, one.serial), expires_at)
        numbers = (one.source, one.serial, one.session, one.a, one.b, one.prompt, None, one.nominal, one.lane)
        return self._add(LogKind.SHOWN, numbers, None, None)

    def vote(
        self,
        one: OpenMatchup,
        outcome: int,
        *,
        blind: bool,
        mark: int = NO_MARK,
        detail: VoteDetail | None = None,
    ) -> int:
        """Add a vote: its event and the matchup's ending. Return the position.

        If an earlier vote on the matchup was undone, its ending is replaced. Of votes with a mark, only imported ones are rated.
        """
        numbers = (one.source, one.serial, one.session, one.a, one.b, one.prompt, outcome, None, None)
        position = self._add(LogKind.VOTE, numbers, detail, blind, one.free_prompt, mark)
        key = (one.source, one.serial)
        ending = _ending(key, position, LogKind.VOTE, outcome, blind=blind, mark=int(mark) or None)
        self._endings.end(ending, reopened=one.ballot > 0)
        return position

    def end(
        self,
        kind: LogKind,
        source: int,
        serial: int,
        *,
        session: int | None = None,
        ballot: int = 0,
        detail: SkipDetail | VoidDetail | None = None,
    ) -> int:
        """Add a skip, an expiry or a release: its event and the matchup's ending. Return the position.

        If ``ballot`` is above 0, a vote on the matchup was undone, and its ending is replaced.
        """
        position = self.add(kind, source=source, serial=serial, session=session, detail=detail)
        self._endings.end(_ending((source, serial), position, kind), reopened=ballot > 0)
        return position

    def admit(self, vote: WaitingVote) -> int:
        """Add that a vote that waited counts from here on. It must be final. Return the position."""
        # All but the last field, in the order of the columns.
        numbers = (*vote[:-1], None, None)
        position = self._add(LogKind.ADMIT, numbers, None, blind=True, free_prompt=vote.free_prompt)
        self._endings.admit((vote.source, vote.serial), position)
        return position

    def undo(
        self, source: int, serial: int, session: int, *, vote: int, ballot: int, expires_at: datetime
    ) -> int:
        """Add the undo of the vote at a position, which reopens the matchup for ``ballot`` until ``expires_at``."""
        detail: UndoDetail = {"vote": vote, "ballot": ballot, "expires_at": expires_at.isoformat()}
        position = self.add(LogKind.UNDO, source=source, serial=serial, session=session, detail=detail)
        self._endings.undo((source, serial), position, vote, ballot, expires_at)
        return position

    def reveal(self, source: int, serial: int, session: int) -> int:
        """Add a reveal of the names of a matchup that was voted on."""
        self._endings.reveal((source, serial))
        return self.add(LogKind.REVEAL, source=source, serial=serial, session=session)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was added."""
        return not self._events

    async def stands(self, source: int, serial: int, position: int) -> bool:
        """Whether the vote at this position was not undone, neither in the tables nor in this batch."""
        known = self._endings.stands((source, serial), position)
        if known is not None:
            return known
        values = {"arena": self.arena, "source": source, "serial": serial}
        found = await self.connection.execute(bucket_statement("log_ending", self.bucket), values)
        return await found.fetchone() == (LogKind.VOTE, position, None)

    async def is_known(self, session: int) -> bool:
        """Whether a person's votes before this batch were rated, or admitted: then the next ones need not wait."""
        values = {"arena": self.arena, "session": session}
        found = await self.connection.execute(bucket_statement("log_known_voter", self.bucket), values)
        return await found.fetchone() == (True,)

    async def read_revealed_names(
        self, session: int, source: int
    ) -> tuple[list[ToldResponse], list[PendingNames]]:
        """Responses whose names were revealed to a voter before this batch, and a person's votes not revealed yet.

        Only the newest such votes are read, as many as a session can have; oldest first.
        """
        values = {"arena": self.arena, "session": session, "source": source, "limit": MAX_SESSION_VOTES}
        execute = self.connection.execute
        found = await execute(statement("log_told_responses"), values)
        revealed = [ToldResponse(*row) for row in await found.fetchall()]
        if source != HUMAN:
            return revealed, []
        found = await execute(bucket_statement("log_pending_names", self.bucket), values)
        return revealed, [PendingNames(*row) for row in reversed(await found.fetchall())]

    def measure(self) -> None:
        """Count the events by kind, after they were committed."""
        for kind, count in Counter(row[1] for row in self._events).items():
            EVENTS.record(count, _KIND_NAMES[kind])

    async def _write(self) -> list[tuple[str, Any, int]]:
        """Send all rows; return the cursors of the updates and their numbers of rows, to be checked after a sync."""
        if not self._events:
            return []
        if _crosses(self._first, self.head):
            await ensure_partition(self.connection, "events", self.bucket, self.head + PARTITION_AHEAD_ROWS)
        serials = [row[1] for row in self._matchups]
        if serials and _crosses(min(serials) - 1, max(serials)):
            for table in ("matchups", "endings"):
                await ensure_partition(
                    self.connection, table, self.bucket, max(serials) + PARTITION_AHEAD_ROWS
                )
        same = {"arena": self.arena, "at": self.now}
        execute = self.connection.execute
        for rows, name, columns in (
            (self._events, "log_add_events", _EVENTS),
            (self._matchups, "log_add_matchups", _MATCHUPS),
            (self._endings.rows, "log_add_endings", self._endings.columns),
        ):
            if rows:
                literals = (array_literal(column) for column in zip(*rows, strict=True))
                values = same | dict(zip(columns, literals, strict=True))
                await execute(bucket_statement(name, self.bucket), values)
        return [
            (name, await execute(bucket_statement(name, self.bucket), {**same, **values}), changed)
            for name, values, changed in self._endings.statements()
        ]


_EVENTS = (
    "position", "kind", "source", "serial", "session", "a", "b", "prompt", "outcome", "nominal", "lane", "detail",
    "blind", "free_prompt", "mark",
)  # fmt: skip
_MATCHUPS = (
    "source", "serial", "matchup", "position", "session", "a", "b", "prompt", "response_a", "response_b",
    "nominal", "lane", "reason", "propensity", "given_up", "expires_at", "unseen", "free_prompt",
)  # fmt: skip


def _ending(
    key: tuple[int, int],
    position: int,
    kind: LogKind,
    outcome: int | None = None,
    *,
    blind: bool | None = None,
    mark: int | None = None,
) -> MatchupEnding:
    return MatchupEnding(
        source=key[0],
        serial=key[1],
        position=position,
        kind=int(kind),
        outcome=outcome,
        blind=blind,
        undone=None,
        mark=mark,
    )


@asynccontextmanager
async def append_batch(
    connection: AsyncConnection, arena: int, *, after: int | None = None
) -> AsyncIterator[LogBatch]:
    """A transaction under the arena's lock, which commits at the end of the block.

    If the caller has begun a transaction, to prepare what needs no lock, it is continued.

    With ``after``, the batch has the events that others appended since that position, at most `TAIL_ROWS`.
    A caller that is further behind must read the rest with `read_tail` before it appends anything.
    """
    asked = time.perf_counter()
    with translate_errors("append to an arena's log"):
        try:
            async with connection.pipeline() as pipeline:
                if connection.info.transaction_status is TransactionStatus.IDLE:
                    await connection.execute(statement("log_begin"))
                await connection.execute(statement("log_lock"), {"arena": arena})
                place, tail = await _read_end(connection, pipeline, arena, after)
                locked = time.perf_counter()
                LOCK_WAIT_SECONDS.record(locked - asked)
                batch = LogBatch(connection, arena, place, tail)
                yield batch
                changed = await batch._write()  # noqa: SLF001
                if after is None:
                    # A voting queue announces what it appends about once a second: each announcement costs as
                    # much as several votes.
                    await connection.execute(statement("log_announce"), {"arenas": str(arena)})
                if changed:
                    await pipeline.sync()
                    _check(changed)
                await connection.execute("COMMIT")
        except InvalidSqlStatementName:
            # The server does not have a statement that this connection takes for prepared: it would fail every time.
            await connection.close()
            raise
        except BaseException:
            await roll_back(connection)
            raise
    batch.held_seconds = time.perf_counter() - locked
    batch.measure()


async def _read_end(
    connection: AsyncConnection, pipeline: AsyncPipeline, arena: int, after: int | None
) -> tuple[_LogHead, list[LogRow]]:
    """The last position of a log that is locked, and its events after a position."""
    values = {"arena": arena, "after": after, "limit": TAIL_ROWS}
    head = await connection.execute(find_statement("log_head", values), values)
    tail = None if after is None else await connection.execute(find_statement("log_tail", values), values)
    # Only after a sync does the server's idle timeout run.
    await pipeline.sync()
    place = await head.fetchone()
    assert place is not None
    return _LogHead(*place), await _rows(tail)


async def read_tail(database: Database, arena: int, after: int) -> list[LogRow]:
    """Up to `TAIL_ROWS` events after a position; fewer only at the end of the log."""
    values = {"arena": arena, "after": after, "limit": TAIL_ROWS}
    return [LogRow(*row) for row in await fetch_rows(database, "log_tail", values)]


async def find_matchup(database: Database, arena: int, matchup: UUID) -> MatchupRecord | None:
    """A matchup of an arena by its id, open or ended."""
    values = {"arena": arena, "matchup": matchup}
    row = await fetch_row(database, "log_find_matchup", values)
    return None if row is None else MatchupRecord(*row)


def matchup_not_found_error() -> NotFound:
    """The error for an unknown matchup; the same for guessed ids, malformed ids and those of other voters."""
    return NotFound("no such matchup: it may belong to another voter or session")


async def _rows(cursor: Any) -> list[LogRow]:
    return [] if cursor is None else [LogRow(*row) for row in await cursor.fetchall()]


def _crosses(first: int, last: int) -> bool:
    return (first + PARTITION_AHEAD_ROWS) // PARTITION_ROWS != (last + PARTITION_AHEAD_ROWS) // PARTITION_ROWS


def _check(changed: list[tuple[str, Any, int]]) -> None:
    for name, cursor, expected in changed:
        if cursor.rowcount != expected:
            doing = name.removeprefix("log_").replace("_", " ")
            raise StoreFault(f"cannot {doing}: the matchup is not in the expected state; try again")
