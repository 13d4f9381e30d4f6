"""Lag of raters behind their logs: for metrics and the readiness check."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import psycopg

from tiltyard.arena.log.buckets import find_statement
from tiltyard.postgres.connections import connect, translate_errors
from tiltyard.postgres.schema_migrations import check_schema
from tiltyard.postgres.statements import statement

#: Arenas whose log is looked at in one sweep, and those among them that are chosen because they were rated last.
_SWEEP_ARENA_LIMIT = 300
_RECENT_ARENA_LIMIT = 100


@dataclass(frozen=True, slots=True)
class RaterLag:
    """How far an arena's rater is behind its log."""

    arena: str
    #: The last position of the log.
    head: int
    #: The last position that the rater has folded, and the position up to which votes are final.
    position: int
    horizon: int
    #: The process that rates it, if any, and the seconds since it last wrote.
    leader: str | None
    seconds: float

    @property
    def unrated(self) -> int:
        """Events that the rater has not folded yet."""
        return max(self.head - self.position, 0)


class _Progress(NamedTuple):
    arena: int
    name: str
    position: int | None
    horizon: int | None
    leader: str | None
    seconds: float | None

    def lag(self, head: int) -> RaterLag:
        return RaterLag(
            self.name, head, self.position or 0, self.horizon or 0, self.leader, self.seconds or 0.0
        )


def read_rater_lags(connection: psycopg.Connection) -> list[RaterLag]:
    """Read the lag of every arena, ordered by name."""
    with translate_errors("read how far the raters are"):
        return [row.lag(_head(connection, row.arena)) for row in _progress(connection)]


class LagSweep:
    """Reads the lag of all arenas again and again, and looks at a bounded number of logs each time.

    These are the logs of arenas that were behind at the last sweep, of those that were rated last, and of others in
    turn. Of arenas that it does not look at it knows the last position that it has seen.
    """

    def __init__(self) -> None:
        self._heads: dict[int, int] = {}
        self._next = 0

    def read(self, connection: psycopg.Connection) -> list[RaterLag]:
        """The lags of all arenas as far as they are known, ordered by name."""
        with translate_errors("read how far the raters are"):
            rows = _progress(connection)
            self._heads = {row.arena: self._heads.get(row.arena, 0) for row in rows}
            for row in self._chosen(rows):
                self._heads[row.arena] = _head(connection, row.arena)
        return [row.lag(self._heads[row.arena]) for row in rows]

    def _chosen(self, rows: Sequence[_Progress]) -> list[_Progress]:
        if len(rows) <= _SWEEP_ARENA_LIMIT:
            return list(rows)
        recent = sorted(rows, key=lambda row: float("inf") if row.seconds is None else row.seconds)
        behind = [row for row in recent if self._heads[row.arena] > (row.position or 0)]
        chosen = {row.arena: row for row in recent[:_RECENT_ARENA_LIMIT]}
        chosen |= {row.arena: row for row in behind[:_RECENT_ARENA_LIMIT]}
        for _ in range(len(rows)):
            if len(chosen) >= _SWEEP_ARENA_LIMIT:
                break
            row = rows[self._next % len(rows)]
            self._next = (self._next + 1) % len(rows)
            chosen[row.arena] = row
        return list(chosen.values())


def _progress(connection: psycopg.Connection) -> list[_Progress]:
    return [_Progress(*row) for row in connection.execute(statement("lags")).fetchall()]


def _head(connection: psycopg.Connection, arena: int) -> int:
    values = {"arena": arena}
    row = connection.execute(find_statement("log_position", values), values).fetchone()
    assert row is not None
    return int(row[0])


def check_reachable(url: str) -> None:
    """Raise unless the database answers and has this version's schema."""
    with connect(url, name="tiltyard ready") as connection:
        check_schema(connection)
