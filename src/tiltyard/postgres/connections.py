"""Connections to PostgreSQL: one at a time, from a bounded pool, or by a pooler. Errors of the driver are translated.

A process has one pool, shared by vote batches, pages and the API. Arenas hold no connection between batches, so the
number of connections depends only on the number of processes.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import select
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from functools import lru_cache
from typing import Any, Literal, Protocol, Self

from tiltyard.errors import BadOption, Crowded, MissingExtra, StoreFault, TiltyardError
from tiltyard.foundation.retries import Backoff
from tiltyard.foundation.telemetry import POOL_REFUSED, is_tracing, span
from tiltyard.postgres.statements import statement, statements
from tiltyard.settings.environment import SESSION_URL_VARIABLE

try:
    import psycopg
    from psycopg.pq import PipelineStatus, TransactionStatus
except ImportError:
    raise MissingExtra("arena", "PostgreSQL") from None

Connection = psycopg.AsyncConnection[Any]
PoolMode = Literal["none", "session", "transaction"]

#: What to do, by prefix of the SQLSTATE; the first match is used.
_REMEDIES = {
    "28": "check user and password in DATABASE_URL",
    "3D": "create the database, or name another one in DATABASE_URL",
    "42P01": "run tiltyard arena migrate to update the tables",
    "42703": "run tiltyard arena migrate to update the tables",
    "42501": "grant this user the permission, or use another user in DATABASE_URL",
    "53100": "free space on the server's disk",
    "53300": "too many connections are open: raise max_connections, or run fewer processes",
    "55P03": "another session holds the lock: retry when it has finished",
    "08": "check that the server is running, and that DATABASE_URL points to it; tiltyard arena doctor may show more",
    "53": "the server is out of resources; tiltyard arena doctor may show more",
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
#: A dead peer is noticed within seconds, so that whoever held a lock is known to be gone.
_OPTIONS: Mapping[str, Any] = {
    "connect_timeout": 10,
    "keepalives": 1,
    "keepalives_idle": 1,
    "keepalives_interval": 1,
    "keepalives_count": 5,
    "tcp_user_timeout": 10_000,
}
#: How long a caller waits for a connection before `Crowded` is raised.
WAIT_SECONDS = 10.0
#: Connections that background work may use at the same time.
BACKGROUND_CONNECTION_LIMIT = 2
#: An idle connection is closed after this time.
IDLE_SECONDS = 300.0
#: First and longest delay between attempts to reach a server that is starting.
_RETRY_SECONDS, _MAX_RETRY_SECONDS = 0.25, 2.0
#: Partitions that stand in a statement in place of the partitioned table.
_PARTITIONS = re.compile(r"\b(events|matchups|endings|battles)_b\d+\b")
_WORD = re.compile(r"\s*+([A-Za-z]{1,20})")


def connect(url: str, *, name: str = "tiltyard") -> psycopg.Connection:
    """Connect in autocommit mode. ``name`` is the application name in ``pg_stat_activity``."""
    with translate_errors("connect to the database"):
        connection = psycopg.connect(_checked(url), autocommit=True, application_name=name, **_OPTIONS)
    if is_tracing():
        connection.cursor_factory = TracedCursor
    return connection


async def connect_async(url: str, *, name: str = "tiltyard", pooled: bool = False) -> psycopg.AsyncConnection:
    """Like `connect`, for asynchronous code.

    ``pooled``: by a pooler that shares sessions. No statement is prepared then: what is prepared belongs to a session.
    """
    with translate_errors("connect to the database"):
        connection = await psycopg.AsyncConnection.connect(
            _checked(url), autocommit=True, application_name=name, **_OPTIONS
        )
    if is_tracing():
        connection.cursor_factory = TracedAsyncCursor
    if pooled:
        connection.prepare_threshold = None
    return connection


def open_pool(url: str, *, most: int = 8, name: str = "tiltyard", pooled: bool = False) -> ConnectionPool:
    """A pool that connects when it is opened: ``async with pool`` or ``await pool.open()``.

    ``pooled``: see `connect_async`.
    """
    return ConnectionPool(_checked(url), most=most, name=name, pooled=pooled)


def is_broken(connection: psycopg.Connection | psycopg.AsyncConnection) -> bool:
    """Whether a connection with no statement in progress is unusable.

    A connection that the server closed is not always marked as closed: if the driver failed in the middle
    of a statement, it rejects every later one.
    """
    return connection.info.transaction_status in (TransactionStatus.UNKNOWN, TransactionStatus.ACTIVE)


@contextmanager
def translate_errors(doing: str) -> Iterator[None]:
    """Raise errors of the driver as `StoreFault`: ``cannot <doing>: …; what to do``."""
    try:
        yield
    except psycopg.Error as error:
        raise _store_fault(doing, error) from None


def _store_fault(doing: str, error: psycopg.Error) -> StoreFault:
    return StoreFault(f"cannot {doing}: {_message(error)}; {_remedy(error)}")


def _checked(url: str) -> str:
    if not url.startswith(("postgresql://", "postgres://")):
        scheme = match[0] if (match := re.match(r"[a-z0-9+.-]+(?=:)", url)) else ""
        raise BadOption(f"DATABASE_URL {scheme}:… is not supported; expected postgresql://user@host/database")
    return url


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


class ConnectionPool:
    """At most ``most`` connections, opened when needed and reused. Errors of the driver are raised as `StoreFault`.

    Voting and everything else may each take three quarters of them, so that neither can starve the other.
    An arena needs at most two connections for voting at a time: one for a batch and one for a lookup.
    """

    def __init__(self, url: str, *, most: int, name: str, pooled: bool = False) -> None:
        self.most = most
        self.closed = True
        #: Connections in use now.
        self.in_use = 0
        #: Callers that wait for one.
        self.waiting = 0
        #: Acquired by background work, such as loading an arena in which nobody votes. After a database outage
        #: all arenas are reloaded, and those with voters must come first.
        self.unhurried = asyncio.Semaphore(BACKGROUND_CONNECTION_LIMIT)
        self._url = url
        self._name = name
        self._pooled = pooled
        share = most - most // 4
        self._slots = asyncio.Semaphore(most)
        self._general, self._voting = asyncio.Semaphore(share), asyncio.Semaphore(share)
        #: Idle connections and since when; the most recently used one is on the right.
        self._idle: deque[tuple[float, Connection]] = deque()
        self._returned = asyncio.Event()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self, *, within: float | None = None) -> None:
        """Open the pool; with ``within``, wait at most so many seconds until the server can be reached."""
        self.closed = False
        deadline = None if within is None else time.monotonic() + within
        backoff = Backoff(_RETRY_SECONDS, _MAX_RETRY_SECONDS)
        while deadline is not None:
            try:
                async with self.connection():
                    return
            except StoreFault:
                if time.monotonic() >= deadline:
                    raise
            await asyncio.sleep(backoff.next())

    async def close(self) -> None:
        """Close all connections; those in use are closed when they are returned."""
        self.closed = True
        while self._idle:
            await self._idle.pop()[1].close()

    @property
    def opened(self) -> int:
        """Number of open connections, idle or in use."""
        return self.in_use + len(self._idle)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """A connection for anything but voting; raises `Crowded` if none becomes free in time."""
        async with self._leased(self._general) as connection:
            yield connection

    @asynccontextmanager
    async def voting_connection(self) -> AsyncIterator[Connection]:
        """A connection for voting; raises `Crowded` if none becomes free in time."""
        async with self._leased(self._voting) as connection:
            yield connection

    @asynccontextmanager
    async def _leased(self, share: asyncio.Semaphore) -> AsyncIterator[Connection]:
        deadline = time.monotonic() + WAIT_SECONDS
        await self._acquired(share, deadline)
        try:
            await self._acquired(self._slots, deadline)
            try:
                connection = await self._taken(deadline)
                self.in_use += 1
                try:
                    yield connection
                except psycopg.Error as error:
                    raise _store_fault("use the database", error) from None
                finally:
                    self.in_use -= 1
                    if self.closed or not _is_reusable(connection):
                        await connection.close()
                    else:
                        self._idle.append((time.monotonic(), connection))
                    self._returned.set()
                    while self._idle and self._idle[0][0] < time.monotonic() - IDLE_SECONDS:
                        await self._idle.popleft()[1].close()
            finally:
                self._slots.release()
        finally:
            share.release()

    async def _acquired(self, semaphore: asyncio.Semaphore, deadline: float) -> None:
        if semaphore.locked():
            self.waiting += 1
            try:
                async with asyncio.timeout(deadline - time.monotonic()):
                    await semaphore.acquire()
            except TimeoutError:
                raise self._crowded() from None
            finally:
                self.waiting -= 1
        else:
            await semaphore.acquire()

    async def _taken(self, deadline: float) -> Connection:
        """An idle connection that is alive, or a new one.

        If the server refuses new connections, wait for one that is in use here.
        """
        if self.closed:
            raise StoreFault("the connection pool is closed: the process is stopping")
        while True:
            while self._idle:
                _, connection = self._idle.pop()
                if _is_alive(connection):
                    return connection
                await connection.close()
            try:
                return await connect_async(self._url, name=self._name, pooled=self._pooled)
            except StoreFault:
                if not self.in_use:
                    raise
            self._returned.clear()
            self.waiting += 1
            try:
                async with asyncio.timeout(deadline - time.monotonic()):
                    await self._returned.wait()
            except TimeoutError:
                raise self._crowded() from None
            finally:
                self.waiting -= 1

    def _crowded(self) -> Crowded:
        POOL_REFUSED.record()
        return Crowded(
            f"{self.in_use} of {self.most} connections of this process are in use, and none became free within"
            f" {WAIT_SECONDS:.0f} s; try again in a moment"
        )


def _is_reusable(connection: Connection) -> bool:
    """Whether no transaction or pipeline is left open."""
    pgconn = connection.pgconn
    return (
        pgconn.transaction_status == TransactionStatus.IDLE and pgconn.pipeline_status == PipelineStatus.OFF
    )


def _is_alive(connection: Connection) -> bool:
    """Whether an idle connection is still open: a server that closes one sends data, and otherwise none.

    This needs no round trip to the server.
    """
    if not _is_reusable(connection):
        return False
    waiting = select.poll()
    waiting.register(connection.fileno(), select.POLLIN)
    return not waiting.poll(0)


class ConnectionLender(Protocol):
    """Lends connections, such as the pool."""

    def connection(self) -> AbstractAsyncContextManager[Connection]: ...


#: Where a statement runs: on a connection, or on one that is lent for it alone.
Database = Connection | ConnectionLender


@asynccontextmanager
async def pipelined_transaction(connection: Connection) -> AsyncIterator[psycopg.AsyncPipeline]:
    """A transaction whose statements are sent together until an answer is read.

    ``connection.transaction()`` in a pipeline would wait for the answers to BEGIN and before COMMIT.
    """
    try:
        async with connection.pipeline() as pipeline:
            await connection.execute("BEGIN")
            yield pipeline
            await connection.execute("COMMIT")
    except TiltyardError:
        await roll_back(connection)
        raise
    except BaseException:
        # What was sent after the statement that failed or was cancelled may count as prepared here, but not there.
        await connection.close()
        raise


async def roll_back(connection: Connection) -> None:
    """End a transaction that failed; a connection that is lost is closed."""
    try:
        await connection.execute("ROLLBACK")
    except Exception:  # noqa: BLE001 - the connection is gone, and its transaction with it
        await connection.close()


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


@lru_cache(maxsize=10_000)
def name_statement(text: str) -> str:
    """The name of a statement's text; of one without a name, its first word."""
    names = _names()
    found = names.get(text) or names.get(_PARTITIONS.sub(r"\1", text))
    if found is not None:
        return f"sql {found}"
    word = _WORD.match(text)
    return "sql" if word is None else f"sql {word[1].upper()}"


@lru_cache(maxsize=1)
def _names() -> dict[str, str]:
    return {text: name for name, text in statements().items()}


def _name(query: object) -> str:
    return name_statement(query) if isinstance(query, str) else "sql"


class TracedCursor(psycopg.Cursor[Any]):
    """A cursor of a synchronous connection."""

    def execute(self, query: Any, params: Any = None, **options: Any) -> Self:
        with span(_name(query)):
            return super().execute(query, params, **options)


class TracedAsyncCursor(psycopg.AsyncCursor[Any]):
    """A cursor of an asynchronous connection."""

    async def execute(self, query: Any, params: Any = None, **options: Any) -> Self:
        with span(_name(query)):
            return await super().execute(query, params, **options)
