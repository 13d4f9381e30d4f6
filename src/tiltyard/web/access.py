"""Authentication and authorization: voters and the operator by cookie, programs by token."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends, Request
from fastapi.security import APIKeyCookie, HTTPBearer

from tiltyard.arena.accounts import SCOPES, Accounts
from tiltyard.arena.secret_keys import SecretKeys
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.arena.voting.voting_queue import VotingQueue
from tiltyard.caches import BoundedCache
from tiltyard.errors import NotAllowed, NotFound
from tiltyard.settings.serving_settings import ServingSettings
from tiltyard.web.context import context_of
from tiltyard.web.cookies import OPERATOR_COOKIE, VOTER_COOKIE, VOTER_COOKIE_LIFETIME, Cookies, read_cookie
from tiltyard.web.rate_limits import SessionRateLimit, SignInThrottle, client_address
from tiltyard.wire.operators import Token

if TYPE_CHECKING:
    from tiltyard.arena.registry import ArenaRegistry

__all__ = [
    "Access",
    "Actor",
    "CurrentActor",
    "access_of",
    "current_actor",
    "keys_of",
    "registry_of",
    "require_scope",
]

#: Cache lifetimes in seconds: of a voter, and of an operator or a token.
_VOTER_CACHE_SECONDS = 30.0
_ACTOR_CACHE_SECONDS = 5.0
_CACHED_ENTRY_LIMIT = 50_000
#: Scopes that ``admin`` includes.
_OPERATOR_SCOPES = frozenset({"read", "import", "admin", "metrics"})


@dataclass(frozen=True, slots=True)
class Actor:
    """A signed-in identity: the operator, or a program with a token."""

    #: The name in the audit log: ``operator:NAME`` or ``token:NAME``.
    name: str
    scopes: frozenset[str]
    #: The only arena it has access to; ``None`` for all arenas.
    arena: str | None = None
    token: Token | None = None

    def may(self, scope: str, arena: str | None = None) -> bool:
        """Whether it has the scope in this arena or, without an arena, in all arenas."""
        covers = scope in self.scopes or ("admin" in self.scopes and scope in _OPERATOR_SCOPES)
        return covers and (self.arena is None or self.arena == arena)

    def require(self, scope: str, arena: str | None = None) -> None:
        """Raise unless it `may`."""
        if not self.may(scope, self.arena):
            raise NotAllowed(f"this needs the scope {scope}, which {self.name} does not have", known=True)
        if not self.may(scope, arena):
            raise NotAllowed(f"{self.name} is for the arena {self.arena} only", known=True)


class Access:
    """Identifies voters, operators and tokens, with caches, in one process."""

    def __init__(self, accounts: Accounts, keys: SecretKeys, settings: ServingSettings) -> None:
        self.accounts = accounts
        self.keys = keys
        self.cookies = Cookies(keys, secure=settings.secure)
        self.sign_in_throttle = SignInThrottle()
        self.session_rate_limit = SessionRateLimit(settings.new_sessions_per_minute)
        self._voters: BoundedCache[str, Voter] = BoundedCache(
            _CACHED_ENTRY_LIMIT, seconds=_VOTER_CACHE_SECONDS
        )
        self._actors: BoundedCache[str, Actor] = BoundedCache(
            _CACHED_ENTRY_LIMIT, seconds=_ACTOR_CACHE_SECONDS
        )
        self._judges: BoundedCache[str, Voter] = BoundedCache(
            _CACHED_ENTRY_LIMIT, seconds=_ACTOR_CACHE_SECONDS
        )

    def forget(self) -> None:
        """Clear the caches, because something was revoked."""
        self._voters.clear()
        self._actors.clear()
        self._judges.clear()

    async def actor(self, request: Request) -> Actor | None:
        """The signed-in identity. An invalid token is rejected; an invalid cookie is ignored."""
        stated = request.headers.get("authorization")
        if stated is not None:
            return await self._bearer(stated)
        cookie = read_cookie(request, OPERATOR_COOKIE)
        token = None if cookie is None else self.cookies.unseal(OPERATOR_COOKIE, cookie)
        if token is None:
            return None
        known = self._actors.get(f"operator {token}")
        if known is None:
            name = await self.accounts.signed_in(token)
            if name is None:
                return None
            known = self.operator(name)
            self._actors.put(f"operator {token}", known)
        return known

    @staticmethod
    def operator(name: str) -> Actor:
        """The operator, who may do everything but judge."""
        return Actor(f"operator:{name}", _OPERATOR_SCOPES)

    async def _bearer(self, stated: str) -> Actor:
        scheme, _, token = stated.partition(" ")
        token = token.strip()
        known = self._actors.get(f"token {token}")
        if known is not None and scheme.lower() == "bearer":
            return known
        found = None
        if scheme.lower() == "bearer" and token.isascii() and 0 < len(token) <= 200:
            found = await self.accounts.find_token(token)
        if found is None:
            raise NotAllowed("the token is unknown, revoked or expired; ask the operator for another")
        actor = Actor(f"token:{found.name}", frozenset(found.scopes), found.arena, found)
        self._actors.put(f"token {token}", actor)
        return actor

    async def voter(self, request: Request, queue: VotingQueue | None = None) -> Voter | None:
        """The voter: a judge by its token, else a person by cookie; ``None`` if there is no session yet.

        With a queue, also check that they may vote in its arena.
        """
        actor = None
        if "authorization" in request.headers or (
            queue is not None and queue.settings.visibility == "closed"
        ):
            actor = await self.actor(request)
        if queue is not None:
            self._check_may_vote(actor, queue)
        if actor is not None and actor.token is not None and "judge" in actor.scopes:
            return await self._judge(actor.token)
        cookie = read_cookie(request, VOTER_COOKIE)
        if cookie is None:
            return None
        known = self._voters.get(cookie)
        if known is None:
            token = self.cookies.unseal(VOTER_COOKIE, cookie)
            session = None if token is None else await self.accounts.find_session(token)
            if session is None or session.source != 0:
                return None
            known = Voter(session.session, 0)
            self._voters.put(cookie, known)
        return known

    @staticmethod
    def _check_may_vote(actor: Actor | None, queue: VotingQueue) -> None:
        """Anyone may vote in an open arena; a closed one requires the scope judge or read."""
        allowed = actor is not None and (actor.may("judge", queue.name) or actor.may("read", queue.name))
        if queue.settings.visibility == "closed" and not allowed:
            raise NotFound("no such arena; see the list of arenas")
        if actor is not None and not allowed:
            actor.require("judge" if "judge" in actor.scopes else "read", queue.name)

    async def new_voter(self, request: Request) -> tuple[Voter, str]:
        """Create a voter session and its cookie; `Busy` if the address exceeds its rate limit."""
        self.session_rate_limit.admit(client_address(request))
        token, session = await self.accounts.make_session()
        voter = Voter(session.session, 0)
        self._voters.put(self.cookies.seal(VOTER_COOKIE, token), voter)
        return voter, self.cookies.header(VOTER_COOKIE, token, VOTER_COOKIE_LIFETIME)

    async def _judge(self, token: Token) -> Voter:
        key = str(token.api_token)
        known = self._judges.get(key)
        if known is None:
            session = await self.accounts.judge_session(token)
            known = Voter(session.session, 1)
            self._judges.put(key, known)
        return known


def registry_of(request: Request) -> ArenaRegistry:
    """The arenas of this process."""
    return context_of(request).registry


def access_of(request: Request) -> Access:
    """The access control of this process."""
    return context_of(request).access


def keys_of(request: Request) -> SecretKeys:
    """The secret keys of this server."""
    return access_of(request).keys


_BEARER = HTTPBearer(auto_error=False, scheme_name="token", description="An API token: tyt_…")
_COOKIE = APIKeyCookie(
    name=OPERATOR_COOKIE, auto_error=False, scheme_name="operator", description="The operator, signed in."
)


async def current_actor(
    request: Request,
    _bearer: Annotated[object, Depends(_BEARER)],
    _cookie: Annotated[object, Depends(_COOKIE)],
) -> Actor | None:
    """The signed-in identity, if any."""
    return await access_of(request).actor(request)


#: For public routes whose answer depends on who is signed in.
CurrentActor = Annotated[Actor | None, Depends(current_actor)]


def require_scope(scope: str) -> Callable[..., Awaitable[Actor]]:
    """A dependency that requires this scope, in the arena of the path or, without one, everywhere."""
    assert scope in SCOPES

    async def checked(request: Request, actor: CurrentActor) -> Actor:
        if actor is None:
            raise NotAllowed(f"sign in as the operator, or send a token with the scope {scope}")
        actor.require(scope, request.path_params.get("arena"))
        return actor

    return checked
