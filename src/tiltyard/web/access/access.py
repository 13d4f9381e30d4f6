"""Authentication and authorization: voters and operators by cookie, programs by token."""

from __future__ import annotations

import time
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends, Request
from fastapi.security import APIKeyCookie, HTTPBearer
from starlette.requests import HTTPConnection

from tiltyard.arena.accounts import (
    SCOPES,
    Accounts,
    GateResult,
    OperatorSession,
    RevokedSessions,
    SessionOrigin,
    hash_token,
    new_session_number,
    session_number_from,
)
from tiltyard.arena.log.event_log import HUMAN, JUDGE
from tiltyard.arena.operator_roles import (
    OPERATOR_ROLES,
    SCOPE_ROLES,
    OperatorGrants,
    OperatorRole,
    greater_role,
    includes_role,
)
from tiltyard.arena.operators.invitations import LiveInvitations
from tiltyard.arena.processes.network_keys import NetworkKeys
from tiltyard.arena.secret_keys import SecretKeys
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.arena.voting.voting_queue import VotingQueue
from tiltyard.caches import BoundedCache
from tiltyard.core.integrity.vote_groups import VoterOrigin
from tiltyard.errors import NotAllowed, NotFound, ProofNeeded, RoleMissing, SecondFactorMissing
from tiltyard.instruments import GATE_RESULTS, SESSIONS
from tiltyard.settings.arena_settings import ArenaSettings, Entry
from tiltyard.settings.minute_limits import QuotaKind
from tiltyard.settings.serving_settings import ServingSettings
from tiltyard.web.access.context import context_of
from tiltyard.web.access.cookies import (
    OPERATOR_COOKIE,
    VOTER_COOKIE,
    VOTER_COOKIE_LIFETIME,
    Cookies,
    SkillCookies,
    make_voter_token,
    primary_language,
    read_cookie,
    read_voter_token,
)
from tiltyard.web.access.entry_grants import EntryGrants
from tiltyard.web.access.gate_proofs import PROOF_COOKIE, PROOF_HEADER, UNAVAILABLE_PROOF, GateProofs
from tiltyard.web.access.identities import Identities
from tiltyard.web.access.rate_limits import VoterLimits, client_address, entry_throttle, sign_in_throttle
from tiltyard.web.access.route_roles import RouteNeed, route_need
from tiltyard.wire.gate import GateAnswer
from tiltyard.wire.operators import Token
from tiltyard.wire.vocabulary import Scope

if TYPE_CHECKING:
    from tiltyard.arena.registry import ArenaRegistry

#: Cache lifetimes in seconds: of a cookie whose signature was verified, and of an operator or a token.
_COOKIE_CACHE_SECONDS = 60.0
_ACTOR_CACHE_SECONDS = 5.0
_SEEN_TOKEN_SECONDS = 600.0
_CACHED_ENTRY_LIMIT = 50_000
#: What is kept of the hash of a voter's network.
_NETWORK_BYTES = 2
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
            raise NotFound("no such arena; see the list of arenas")
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


