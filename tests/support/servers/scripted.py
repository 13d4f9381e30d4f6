"""A server that answers with the bytes it is given, whatever they are, and may hang up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


def http(status: int, body: bytes, headers: str = "", length: int | None = None) -> bytes:
    """A response; ``length`` is what it claims, if not the truth."""
    claimed = len(body) if length is None else length
    head = f"HTTP/1.1 {status} Status\r\ncontent-type: application/json\r\ncontent-length: {claimed}\r\n"
    return (head + headers + "\r\n").encode() + body


@asynccontextmanager
async def scripted(answer: bytes | None) -> AsyncIterator[str]:
    """Every request gets ``answer`` and the connection is closed; ``None`` never answers. Gives the base URL."""
    async with overheard(answer) as (url, _):
        yield url


@asynccontextmanager
async def overheard(answer: bytes | None) -> AsyncIterator[tuple[str, list[str]]]:
    """The same, which also gives the heads of all requests so far, in lower case."""
    heads: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            heads.append(head.decode().lower())
            at = head.lower().find(b"content-length:")
            if at >= 0:
                await reader.readexactly(int(head[at + 15 : head.index(b"\r\n", at)]))
            if answer is None:
                await asyncio.sleep(30)
            writer.write(answer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", heads
    finally:
        server.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await asyncio.sleep(0)
