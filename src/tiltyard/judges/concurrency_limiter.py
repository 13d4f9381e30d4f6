"""Limits the number of concurrent calls and their rate."""

from __future__ import annotations

import asyncio
import copy
import time
from collections import deque
from collections.abc import Awaitable, Callable

from tiltyard.errors import JudgeUnusable, ProviderFault
from tiltyard.judges.providers.provider import LONGEST_WAIT_SECONDS

#: Consecutive calls that failed for a reason that other calls share, none served in between, that stop the run.
_CONSECUTIVE_REFUSED_CALLS = 8
#: Concurrent calls at the start; doubled each round until the provider throttles.
_INITIAL_CONCURRENT_CALLS = _CONSECUTIVE_REFUSED_CALLS
#: Permits are taken from the shared rate limit for this long at a time.
_PERMIT_SECONDS = 0.25

#: Consecutive connection failures before the first success that stop the run.
_CONSECUTIVE_UNREACHED_CALLS = 32
#: The same of calls whose replies were lost, which may have been billed: two rounds of those that are sent together.
_CONSECUTIVE_LOST_CALLS = 2 * _CONSECUTIVE_REFUSED_CALLS
#: Calls that fail for reasons that may pass, after which one is sent at a time; and how many of these stop the run.
_FAILING_CALLS, _FAILED_PROBE_CALLS = _CONSECUTIVE_REFUSED_CALLS, 5
#: The wait before the first of these, which doubles: all of them take a quarter of a minute.
_FIRST_PROBE_SECONDS = 0.5

Permits = Callable[[int, float], Awaitable[tuple[float, float]]]
Pause = Callable[[float], Awaitable[None]]


