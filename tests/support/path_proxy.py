"""A small reverse proxy that chooses the server by the path alone: it reads no cookie, no body and no database."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

_HEAD_BYTES = 64 * 1024


class PathProxy:
    """Passes each request to one of its servers."""

    def __init__(self, choose: Callable[[str], str]) -> None:
        self._choose = choose
        self.port = 0
        #: The servers, where they are known beforehand.
        self.servers: list[str] = []
        #: The path of each request, and the server that it went to.
        self.passed: list[tuple[str, str]] = []
        #: Nobody else holds a task whose connection is not being read: it would be collected.
        self._tasks: set[asyncio.Task[None] | None] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, ready: threading.Event, stop: asyncio.Event) -> None:
        """Answer until stopped."""
        async with await asyncio.start_server(self._answer, "127.0.0.1", 0, limit=_HEAD_BYTES) as server:
            self.port = server.sockets[0].getsockname()[1]
            ready.set()
            await stop.wait()
        # A request may still be on its way; a task that is pending when the loop is closed fails some later test.
        pending = asyncio.all_tasks() - {asyncio.current_task()}
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        # The loop is closed next: sockets that were closed must be gone.
        await asyncio.sleep(0.05)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request for each connection, and its whole response."""
        self._tasks.add(asyncio.current_task())
        ends = (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError)
        with contextlib.suppress(*ends), contextlib.closing(writer):
            lines = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
            path = lines[0].split(b" ")[1].decode("ascii")
            kept = [line for line in lines[:-2] if not line.lower().startswith(b"connection:")]
            sizes = [int(line.split(b":")[1]) for line in kept if line.lower().startswith(b"content-length:")]
            body = await reader.readexactly(sum(sizes))
            server = self._choose(path)
            self.passed.append((path, server))
            target = urlsplit(server)
            upstream, sender = await asyncio.open_connection(target.hostname, target.port)
            with contextlib.closing(sender):
                sender.write(b"\r\n".join([*kept, b"Connection: close", b"", body]))
                while part := await upstream.read(_HEAD_BYTES):
                    writer.write(part)
                await writer.drain()
        self._tasks.discard(asyncio.current_task())


@contextmanager
def path_proxy(choose: Callable[[str], str]) -> Iterator[PathProxy]:
    """A proxy that runs in a thread of its own until the block is left."""
    proxy, ready, stop = PathProxy(choose), threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=lambda: loop.run_until_complete(proxy.serve(ready, stop)), daemon=True)
    thread.start()
    assert ready.wait(30)
    try:
        yield proxy
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(30)
        loop.close()
