"""Ranges of a log as NumPy columns, for folding."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from psycopg import Connection

from tiltyard.arena.log.buckets import find_statement
from tiltyard.arena.log.event_details import EventDetail
from tiltyard.arena.log.event_log import HUMAN, LogKind
from tiltyard.core.policy.state.events import NO_FREE_PROMPT, NO_SESSION, RATED_MARKS, Event, Events, VoteMark
from tiltyard.foundation.arrays import Bools, Ints
from tiltyard.postgres.connections import translate_errors

_WIDTH_BYTES = {
    "position": 8,
    "at": 8,
    "kind": 2,
    "source": 2,
    "serial": 8,
    "session": 8,
    "a": 4,
    "b": 4,
    "prompt": 4,
    "outcome": 2,
    "nominal": 2,
    "lane": 2,
    "blind": 2,
    "free_prompt": 4,
    "mark": 2,
}
#: All rows of a binary COPY have the same size if their fields have a fixed width and are never null.
_ROW = np.dtype(
    [("fields", ">i2")]
    + [
        part
        for name, width in _WIDTH_BYTES.items()
        for part in ((f"{name}_size", ">i4"), (name, f">i{width}"))
    ]
)
_HEADER_BYTES, _TRAILER_BYTES = 19, 2
_SECOND_MICROSECONDS = 1_000_000
#: Rows that are held in wire format at a time, 124 bytes each, besides 120 bytes each as columns.
_CHUNK_ROWS = 200_000
_LAST_POSSIBLE_POSITION = 2**63 - 1


@dataclass(frozen=True, slots=True, eq=False)
class LogColumns:
    """Events in log order. Absent values are -1; ``at`` is in microseconds since 1970."""

    position: Ints
    at: Ints
    kind: Ints
    source: Ints
    serial: Ints
    session: Ints
    a: Ints
    b: Ints
    prompt: Ints
    outcome: Ints
    nominal: Ints
    lane: Ints
    #: For a vote: 1 if it is blind, 0 if its voter knew a name.
    blind: Ints
    #: The number of the prompt that the voter wrote; 0 if there is none.
    free_prompt: Ints
    #: For a vote: its `VoteMark`; 0 for none.
    mark: Ints
    #: Details of policies, exclusions and restorations, by position.
    details: dict[int, EventDetail]

    def __len__(self) -> int:
        return len(self.position)

    def __getitem__(self, rows: slice) -> LogColumns:
        return LogColumns(**{name: getattr(self, name)[rows] for name in _WIDTH_BYTES}, details=self.details)

    def without(self, undone: Collection[int]) -> LogColumns:
        """The same events with the votes at these positions marked as undone, so that they are not folded."""
        if not undone:
            return self
        gone = np.isin(self.position, np.fromiter(undone, dtype=np.int64))
        return replace(self, kind=np.where(gone, LogKind.UNDO, self.kind))

    def rows_of_source(self, source: int) -> Ints:
        """Rows of the events that one source folds: its own, and those of models and responses.

        Matchups that are prefetched, or released without having been shown, are not among them.
        """
        own = (self.kind <= LogKind.EXPIRE) | (self.kind == LogKind.SHOWN) | (self.kind == LogKind.ADMIT)
        own &= self.source == source
        return np.flatnonzero(own | ((self.kind > LogKind.EXPIRE) & (self.kind <= LogKind.WITHDRAW)))

    def roster_size(self, models: int, prompts: int) -> tuple[int, int]:
        """How many models and prompts the arena has after these events, if it had so many before them."""
        rows = np.flatnonzero(self.kind == LogKind.WIDEN)
        return (int(self.a[rows[-1]]), int(self.prompt[rows[-1]])) if len(rows) else (models, prompts)

    def not_blind(self, source: int, since: int) -> int:
        """The number of votes of a source, since a time in seconds, that are not blind."""
        return int(np.count_nonzero(self._votes(source, since) & (self.blind == 0)))

    def imported(self, since: int = 0, dropped: Collection[int] = ()) -> int:
        """The number of people's votes that were imported since a time in seconds, without those of dropped serials."""
        votes = self._votes(HUMAN, since) & (self.mark == VoteMark.IMPORTED)
        return int(np.count_nonzero(votes & ~np.isin(self.serial, list(dropped))))

    def _votes(self, source: int, since: int) -> Bools:
        of_source: Bools = (self.kind == LogKind.VOTE) & (self.source == source)
        return of_source & (self.at >= since * _SECOND_MICROSECONDS)

    def events(self, source: int, dropped: Collection[int] = ()) -> Events:
        """The events of one source. A vote that is dropped by its serial, not blind or marked as not rated becomes a skip.

        A matchup counts as served from the moment when it was shown. A vote that waited counts from the moment when it
        was admitted.
        """
        rows = self.rows_of_source(source)
        kind, serial = self.kind[rows].astype(np.uint8), self.serial[rows]
        kind[kind == LogKind.SHOWN] = Event.SERVED
        unrated = (self.blind[rows] == 0) | ~np.isin(self.mark[rows], RATED_MARKS)
        kind[(kind == Event.VOTE) & unrated] = Event.SKIP
        kind[kind == LogKind.ADMIT] = Event.VOTE
        if dropped:
            gone = (kind == Event.VOTE) & np.isin(serial, np.fromiter(dropped, dtype=np.int64))
            kind[gone] = Event.SKIP
        is_vote, is_served = kind == Event.VOTE, kind == Event.SERVED
        voted = is_vote if source == HUMAN else np.zeros_like(is_vote)
        session = np.where(is_served | voted, self.session[rows], NO_SESSION)
        return Events(
            event=kind,
            a=np.maximum(self.a[rows], 0),
            b=np.maximum(self.b[rows], 0),
            prompt=np.maximum(self.prompt[rows], 0),
            kind=np.where(is_vote, self.outcome[rows], 0).astype(np.uint8),
            lane=np.where(is_served, self.lane[rows], 0).astype(np.uint8),
            nominal=np.where(is_served, self.nominal[rows], 0).astype(np.uint8),
            serial=np.maximum(serial, 0),
            session=session,
            time=self.at[rows] // _SECOND_MICROSECONDS,
            free_prompt=np.where(is_vote, self.free_prompt[rows], NO_FREE_PROMPT),
        )


