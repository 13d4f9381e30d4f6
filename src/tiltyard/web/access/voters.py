"""Voters: the sessions in their cookies, how they come in to private arenas, and the gate of open ones."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import secrets
import time
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import parse_qs

from fastapi import Request
from starlette.requests import HTTPConnection

from tiltyard.arena.accounts import Accounts, GateResult, new_session_number, session_number_from
from tiltyard.arena.log.event_log import HUMAN
from tiltyard.arena.operators.invitations import EntryGrant, LiveInvitations
from tiltyard.arena.operators.people import Person
from tiltyard.arena.secret_keys import SecretKeys
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.arena.voting.voting_queue import VotingQueue
from tiltyard.core.integrity.vote_groups import VoterOrigin
from tiltyard.errors import NotAdmitted, NotFound, ProofNeeded
from tiltyard.foundation.caches import BoundedCache
from tiltyard.foundation.telemetry import GATE_RESULTS, SESSIONS
from tiltyard.settings.arena_settings import ArenaSettings
from tiltyard.web.access.cookies import (
    ENTRY_COOKIE_LIFETIME,
    VOTER_COOKIE,
    VOTER_COOKIE_LIFETIME,
    Cookies,
    entry_cookie,
    make_entry_token,
    make_voter_token,
    primary_language,
    read_entry_token,
    read_voter_token,
)
from tiltyard.web.access.identities import Identities
from tiltyard.web.access.rate_limits import VoterLimits, client_address
from tiltyard.wire.voting import ALGORITHM, GateAnswer, GateChallenge

#: Seconds for which a cookie whose signature was verified is believed.
_COOKIE_CACHE_SECONDS = 60.0
_CACHED_ENTRY_LIMIT = 50_000
#: Numbers of arenas are shorter.
_NUMBER_CHARACTERS = 10
#: What is kept of the hash of a voter's network.
_NETWORK_BYTES = 2

_REQUIRED = {
    "invitation": "this arena is private; open the invitation link that you were sent",
    "passcode": "this arena is private; open one of its pages in a browser and enter the passcode",
    "sign-in": "this arena is private; open one of its pages in a browser and sign in",
    "group": "this arena is private; you are signed in, but in none of the groups that may come in",
}


class EntryGrants:
    """Writes the cookies of those who come in to an arena, and checks them."""

    def __init__(self, live: LiveInvitations, cookies: Cookies, shard: int, identities: Identities) -> None:
        self._live = live
        self._identities = identities
        self._cookies = cookies
        self._shard = shard

    def forget(self) -> None:
        """Clear the cache, because an invitation was revoked."""
        self._live.forget()

    async def admit(self, request: HTTPConnection, arena: int, settings: ArenaSettings) -> bool:
        """Whether this browser may come in to an arena that is not closed."""
        return settings.entry == "open" or await self.admitted(request, arena, settings) is not None

    async def admitted(self, request: HTTPConnection, arena: int, settings: ArenaSettings) -> Voter | None:
        """The voter whom an arena that is not closed let in: signed in, by an invitation, or with the passcode.

        Whatever other cookies the browser has or has not, it is the same one. An invitation counts in open arenas, too.
        """
        if settings.entry == "sign-in":
            person = await self.person(request)
            inside = person is not None and settings.admits_groups(person.groups)
            return Voter(person.session, HUMAN, trusted=True) if person is not None and inside else None
        grant = self.grant(request, arena)
        if grant is None or not grant.session:
            return None
        reach = await self._live.admit(arena, settings.entry, grant)
        return None if reach is None else Voter(grant.session, HUMAN, trusted=reach == "one")

    def cookies(self, request: HTTPConnection) -> list[str]:
        """The names of the cookies of all grants of this browser, of whatever arena."""
        return self._cookies.names(request, entry_cookie(self._shard, ""))

    def arenas(self, request: HTTPConnection) -> tuple[int, ...]:
        """The arenas of the grants that this browser says to have; they are not verified."""
        beginning = entry_cookie(self._shard, "")
        numbers = [name.removeprefix(beginning) for name in self.cookies(request)]
        return tuple(int(one) for one in numbers if one.isdecimal() and len(one) < _NUMBER_CHARACTERS)

    def sessions(self, request: HTTPConnection) -> list[int]:
        """The sessions of all grants of this browser. They may have been revoked."""
        tokens = [self._cookies.token(request, name) for name in self.cookies(request)]
        grants = [read_entry_token(token, time.time()) for token in tokens if token is not None]
        return [grant.session for grant in grants if grant is not None and grant.session]

    def grant(self, request: HTTPConnection, arena: int) -> EntryGrant | None:
        """What this browser was let in by, if its cookie is genuine. It may have been revoked since."""
        token = self._cookies.token(request, entry_cookie(self._shard, arena))
        return None if token is None else read_entry_token(token, time.time())

    async def person(self, request: HTTPConnection) -> Person | None:
        """The person who is signed in, if any."""
        return await self._identities.person(request)

    async def refusal(
        self, request: HTTPConnection, arena: str, settings: ArenaSettings
    ) -> NotAdmitted | NotFound:
        """The error for whoever has not come in to a private arena; a hidden one looks as if it did not exist."""
        if settings.hidden:
            return NotFound.arena(arena)
        entry: str = settings.entry
        if entry == "sign-in" and await self.person(request) is not None:
            entry = "group"
        return NotAdmitted(_REQUIRED[entry], arena=arena, entry=entry)

    def cookie(self, arena: int, grant: EntryGrant) -> str:
        """The ``Set-Cookie`` header for a browser that came in."""
        token = make_entry_token(grant)
        return self._cookies.header(entry_cookie(self._shard, arena), token, ENTRY_COOKIE_LIFETIME)


class VoterSessions:
    """The sessions in voters' cookies."""

    def __init__(self, cookies: Cookies) -> None:
        self.cookies = cookies
        #: Voters by cookie, and what came of the gate; saves the verification.
        self._known: BoundedCache[str, tuple[Voter, GateResult]] = BoundedCache(
            _CACHED_ENTRY_LIMIT, seconds=_COOKIE_CACHE_SECONDS
        )

    def find(self, request: HTTPConnection) -> tuple[Voter, GateResult] | None:
        """The voter and what came of the gate, if the cookie's signature is valid. It may have been revoked."""
        cookie = self.cookies.read(request, VOTER_COOKIE)
        known = None if cookie is None else self._known.get(cookie)
        if cookie is None or known is not None:
            return known
        token = self.cookies.unseal(VOTER_COOKIE, cookie)
        found = None if token is None else read_voter_token(token, time.time())
        return None if found is None else self._known.put(cookie, (Voter(found[0], HUMAN), found[1]))

    def header(self, session: int, gate: GateResult = GateResult.NONE) -> str:
        """The ``Set-Cookie`` header of a session that begins in this browser."""
        token = make_voter_token(session, time.time(), gate)
        return self.cookies.header(VOTER_COOKIE, token, VOTER_COOKIE_LIFETIME)


