"""Shards, the units of work: those that this process is running, and their event loop."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from tiltyard.errors import TiltyardError
from tiltyard.foundation.caches import SingleFlight

_STOP_WAIT_SECONDS = 10.0
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Shard:
    """One unit of work: questions ``first`` (included) to ``last`` (excluded) of a plan."""

    run: str
    generation: int
    index: int
    first: int
    last: int

    @property
    def id(self) -> str:
        """A permanent key: a shard that finished or failed is never run again under the same key."""
        return f"{self.run}:{self.generation}:{self.index}"


#: Processes a shard and returns counts. Runs on the engine's event loop; must be idempotent.
Work = Callable[[Shard], Awaitable[dict[str, int]]]
#: Runs on the engine's event loop, before or after all work.
Hook = Callable[[], Awaitable[None]]


class EventLoopThread:
    """An event loop in a separate thread."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._live, name="tiltyard-loop", daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop, wait for it, and return its result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()

    def close(self) -> None:
        """Cancel running tasks, wait for them up to a timeout, and stop."""
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
    """Runs shards until it is halted.

    A halt cancels work, but never the writing of a finished shard's result. A shard that arrives after
    the halt is neither started nor failed: it blocks, so that DBOS does not take another one instead.
    """

    def __init__(self, work: Work, on_stop: Hook | None) -> None:
        self.in_hand: set[str] = set()
        self._work = work
        self._on_stop = on_stop
        self._doing = SingleFlight()
        self._held: set[asyncio.Task[Any]] = set()
        self._halted = False
        self._settled = False

    async def do(self, shard: Shard) -> dict[str, int]:
        """Run a shard and return its counts. If it is already running, wait for it instead.

        Errors are raised as plain text that can be stored.
        """
        if self._halted:
            task = asyncio.current_task()
            assert task is not None
            self._held.add(task)
            await asyncio.get_running_loop().create_future()
        return await self._doing(shard.id, lambda: self._attempt(shard))

    def halt(self) -> None:
        """Cancel all work and start none. Must be called on the loop."""
        self._halted = True
        self._doing.cancel()

    async def settle(self) -> None:
        """Halt, call ``on_stop``, and wait until results are written. Further calls do nothing."""
        if self._settled:
            return
        self._settled = True
        self.halt()
        deadline = time.monotonic() + _STOP_WAIT_SECONDS
        if running := self._doing.running:
            await asyncio.wait(running, timeout=_STOP_WAIT_SECONDS)
        try:
            if self._on_stop is not None:
                await self._on_stop()
        finally:
            current = asyncio.current_task()
            while (rest := asyncio.all_tasks() - self._held - {current}) and time.monotonic() < deadline:
                await asyncio.wait(rest, timeout=0.1)

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
