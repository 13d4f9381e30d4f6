"""Rate limits per client address."""

from __future__ import annotations

import asyncio
import ipaddress
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import lru_cache

from starlette.requests import HTTPConnection

from tiltyard.caches import BoundedCache
from tiltyard.errors import Busy, NotAllowed

__all__ = ["SessionRateLimit", "SignInThrottle", "client_address", "client_network"]

#: Addresses that are tracked; the least recently seen is dropped first.
_TRACKED_ADDRESS_LIMIT = 50_000
#: Windows in seconds, and their limits as multiples of the limit per minute. The hour limits the open matchups
#: that one address can leave behind, because an arena has a limited number of them.
_SESSION_WINDOW_LIMITS = ((60, 1), (3600, 5))
#: An IPv6 client usually controls a whole network of this size.
_IPV6_PREFIX_BITS = 64


def client_address(request: HTTPConnection) -> str:
    """The client's IPv4 address, or the network of its IPv6 address.

    Behind a trusted proxy, the server has already replaced the proxy's address by the client's.
    """
    return "" if request.client is None else client_network(request.client.host)


@lru_cache(maxsize=10_000)
def client_network(host: str) -> str:
    """An IPv4 address, or the network of an IPv6 address."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host[:100]
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((int(address), _IPV6_PREFIX_BITS), strict=False))


@dataclass(slots=True)
class _AddressQueue:
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    length: int = 0


class SignInThrottle:
    """Throttles attempts with passwords and links: one at a time per address, with a delay after a wrong one.

    A few attempts are checked concurrently, at most one per address, so that one address cannot block others.
    """

    def __init__(self, most: int = 20, seconds: float = 0.5, at_once: int = 2) -> None:
        self._most = most
        self._seconds = seconds
        self._checking = asyncio.Semaphore(at_once)
        #: Queues of the addresses with attempts in progress.
        self._lines: dict[str, _AddressQueue] = {}

    @asynccontextmanager
    async def sign_in_attempt(self, address: str) -> AsyncIterator[None]:
        """Make the attempt inside this block; a failed one must raise `NotAllowed`."""
        line = self._lines.setdefault(address, _AddressQueue())
        if line.length >= self._most:
            raise Busy("too many sign-in attempts from this address; try again later")
        line.length += 1
        try:
            async with line.turn:
                try:
                    async with self._checking:
                        yield
                except NotAllowed:
                    await asyncio.sleep(self._seconds)
                    raise
        finally:
            line.length -= 1
            if not line.length:
                del self._lines[address]


class SessionRateLimit:
    """Limits new sessions per address: ``per_minute``, and five times as many per hour; 0 for no limit.

    A token bucket: bursts up to the limit are allowed.
    """

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = [float(per_minute * times) for _, times in _SESSION_WINDOW_LIMITS]
        #: Sessions per second.
        self._rates = [
            most / seconds for most, (seconds, _) in zip(self._most, _SESSION_WINDOW_LIMITS, strict=True)
        ]
        self._clock = clock
        #: How many each may still have in each span, and when that was so.
        self._left: BoundedCache[str, tuple[list[float], float]] = BoundedCache(_TRACKED_ADDRESS_LIMIT)

    def admit(self, address: str) -> None:
        """Count one session, or raise `Busy`."""
        if not self._most[0]:
            return
        now = self._clock()
        left, since = self._left.get(address) or (self._most, now)
        left = [
            min(most, one + (now - since) * rate)
            for one, most, rate in zip(left, self._most, self._rates, strict=True)
        ]
        wait = max((1 - one) / rate for one, rate in zip(left, self._rates, strict=True))
        self._left.put(address, (left if wait > 0 else [one - 1 for one in left], now))
        if wait > 0:
            raise Busy(
                "too many new voters from this address; keep the session's cookie, or try again later",
                retry_after=wait,
            )