class Access:
    """Identifies voters, operators and tokens, with caches, in one process."""

    def __init__(
        self,
        accounts: Accounts,
        live: LiveInvitations,
        keys: SecretKeys,
        settings: ServingSettings,
        identities: Identities | None = None,
        limits: VoterLimits | None = None,
    ) -> None:
        self.accounts = accounts
        self.keys = keys
        #: How often voters may do something; ``None`` for no limits.
        self.limits = limits
        self._proofs = GateProofs(keys)
        self._public_address = settings.has_public_address
        self._second_factor = [role for role in OPERATOR_ROLES if role in settings.second_factor]
        self.cookies = Cookies(keys, secure=settings.secure)
        #: Who is signed in as a person; ``None`` if nobody can be.
        self.identities = identities
        self.entry = EntryGrants(live, self.cookies, settings.shard, identities)
        self.skills = SkillCookies(self.cookies, settings.shard)
        shared = None if limits is None else limits.shared
        self.sign_in_throttle = sign_in_throttle(shared)
        self.entry_throttle = entry_throttle(shared)
        self._network_keys = NetworkKeys()
        #: Voters by cookie, and what came of the gate; saves the verification.
        self._voters: BoundedCache[str, tuple[Voter, GateResult]] = BoundedCache(
            _CACHED_ENTRY_LIMIT, seconds=_COOKIE_CACHE_SECONDS
        )
        self._revoked = RevokedSessions(accounts, VOTER_COOKIE_LIFETIME)
        self._actors: BoundedCache[str, Actor] = BoundedCache(
            _CACHED_ENTRY_LIMIT, seconds=_ACTOR_CACHE_SECONDS
        )
        self._judges: BoundedCache[str, Voter] = BoundedCache(
            _CACHED_ENTRY_LIMIT, seconds=_ACTOR_CACHE_SECONDS
        )
        #: Hashes of tokens that were valid lately.
        self._seen_tokens: BoundedCache[bytes, bool] = BoundedCache(
            _CACHED_ENTRY_LIMIT, seconds=_SEEN_TOKEN_SECONDS
        )

    def forget(self) -> None:
        """Clear the caches, because something was revoked."""
        self._revoked.forget()
        self.entry.forget()
        if self.identities is not None:
            self.identities.forget()
        self._actors.clear()
        self._judges.clear()

    async def actor(self, request: Request) -> Actor | None:
        """The signed-in identity. An invalid token is rejected; an invalid cookie is ignored."""
        stated = request.headers.get("authorization")
        if stated is not None:
            return await self._bearer(stated)
        token = self.operator_token(request)
        session = None if token is None else await self.accounts.signed_in(token)
        return None if session is None else self.operator(session)

    def operator_token(self, request: HTTPConnection) -> str | None:
        """The token in an operator's cookie, if its signature is valid."""
        cookie = self.cookies.read(request, OPERATOR_COOKIE)
        return None if cookie is None else self.cookies.unseal(OPERATOR_COOKIE, cookie)

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

    @staticmethod
    def operator(session: OperatorSession) -> Actor:
        """An operator who is signed in. It may do what its roles allow, and never judge."""
        name = f"operator:{session.name}"
        return Actor(
            name, _OPERATOR_SCOPES, operator=session.operator, session=session, grants=session.grants
        )

    async def _bearer(self, stated: str) -> Actor:
        """The actor of a token. A token of an operator is looked up each time: it ends with the operator's rights."""
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
        self._seen_tokens.put(hash_token(token), True)
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
            self._actors.put(f"token {token}", actor)
        return actor

    async def voter(
        self, request: Request, queue: VotingQueue | None = None, *, entry: Entry | None = None
    ) -> Voter | None:
        """The voter: a judge by its token, else a person by cookie; ``None`` if there is no session yet.

        With a queue, also check that they may vote in its arena. If people sign in to the arena (``entry``), whoever is
        signed in is the same voter with any browser.
        """
        entry = entry if queue is None else queue.settings.entry
        actor = None
        if "authorization" in request.headers or (queue is not None and not queue.settings.public):
            actor = await self.actor(request)
        if queue is not None:
            await self._check_may_vote(request, actor, queue)
        if actor is not None and actor.token is not None and "judge" in actor.scopes:
            return await self._judge(actor.token)
        if entry == "sign-in":
            person = await self.entry.person(request)
            if person is not None:
                return Voter(person.session, HUMAN)
        known = self._of_cookie(request)
        return None if known is None or await self._revoked.has(known[0].session) else known[0]

    def _of_cookie(self, request: HTTPConnection) -> tuple[Voter, GateResult] | None:
        """The voter of a request's cookie and what came of the gate, if the cookie's signature is valid."""
        cookie = self.cookies.read(request, VOTER_COOKIE)
        return None if cookie is None else self._voters.get(cookie) or self._verified(cookie)

    def _verified(self, cookie: str) -> tuple[Voter, GateResult] | None:
        token = self.cookies.unseal(VOTER_COOKIE, cookie)
        found = None if token is None else read_voter_token(token, time.time())
        return None if found is None else self._voters.put(cookie, (Voter(found[0], HUMAN), found[1]))

    def session_of(self, request: HTTPConnection) -> int | None:
        """The number of the session in a request's cookie, which may have been revoked."""
        known = self._of_cookie(request)
        return None if known is None else known[0].session

    def recognizes(self, request: HTTPConnection) -> bool:
        """Whether a request without a session comes from somebody who was here before, as far as signatures tell."""
        stated = request.headers.get("authorization")
        if stated is not None:
            return self._seen_tokens.get(hash_token(stated.partition(" ")[2].strip())) is not None
        proof = self._proof_of(request)
        if proof is not None and proof != UNAVAILABLE_PROOF:
            return self._proofs.check(proof, time.time()).result == "passed"
        if self.operator_token(request) is not None:
            return True
        return self.identities is not None and self.identities.recognizes(request)

    @staticmethod
    def _proof_of(request: HTTPConnection) -> str | None:
        return request.headers.get(PROOF_HEADER) or read_cookie(request, PROOF_COOKIE)

    async def _check_may_vote(self, request: Request, actor: Actor | None, queue: VotingQueue) -> None:
        """Anyone may vote in an open arena. A closed one requires the scope judge or read; a private one that or entry."""
        if actor is not None and (actor.may("judge", queue.name) or actor.may("read", queue.name)):
            return
        if queue.settings.hidden:
            raise NotFound("no such arena; see the list of arenas")
        if not await self.entry.admit(request, queue.arena, queue.settings):
            raise await self.entry.refusal(request, queue.name, queue.settings)
        if actor is not None:
            self._require_voting_scope(actor, queue.name)

    @staticmethod
    def _require_voting_scope(actor: Actor, arena: str) -> None:
        """A program must have been given the scope; an operator without a role in the arena votes like anybody."""
        if actor.session is None:
            actor.require("judge" if "judge" in actor.scopes else "read", arena)

    def quota(self, kind: QuotaKind, arena: int) -> AbstractAsyncContextManager[None]:
        """For what is kept of an arena, inside this block; `Busy` if it is too much within an hour."""
        return nullcontext() if self.limits is None else self.limits.quota(kind, arena)

    def is_gated(self, settings: ArenaSettings) -> bool:
        """Whether new voters of an arena must pass the gate."""
        return settings.is_gated(on_public_address=self._public_address)

    async def needs_proof(self, request: Request, queue: VotingQueue, voter: Voter | None) -> bool:
        """Whether a voter must send a proof before the next matchup. Who has passed once needs none again."""
        if not self.is_gated(queue.settings) or "authorization" in request.headers:
            return False
        if voter is not None:
            known = self._of_cookie(request)
            if known is not None and known[0].session == voter.session and known[1] != GateResult.NONE:
                return False
        return not await self.entry.is_known(request, queue.arena)

    async def require_passed(self, request: Request, queue: VotingQueue, voter: Voter) -> None:
        """Raise `ProofNeeded` if a voter must send a proof before the next matchup."""
        if await self.needs_proof(request, queue, voter):
            raise _proof_needed(queue)

    async def challenge(self, request: Request, queue: VotingQueue, voter: Voter | None) -> GateAnswer:
        """What a voter must do before the next matchup."""
        if not await self.needs_proof(request, queue, voter):
            return GateAnswer("none")
        hard = self.limits is not None and await self.limits.is_crowded(request)
        session = None if voter is None else voter.session
        return GateAnswer("proof", self._proofs.challenge(time.time(), session, hard=hard))

    async def begin(
        self, request: Request, queue: VotingQueue, voter: Voter | None
    ) -> tuple[Voter, str | None]:
        """The voter who asks for a matchup, and the cookie to be set, if a session begins or passes the gate now.

        Raises `ProofNeeded` before the gate, and `Busy` if there are too many new sessions.
        """
        gate = GateResult.NONE
        session = new_session_number() if voter is None else voter.session
        if await self.needs_proof(request, queue, voter):
            gate, session = await self._pass_gate(request, queue, voter)
        elif voter is not None:
            return voter, self._renewed(request, voter)
        if voter is None:
            if self.limits is not None:
                known = queue.settings.entry != "open" or await self.entry.is_known(request, queue.arena)
                await self.limits.admit_session(request, queue, known=known)
            SESSIONS.record()
        if gate != GateResult.NONE:
            await self.accounts.keep_gate(session, gate, self._origin(request))
        token = make_voter_token(session, time.time(), gate)
        return Voter(session, HUMAN), self.cookies.header(VOTER_COOKIE, token, VOTER_COOKIE_LIFETIME)

    def _renewed(self, request: HTTPConnection, voter: Voter) -> str | None:
        """The cookie of a session under the name that it has now, if the browser has it under an earlier one."""
        if not self.cookies.is_outdated(request, VOTER_COOKIE) or self.session_of(request) != voter.session:
            return None
        token = self.cookies.unseal(VOTER_COOKIE, self.cookies.read(request, VOTER_COOKIE) or "")
        return None if token is None else self.cookies.header(VOTER_COOKIE, token, VOTER_COOKIE_LIFETIME)

    async def _pass_gate(
        self, request: Request, queue: VotingQueue, voter: Voter | None
    ) -> tuple[GateResult, int]:
        """What came of the gate, and the number of the session; `ProofNeeded` without a valid proof."""
        proof = self._proof_of(request)
        if proof is None:
            GATE_RESULTS.record(1.0, "asked")
            raise _proof_needed(queue)
        if proof == UNAVAILABLE_PROOF:
            if self.limits is not None:
                await self.limits.admit_unproved(request, queue)
            GATE_RESULTS.record(1.0, "unavailable")
            return GateResult.UNAVAILABLE, new_session_number() if voter is None else voter.session
        checked = self._proofs.check(proof, time.time(), None if voter is None else voter.session)
        if checked.result == "failed" and voter is not None:
            await self.accounts.keep_gate(voter.session, GateResult.FAILED, self._origin(request))
        GATE_RESULTS.record(1.0, "asked" if checked.result == "old" else checked.result)
        if checked.result != "passed":
            raise _proof_needed(queue, f"this proof is {'too old' if checked.result == 'old' else 'wrong'}")
        return GateResult.PASSED, checked.session if voter is None else voter.session

    def _origin(self, request: Request) -> VoterOrigin:
        """Some bits of a keyed hash of the network, too few to tell whose it is, and the language of the browser."""
        hashed = self.keys.sign("voter network", client_address(request).encode())
        language = primary_language(request.headers.get("accept-language"))
        return VoterOrigin(int.from_bytes(hashed[:_NETWORK_BYTES]), language)

    async def with_payers(self, request: Request, queue: VotingQueue, voter: Voter) -> Voter:
        """The voter with the accounts on which live battles are counted, so that a deleted cookie renews no budget.

        Whoever is signed in has one session everywhere. Otherwise the use of an invitation is an account, or else the
        network; as a hash with the key of the day.
        """
        entry, arena = queue.settings.entry, queue.arena
        if entry == "sign-in" and await self.entry.person(request) is not None:
            return voter
        grant = self.entry.grant(request, arena) if entry == "invitation" else None
        if grant is not None and grant.use:
            payer = f"invitation {arena} {grant.invitation} {grant.use}"
        else:
            payer = f"network {arena} {client_address(request)}"
        digest = await self._network_keys.hash_of(registry_of(request).pool, payer)
        return replace(voter, payers=(session_number_from(digest),))

    def rater_cookie(self, session: int) -> str:
        """The ``Set-Cookie`` header for a browser in which a rater of an expert panel votes from now on."""
        token = make_voter_token(session, time.time())
        return self.cookies.header(VOTER_COOKIE, token, VOTER_COOKIE_LIFETIME)

    async def _judge(self, token: Token) -> Voter:
        key = str(token.api_token)
        known = self._judges.get(key)
        if known is None:
            known = Voter(await self.accounts.judge_session(token), JUDGE)
            self._judges.put(key, known)
        return known


