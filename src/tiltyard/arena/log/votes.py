"""Reads the votes of a log that were not undone, with their matchups.

Everything here is as of a position: votes up to it, and the exclusions that the log had by then. An
export as of a position can be repeated byte for byte.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, fields
from datetime import datetime

import numpy as np
import psycopg

from tiltyard.arena.log.buckets import (
    fetch_one,
    fetch_row,
    fetch_row_sync,
    fetch_rows,
    fetch_rows_sync,
    find_statement,
)
from tiltyard.arena.log.event_details import VoteDetail
from tiltyard.core.policy.state.events import NO_FREE_PROMPT, Unrated
from tiltyard.core.policy.state.policy import Lane
from tiltyard.errors import NotFound
from tiltyard.foundation.arrays import Bools, Ints
from tiltyard.postgres.connections import Connection, ConnectionPool, translate_errors
from tiltyard.postgres.statements import statement

_NOT_GIVEN: Ints = np.empty(0, dtype=np.int64)
#: Columns of a tally by prompt of the roster, and by written prompt as well.
TALLY_COLUMNS, WRITTEN_TALLY_COLUMNS = 5, 6
#: Positions in a page. A page fits in memory, and each is read in a transaction of its own.
_PAGE_POSITIONS = 20_000

_BYTES = {"position": 8, "session": 8, "a": 4, "b": 4, "prompt": 4, "kind": 2, "free_prompt": 4, "at": 8}
#: All rows of a binary COPY have the same size if their fields have a fixed width and are never null.
_BALLOT = np.dtype(
    [("fields", ">i2")]
    + [part for name, width in _BYTES.items() for part in ((f"{name}_size", ">i4"), (name, f">i{width}"))]
)
_COPY_HEADER_BYTES, _COPY_TRAILER_BYTES = 19, 2


@dataclass(frozen=True, slots=True)
class Vote:
    """One vote with its matchup; models, prompt and session by number."""

    position: int
    at: datetime
    source: int
    outcome: int
    detail: VoteDetail | None
    a: int
    b: int
    prompt: int
    session: int
    nominal: int
    lane: int
    #: ``None`` for an imported vote: it is not known.
    propensity: float | None
    blind: bool
    #: The number of the prompt that the voter wrote; 0 if prompts are the operator's.
    free_prompt: int = NO_FREE_PROMPT
    #: Why it is not rated as of the position of the reader; ``None`` if it is.
    unrated: Unrated | None = None
    #: Whether it was cast elsewhere and imported; ``at`` is then when it was imported.
    imported: bool = False


@dataclass(frozen=True, slots=True)
class ArenaNames:
    """Names of models by number; names of prompts by number, with category and language."""

    models: tuple[str, ...]
    prompts: tuple[tuple[str, str | None, str | None], ...]


@dataclass(frozen=True, slots=True, eq=False)
class VoteTally:
    """How often a matchup of ``a`` (left) and ``b`` (right) on a prompt got a kind of vote."""

    a: Ints
    b: Ints
    prompt: Ints
    kind: Ints
    count: Ints
    #: The number of the prompt that the voter wrote, if votes are counted by it; 0 if prompts are the operator's.
    free_prompt: Ints = field(default_factory=lambda: _NOT_GIVEN)

    def __post_init__(self) -> None:
        if self.free_prompt is _NOT_GIVEN:
            object.__setattr__(self, "free_prompt", np.full(len(self.count), NO_FREE_PROMPT, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.count)

    def __getitem__(self, rows: Bools) -> VoteTally:
        return VoteTally(*(getattr(self, one.name)[rows] for one in fields(self)))


@dataclass(frozen=True, slots=True, eq=False)
class Ballots:
    """Votes one by one in the order in which they count, as columns; ``a`` was on the left, ``session`` is the voter's."""

    position: Ints
    session: Ints
    a: Ints
    b: Ints
    prompt: Ints
    kind: Ints
    #: The number of the prompt that the voter wrote; 0 if prompts are the operator's.
    free_prompt: Ints
    #: When it was cast, in seconds since 1970.
    at: Ints

    def __len__(self) -> int:
        return len(self.position)

    def __getitem__(self, rows: Bools) -> Ballots:
        return Ballots(*(getattr(self, name)[rows] for name in _BYTES))