class VoterGate:
    """Begins the sessions of voters. New ones of an open arena on a public address must prove work first."""

    def __init__(
        self,
        accounts: Accounts,
        keys: SecretKeys,
        sessions: VoterSessions,
        limits: VoterLimits,
    ) -> None:
        self._accounts = accounts
        self._keys = keys
        self._sessions = sessions
        self._limits = limits
        self._proofs = GateProofs(keys)

    def needs_proof(self, request: Request, queue: VotingQueue, voter: Voter | None) -> bool:
        """Whether a voter must send a proof before the next matchup: not again, and no judge, nor whoever was invited."""
        if voter is None or not queue.settings.is_gated:
            return queue.settings.is_gated
        known = self._sessions.find(request)
        return known is not None and known[0].session == voter.session and known[1] == GateResult.NONE

    def require_passed(self, request: Request, queue: VotingQueue, voter: Voter) -> None:
        """Raise `ProofNeeded` if a voter must send a proof before the next matchup."""
        if self.needs_proof(request, queue, voter):
            raise _proof_needed(queue)

    async def challenge(self, request: Request, queue: VotingQueue, voter: Voter | None) -> GateAnswer:
        """What a voter must do before the next matchup."""
        if not self.needs_proof(request, queue, voter):
            return GateAnswer("none", None)
        hard = await self._limits.is_crowded(request)
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
        if self.needs_proof(request, queue, voter):
            gate, session = await self._pass_gate(request, queue, voter)
        elif voter is not None:
            return voter, None
        if voter is None:
            await self._limits.admit_session(request, queue)
            SESSIONS.record()
        if gate != GateResult.NONE:
            await self._accounts.keep_gate(session, gate, self.origin(request))
        return Voter(session, HUMAN), self._sessions.header(session, gate)

    async def _pass_gate(
        self, request: Request, queue: VotingQueue, voter: Voter | None
    ) -> tuple[GateResult, int]:
        """What came of the gate, and the number of the session; `ProofNeeded` without a valid proof."""
        # Whoever plants a proof plants a session: its cookie is the host's own, as others are.
        proof = request.headers.get(PROOF_HEADER) or self._sessions.cookies.read(request, PROOF_COOKIE)
        if proof is None:
            GATE_RESULTS.record(1.0, "asked")
            raise _proof_needed(queue)
        if proof == UNAVAILABLE_PROOF:
            await self._limits.admit_unproved(request, queue)
            GATE_RESULTS.record(1.0, "unavailable")
            return GateResult.UNAVAILABLE, new_session_number() if voter is None else voter.session
        checked = self._proofs.check(proof, time.time(), None if voter is None else voter.session)
        if checked.result == "failed" and voter is not None:
            await self._accounts.keep_gate(voter.session, GateResult.FAILED, self.origin(request))
        GATE_RESULTS.record(1.0, "asked" if checked.result == "old" else checked.result)
        if checked.result != "passed":
            raise _proof_needed(queue, f"this proof is {'too old' if checked.result == 'old' else 'wrong'}")
        return GateResult.PASSED, checked.session if voter is None else voter.session

    def origin(self, request: Request) -> VoterOrigin:
        """Some bits of a keyed hash of the network, too few to tell whose it is, and the language of the browser."""
        hashed = self._keys.sign("voter network", client_address(request).encode())
        language = primary_language(request.headers.get("accept-language"))
        return VoterOrigin(int.from_bytes(hashed[:_NETWORK_BYTES]), language)


