"""Requests of strangers: a few run at once, and the others wait in line, so that those of voters do not.

A flood of requests without a session, or of sessions that ask for what is not theirs, would otherwise stand before every
vote in the event loop and at the database. While voters are there, the line moves slowly: few strangers run at once, and
after each there is a rest, so that a flood takes a part of the processor only. Networks are called in turn: whoever sends
much waits behind themselves. Nobody is refused before the line is full.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.requests import HTTPConnection

from tiltyard.foundation.caches import BoundedCache
from tiltyard.foundation.telemetry import STRANGERS

if TYPE_CHECKING:
    from starlette.types import Scope

    from tiltyard.web.access.access import Access

#: Requests that run at once in one process, and that wait: of all, and of one network.
_CONCURRENT_REQUEST_LIMIT = 8
_WAITING_REQUEST_LIMIT = 256
_WAITING_OF_NETWORK_LIMIT = 128
#: Requests that run at once while voters are there and strangers wait.
_BESIDE_VOTERS_LIMIT = 1
#: The rest after such a request: so many times as long as it ran.
_REST_RATIO = 0.5
#: For how long voters count as there after a request of theirs.
_VOTERS_STAY_SECONDS = 1.0
#: For how long a request counts as running. What takes longer waits for something and uses no CPU.
_TURN_SECONDS = 0.1


class StrangerTurn:
    """A request that runs. It ends once: when it was answered, or after a while."""

    __slots__ = ("_began", "_queue", "_timer")

    def __init__(self, queue: StrangerQueue) -> None:
        loop = asyncio.get_running_loop()
        self._queue: StrangerQueue | None = queue
        self._began = loop.time()
        self._timer = loop.call_later(_TURN_SECONDS, self.end)

    def end(self) -> None:
        """Let the next one run."""
        queue, self._queue = self._queue, None
        if queue is not None:
            self._timer.cancel()
            queue.end_turn(asyncio.get_running_loop().time() - self._began)


class StrangerQueue:
    """The line of one process."""

    def __init__(
        self,
        at_once: int = _CONCURRENT_REQUEST_LIMIT,
        longest: int = _WAITING_REQUEST_LIMIT,
        of_network: int = _WAITING_OF_NETWORK_LIMIT,
    ) -> None:
        self._running = 0
        self._at_once = at_once
        self._voter_seen_at = -math.inf
        self._longest = longest
        self._of_network = of_network
        #: Those who wait, by network. The first network is called next.
        self._waiting: dict[str, deque[asyncio.Future[bool]]] = {}
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def take(self) -> StrangerTurn | None:
        """A turn, if one is free and nobody waits; ``None`` otherwise."""
        if self._waiting or self._running >= self._at_once:
            return None
        self._running += 1
        return StrangerTurn(self)

    def note_voter(self) -> None:
        """Somebody who is known passes those who wait: for a while, the line moves slowly."""
        self._voter_seen_at = asyncio.get_running_loop().time()

    async def wait(self, network: str) -> StrangerTurn | None:
        """Wait in line for a turn; ``None`` if the line is full, or the part of it that one network may have."""
        turn = self.take()
        if turn is not None:
            return turn
        line = self._waiting.get(network, ())
        if len(line) >= self._of_network or (
            self._length >= self._longest and not self._make_room(len(line))
        ):
            STRANGERS.record(1.0, "refused")
            return None
        STRANGERS.record(1.0, "waited")
        called = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(network, deque()).append(called)
        self._length += 1
        try:
            has_turn = await called
        except asyncio.CancelledError:
            if not called.cancelled() and called.result():
                self._pass_on()
            raise
        return StrangerTurn(self) if has_turn else None

    def _make_room(self, length: int) -> bool:
        """Send away the last one of the network that waits most, if it waits more than one with this length would."""
        longest = max(self._waiting.values(), key=len, default=deque())
        if len(longest) <= length + 1:
            return False
        self._length -= 1
        sent = longest.pop()
        if not sent.done():
            STRANGERS.record(1.0, "refused")
            sent.set_result(False)
        return True

    def end_turn(self, seconds: float) -> None:
        """A request ran for so long: the next one runs, after a rest if voters are there."""
        if self._waiting and self._has_voters():
            asyncio.get_running_loop().call_later(seconds * _REST_RATIO, self._pass_on)
        else:
            self._pass_on()

    def _pass_on(self) -> None:
        """Give a turn back, and call as many as may run now."""
        self._running -= 1
        at_once = min(self._at_once, _BESIDE_VOTERS_LIMIT) if self._has_voters() else self._at_once
        while self._waiting and self._running < at_once:
            network = next(iter(self._waiting))
            line = self._waiting.pop(network)
            called = line.popleft()
            self._length -= 1
            if line:
                self._waiting[network] = line
            if not called.done():
                called.set_result(True)
                self._running += 1

    def _has_voters(self) -> bool:
        return asyncio.get_running_loop().time() - self._voter_seen_at < _VOTERS_STAY_SECONDS


#: Failed requests that a session may have; with more it is a stranger. One is forgotten in so many seconds.
_FAILURE_LIMIT = 1
_FORGIVEN_SECONDS = 30.0
_TRACKED_SESSION_LIMIT = 50_000
#: More are not remembered, so that nobody is a stranger for longer than some minutes.
_MAX_FAILURE_COUNT = 6.0
#: Statuses that honest voters meet as well: a matchup that ended meanwhile.
_HARMLESS = frozenset({408, 409, 410})


@dataclass(slots=True)
class _Failures:
    count: float
    at: float


class KnownSenders:
    """Tells the requests of known voters, operators and programs from others, without a query.

    Known is who holds a cookie that we signed, a token that was valid lately, or the proof of the gate. A session whose
    requests fail again and again is a stranger for a while. This decides about waiting only, never about access.
    """

    def __init__(self, access: Access) -> None:
        self._access = access
        self._failures: BoundedCache[int, _Failures] = BoundedCache(_TRACKED_SESSION_LIMIT)

    def knows(self, scope: Scope) -> bool:
        """Whether a request comes from somebody who is known and whose requests did not fail lately."""
        request = HTTPConnection(scope)
        session = self._access.session_of(request)
        if session is not None:
            failures = self._failures.get(session)
            return failures is None or _left(failures) <= _FAILURE_LIMIT
        return self._access.recognizes(request)

    def answered(self, scope: Scope, status: int) -> None:
        """Count a request that failed by its sender's fault."""
        if not 400 <= status < 500 or status in _HARMLESS:
            return
        session = self._access.session_of(HTTPConnection(scope))
        if session is not None:
            failures = self._failures.get(session)
            count = 1.0 if failures is None else min(_left(failures) + 1.0, _MAX_FAILURE_COUNT)
            self._failures.put(session, _Failures(count, time.monotonic()))


def _left(failures: _Failures) -> float:
    return max(failures.count - (time.monotonic() - failures.at) / _FORGIVEN_SECONDS, 0.0)
