"""Actors: operators by cookie and programs by token, and what they may do."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

from fastapi import Request
from starlette.requests import HTTPConnection

from tiltyard.arena.accounts import (
    OPERATOR_ROLES,
    SCOPE_ROLES,
    Accounts,
    OperatorGrants,
    OperatorSession,
    Token,
    greater_role,
    includes_role,
)
from tiltyard.errors import NotAllowed, NotFound, RoleMissing
from tiltyard.foundation.caches import BoundedCache
from tiltyard.settings.serving_settings import ServingSettings
from tiltyard.web.access.cookies import OPERATOR_COOKIE, Cookies
from tiltyard.web.access.rate_limits import SignInThrottle, client_address
from tiltyard.wire.records import OperatorRole, Scope

#: The cache lifetime of a token.
ACTOR_CACHE_SECONDS = 5.0
_CACHED_ENTRY_LIMIT = 50_000
#: Scopes that ``admin`` includes.
_OPERATOR_SCOPES: frozenset[Scope] = frozenset({"read", "import", "admin", "metrics"})


@dataclass(frozen=True, slots=True)
class Actor:
    """A signed-in identity: an operator, or a program with a token."""

    #: The name in the audit log: ``operator:NAME`` or ``token:NAME``.
    name: str
    scopes: frozenset[str]
    #: The only arena it has access to; ``None`` for all arenas.
    arena: str | None = None
    token: Token | None = None
    #: The number of the operator: its own, or of the operator whose token it is.
    operator: int | None = None
    #: The operator's session, unless it is a program.
    session: OperatorSession | None = None
    #: The roles of the operator: its own, or those of the operator whose token it is.
    grants: OperatorGrants = field(kw_only=True)

    def may(self, scope: Scope, arena: str | None = None, role: OperatorRole = "analyst") -> bool:
        """Whether it has the scope and the role in this arena or, without an arena, for the installation."""
        return (
            self._covers(scope)
            and (self.arena is None or self.arena == arena)
            and self.grants.allow(_role_for(scope, role), arena)
        )

    def may_somewhere(self, scope: Scope, role: OperatorRole) -> bool:
        """Whether it has the scope in no single arena only, and the role in some arena."""
        return (
            self._covers(scope)
            and self.arena is None
            and includes_role(self.grants.greatest, _role_for(scope, role))
        )

    def require(self, scope: Scope, arena: str | None = None, role: OperatorRole = "analyst") -> None:
        """Raise unless it `may`. Without any role in an arena, the arena looks as if it did not exist."""
        self._require_scope(scope)
        if self.arena is not None and self.arena != arena:
            raise NotAllowed(f"{self.name} is for the arena {self.arena} only", known=True)
        if self.may(scope, arena, role):
            return
        if arena is not None and self.grants.role_in(arena) is None:
            raise NotFound.arena(arena)
        raise RoleMissing(_needs(_role_for(scope, role), arena, self.grants.role_in(arena)))

    def require_somewhere(self, scope: Scope, role: OperatorRole) -> None:
        """Raise unless it `may_somewhere`."""
        self._require_scope(scope)
        if self.arena is not None:
            raise NotAllowed(f"{self.name} is for the arena {self.arena} only", known=True)
        if not self.may_somewhere(scope, role):
            raise RoleMissing(_needs(_role_for(scope, role), None, self.grants.greatest))

    def _covers(self, scope: Scope) -> bool:
        return scope in self.scopes or ("admin" in self.scopes and scope in _OPERATOR_SCOPES)

    def _require_scope(self, scope: Scope) -> None:
        if not self._covers(scope):
            raise NotAllowed(f"this needs the scope {scope}, which {self.name} does not have", known=True)


def _role_for(scope: Scope, role: OperatorRole) -> OperatorRole:
    return greater_role(SCOPE_ROLES[scope], role) or role


def _needs(role: OperatorRole, arena: str | None, held: OperatorRole | None) -> str:
    where = "for the installation" if arena is None else f"in the arena {arena}"
    has = "you have no role there" if held is None else f"your role there is {held}"
    return f"this needs the role {role} {where}; {has}"


def operator_actor(session: OperatorSession) -> Actor:
    """An operator who is signed in. It may do what its roles allow, and never judge."""
    name = f"operator:{session.name}"
    return Actor(name, _OPERATOR_SCOPES, operator=session.operator, session=session, grants=session.grants)


class Actors:
    """Identifies operators and programs, with a cache, in one process."""

    def __init__(
        self, accounts: Accounts, cookies: Cookies, settings: ServingSettings, throttle: SignInThrottle
    ) -> None:
        self.sign_in_throttle = throttle
        self._accounts = accounts
        self._cookies = cookies
        self._second_factor = [role for role in OPERATOR_ROLES if role in settings.second_factor]
        self._by_token: BoundedCache[str, Actor] = BoundedCache(
            _CACHED_ENTRY_LIMIT, seconds=ACTOR_CACHE_SECONDS
        )

    def forget(self) -> None:
        """Clear the cache, because something was revoked."""
        self._by_token.clear()

    async def find(self, request: Request) -> Actor | None:
        """The signed-in identity. An invalid token is rejected; an invalid cookie is ignored."""
        stated = request.headers.get("authorization")
        if stated is not None:
            return await self._bearer(stated)
        token = self.operator_token(request)
        session = None if token is None else await self._accounts.signed_in(token)
        return None if session is None else operator_actor(session)

    def operator_token(self, request: HTTPConnection) -> str | None:
        """The token in an operator's cookie, if its signature is valid."""
        return self._cookies.token(request, OPERATOR_COOKIE)

    def attempt_sign_in(self, request: Request) -> AbstractAsyncContextManager[None]:
        """For an operator's attempt to sign in, which is made inside this block; a failed one must raise `NotAllowed`."""
        known = self.operator_token(request) is not None
        return self.sign_in_throttle.sign_in_attempt(client_address(request), known=known)

    def lacks_second_factor(self, actor: Actor) -> bool:
        """Whether an operator must set up a second factor before anything else."""
        session = actor.session
        if session is None or session.second_factor or session.external:
            return False
        return any(includes_role(session.grants.greatest, role) for role in self._second_factor)

    async def _bearer(self, stated: str) -> Actor:
        """The actor of a token. A token of an operator is looked up each time: it ends with the operator's rights."""
        scheme, _, token = stated.partition(" ")
        token = token.strip()
        known = self._by_token.get(f"token {token}")
        if known is not None and scheme.lower() == "bearer":
            return known
        found = None
        if scheme.lower() == "bearer" and token.isascii() and 0 < len(token) <= 200:
            found = await self._accounts.find_token(token)
        if found is None:
            raise NotAllowed("the token is unknown, revoked or expired; ask the operator for another")
        record = found.token
        actor = Actor(
            f"token:{record.name}",
            frozenset(record.scopes),
            record.arena,
            record,
            found.operator,
            grants=found.grants,
        )
        if found.operator is None:
            self._by_token.put(f"token {token}", actor)
        return actor
