"""Access control of one process, and the context in which requests find it and what else they share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from typing import TypeVar, cast
from uuid import UUID

from fastapi import Request
from starlette.applications import Starlette

from tiltyard.arena.accounts import Accounts, RevokedSessions, session_number_from
from tiltyard.arena.content.arenas import Arena
from tiltyard.arena.log.event_log import HUMAN, JUDGE
from tiltyard.arena.operators.invitations import LiveInvitations
from tiltyard.arena.operators.service_status import ServiceStatusReader
from tiltyard.arena.processes.shared_limits import NetworkKeys, wider_networks
from tiltyard.arena.registry import ArenaRegistry
from tiltyard.arena.secret_keys import SecretKeys
from tiltyard.arena.voting.matchup_ids import MatchupIds
from tiltyard.arena.voting.personal_boards import PersonalBoards
from tiltyard.arena.voting.response_kinds import ResponseKinds
from tiltyard.arena.voting.sent_responses import Receipts
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.arena.voting.voting_queue import VotingQueue
from tiltyard.foundation.caches import BoundedCache
from tiltyard.settings.serving_settings import QuotaKind, ServingSettings
from tiltyard.web.access.actors import ACTOR_CACHE_SECONDS, Actor, Actors
from tiltyard.web.access.cookies import VOTER_COOKIE_LIFETIME, Cookies, SkillCookies
from tiltyard.web.access.identities import Identities
from tiltyard.web.access.rate_limits import SignInThrottle, VoterLimits, client_address
from tiltyard.web.access.voters import EntryGrants, VoterGate, VoterSessions

_CACHED_JUDGE_LIMIT = 50_000
#: Wrong attempts of one address in ten minutes, in all processes: passwords of operators; passcodes and links of voters,
#: of whom a lecture hall may be full.
_WRONG_SIGN_IN_LIMIT = 100
_WRONG_ENTRY_LIMIT = 1_000


class Access:
    """Finds the voter of a request. Its parts know operators and programs, entry, skills, sessions and the gate."""

    def __init__(
        self,
        accounts: Accounts,
        live: LiveInvitations,
        keys: SecretKeys,
        settings: ServingSettings,
        identities: Identities,
        limits: VoterLimits,
    ) -> None:
        self.accounts = accounts
        self.keys = keys
        #: How often voters may do something.
        self.limits = limits
        self.cookies = Cookies(keys, secure=settings.secure)
        #: Who is signed in as a person.
        self.identities = identities
        # Whoever guesses passcodes does not keep operators waiting.
        self.entry_throttle = SignInThrottle("entries", _WRONG_ENTRY_LIMIT, limits.shared)
        throttle = SignInThrottle("sign-ins", _WRONG_SIGN_IN_LIMIT, limits.shared)
        self.actors = Actors(accounts, self.cookies, settings, throttle)
        self.entry = EntryGrants(live, self.cookies, settings.shard, identities)
        self.skills = SkillCookies(self.cookies, settings.shard)
        self.sessions = VoterSessions(self.cookies)
        self.gate = VoterGate(accounts, keys, self.sessions, limits)
        self._network_keys = NetworkKeys()
        self._revoked = RevokedSessions(accounts, VOTER_COOKIE_LIFETIME)
        self._judges: BoundedCache[str, Voter] = BoundedCache(
            _CACHED_JUDGE_LIMIT, seconds=ACTOR_CACHE_SECONDS
        )

    def forget(self) -> None:
        """Clear the caches, because something was revoked."""
        self._revoked.forget()
        self.entry.forget()
        self.identities.forget()
        self.actors.forget()
        self._judges.clear()

    async def voter(self, request: Request, queue: VotingQueue) -> Voter | None:
        """The voter, who may vote in the arena: a judge by its token, else a person; ``None`` if there is no session yet.

        Anyone may vote in an open arena, and whoever was let in in a private one. A token votes as a judge, or not at all.
        """
        if "authorization" in request.headers:
            actor = await self.actors.find(request)
            assert actor is not None
            return await self._judge(request, actor, queue)
        voter = await self.person(request, queue)
        if voter is None and not queue.settings.public:
            raise await self.entry.refusal(request, queue.name, queue.settings)
        return voter

    async def person(self, request: Request, place: VotingQueue | Arena) -> Voter | None:
        """The person of a request, as a voter of an arena, by what let them in; ``None`` without a session.

        A private arena lets in by sign-in, invitation or passcode, or because the operator has a role in it; an open one
        by the gate, whose proof begins the session in the voter's cookie.
        """
        settings = place.settings
        if not settings.hidden:
            admitted = await self.entry.admitted(request, place.arena, settings)
            if admitted is not None and not await self._revoked.has(admitted.session):
                return admitted
        if settings.public:
            known = self.sessions.find(request)
            return None if known is None or await self._revoked.has(known[0].session) else known[0]
        actor = None if "authorization" in request.headers else await self.actors.find(request)
        if actor is None or not actor.may("read", place.name):
            return None
        digest = self.keys.sign("session of an operator", str(actor.operator).encode())
        return Voter(session_number_from(digest), HUMAN, trusted=True)

    async def sessions_of(self, request: Request) -> list[int]:
        """The numbers of whoever asks: of this browser, of each arena that let it in, and of who is signed in."""
        person = await self.entry.person(request)
        known = self.sessions.find(request)
        found = [] if known is None else [known[0].session]
        found += [*self.entry.sessions(request), *([] if person is None else [person.session])]
        return [one for one in dict.fromkeys(found) if not await self._revoked.has(one)]

    async def may_have_voted(self, request: Request) -> bool:
        """Whether a request could be that of a voter of some arena; a token that is not valid is refused."""
        if "authorization" in request.headers:
            return await self.actors.find(request) is not None
        return self.actors.operator_token(request) is not None or bool(await self.sessions_of(request))

    async def _judge(self, request: Request, actor: Actor, queue: VotingQueue) -> Voter:
        """The voter of a token with the scope judge. Without access to the arena, it looks as for anybody else."""
        if not (queue.settings.public or actor.may("judge", queue.name) or actor.may("read", queue.name)):
            raise await self.entry.refusal(request, queue.name, queue.settings)
        actor.require("judge", queue.name)
        assert actor.token is not None
        key = str(actor.token.api_token)
        judge = self._judges.get(key)
        if judge is None:
            judge = self._judges.put(key, Voter(await self.accounts.judge_session(actor.token), JUDGE))
        return judge

    def quota(self, kind: QuotaKind, arena: int) -> AbstractAsyncContextManager[None]:
        """For what is kept of an arena, inside this block; `Busy` if it is too much within an hour."""
        return self.limits.quota(kind, arena)

    async def with_payers(self, request: Request, queue: VotingQueue, voter: Voter) -> Voter:
        """The voter with the accounts on which live battles are counted, so that a deleted cookie renews no budget.

        Whoever is signed in or used an invitation has one session, which stays. Otherwise the network is an account, as a
        hash with the key of the day, and so are those around an IPv6 network.
        """
        if queue.settings.entry in {"sign-in", "invitation"}:
            return voter
        own, pool = client_address(request), self.accounts.pool
        digests = [
            await self._network_keys.hash_of(pool, f"network {queue.arena} {one}")
            for one in (own, *wider_networks(own).values())
        ]
        return replace(voter, payers=tuple(map(session_number_from, digests)))


Shared = TypeVar("Shared")


@dataclass(frozen=True, slots=True)
class Context:
    """The objects that all requests share. What only some pages share is made by them: see `shared`."""

    registry: ArenaRegistry
    matchup_ids: MatchupIds
    access: Access
    response_kinds: ResponseKinds
    service_status: ServiceStatusReader
    personal_boards: PersonalBoards
    receipts: Receipts
    #: Streams of live battles that are open, by battle.
    live_readers: Counter[UUID] = field(default_factory=Counter)
    _shared: dict[type[object], object] = field(default_factory=dict)

    def shared(self, kind: type[Shared], make: Callable[[], Shared]) -> Shared:
        """The one object of a class in this process, made when it is first asked for."""
        if kind not in self._shared:
            self._shared[kind] = make()
        return cast("Shared", self._shared[kind])


def put_context(app: Starlette, context: Context) -> None:
    """Attach the context to an application; read it with `app_context`."""
    app.state.context = context


def app_context(app: Starlette) -> Context:
    context: Context = app.state.context
    return context


def context_of(request: Request) -> Context:
    """The context of a request's application."""
    return app_context(request.app)


def registry_of(request: Request) -> ArenaRegistry:
    return context_of(request).registry


def access_of(request: Request) -> Access:
    """The access control of this process."""
    return context_of(request).access


def keys_of(request: Request) -> SecretKeys:
    return access_of(request).keys
