"""How far behind the logs their raters are: for metrics, and for whoever asks if the house is ready."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tiltyard.postgres.connecting import connect, translated
from tiltyard.postgres.migrating import check_schema
from tiltyard.postgres.statements import statement

if TYPE_CHECKING:
    import psycopg

__all__ = ["Lag", "check_reachable", "current_lags", "read_lags"]


@dataclass(frozen=True, slots=True)
class Lag:
    """One arena's log and its rater."""

    arena: str
    #: The last position of the log.
    head: int
    #: The last position that the rater has folded, and up to where votes are final.
    position: int
    horizon: int
    #: Who rates it, if anybody does, and how many seconds ago it last wrote.
    leader: str | None
    seconds: float


def read_lags(connection: psycopg.Connection) -> list[Lag]:
    """Every arena, by name."""
    with translated("read how far the raters are"):
        rows = connection.execute(statement("lags")).fetchall()
        return [
            Lag(name, _head(connection, arena), position or 0, horizon or 0, leader, seconds or 0.0)
            for arena, name, position, horizon, leader, seconds in rows
        ]


def _head(connection: psycopg.Connection, arena: int) -> int:
    row = connection.execute(statement("lags_head"), {"arena": arena}).fetchone()
    assert row is not None
    return int(row[0])


def check_reachable(url: str) -> None:
    """Raise unless the database answers and has the tables of this version."""
    with connect(url, name="tiltyard ready") as connection:
        check_schema(connection)


def current_lags(url: str) -> list[Lag]:
    """Every arena, by name, as it is now."""
    with connect(url, name="tiltyard metrics") as connection:
        return read_lags(connection)
