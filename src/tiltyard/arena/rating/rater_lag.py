"""Lag of raters behind their logs: for metrics and the readiness check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tiltyard.postgres.connections import connect, translate_errors
from tiltyard.postgres.schema_migrations import check_schema
from tiltyard.postgres.statements import statement

if TYPE_CHECKING:
    import psycopg

__all__ = ["RaterLag", "check_reachable", "read_current_rater_lags", "read_rater_lags"]


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


def read_rater_lags(connection: psycopg.Connection) -> list[RaterLag]:
    """Read the lag of every arena, ordered by name."""
    with translate_errors("read how far the raters are"):
        rows = connection.execute(statement("lags")).fetchall()
        return [
            RaterLag(name, _head(connection, arena), position or 0, horizon or 0, leader, seconds or 0.0)
            for arena, name, position, horizon, leader, seconds in rows
        ]


def _head(connection: psycopg.Connection, arena: int) -> int:
    row = connection.execute(statement("log_position"), {"arena": arena}).fetchone()
    assert row is not None
    return int(row[0])


def check_reachable(url: str) -> None:
    """Raise unless the database answers and has this version's schema."""
    with connect(url, name="tiltyard ready") as connection:
        check_schema(connection)


def read_current_rater_lags(url: str) -> list[RaterLag]:
    """`read_rater_lags` on a new connection."""
    with connect(url, name="tiltyard metrics") as connection:
        return read_rater_lags(connection)
