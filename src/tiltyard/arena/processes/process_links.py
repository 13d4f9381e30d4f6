"""Links between the web processes of one service: requests and replies over one TCP connection to each process.

A link carries lines. Both ends prove that they know the service's secret key before anything else is read:

    server → client   nonce of the server
    client → server   nonce of the client, signature of both
    server → client   signature of both
    client → server   number, space, request
    server → client   number, space, reply

Replies come in any order. What passes is neither encrypted nor signed: use a network that others cannot reach.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable
from typing import Any, cast

from tiltyard.arena.processes.rendezvous import ServingProcess
from tiltyard.arena.secret_keys import SecretKeys
from tiltyard.errors import StoreFault

__all__ = ["LinkFault", "LinkServer", "ProcessLinks", "RequestHandler"]

RequestHandler = Callable[[bytes], Awaitable[bytes]]

#: The longest line, and the longest one before the other end has proved that it knows the key.
_MAX_LINE_BYTES = 1_000_000
_MAX_GREETING_BYTES = 200
#: Seconds for connecting and greeting.
_GREETING_SECONDS = 2.0
#: While requests wait: seconds between signs of life that are asked for, and without any before the link is given up.
_PING_SECONDS = 1.0
_SILENCE_SECONDS = 3.0
#: Requests that one process may have in flight on a link.
_IN_FLIGHT_LIMIT = 10_000
_PING = b"ping"


class LinkFault(StoreFault):
    """Another process of this service does not answer. The request may have been carried out."""


class _Lines(asyncio.Protocol):
    """Splits what arrives into lines; closes the connection at a line that is too long."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport
        self.trusted = False
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Those of uvloop are no subclass.
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > (_MAX_LINE_BYTES if self.trusted else _MAX_GREETING_BYTES):
            self.transport.abort()
            return
        for line in lines:
            if self.transport.is_closing():
                return
            self.line_received(line)

    def line_received(self, line: bytes) -> None:
        raise NotImplementedError

    def send(self, line: bytes) -> None:
        self.transport.write(line + b"\n")


