"""Requests of strangers: a few run at once, and the others wait in line, so that those of voters do not.

A flood of requests without a session, or of sessions that ask for what is not theirs, would otherwise stand before every
vote in the event loop and at the database. Nobody is refused before the line is full.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque

from tiltyard.instruments import STRANGERS

__all__ = ["StrangerQueue", "StrangerTurn"]

#: Requests that run at once in one process, and that wait: of all, and of one network.
_CONCURRENT_REQUEST_LIMIT = 8
_WAITING_REQUEST_LIMIT = 256
_WAITING_OF_NETWORK_LIMIT = 128
#: For how long a request counts as running. What takes longer waits for something and uses no CPU.
_TURN_SECONDS = 0.1


class StrangerTurn:
    """A request that runs. It ends once: when it was answered, or after a while."""

    __slots__ = ("_queue", "_timer")

    def __init__(self, queue: StrangerQueue) -> None:
        self._queue: StrangerQueue | None = queue
        self._timer = asyncio.get_running_loop().call_later(_TURN_SECONDS, self.end)

    def end(self) -> None:
        """Let the next one run."""
        queue, self._queue = self._queue, None
        if queue is not None:
            self._timer.cancel()
            queue.pass_on()


class StrangerQueue:
    """The line of one process."""

    def __init__(
        self,
        at_once: int = _CONCURRENT_REQUEST_LIMIT,
        longest: int = _WAITING_REQUEST_LIMIT,
        of_network: int = _WAITING_OF_NETWORK_LIMIT,
    ) -> None:
        self._free = at_once
        self._longest = longest
        self._of_network = of_network
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._networks: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._waiting)

    def take(self) -> StrangerTurn | None:
        """A turn, if one is free and nobody waits; ``None`` otherwise."""
        if self._waiting or not self._free:
            return None
        self._free -= 1
        return StrangerTurn(self)

    async def wait(self, network: str) -> StrangerTurn | None:
        """Wait in line for a turn; ``None`` if the line is full, or the part of it that one network may have."""
        if len(self._waiting) >= self._longest or self._networks[network] >= self._of_network:
            STRANGERS.record(1.0, "refused")
            return None
        STRANGERS.record(1.0, "waited")
        called = asyncio.get_running_loop().create_future()
        self._waiting.append(called)
        self._networks[network] += 1
        try:
            await called
        except asyncio.CancelledError:
            if called.done() and not called.cancelled():
                self.pass_on()
            raise
        finally:
            self._networks[network] -= 1
            if not self._networks[network]:
                del self._networks[network]
        return StrangerTurn(self)

    def pass_on(self) -> None:
        """Call the next one who waits, or keep the turn free."""
        while self._waiting:
            called = self._waiting.popleft()
            if not called.done():
                called.set_result(None)
                return
        self._free += 1
