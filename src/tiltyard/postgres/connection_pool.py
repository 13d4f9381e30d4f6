"""A bounded connection pool for one process, shared by vote batches, pages and the API.

Arenas hold no connection between batches, so the number of connections depends only on the number of
processes.
"""

from __future__ import annotations

import asyncio
import select
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Self

from psycopg import AsyncConnection
from psycopg.pq import PipelineStatus, TransactionStatus

from tiltyard.errors import Crowded, StoreFault
from tiltyard.foundation.retries import Backoff
from tiltyard.foundation.telemetry import POOL_REFUSED
from tiltyard.postgres.connections import connect_async, translate_errors

Connection = AsyncConnection[Any]

#: How long a caller waits for a connection before `Crowded` is raised.
WAIT_SECONDS = 10.0
#: Connections that background work may use at the same time.
BACKGROUND_CONNECTION_LIMIT = 2
#: An idle connection is closed after this time.
IDLE_SECONDS = 300.0
#: First and longest delay between attempts to reach a server that is starting.
_RETRY_SECONDS, _MAX_RETRY_SECONDS = 0.25, 2.0


class ConnectionPool:
    """At most ``most`` connections, opened when needed and reused.

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
                finally:
                    self.in_use -= 1
                    await self._give_back(connection)
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
            await self._wait_for_return(deadline)

    async def _wait_for_return(self, deadline: float) -> None:
        self._returned.clear()
        self.waiting += 1
        try:
            async with asyncio.timeout(deadline - time.monotonic()):
                await self._returned.wait()
        except TimeoutError:
            raise self._crowded() from None
        finally:
            self.waiting -= 1

    async def _give_back(self, connection: Connection) -> None:
        if self.closed or not _is_reusable(connection):
            await connection.close()
        else:
            self._idle.append((time.monotonic(), connection))
        self._returned.set()
        while self._idle and self._idle[0][0] < time.monotonic() - IDLE_SECONDS:
            await self._idle.popleft()[1].close()

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


@asynccontextmanager
async def connect_from_pool(pool: ConnectionPool) -> AsyncIterator[Connection]:
    """A connection from the pool; errors of the driver are raised as `StoreFault`."""
    with translate_errors("use the database"):
        async with pool.connection() as connection:
            yield connection