class LinkServer:
    """Listens for other processes and answers their requests."""

    def __init__(self, keys: SecretKeys, handle: RequestHandler) -> None:
        self.keys = keys
        self.handle = handle
        self._connections: set[_ServerLines] = set()
        self._server: asyncio.Server | None = None

    async def start(self, host: str) -> str:
        """Listen on a free port; return the address."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _ServerLines(self, self._connections), host, 0)
        port = self._server.sockets[0].getsockname()[1]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    async def stop(self) -> None:
        """Close every link."""
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            connection.transport.abort()


class _ServerLines(_Lines):
    """One connection from another process."""

    def __init__(self, server: LinkServer, connections: set[_ServerLines]) -> None:
        super().__init__()
        self._server = server
        self._connections = connections
        self._nonce = secrets.token_hex(16).encode()
        self._tasks: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._connections.add(self)
        self._deadline = asyncio.get_running_loop().call_later(_GREETING_SECONDS, self.transport.abort)
        self.send(self._nonce)

    def connection_lost(self, _error: Exception | None) -> None:
        self._connections.discard(self)
        self._deadline.cancel()
        for task in self._tasks:
            task.cancel()

    def line_received(self, line: bytes) -> None:
        if not self.trusted:
            self._greet(line)
        elif line == _PING:
            self.send(_PING)
        elif len(self._tasks) >= _IN_FLIGHT_LIMIT:
            self.transport.abort()
        else:
            task = asyncio.get_running_loop().create_task(self._answer(line))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _greet(self, line: bytes) -> None:
        nonce, _, signature = line.partition(b" ")
        if not self._server.keys.verify("link client", self._nonce + nonce, _from_hex(signature)):
            self.transport.abort()
            return
        self._deadline.cancel()
        self.trusted = True
        self.send(self._server.keys.sign("link server", nonce + self._nonce).hex().encode())

    async def _answer(self, line: bytes) -> None:
        number, _, request = line.partition(b" ")
        reply = await self._server.handle(request)
        if not self.transport.is_closing():
            self.send(number + b" " + reply)


class _ClientLines(_Lines):
    """One connection to another process."""

    def __init__(self, keys: SecretKeys) -> None:
        super().__init__()
        loop = asyncio.get_running_loop()
        self.greeted: asyncio.Future[None] = loop.create_future()
        self._keys = keys
        self._nonce = secrets.token_hex(16).encode()
        self._server_nonce = b""
        self._waiting: dict[bytes, asyncio.Future[bytes]] = {}
        self._number = 0
        self._heard = time.monotonic()
        self._watch: asyncio.TimerHandle | None = None

    def data_received(self, data: bytes) -> None:
        self._heard = time.monotonic()
        super().data_received(data)

    def line_received(self, line: bytes) -> None:
        if self.trusted:
            if line != _PING:
                number, _, reply = line.partition(b" ")
                waiting = self._waiting.pop(number, None)
                if waiting is not None and not waiting.done():
                    waiting.set_result(reply)
        elif not self._server_nonce:
            self._server_nonce = line
            signature = self._keys.sign("link client", line + self._nonce)
            self.send(self._nonce + b" " + signature.hex().encode())
        elif self._keys.verify("link server", self._nonce + self._server_nonce, _from_hex(line)):
            self.trusted = True
            if not self.greeted.done():
                self.greeted.set_result(None)
        else:
            self.transport.abort()

    def connection_lost(self, _error: Exception | None) -> None:
        if self._watch is not None:
            self._watch.cancel()
        futures: list[asyncio.Future[Any]] = [self.greeted, *self._waiting.values()]
        for waiting in futures:
            if not waiting.done():
                waiting.set_exception(
                    LinkFault("another process of this service does not answer; try again in a moment")
                )
        # Nobody may be waiting for the greeting any more.
        self.greeted.exception()
        self._waiting.clear()

    async def ask(self, request: bytes) -> bytes:
        """Send a request and wait for its reply."""
        self._number += 1
        number = b"%d" % self._number
        waiting: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting[number] = waiting
        self.send(number + b" " + request)
        if self._watch is None:
            self._heard = time.monotonic()
            self._watch_silence()
        try:
            return await waiting
        finally:
            self._waiting.pop(number, None)

    def _watch_silence(self) -> None:
        """While requests wait, ask for a sign of life every second, and give the link up if none comes."""
        if not self._waiting:
            self._watch = None
            return
        if time.monotonic() - self._heard > _SILENCE_SECONDS:
            self.transport.abort()
            return
        self.send(_PING)
        self._watch = asyncio.get_running_loop().call_later(_PING_SECONDS, self._watch_silence)


class ProcessLinks:
    """The links of one process to others, opened when needed."""

    def __init__(self, keys: SecretKeys) -> None:
        self._keys = keys
        self._links: dict[int, _ClientLines] = {}
        self._opening: dict[int, asyncio.Lock] = {}

    async def ask(self, process: ServingProcess, request: bytes) -> bytes:
        """Send a request to a process; raise `LinkFault` if it does not answer."""
        link = self._links.get(process.process)
        if link is None or link.transport.is_closing():
            async with self._opening.setdefault(process.process, asyncio.Lock()):
                link = self._links.get(process.process)
                if link is None or link.transport.is_closing():
                    link = self._links[process.process] = await self._opened(process)
        return await link.ask(request)

    def keep(self, processes: frozenset[ServingProcess]) -> None:
        """Close the links to all other processes."""
        kept = {one.process for one in processes}
        for process in [process for process in self._links if process not in kept]:
            self._links.pop(process).transport.abort()
            self._opening.pop(process, None)

    def close(self) -> None:
        """Close every link."""
        self.keep(frozenset())

    async def _opened(self, process: ServingProcess) -> _ClientLines:
        host, _, port = process.address.rpartition(":")
        loop = asyncio.get_running_loop()
        transport = None
        try:
            async with asyncio.timeout(_GREETING_SECONDS):
                transport, lines = await loop.create_connection(
                    lambda: _ClientLines(self._keys), host.strip("[]"), int(port)
                )
                await lines.greeted
        except (OSError, TimeoutError, ValueError) as error:
            if transport is not None:
                transport.abort()
            raise LinkFault(
                "another process of this service cannot be reached; try again in a moment"
            ) from error
        return lines


def _from_hex(text: bytes) -> bytes:
    try:
        return bytes.fromhex(text.decode("ascii"))
    except ValueError:
        return b""