def _proof_needed(
    queue: VotingQueue, reason: str = "new voters of this arena send a proof of work first"
) -> ProofNeeded:
    return ProofNeeded(
        f"{reason}: open the arena's voting page in a browser with scripts, or come by an invitation; programs "
        f"solve the challenge of GET /api/v1/arenas/{queue.name}/gate and send it in the header Tiltyard-Proof",
        arena=queue.name,
    )


#: Where a proof is sent: by the scripts of our pages, and by programs.
PROOF_COOKIE = "tiltyard_proof"
PROOF_HEADER = "tiltyard-proof"
#: What a browser sends that could compute no proof.
UNAVAILABLE_PROOF = "unavailable"

#: The largest number: half as many hashes are tried on average. A phone tries 100,000 a second or more.
_EASY_NUMBER_LIMIT = 100_000
_HARD_NUMBER_LIMIT = 1_000_000
_LIFETIME_SECONDS = 1200
_NONCE_BYTES = 8
_SESSION_BYTES = 8
_MAX_PROOF_CHARACTERS = 1_000


@dataclass(frozen=True, slots=True)
class ProofCheck:
    """What a proof is worth. An old one is no failure: its challenge may be asked for again."""

    result: Literal["passed", "failed", "old"]
    #: The session that begins with it, if none was there.
    session: int = 0


class GateProofs:
    """Makes challenges and checks proofs."""

    def __init__(self, keys: SecretKeys) -> None:
        self._keys = keys

    def challenge(self, now: float, session: int | None = None, *, hard: bool = False) -> GateChallenge:
        """A new challenge. With a session that there is already, its proof is worth something for that one only."""
        most = _HARD_NUMBER_LIMIT if hard else _EASY_NUMBER_LIMIT
        bound = "" if session is None else f"session={self._session_hash(session)}&"
        # The salt ends with a delimiter: otherwise digits of the number could be read as digits of the time.
        salt = f"{secrets.token_hex(_NONCE_BYTES)}?expires={int(now) + _LIFETIME_SECONDS}&{bound}"
        found = _hashed(salt, secrets.randbelow(most + 1))
        return GateChallenge(
            algorithm=ALGORITHM,
            challenge=found,
            maxnumber=most,
            salt=salt,
            signature=self._keys.sign("gate challenge", found.encode()).hex(),
        )

    def check(self, text: str, now: float, session: int | None = None) -> ProofCheck:
        """What a proof is worth for a session, or for a new one."""
        proof = _read(text)
        if proof is None:
            return ProofCheck("failed")
        salt, number, challenge, signature = proof
        signed = self._keys.verify("gate challenge", challenge.encode(), signature, shortest=32)
        if not signed or _hashed(salt, number) != challenge:
            return ProofCheck("failed")
        stated = parse_qs(salt.partition("?")[2])
        if now >= int(stated["expires"][0]):
            return ProofCheck("old")
        expected = None if session is None else [self._session_hash(session)]
        if stated.get("session") != expected:
            # The session has changed since the challenge was made.
            return ProofCheck("old")
        return ProofCheck("passed", session_number_from(self._keys.sign("gate session", challenge.encode())))

    def _session_hash(self, session: int) -> str:
        return self._keys.sign("gate of a session", str(session).encode())[:_SESSION_BYTES].hex()


def _hashed(salt: str, number: int) -> str:
    return hashlib.sha256(f"{salt}{number}".encode()).hexdigest()


def _read(text: str) -> tuple[str, int, str, bytes] | None:
    """Salt, number, challenge and signature of a proof; ``None`` if it is none."""
    if len(text) > _MAX_PROOF_CHARACTERS or not text.isascii():
        return None
    try:
        found: Any = json.loads(base64.b64decode(text, validate=True))
        salt, number, challenge = found["salt"], found["number"], found["challenge"]
        signature = bytes.fromhex(found["signature"])
    except (ValueError, binascii.Error, KeyError, TypeError, RecursionError):
        return None
    whole = isinstance(number, int) and 0 <= number <= _HARD_NUMBER_LIMIT
    texts = isinstance(salt, str) and isinstance(challenge, str)
    known = whole and texts and salt.isascii() and challenge.isascii() and found.get("algorithm") == ALGORITHM
    return (salt, number, challenge, signature) if known else None
