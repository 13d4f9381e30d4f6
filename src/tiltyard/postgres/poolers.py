"""Poolers such as PgBouncer between Tiltyard and the server: whether there is one, and what it shares."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Literal

from tiltyard.errors import BadOption
from tiltyard.postgres.connections import connect, translate_errors
from tiltyard.postgres.statements import statement
from tiltyard.settings.environment import SESSION_URL_VARIABLE

if TYPE_CHECKING:
    import psycopg

PoolMode = Literal["none", "session", "transaction"]


def find_pool_mode(connection: psycopg.Connection, url: str) -> PoolMode:
    """What a pooler at ``url``, to which ``connection`` is open, shares between clients.

    A transaction pooler gives a client's server process to the next client, so that what belongs to a session does not
    last: locks, settings, prepared statements, LISTEN.
    """
    mark = secrets.token_hex(8)
    first = connection.execute(statement("pooler_mark"), {"mark": mark}).fetchone()
    with connect(url, name="tiltyard pooler check") as other, other.transaction():
        there = other.execute(statement("pooler_process")).fetchone()
        second = connection.execute(statement("pooler_process")).fetchone()
    assert first is not None
    assert there is not None
    if first != second or there[0] == first[0]:
        return "transaction"
    return "session" if connection.info.backend_pid != first[0] else "none"


def check_same_database(connection: psycopg.Connection, pooler_url: str) -> None:
    """Raise unless a pooler leads to the database of the connection."""
    with connect(pooler_url, name="tiltyard pooler check") as other, translate_errors("compare databases"):
        found = [one.execute(statement("pooler_database")).fetchone() for one in (connection, other)]
    if found[0] != found[1]:
        raise BadOption(
            f"DATABASE_URL and {SESSION_URL_VARIABLE} lead to different databases; expected a pooler and the "
            "database behind it"
        )