def _proof_needed(
    queue: VotingQueue, reason: str = "new voters of this arena send a proof of work first"
) -> ProofNeeded:
    return ProofNeeded(
        f"{reason}: open the arena's voting page in a browser with scripts, come by an invitation or sign in; programs "
        f"solve the challenge of GET /api/v1/arenas/{queue.name}/gate and send it in the header Tiltyard-Proof",
        arena=queue.name,
    )


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


class ScopeCheck:
    """A dependency that requires a scope and the role of its route; see `tiltyard.web.access.route_roles`."""

    def __init__(self, scope: Scope) -> None:
        assert scope in SCOPES
        self._scope = scope

    async def __call__(self, request: Request, actor: CurrentActor) -> Actor:
        if actor is None:
            raise NotAllowed(f"sign in as an operator, or send a token with the scope {self._scope}")
        await authorize(request, actor, self._scope, route_need(request.method, request.scope["route"].path))
        return actor


def require_scope(scope: Scope) -> ScopeCheck:
    """A dependency that requires this scope, and the role that the table of routes names."""
    return ScopeCheck(scope)


async def authorize(request: Request, actor: Actor, scope: Scope, need: RouteNeed) -> None:
    """Raise unless the actor has the scope and the role that a route needs; the message names who can grant it."""
    if need.where == "own":
        return
    arena = request.path_params.get("arena") if need.where == "arena" else None
    if access_of(request).lacks_second_factor(actor):
        raise SecondFactorMissing(
            "your role needs a second factor; set it up at /operator/account, and then try again"
        )
    try:
        if need.where == "anywhere":
            actor.require_somewhere(scope, need.role)
        else:
            actor.require(scope, arena, need.role)
    except RoleMissing as error:
        owners = ", ".join(await access_of(request).accounts.list_owners(arena))
        raise RoleMissing(f"{error}. An owner can grant it: {owners or 'there is none'}") from None


def origin_of(request: Request) -> SessionOrigin:
    """Where a request comes from, as the list of an operator's sessions shows it."""
    return SessionOrigin(client_address(request), request.headers.get("user-agent", ""))