@dataclass(frozen=True, slots=True)
class ChosenVotes:
    """Which votes are read: by default all that are not excluded."""

    #: Only on these prompts.
    prompts: Sequence[int] | None = None
    #: Whether excluded votes are read too.
    counted: bool = False
    #: Whether votes that are not rated are read too.
    unrated: bool = False
    #: Of a live arena: only on battles whose first prompt is in this language.
    language: str | None = None
    #: Only on matchups that this lane chose.
    lane: Lane | None = None

    def values(self) -> dict[str, object]:
        """The parameters of a statement."""
        return {
            "prompts": None if self.prompts is None else list(self.prompts),
            "counted": self.counted,
            "unrated": self.unrated,
            "spoken": self.language,
            "lane": None if self.lane is None else int(self.lane),
        }


_ALL_VOTES = ChosenVotes()


@asynccontextmanager
async def limit_statement_time(connection: Connection, seconds: float) -> AsyncIterator[None]:
    """A transaction with a time limit for each statement; a statement that exceeds it raises a `StoreFault`."""
    async with connection.transaction():
        values = {"patience": f"{seconds:.3f}s", "here": True}
        await connection.execute(statement("battles_patience"), values)
        yield


@asynccontextmanager
async def limited_connection(pool: ConnectionPool, seconds: float) -> AsyncIterator[Connection]:
    """A connection of the pool, in a transaction with a time limit for each statement."""
    async with pool.connection() as connection, limit_statement_time(connection, seconds):
        yield connection


def set_statement_timeout(connection: psycopg.Connection, seconds: float) -> None:
    """Set the time limit of statements on this connection."""
    with translate_errors("read an arena's votes in time"):
        values = {"patience": f"{seconds:.3f}s", "here": False}
        connection.execute(statement("battles_patience"), values)


def read_bounds(connection: psycopg.Connection, arena: int) -> tuple[int, int]:
    """The position up to which votes are final, and the log's last position."""
    values = {"arena": arena}
    row = fetch_row_sync(connection, "battles_bounds", values, "read an arena's log")
    if row is None:
        raise NotFound("no such arena; see the list of arenas")
    return int(row[0]), int(row[1])


async def read_horizon(connection: Connection, arena: int) -> int:
    """The position up to which votes are final."""
    values = {"arena": arena}
    row = await fetch_row(connection, "battles_bounds", values)
    if row is None:
        raise NotFound("no such arena; see the list of arenas")
    return int(row[0])


def read_names(connection: psycopg.Connection, arena: int) -> ArenaNames:
    """Read the names of models and prompts."""
    with translate_errors("read an arena's models and prompts"):
        models = connection.execute(statement("roster_models"), {"arena": arena}).fetchall()
        prompts = connection.execute(statement("battles_prompts"), {"arena": arena}).fetchall()
    return ArenaNames(
        tuple(name for (name,) in models), tuple((each[0], each[1], each[2]) for each in prompts)
    )


def read_votes(
    connection: psycopg.Connection,
    arena: int,
    *,
    upto: int,
    source: int | None = None,
    page: int = _PAGE_POSITIONS,
) -> Iterator[Vote]:
    """Votes as of a position, in log order, page by page."""
    for after in range(0, upto, page):
        values = {
            "arena": arena,
            "after": after,
            "upto": min(after + page, upto),
            "as_of": upto,
            "source": source,
        }
        rows = fetch_rows_sync(connection, "battles_votes", values, "read an arena's votes")
        yield from (Vote(*row) for row in rows)


async def read_tally(
    connection: Connection,
    arena: int,
    source: int,
    *,
    upto: int,
    prompts: Sequence[int] | None = None,
    model: int | None = None,
    counted: bool = False,
) -> VoteTally:
    """Count the votes as of a position; optionally on these prompts only, or of one model only.

    With ``counted``, excluded votes are included.
    """
    values = {
        "arena": arena,
        "source": source,
        "upto": upto,
        "prompts": None if prompts is None else list(prompts),
        "model": model,
        "counted": counted,
    }
    return await _tallied(connection, "battles_tally", values, WRITTEN_TALLY_COLUMNS)