class ConcurrencyLimiter:
    """Adaptive concurrency for one provider key, within a rate limit that all workers share.

    Concurrency doubles each round until the provider first throttles. From then on it is halved when
    the provider throttles, and grows by one each round otherwise. A Retry-After pauses all workers
    with the same key.

    If no call can succeed (wrong key, no credit, unknown or retired model, server unreachable, all replies lost, errors
    and nothing else, throttled for long), or a judge is unusable, the limiter closes, and `enter` raises the reason. After
    a refused call no more are in flight than are needed to be sure of it; while all calls fail for a reason that may pass,
    one, ever more slowly.
    """

    def __init__(
        self,
        concurrency: int,
        *,
        per_minute: float | None = None,
        permits: Permits | None = None,
        pause: Pause | None = None,
    ) -> None:
        self.most = concurrency
        self.allowed = float(min(concurrency, _INITIAL_CONCURRENT_CALLS))
        self.in_flight = 0
        self._interval = None if per_minute is None else 60.0 / per_minute
        self._permits = permits
        self._pause = pause
        self._paused_until = 0.0
        self._looked_at = 0.0
        self._next_at = 0.0
        self._leave_at: deque[float] = deque()
        self._taking = asyncio.Lock()
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._in_slow_start = True
        self._cut_at = 0.0
        self._served = False
        self._consecutive_failures = 0
        self._refused = False
        #: Calls that failed since one was served, and of those that were sent alone.
        self._failing_calls = self._failed_probes = 0
        self._throttled_since: float | None = None
        self._closed: ProviderFault | JudgeUnusable | None = None
        self._empty = asyncio.Event()

    async def enter(self) -> None:
        """Wait until a call may be sent."""
        if self.in_flight >= self._limit() or self._waiting:
            waiter = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                if not waiter.cancelled():
                    self._free()
                elif waiter in self._waiting:
                    self._waiting.remove(waiter)
                raise
        else:
            self.in_flight += 1
        try:
            await self._wait_for_permit()
        except BaseException:
            self._free()
            raise
        if self._closed is not None:
            self._free()
            # The error stops the run: wait for the calls in flight first, because they are paid for.
            await self._empty.wait()
            raise copy.copy(self._closed)

    def close(self, reason: JudgeUnusable) -> None:
        """Close the limiter: `enter` raises ``reason`` from now on."""
        self._closed = self._closed or reason

    def check(self) -> None:
        """Raise the reason if the limiter is closed."""
        if self._closed is not None:
            raise copy.copy(self._closed)

    def check_judge(self) -> None:
        """Raise if the limiter was closed because a judge is unusable."""
        if isinstance(self._closed, JudgeUnusable):
            raise copy.copy(self._closed)

    @property
    def is_serving(self) -> bool:
        """Whether the last call that ended was served."""
        return self._served and not self._failing_calls

    def tell(self, fault: ProviderFault | None) -> None:
        """Report how a call ended: ``None`` for success. Consecutive fatal faults close the limiter."""
        if fault is None or not fault.throttled:
            self._throttled_since = None
        if fault is None:
            self._served, self._consecutive_failures, self._refused = True, 0, False
            self._failing_calls = self._failed_probes = 0
            return
        if fault.throttled:
            # Close the limiter if nothing but throttled calls came back for long.
            now = time.monotonic()
            self._throttled_since = self._throttled_since or now
            if now - self._throttled_since > LONGEST_WAIT_SECONDS:
                minutes = LONGEST_WAIT_SECONDS / 60
                self._closed = ProviderFault(
                    f"{fault}; every call was throttled for {minutes:.0f} minutes: run the command again later, or lower "
                    "requests_per_minute",
                    status=fault.status,
                )
        unreached = fault.status is None and not self._served
        self._refused = fault.fatal
        self._consecutive_failures = self._consecutive_failures + 1 if unreached or fault.fatal else 0
        most = _CONSECUTIVE_LOST_CALLS if fault.billed else _CONSECUTIVE_UNREACHED_CALLS
        if self._consecutive_failures >= (most if unreached else _CONSECUTIVE_REFUSED_CALLS):
            self._closed = fault
        if fault.retryable and not fault.throttled and not unreached:
            self._count_failing(fault)

    def _count_failing(self, fault: ProviderFault) -> None:
        """Send one call at a time after several failed, and close the limiter if these fail too."""
        self._failing_calls += 1
        now = time.time()
        # Calls that were in flight together with those before tell nothing new.
        if self._failing_calls < _FAILING_CALLS or now < self._paused_until:
            return
        if self._failed_probes == _FAILED_PROBE_CALLS:
            self._closed = fault
        self._paused_until = now + _FIRST_PROBE_SECONDS * 2.0**self._failed_probes
        self._failed_probes += 1

    def _limit(self) -> int:
        """How many calls may be in flight now."""
        if self._failing_calls >= _FAILING_CALLS:
            return 1
        if not self._refused:
            return int(self.allowed)
        return max(1, min(int(self.allowed), _CONSECUTIVE_REFUSED_CALLS - self._consecutive_failures))

    def leave(self, *, well: bool) -> None:
        """A call has ended. ``well``: the provider served it."""
        if well:
            self.allowed = min(
                self.allowed + (1.0 if self._in_slow_start else 1.0 / self.allowed), float(self.most)
            )
        self._free()

    async def throttle(self, retry_after: float | None) -> None:
        """Halve the concurrency, once for all calls that were in flight together."""
        now = time.monotonic()
        self._in_slow_start = False
        if now - self._cut_at > 1.0:
            self._cut_at = now
            self.allowed = max(1.0, self.allowed / 2.0)
        if retry_after:
            until = time.time() + retry_after
            self._paused_until = max(self._paused_until, until)
            if self._pause is not None:
                await self._pause(until)

    def _free(self) -> None:
        self.in_flight -= 1
        if self.in_flight:
            self._empty.clear()
        else:
            self._empty.set()
        while self._waiting and self.in_flight < self._limit():
            waiter = self._waiting.popleft()
            if not waiter.done():
                self.in_flight += 1
                waiter.set_result(None)

    async def _wait_for_permit(self) -> None:
        while True:
            moment = await self._moment()
            wait = max(moment, self._paused_until) - time.time()
            if wait <= 0:
                return
            await asyncio.sleep(wait)
            if time.time() >= self._paused_until:
                return

    async def _moment(self) -> float:
        """When this call may be sent, by the shared rate limit."""
        if self._interval is None:
            # Check once a second whether another worker was told to pause.
            now = time.time()
            if self._permits is not None and now - self._looked_at > 1.0:
                self._looked_at = now
                _, paused = await self._permits(0, 0.0)
                self._paused_until = max(self._paused_until, paused)
            return 0.0
        async with self._taking:
            if not self._leave_at:
                count = max(1, round(_PERMIT_SECONDS / self._interval))
                if self._permits is None:
                    start = max(time.time(), self._next_at)
                    self._next_at = start + count * self._interval
                else:
                    start, paused = await self._permits(count, self._interval)
                    self._paused_until = max(self._paused_until, paused)
                self._leave_at.extend(start + k * self._interval for k in range(count))
            return self._leave_at.popleft()
