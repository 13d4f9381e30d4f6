"""HTTP/1.1 by hand: keep-alive, bodies with a length, and no more than the servers here need."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 429: "Too Many Requests"}


@dataclass(slots=True)
class Request:
    """One request and the connection it came by."""

    method: str
    path: str
    query: str
    #: Request line and headers: lower-cased, and as they came.
    head: bytes
    raw_head: bytes
    body: bytes
    front: Front

    def header(self, name: str) -> str:
        start = self.head.find(b"\r\n" + name.encode() + b":")
        if start < 0:
            return ""
        start += len(name) + 3
        return self.head[start : self.head.find(b"\r\n", start)].decode().strip()

    def reply(self, document: Any, status: int = 200, headers: str = "") -> None:
        self.front.send(json.dumps(document).encode(), status, headers)

    def drop(self) -> None:
        """Cut the connection; the client hears nothing more."""
        self.front.cut()


class Front(asyncio.Protocol):
    """One connection. ``serve`` gets each request and answers through it, now or later."""

    def __init__(self, serve: Callable[[Request], None], open_fronts: set[Front]) -> None:
        self.serve = serve
        self.fronts = open_fronts
        self.buffer = bytearray()
        self.busy = False
        self.writable = asyncio.Event()
        self.writable.set()
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.fronts.add(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  asyncio's name for it
        self.transport = None
        self.fronts.discard(self)
        self.writable.set()

    def pause_writing(self) -> None:
        self.writable.clear()

    def resume_writing(self) -> None:
        self.writable.set()

    @property
    def alive(self) -> bool:
        return self.transport is not None and not self.transport.is_closing()

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        if not self.busy:
            self._next()

    def _next(self) -> None:
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        raw = bytes(self.buffer[: end + 2])
        head = raw.lower()
        at = head.find(b"\r\ncontent-length:")
        length = int(head[at + 17 : head.find(b"\r\n", at + 17)]) if at >= 0 else 0
        if len(self.buffer) < end + 4 + length:
            return
        body = bytes(self.buffer[end + 4 : end + 4 + length])
        del self.buffer[: end + 4 + length]
        method, target, _ = raw[: raw.find(b"\r\n")].decode().split(" ", 2)
        path, _, query = target.partition("?")
        self.busy = True
        self.serve(Request(method, path, query, head, raw, body, self))

    def send(
        self, payload: bytes, status: int = 200, headers: str = "", kind: str = "application/json"
    ) -> None:
        if not self.alive:
            return
        self.transport.write(
            f"HTTP/1.1 {status} {REASONS.get(status, 'Status')}\r\ncontent-type: {kind}\r\n"
            f"content-length: {len(payload)}\r\n{headers}\r\n".encode()
            + payload
        )
        self._done()

    async def stream(self, pieces: AsyncIterator[bytes], *, whole: bool = True) -> None:
        """Chunked, as the pieces come; without ``whole`` the connection is cut before the end."""
        if self.alive:
            self.transport.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: application/binary\r\ntransfer-encoding: chunked\r\n\r\n"
            )
        async for piece in pieces:
            await self.writable.wait()
            if not self.alive:
                return
            self.transport.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        if not whole:
            self.cut(gently=True)
        elif self.alive:
            self.transport.write(b"0\r\n\r\n")
            self._done()

    def cut(self, *, gently: bool = False) -> None:
        if self.transport is not None:
            if gently:
                self.transport.close()
            else:
                self.transport.abort()

    def _done(self) -> None:
        self.busy = False
        if self.buffer:
            self._next()
