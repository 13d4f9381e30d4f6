"""The connections of one process: a bounded pool that desks, pages and the API share.

Arenas hold no connection of their own. A desk takes one for a batch or a lookup and gives it back, so that
the number of connections depends on the number of processes alone.
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
from tiltyard.postgres.connections import connect_async, translate_errors
from tiltyard.retries import Backoff

__all__ = ["Connection", "ConnectionPool", "connect_from_pool"]

Connection = AsyncConnection[Any]

#: How long somebody waits for a connection before being told to come back.
WAIT_SECONDS = 10.0
#: How many may do at once what nobody waits for.
BACKGROUND_CONNECTION_LIMIT = 2
#: A connection that nobody needed for so long is closed.
IDLE_SECONDS = 300.0
#: Between attempts to reach a server that is starting, when the pool is opened: at first, and at most.
_RETRY_SECONDS, _MAX_RETRY_SECONDS = 0.25, 2.0


class ConnectionPool:
    """At most ``most`` connections, opened when they are needed and kept for the next who needs one.

    Desks and everybody else may each take three quarters of them: neither can keep the other waiting for
    long. An arena's desk needs at most two at a time, one for a batch and one for a lookup.
    """

    def __init__(self, url: str, *, most: int, name: str) -> None:
        self.most = most
        self.closed = True
        #: Connections that somebody has now.
        self.in_use = 0
        #: Taken by those who do what nobody waits for, such as loading an arena in which nobody votes. After the
        #: server was away all arenas are loaded anew, and those with voters come first.
        self.unhurried = asyncio.Semaphore(BACKGROUND_CONNECTION_LIMIT)
        self._url = url
        self._name = name
        share = most - most // 4
        self._slots = asyncio.Semaphore(most)
        self._pages, self._desks = asyncio.Semaphore(share), asyncio.Semaphore(share)
        #: Those that nobody has, and since when; the one used last is on the right.
        self._idle: deque[tuple[float, Connection]] = deque()
        self._returned = asyncio.Event()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self, *, within: float | None = None) -> None:
        """Begin to hand out connections; with ``within``, once the server is reached, in so many seconds."""
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
        """Close all connections; those in use when they are given back."""
        self.closed = True
        while self._idle:
            await self._idle.pop()[1].close()

    @property
    def opened(self) -> int:
        """How many connections the process has."""
        return self.in_use + len(self._idle)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """A connection for a page, the API or whoever else is no desk; `Crowded` if none comes free in time."""
        async with self._leased(self._pages) as connection:
            yield connection

    @asynccontextmanager
    async def voting_connection(self) -> AsyncIterator[Connection]:
        """A connection for a desk."""
        async with self._leased(self._desks) as connection:
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
            try:
                async with asyncio.timeout(deadline - time.monotonic()):
                    await semaphore.acquire()
            except TimeoutError:
                raise self._crowded() from None
        else:
            await semaphore.acquire()

    async def _taken(self, deadline: float) -> Connection:
        """One that is idle and alive, or a new one.

        Where the server opens no more of them, whoever asks waits for one that is in use here.
        """
        if self.closed:
            raise StoreFault("the connections of this process are closed: it is stopping")
        while True:
            while self._idle:
                _, connection = self._idle.pop()
                if _is_alive(connection):
                    return connection
                await connection.close()
            try:
                return await connect_async(self._url, name=self._name)
            except StoreFault:
                if not self.in_use:
                    raise
            await self._wait_for_return(deadline)

    async def _wait_for_return(self, deadline: float) -> None:
        self._returned.clear()
        try:
            async with asyncio.timeout(deadline - time.monotonic()):
                await self._returned.wait()
        except TimeoutError:
            raise self._crowded() from None

    async def _give_back(self, connection: Connection) -> None:
        if self.closed or not _is_reusable(connection):
            await connection.close()
        else:
            self._idle.append((time.monotonic(), connection))
        self._returned.set()
        while self._idle and self._idle[0][0] < time.monotonic() - IDLE_SECONDS:
            await self._idle.popleft()[1].close()

    def _crowded(self) -> Crowded:
        return Crowded(
            f"{self.in_use} connections of this process are in use, of {self.most} it may have, and none came free"
            f" in {WAIT_SECONDS:.0f} s; ask again in a moment"
        )


def _is_reusable(connection: Connection) -> bool:
    """Whether nothing of its last use is left."""
    pgconn = connection.pgconn
    return (
        pgconn.transaction_status == TransactionStatus.IDLE and pgconn.pipeline_status == PipelineStatus.OFF
    )


def _is_alive(connection: Connection) -> bool:
    """Whether the server has not closed an idle connection: it says so first, and nothing else is sent to it.

    This takes no exchange with the server, which would cost as much as many a statement.
    """
    if not _is_reusable(connection):
        return False
    waiting = select.poll()
    waiting.register(connection.fileno(), select.POLLIN)
    return not waiting.poll(0)


@asynccontextmanager
async def connect_from_pool(pool: ConnectionPool) -> AsyncIterator[Connection]:
    """A connection of the pool; whatever the driver raises meanwhile is a `StoreFault`."""
    with translate_errors("use the database"):
        async with pool.connection() as connection:
            yield connection
