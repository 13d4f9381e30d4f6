"""The shards that this process has in hand, and the event loop on which all of them run."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

from tiltyard.errors import TiltyardError
from tiltyard.jobs.shard import Hook, Shard, Work

__all__ = ["EventLoopThread", "RunningShards"]

_STOP_WAIT_SECONDS = 10.0

T = TypeVar("T")


class EventLoopThread:
    """An event loop in a thread of its own, until it is closed."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._live, name="tiltyard-loop", daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """What the coroutine returns or raises; it runs on the loop while the caller waits."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()

    def close(self) -> None:
        """Cancel what still runs, wait for it with patience, and stop."""
        self.run(_end_all())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()

    def _live(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            self.loop.close()


class RunningShards:
    """Does shards as they come, until it is halted.

    A halt cancels work, but never the writing of what a finished shard counted. A shard that comes
    after the halt is not begun and not given up: it waits, so that its place is not filled again.
    """

    def __init__(self, work: Work, on_stop: Hook | None) -> None:
        self.in_hand: set[str] = set()
        self._work = work
        self._on_stop = on_stop
        self._doing: dict[str, asyncio.Task[dict[str, int]]] = {}
        self._held: set[asyncio.Task[Any]] = set()
        self._halted = False
        self._settled = False

    async def do(self, shard: Shard) -> dict[str, int]:
        """What the work counted. A shard that is being done already is waited for, not done twice.

        Whatever goes wrong is raised as plain text that can be stored.
        """
        if self._halted:
            self._hold()
            await asyncio.get_running_loop().create_future()
        task = self._doing.get(shard.id)
        if task is None:
            task = self._doing[shard.id] = asyncio.create_task(self._attempt(shard))
            task.add_done_callback(lambda _task: self._doing.pop(shard.id))
        return await asyncio.shield(task)

    def halt(self) -> None:
        """Stop all work and begin none. To be called on the loop."""
        self._halted = True
        for task in self._doing.values():
            task.cancel()

    async def settle(self) -> None:
        """Halt, let the caller close what it opened on the loop, let outcomes be written. Once."""
        if self._settled:
            return
        self._settled = True
        self.halt()
        deadline = time.monotonic() + _STOP_WAIT_SECONDS
        if self._doing:
            await asyncio.wait(self._doing.values(), timeout=_STOP_WAIT_SECONDS)
        try:
            if self._on_stop is not None:
                await self._on_stop()
        finally:
            this = asyncio.current_task()
            while (rest := asyncio.all_tasks() - self._held - {this}) and time.monotonic() < deadline:
                await asyncio.wait(rest, timeout=0.1)

    def _hold(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._held.add(task)

    async def _attempt(self, shard: Shard) -> dict[str, int]:
        try:
            return dict(await self._work(shard))
        except TiltyardError as error:
            raise RuntimeError(str(error)) from None
        except Exception as error:
            raise RuntimeError(f"{type(error).__name__}: {error}") from error


async def _end_all() -> None:
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    if rest:
        await asyncio.wait(rest, timeout=_STOP_WAIT_SECONDS)
    await asyncio.get_running_loop().shutdown_asyncgens()
