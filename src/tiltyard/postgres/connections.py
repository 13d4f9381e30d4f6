"""Opens connections to PostgreSQL and translates its errors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypedDict

from tiltyard.errors import BadOption, StoreFault
from tiltyard.foundation.telemetry import is_tracing

if TYPE_CHECKING:
    import psycopg

    from tiltyard.postgres.connection_pool import ConnectionPool

#: What to do, by prefix of the SQLSTATE; the first match is used.
_REMEDIES = {
    "28": "check user and password in DATABASE_URL",
    "3D": "create the database, or name another one in DATABASE_URL",
    "42P01": "run tiltyard migrate to update the tables",
    "42703": "run tiltyard migrate to update the tables",
    "42501": "grant this user the permission, or use another user in DATABASE_URL",
    "53100": "free space on the server's disk",
    "53300": "too many connections are open: raise max_connections, or run fewer processes",
    "55P03": "another session holds the lock: retry when it has finished",
    "08": "check that the server is running, and that DATABASE_URL points to it; tiltyard doctor may show more",
    "53": "the server is out of resources; tiltyard doctor may show more",
    "57014": "the statement timed out: request less, or retry later",
    "57": "the server is stopping or starting: retry in a moment",
}
#: Messages of refused connections, which the driver reports without an SQLSTATE.
_REFUSED = {
    "authentication failed": "28",
    "no pg_hba.conf entry": "28",
    "does not exist": "3D",
    "too many clients": "53300",
    "connection slots": "53300",
    "starting up": "57",
    "shutting down": "57",
}
#: A password in a URL, before the @, or as password=….
_SECRET = re.compile(r"(://[^:/@\s]*+):[^@\s]*+(@?)|(password\s*=\s*)('[^']*'|\S+)", re.IGNORECASE)


def connect(url: str, *, name: str = "tiltyard") -> psycopg.Connection:
    """Connect in autocommit mode. ``name`` is the application name in ``pg_stat_activity``."""
    import psycopg

    with translate_errors("connect to the database"):
        made = psycopg.connect(_checked(url), autocommit=True, **_options(name))
        if is_tracing():
            from tiltyard.postgres.traced_cursors import TracedCursor

            made.cursor_factory = TracedCursor
        return made


async def connect_async(url: str, *, name: str = "tiltyard", pooled: bool = False) -> psycopg.AsyncConnection:
    """Like `connect`, for asynchronous code.

    ``pooled``: by a pooler that shares sessions. No statement is prepared then: what is prepared belongs to a session.
    """
    import psycopg

    with translate_errors("connect to the database"):
        connection = await psycopg.AsyncConnection.connect(_checked(url), autocommit=True, **_options(name))
    if is_tracing():
        from tiltyard.postgres.traced_cursors import TracedAsyncCursor

        connection.cursor_factory = TracedAsyncCursor
    if pooled:
        connection.prepare_threshold = None
    return connection


def open_pool(url: str, *, most: int = 8, name: str = "tiltyard", pooled: bool = False) -> ConnectionPool:
    """A pool that connects when it is opened: ``async with pool`` or ``await pool.open()``.

    ``pooled``: see `connect_async`.
    """
    from tiltyard.postgres.connection_pool import ConnectionPool

    return ConnectionPool(_checked(url), most=most, name=name, pooled=pooled)


def is_broken(connection: psycopg.Connection | psycopg.AsyncConnection) -> bool:
    """Whether a connection with no statement in progress is unusable.

    A connection that the server closed is not always marked as closed: if the driver failed in the middle
    of a statement, it rejects every later one.
    """
    from psycopg.pq import TransactionStatus

    return connection.info.transaction_status in (TransactionStatus.UNKNOWN, TransactionStatus.ACTIVE)


@contextmanager
def translate_errors(doing: str) -> Iterator[None]:
    """Raise errors of the driver as `StoreFault`: ``cannot <doing>: …; what to do``."""
    import psycopg

    try:
        yield
    except psycopg.Error as error:
        raise StoreFault(f"cannot {doing}: {_message(error)}; {_remedy(error)}") from None


def _checked(url: str) -> str:
    if not url.startswith(("postgresql://", "postgres://")):
        scheme = match[0] if (match := re.match(r"[a-z0-9+.-]+(?=:)", url)) else ""
        raise BadOption(f"DATABASE_URL {scheme}:… is not supported; expected postgresql://user@host/database")
    return url


class _Options(TypedDict):
    """What every connection is opened with."""

    application_name: str
    connect_timeout: int
    keepalives: int
    keepalives_idle: int
    keepalives_interval: int
    keepalives_count: int
    tcp_user_timeout: int


def _options(name: str) -> _Options:
    """Who connects. A dead peer is noticed within seconds, so that whoever held a lock is known to be gone."""
    return {
        "application_name": name,
        "connect_timeout": 10,
        "keepalives": 1,
        "keepalives_idle": 1,
        "keepalives_interval": 1,
        "keepalives_count": 5,
        "tcp_user_timeout": 10_000,
    }


def _message(error: psycopg.Error) -> str:
    """The driver's message on one line, without passwords and without row data quoted by the server."""
    message = error.diag.message_primary or str(error)
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    text = "; ".join(lines) or type(error).__name__
    return _SECRET.sub(_without_secret, text)


def _without_secret(match: re.Match[str]) -> str:
    if match[1] is None:
        return f"{match[3]}…"
    return f"{match[1]}:…@" if match[2] else match[0]


def _remedy(error: psycopg.Error) -> str:
    state = error.sqlstate or next((state for text, state in _REFUSED.items() if text in str(error)), "08")
    for prefix, remedy in _REMEDIES.items():
        if state.startswith(prefix):
            return remedy
    return "see the server's log"