def read_columns(connection: Connection, arena: int, after: int, upto: int | None = None) -> LogColumns:
    """Read all events after a position, up to another one, in chunks.

    Positions are dense, so a chunk that is not full is the last one.
    """
    end, last, full = _LAST_POSSIBLE_POSITION if upto is None else upto, after, True
    pieces: dict[str, list[Ints]] = {name: [] for name in _WIDTH_BYTES}
    with translate_errors("read an arena's log"):
        while full:
            rows = _read_piece(connection, arena, last, min(end, last + _CHUNK_ROWS))
            for name, column in pieces.items():
                column.append(rows[name].astype(np.int64))
            last = int(rows["position"][-1]) if len(rows) else last
            full = len(rows) == _CHUNK_ROWS
        values = {"arena": arena, "after": after, "upto": last}
        text = find_statement("log_details", values)
        details = connection.execute(text, values).fetchall()
    columns: dict[str, Ints] = {}
    for name in _WIDTH_BYTES:
        parts = pieces.pop(name)
        columns[name] = parts[0] if len(parts) == 1 else np.concatenate(parts)
    return LogColumns(**columns, details={int(position): detail for position, detail in details})


def _read_piece(connection: Connection, arena: int, after: int, upto: int) -> npt.NDArray[np.void]:
    values = {"arena": arena, "after": after, "upto": upto}
    text = find_statement("log_columns", values)
    with connection.cursor() as cursor, cursor.copy(text, values) as copy:
        data = b"".join(copy)
    count = (len(data) - _HEADER_BYTES - _TRAILER_BYTES) // _ROW.itemsize
    return np.frombuffer(data, dtype=_ROW, count=count, offset=_HEADER_BYTES)
