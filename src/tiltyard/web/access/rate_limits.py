"""Rate limits: of voters' sessions, networks and arenas, and of sign-in attempts per address."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import lru_cache

from starlette.requests import HTTPConnection

from tiltyard.arena.content.arenas import Arena
from tiltyard.arena.log.event_log import HUMAN
from tiltyard.arena.processes.shared_limits import SharedLimit, SharedLimits
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.arena.voting.voting_queue import VotingQueue
from tiltyard.errors import Busy, NotAllowed, TiltyardError
from tiltyard.foundation.caches import BoundedCache
from tiltyard.settings.serving_settings import (
    ARENA_KINDS,
    LimitedKind,
    QuotaKind,
    ServingSettings,
    read_minute_limits,
)

#: Windows in seconds, and their limits as multiples of the limit per minute. The hour limits the open matchups
#: that one address can leave behind, because an arena has a limited number of them.
_SESSION_WINDOW_LIMITS = ((60, 1), (3600, 5))
#: New sessions in a minute whose browsers could compute no proof: of a network, and of an arena.
_UNPROVED_SESSIONS_LIMIT = 2
_UNPROVED_IN_ARENA_LIMIT = 60
_PARSED_TEXT_LIMIT = 1_000
_NEW_SESSIONS_MESSAGE = "too many new voters from this address; keep the session's cookie, or try again later"
_MESSAGES = {
    "session": "too many {kind} in this session; wait a moment, and try again",
    "network": "too many {kind} from this address; wait a moment, and try again",
    "arena": "too many {kind} in this arena at present; try again later",
}
#: What is kept of an arena is counted over this time.
_QUOTA_SECONDS = 3600.0
_QUOTA_MESSAGE = "too many {kind} in this arena within an hour; try again later"
#: Attempts to sign in that wait in one process: of one address, and addresses in all.
_WAITING_OF_ADDRESS_LIMIT = 20
_WAITING_ATTEMPT_LIMIT = 50
_WRONG_SECONDS = 600.0
#: Voters of a network who delete their data in an hour.
_DELETIONS = SharedLimit(
    "deletions of a network", "deletions", "network", 20, _MESSAGES["network"].format(kind="deletions"), 3600
)
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


@lru_cache(maxsize=10_000)
def is_inside(host: str, networks: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]) -> bool:
    """Whether an address is in one of the networks; a name is in none."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return any((mapped or address) in network for network in networks)


@dataclass(slots=True)
class _AddressQueue:
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    length: int = 0


class SignInThrottle:
    """Throttles attempts with passwords and links: one at a time per address, with a delay after a wrong one.

    A few attempts are checked concurrently, at most one per address, so that one address cannot block others. Whoever
    was signed in with this browser before does not wait behind those who guess from many addresses. With ``wrong``, all
    processes together count the wrong attempts of an address.
    """

    def __init__(
        self,
        kind: str,
        wrong: int,
        shared: SharedLimits,
        *,
        most: int = _WAITING_OF_ADDRESS_LIMIT,
        seconds: float = 0.5,
        at_once: int = 2,
        in_all: int = _WAITING_ATTEMPT_LIMIT,
    ) -> None:
        message = "too many wrong attempts from this address; try again in some minutes"
        name = f"wrong {kind}"
        self._wrong = SharedLimit(f"{name} of a network", name, "network", wrong, message, _WRONG_SECONDS)
        self._most = most
        self._seconds = seconds
        self._checking = asyncio.Semaphore(at_once)
        self._checking_known = asyncio.Semaphore(1)
        self._in_all = in_all
        self._shared = shared
        #: Queues of the addresses with attempts in progress.
        self._lines: dict[str, _AddressQueue] = {}

    @asynccontextmanager
    async def sign_in_attempt(self, address: str, *, known: bool = False) -> AsyncIterator[None]:
        """Make the attempt inside this block; a failed one must raise `NotAllowed`.

        ``known``: whether somebody was signed in with this browser before.
        """
        if len(self._lines) >= self._in_all and address not in self._lines and not known:
            raise Busy("too many sign-in attempts at present; try again in a moment", retry_after=5)
        line = self._lines.setdefault(address, _AddressQueue())
        if line.length >= self._most:
            raise Busy("too many sign-in attempts from this address; try again later")
        line.length += 1
        try:
            async with line.turn:
                # Counted as a wrong one, until it proves right.
                await self._shared.admit(self._wrong, address)
                try:
                    async with self._checking_known if known else self._checking:
                        yield
                except NotAllowed:
                    await asyncio.sleep(self._seconds)
                    raise
                self._shared.give_back(self._wrong, address)
        finally:
            line.length -= 1
            if not line.length:
                del self._lines[address]


