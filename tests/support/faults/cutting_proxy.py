"""A wire between the service and its database that can be cut, or go silent."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class CuttingProxy:
    """Carries bytes to a port and back, as long as nobody interferes."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.port = 0
        #: How often a client spoke after it had heard the server.
        self.round_trips = 0
        self._loop = asyncio.new_event_loop()
        self._flowing = asyncio.Event()
        self._wires: set[socket.socket] = set()

    def url(self, url: str) -> str:
        """The same database by way of this wire."""
        return url.replace(f":{self.target}/", f":{self.port}/")

    def cut(self) -> int:
        """Break every connection without a word; how many."""
        return asyncio.run_coroutine_threadsafe(self._cut(), self._loop).result()

    def stall(self) -> None:
        """Nothing gets through any more, and nobody is told."""
        self._loop.call_soon_threadsafe(self._flowing.clear)

    def flow(self) -> None:
        self._loop.call_soon_threadsafe(self._flowing.set)

    async def _cut(self) -> int:
        wires, self._wires = self._wires, set()
        for wire in wires:
            with contextlib.suppress(OSError):
                wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
                wire.shutdown(socket.SHUT_RDWR)
        return len(wires) // 2

    async def serve(self, ready: threading.Event, stop: asyncio.Event) -> None:
        self._flowing.set()
        loop = asyncio.get_running_loop()
        with socket.create_server(("127.0.0.1", 0), backlog=256) as listening:
            listening.setblocking(False)
            self.port = listening.getsockname()[1]
            ready.set()
            tasks: set[asyncio.Task[None]] = set()
            stopping = asyncio.create_task(stop.wait())
            while not stop.is_set():
                accepting = asyncio.create_task(loop.sock_accept(listening))
                await asyncio.wait({accepting, stopping}, return_when=asyncio.FIRST_COMPLETED)
                if not accepting.done():
                    accepting.cancel()
                    continue
                task = asyncio.create_task(self._carry(accepting.result()[0]))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
            await self._cut()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _carry(self, near: socket.socket) -> None:
        far = socket.socket()
        near.setblocking(False)
        far.setblocking(False)
        self._wires |= {near, far}
        try:
            await self._flowing.wait()
            await asyncio.get_running_loop().sock_connect(far, ("127.0.0.1", self.target))
            heard = asyncio.Event()
            heard.set()
            await asyncio.wait(
                {
                    asyncio.create_task(self._pump(near, far, heard, asks=True)),
                    asyncio.create_task(self._pump(far, near, heard, asks=False)),
                }
            )
        except OSError:
            pass
        finally:
            self._wires -= {near, far}
            near.close()
            far.close()

    async def _pump(
        self, source: socket.socket, sink: socket.socket, heard: asyncio.Event, *, asks: bool
    ) -> None:
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):
            while read := await loop.sock_recv(source, 65536):
                await self._flowing.wait()
                if not asks:
                    heard.set()
                elif heard.is_set():
                    heard.clear()
                    self.round_trips += 1
                await loop.sock_sendall(sink, read)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def run(self, ready: threading.Event, stop: asyncio.Event) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self.serve(ready, stop))
        self._loop.close()


@contextmanager
def cutting_proxy(target: int) -> Iterator[CuttingProxy]:
    """A wire to a port of this machine, for as long as the block lasts."""
    proxy, ready, stop = CuttingProxy(target), threading.Event(), asyncio.Event()
    thread = threading.Thread(target=proxy.run, args=(ready, stop), name="proxy")
    thread.start()
    ready.wait()
    try:
        yield proxy
    finally:
        proxy.flow()
        proxy._loop.call_soon_threadsafe(stop.set)
        thread.join()
