"""Connections to PostgreSQL, and its errors in our words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tiltyard.errors import BadOption, StoreFault

if TYPE_CHECKING:
    import psycopg

    from tiltyard.postgres.connection_pool import ConnectionPool

__all__ = ["connect", "connect_async", "is_broken", "open_pool", "translate_errors"]

#: A dead peer is noticed within seconds, so that whoever held a lock is known to be gone.
_KEEPALIVE_OPTIONS = {
    "connect_timeout": 10,
    "keepalives": 1,
    "keepalives_idle": 1,
    "keepalives_interval": 1,
    "keepalives_count": 5,
    "tcp_user_timeout": 10_000,
}
#: What to do, by the beginning of the error's SQLSTATE; the first that fits.
_REMEDIES = {
    "28": "check user and password in DATABASE_URL",
    "3D": "make the database, or name another one in DATABASE_URL",
    "42P01": "run tiltyard migrate, which brings the tables up to date",
    "42703": "run tiltyard migrate, which brings the tables up to date",
    "42501": "give this user the right, or name another one in DATABASE_URL",
    "53100": "make room on the server's disk",
    "53300": "too many connections are open: raise max_connections, or run fewer processes",
    "55P03": "something else holds the lock: try again when it has finished",
    "08": "check that the server is running, and that DATABASE_URL names it; tiltyard doctor tells more",
    "53": "give the server more room; tiltyard doctor tells more",
    "57014": "it took too long: ask for less, or try again later",
    "57": "the server is stopping or starting: try again in a while",
}
#: What the server says when it refuses a connection, which the driver reports without an SQLSTATE.
_REFUSED = {
    "authentication failed": "28",
    "no pg_hba.conf entry": "28",
    "does not exist": "3D",
    "too many clients": "53300",
    "connection slots": "53300",
    "starting up": "57",
    "shutting down": "57",
}
#: A password in an address, which stands before an @; one that is named.
_SECRET = re.compile(r"(://[^:/@\s]*+):[^@\s]*+(@?)|(password\s*=\s*)('[^']*'|\S+)", re.IGNORECASE)


def connect(url: str, *, name: str = "tiltyard") -> psycopg.Connection:
    """A connection that commits each statement unless a transaction is opened. ``name`` is shown to operators."""
    import psycopg

    with translate_errors("connect to the database"):
        return psycopg.connect(_checked(url), autocommit=True, **_options(name))


async def connect_async(url: str, *, name: str = "tiltyard") -> psycopg.AsyncConnection:
    """The same, for asynchronous code."""
    import psycopg

    with translate_errors("connect to the database"):
        return await psycopg.AsyncConnection.connect(_checked(url), autocommit=True, **_options(name))


def open_pool(url: str, *, most: int = 8, name: str = "tiltyard") -> ConnectionPool:
    """A pool that connects only once it is opened: ``async with pool`` or ``await pool.open()``."""
    from tiltyard.postgres.connection_pool import ConnectionPool

    return ConnectionPool(_checked(url), most=most, name=name)


def is_broken(connection: psycopg.Connection | psycopg.AsyncConnection) -> bool:
    """Whether a connection that waits for no answer can never be used again.

    One that the server cut off is not always closed here: the driver may have given up in the middle
    of a statement, and then refuses every other one.
    """
    from psycopg.pq import TransactionStatus

    return connection.info.transaction_status in (TransactionStatus.UNKNOWN, TransactionStatus.ACTIVE)


@contextmanager
def translate_errors(doing: str) -> Iterator[None]:
    """Whatever the driver raises inside becomes a `StoreFault`: ``cannot <doing>: …; what to do``."""
    import psycopg

    try:
        yield
    except psycopg.Error as error:
        raise StoreFault(f"cannot {doing}: {_told(error)}; {_remedy(error)}") from None


def _checked(url: str) -> str:
    if not url.startswith(("postgresql://", "postgres://")):
        scheme = found[0] if (found := re.match(r"[a-z0-9+.-]+(?=:)", url)) else ""
        raise BadOption(f"DATABASE_URL {scheme}:… is not known; expected postgresql://user@host/database")
    return url


def _options(name: str) -> dict[str, Any]:
    return {"application_name": name, **_KEEPALIVE_OPTIONS}


def _told(error: psycopg.Error) -> str:
    """The driver's message on one line, without passwords, and without the rows that the server quotes."""
    said = error.diag.message_primary or str(error)
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    text = "; ".join(lines) or type(error).__name__
    return _SECRET.sub(_without_secret, text)


def _without_secret(found: re.Match[str]) -> str:
    if found[1] is None:
        return f"{found[3]}…"
    return f"{found[1]}:…@" if found[2] else found[0]


def _remedy(error: psycopg.Error) -> str:
    state = error.sqlstate or next((state for text, state in _REFUSED.items() if text in str(error)), "08")
    for prefix, remedy in _REMEDIES.items():
        if state.startswith(prefix):
            return remedy
    return "the server's log tells more"