class VoterLimits:
    """How often sessions, networks and arenas may do something in a minute, counted by all web processes together.

    Judges, whose tokens an operator has given out, have no limits. Whoever is signed in, or came by an invitation for
    one person, counts for no network: an office may have one address.
    """

    def __init__(self, shared: SharedLimits, settings: ServingSettings) -> None:
        self.shared = shared
        self._sessions = _limits("session", settings.minute_limits("session"))
        self._networks = _limits("network", settings.minute_limits("network"))
        per_minute, easy = settings.new_sessions_per_minute, settings.easy_sessions_per_minute
        self._new_sessions = [
            SharedLimit(
                f"sessions of a network in {seconds}",
                "sessions",
                "network",
                per_minute * times,
                _NEW_SESSIONS_MESSAGE,
                seconds,
            )
            for seconds, times in _SESSION_WINDOW_LIMITS
            if per_minute
        ]
        self._easy = _limits("network", {"challenges": easy} if easy else {}).get("challenges")
        unproved = "sessions without proof"
        self._unproved = _limits("network", {unproved: _UNPROVED_SESSIONS_LIMIT})[unproved]
        self._unproved_in_arena = _limits("arena", {unproved: _UNPROVED_IN_ARENA_LIMIT})[unproved]
        self._quotas = {
            kind: SharedLimit(
                f"{kind} kept of an arena",
                kind,
                "arena",
                most,
                _QUOTA_MESSAGE.format(kind=kind),
                _QUOTA_SECONDS,
            )
            for kind, most in settings.hour_quotas().items()
        }
        #: Limits of arenas by their text, which is the same for many.
        self._arenas: BoundedCache[str, Mapping[str, SharedLimit]] = BoundedCache(_PARSED_TEXT_LIMIT)

    async def admit(
        self, kind: LimitedKind, request: HTTPConnection, queue: VotingQueue, voter: Voter
    ) -> None:
        """Count one request of a voter, or raise `Busy`. A session that does too much costs its network nothing."""
        if voter.source != HUMAN:
            return
        limit = self._sessions.get(kind)
        if limit is not None and not self.shared.take(limit, voter.session):
            await self.shared.admit(limit, voter.session)
        limit = self._networks.get(kind)
        if limit is not None and not voter.trusted:
            await self.shared.admit(limit, client_address(request))
        await self._admit_in_arena(kind, queue)

    async def admit_session(
        self, request: HTTPConnection, place: VotingQueue | Arena, *, invited: bool = False
    ) -> None:
        """Count a new session, or raise `Busy`. ``invited``: whether by an invitation that is for its voter alone."""
        if not invited:
            address = client_address(request)
            for limit in self._new_sessions:
                await self.shared.admit(limit, address)
        await self._admit_in_arena("sessions", place)

    async def admit_unproved(self, request: HTTPConnection, queue: VotingQueue) -> None:
        """Count a new session whose browser could compute no proof, or raise `Busy`: they queue."""
        await self.shared.admit(self._unproved, client_address(request))
        await self.shared.admit(self._unproved_in_arena, queue.arena)

    async def admit_deletion(self, request: HTTPConnection) -> None:
        """Count a voter who deletes their data, or raise `Busy`: each makes boards be computed again."""
        await self.shared.admit(_DELETIONS, client_address(request))

    @asynccontextmanager
    async def quota(self, kind: QuotaKind, arena: int) -> AsyncIterator[None]:
        """Keep something of an arena inside this block, or raise `Busy`. What fails does not count."""
        limit = self._quotas.get(kind)
        if limit is None:
            yield
            return
        await self.shared.admit(limit, arena)
        try:
            yield
        except TiltyardError:
            self.shared.give_back(limit, arena)
            raise

    async def is_crowded(self, request: HTTPConnection) -> bool:
        """Count a challenge; whether its network has asked for so many that they get harder."""
        if self._easy is None:
            return False
        return await self.shared.refusal_seconds(self._easy, client_address(request)) > 0

    async def _admit_in_arena(self, kind: LimitedKind, place: VotingQueue | Arena) -> None:
        text = place.settings.minute_limits
        if text is not None:
            limits = self._arenas.get(text)
            if limits is None:
                read = read_minute_limits("minute_limits", text, ARENA_KINDS)
                limits = self._arenas.put(
                    text, _limits("arena", {one: most for one, most in read.items() if most})
                )
            if kind in limits:
                await self.shared.admit(limits[kind], place.arena)


def _limits(scope: str, by_kind: Mapping[LimitedKind, int] | Mapping[str, int]) -> dict[str, SharedLimit]:
    return {
        kind: SharedLimit(f"{kind} of a {scope}", kind, scope, count, _MESSAGES[scope].format(kind=kind))
        for kind, count in by_kind.items()
    }