async def read_ballots(
    connection: Connection,
    arena: int,
    source: int,
    *,
    upto: int,
    chosen: ChosenVotes = _ALL_VOTES,
) -> Ballots:
    """Read the chosen votes one by one, in log order."""
    values = {
        "arena": arena,
        "source": source,
        "upto": upto,
        **chosen.values(),
    }
    await connection.execute(statement("battles_by_hash"))
    text = find_statement("battles_ballots", values)
    async with connection.cursor() as cursor, cursor.copy(text, values) as copy:
        data = b"".join([bytes(piece) async for piece in copy])
    return _decode_ballots(data)


def read_ballots_sync(connection: psycopg.Connection, arena: int, source: int, *, upto: int) -> Ballots:
    """Read the rated votes that are not excluded one by one, in the order in which they count."""
    values = {"arena": arena, "source": source, "upto": upto, **_ALL_VOTES.values()}
    with translate_errors("read an arena's votes"), connection.transaction():
        connection.execute(statement("battles_by_hash"))
        text = find_statement("battles_ballots", values)
        with connection.cursor() as cursor, cursor.copy(text, values) as copy:
            return _decode_ballots(b"".join([bytes(piece) for piece in copy]))


def _decode_ballots(data: bytes) -> Ballots:
    count = (len(data) - _COPY_HEADER_BYTES - _COPY_TRAILER_BYTES) // _BALLOT.itemsize
    rows = np.frombuffer(data, dtype=_BALLOT, count=count, offset=_COPY_HEADER_BYTES)
    return Ballots(**{name: rows[name].astype(np.int64) for name in _BYTES})


async def read_arrivals(connection: Connection, arena: int, *, upto: int) -> dict[int, int]:
    """The position at which each model was first enabled, as of a position; the first of them first."""
    values = {"arena": arena, "upto": upto}
    rows = await fetch_rows(connection, "battles_arrivals", values)
    return {int(model): int(position) for model, position in rows}


async def read_pairs(
    connection: Connection,
    arena: int,
    source: int,
    *,
    upto: int,
    models: Sequence[int],
    chosen: ChosenVotes = _ALL_VOTES,
) -> VoteTally:
    """Count the votes between these models, with all prompts together: the prompt of each row is 0."""
    values = {
        "arena": arena,
        "source": source,
        "upto": upto,
        "models": list(models),
        **chosen.values(),
    }
    return await _tallied(connection, "battles_pairs", values, TALLY_COLUMNS)


async def count_excluded(connection: Connection, arena: int, source: int, *, upto: int) -> int:
    """The number of votes that are excluded as of a position."""
    values = {"arena": arena, "source": source, "upto": upto}
    return int((await fetch_one(connection, "battles_excluded", values))[0])


def count_imported(connection: psycopg.Connection, arena: int, source: int, *, upto: int) -> int:
    """The number of votes of a source as of a position that were cast elsewhere and imported."""
    values = {"arena": arena, "source": source, "upto": upto}
    row = fetch_row_sync(connection, "battles_imported", values, "count an arena's imported votes")
    assert row is not None
    return int(row[0])


@dataclass(frozen=True, slots=True)
class UnratedVotes:
    """How many votes are not rated as of a position, by reason."""

    not_blind: int = 0
    unseen: int = 0
    early: int = 0
    waiting: int = 0
    #: When the first of the waiting votes was cast.
    waiting_since: datetime | None = None

    @property
    def total(self) -> int:
        return self.not_blind + self.unseen + self.early + self.waiting


async def count_unrated(connection: Connection, arena: int, source: int, *, upto: int) -> UnratedVotes:
    """The numbers of votes up to a position that are not rated there."""
    values = {"arena": arena, "source": source, "upto": upto}
    rows = await fetch_rows(connection, "battles_unrated", values)
    counts = {reason: int(count) for reason, count, _ in rows}
    first = {reason: at for reason, _, at in rows}
    return UnratedVotes(
        counts.get("not-blind", 0),
        counts.get("unseen", 0),
        counts.get("early", 0),
        counts.get("waiting", 0),
        first.get("waiting"),
    )


async def _tallied(
    connection: Connection, named: str, values: Mapping[str, object], columns: int
) -> VoteTally:
    await connection.execute(statement("battles_by_hash"))
    rows = await fetch_rows(connection, named, values)
    return VoteTally(*np.array(rows, dtype=np.int64).reshape(-1, columns).T)
