"""Accounts: voters' sessions, operators' sign-ins and roles, API tokens, and the audit log of changes.

A voter's session is a random number in a signed cookie. It has a row only if it came to a gate or was revoked. Secrets are shown once and stored as hashes: SHA-256 for random tokens, argon2 for passwords.

Each role may do all that the next one may. A role for the installation holds in every arena.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import IntEnum
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_args

from psycopg import AsyncConnection
from psycopg.types.json import Jsonb

from tiltyard.core.integrity.vote_groups import VoterOrigin
from tiltyard.errors import BadOption, InputError, NotAllowed, NotFound
from tiltyard.foundation.caches import BoundedCache, SingleFlight
from tiltyard.postgres.statements import statement
from tiltyard.wire.records import OperatorRole, Scope

if TYPE_CHECKING:
    from argon2 import PasswordHasher

    from tiltyard.postgres.connections import ConnectionPool


#: From the one that may do everything to the one that may do least.
OPERATOR_ROLES: Final[tuple[OperatorRole, ...]] = get_args(OperatorRole)
#: What each role may do.
ROLE_MEANINGS: Final[Mapping[OperatorRole, str]] = MappingProxyType(
    {
        "owner": "everything, including other operators, deletion and the audit log of the server",
        "operator": "everything in its arenas, except operators and deleting the arena",
        "moderator": "complaints, exclusions, voters, and the audit log of its arenas",
        "analyst": "read and export",
    }
)
#: The least role whose operator's tokens may use each scope; routes may need more.
SCOPE_ROLES: Final[Mapping[Scope, OperatorRole]] = MappingProxyType(
    {"read": "analyst", "metrics": "analyst", "admin": "analyst", "import": "operator", "judge": "operator"}
)


def includes_role(held: OperatorRole | None, needed: OperatorRole) -> bool:
    """Whether somebody who holds a role may do what needs another one."""
    return held is not None and OPERATOR_ROLES.index(held) <= OPERATOR_ROLES.index(needed)


def greater_role(*roles: OperatorRole | None) -> OperatorRole | None:
    """The role that may do most, of those that are held."""
    return min((role for role in roles if role is not None), key=OPERATOR_ROLES.index, default=None)


@dataclass(frozen=True, slots=True)
class OperatorGrants:
    installation: OperatorRole | None = None
    #: By the arena's name.
    arenas: Mapping[str, OperatorRole] = field(default_factory=dict)

    @classmethod
    def of(cls, pairs: Iterable[tuple[str | None, OperatorRole]]) -> OperatorGrants:
        """The grants in pairs of an arena, ``None`` for the installation, and a role."""
        known = dict(pairs)
        return cls(known.get(None), {arena: role for arena, role in known.items() if arena is not None})

    def role_in(self, arena: str | None) -> OperatorRole | None:
        """The role in an arena or, without one, for the installation."""
        return greater_role(self.installation, None if arena is None else self.arenas.get(arena))

    @property
    def greatest(self) -> OperatorRole | None:
        return greater_role(self.installation, *self.arenas.values())

    def allow(self, needed: OperatorRole, arena: str | None) -> bool:
        """Whether they suffice in an arena or, without one, for the installation."""
        return includes_role(self.role_in(arena), needed)


#: Of an owner of the installation, and of tokens that were made on the command line.
ALL_RIGHTS: Final = OperatorGrants("owner")


T = TypeVar("T")


#: Scopes of tokens. ``admin`` includes read, import and metrics, but not judge.
SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
OPERATOR_LINK_LIFETIME = timedelta(hours=1)
OPERATOR_SESSION_LIFETIME = timedelta(days=7)
#: For how long a code of the second factor may be typed after the password.
_CODE_LIFETIME = timedelta(minutes=10)

_TOKEN_PREFIX = "tyt_"  # noqa: S105 - not a secret: lets scanners recognise our tokens
_LINK_USED_MESSAGE = (
    "this link has been used or revoked, or has expired; ask whoever sent it for another, or create one:"
    " tiltyard arena token operator"
)
#: Seconds for which a process relies on the revoked sessions that it has read.
_REVOKED_CACHE_SECONDS = 5.0
#: Smaller numbers are given out in order: to judges, and to voters before sessions were random numbers.
_FIRST_RANDOM_SESSION = 2**32
_MIN_PASSWORD_CHARACTERS, _MAX_PASSWORD_CHARACTERS = 12, 1024
#: What passwords that are guessed first are made of, and how many other and different characters a password has.
_COMMON_IN_PASSWORDS = (
    *("password", "passwort", "passw0rd", "p@ssw0rd", "welcome", "letmein", "iloveyou", "admin", "tiltyard"),
    *(
        "qwertyuiop",
        "qwerty",
        "asdfghjkl",
        "zxcvbnm",
        "abcdefghijkl",
        "1234567890",
        "123456",
        "abc123",
        "111111",
    ),
)
_UNCOMMON_CHARACTERS = 6
#: Threads that hash passwords, and how many steps lower their priority is. Each takes 64 MiB and four threads of its own.
_HASH_THREAD_LIMIT = 1
_LOWER_PRIORITY_COUNT = 15
#: Letters and digits that are not mistaken for others.
_TYPED_ALPHABET: Final = "abcdefghjkmnpqrstuvwxyz23456789"
#: Longer names of browsers are cut.
_MAX_BROWSER_CHARACTERS = 300


class GateResult(IntEnum):
    """What came of the gate for a voter's session, as it is stored."""

    #: The session began where there is no gate.
    NONE = 0
    PASSED = 1
    FAILED = 2
    #: The voter's browser could compute no proof, which says nothing about the voter.
    UNAVAILABLE = 3


@dataclass(frozen=True, slots=True)
class SessionOrigin:
    """Where an operator signs in from, as the list of sessions shows it."""

    address: str = ""
    browser: str = ""


_UNKNOWN_ORIGIN = SessionOrigin()


@dataclass(frozen=True, slots=True)
class OperatorSession:
    operator: int
    name: str
    session: int
    #: Whether a second factor is set up.
    second_factor: bool
    #: Whether it signed in at an identity provider, whose matter a second factor is then.
    external: bool
    grants: OperatorGrants


@dataclass(frozen=True, slots=True)
class Token:
    """What is known of a token for programs."""

    api_token: int
    name: str
    scopes: tuple[str, ...]
    arena: str | None
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    #: The operator whose rights it has; ``None``: made on the command line.
    operator: str | None


@dataclass(frozen=True, slots=True)
class TokenRights:
    """A token that is valid, the number of its operator if it has one, and the roles that it acts with."""

    token: Token
    operator: int | None
    grants: OperatorGrants


def new_session_number() -> int:
    """A random number for a voter's session, of 63 bits. Numbers below 2**32 are left to sessions that have rows."""
    return _FIRST_RANDOM_SESSION + secrets.randbelow(2**63 - _FIRST_RANDOM_SESSION)


def session_number_from(digest: bytes) -> int:
    """The number of a session that is derived from a keyed hash, in the same range."""
    return _FIRST_RANDOM_SESSION + int.from_bytes(digest[:16]) % (2**63 - _FIRST_RANDOM_SESSION)


def random_groups(lengths: Sequence[int]) -> str:
    """Groups of random characters with hyphens between them, for people to type."""
    return "-".join("".join(secrets.choice(_TYPED_ALPHABET) for _ in range(length)) for length in lengths)


def hash_token(token: str) -> bytes:
    """The hash under which a random token is stored."""
    return hashlib.sha256(token.encode()).digest()


async def hash_password(password: str) -> str:
    """The hash under which a password or a passcode is stored."""
    return await _in_background(_hasher().hash, password)


async def password_matches(kept: str | None, password: str) -> bool:
    """Whether a password has this hash. Without a hash, none matches, after the same time."""
    return await _in_background(_matches, _unmatched_hash() if kept is None else kept, password)


async def write_audit_entry(
    connection: AsyncConnection,
    actor: str,
    action: str,
    detail: Mapping[str, object],
    *,
    arena: int | None = None,
) -> None:
    """Add an entry to the audit log, in the connection's current transaction."""
    values = {"arena": arena, "actor": actor, "action": action, "detail": Jsonb(dict(detail))}
    await connection.execute(statement("write_audit"), values)


async def open_operator_session(
    connection: AsyncConnection,
    operator: int,
    origin: SessionOrigin,
    *,
    awaits_code: bool = False,
    life: timedelta = OPERATOR_SESSION_LIFETIME,
) -> str:
    """Sign an operator in, in the connection's current transaction; return the token of the session."""
    token = secrets.token_urlsafe(32)
    values = {
        "token": hash_token(token),
        "operator": operator,
        "life": _CODE_LIFETIME if awaits_code else life,
        "address": origin.address,
        "browser": origin.browser[:_MAX_BROWSER_CHARACTERS].replace("\0", ""),
        "awaits_code": awaits_code,
    }
    row = await (await connection.execute(statement("make_operator_session"), values)).fetchone()
    if row is None:
        raise NotAllowed("this operator was removed; ask an owner")
    session, name = row
    if not awaits_code:
        detail = {"session": session, "address": origin.address, "signed_in": [False, True]}
        await write_audit_entry(connection, f"operator:{name}", "sign in", detail)
    return token


async def _claim(connection: AsyncConnection, link: Sequence[Any], name: str, digest: str) -> None:
    """Do what a link is for: set the password of its operator, or make a new one with its role."""
    number, operator, role, arena, arena_name = link
    own = operator is None and role is None
    found = await (await connection.execute(statement("lock_operator"), {"name": name})).fetchone()
    if found is not None and not own and operator is None:
        raise BadOption(f"there is an operator {name!r}, or was one; choose another name")
    if found is not None and found[1] is not None:
        raise BadOption(f"the operator {name!r} was removed; choose another name")
    values = {"name": name, "password": digest, "role": role or "owner", "arena": arena}
    detail: dict[str, object] = {"link": number, "password": ["old", "new"]}
    if found is not None:
        await connection.execute(statement("set_password"), {**values, "operator": found[0]})
        await connection.execute(statement("end_sessions_of"), {"operator": found[0], "kept": None})
        if own:
            await connection.execute(statement("grant_role"), {**values, "operator": found[0]})
    else:
        made = await (await connection.execute(statement("make_operator"), values)).fetchone()
        assert made is not None
        await connection.execute(statement("grant_role"), {**values, "operator": made[0]})
        detail = {"link": number, "arena": arena_name, "role": [None, values["role"]]}
    await write_audit_entry(connection, f"operator:{name}", "claim", detail, arena=arena)


@dataclass(frozen=True, slots=True)
class LinkPurpose:
    """What a link for operators does: it sets the password of one, or makes a new one."""

    #: Whose password it sets.
    operator: str | None = None
    #: Which role a new one gets, and the title of the arena in which; without one, for the installation.
    role: OperatorRole | None = None
    arena: str | None = None


class Accounts:
    def __init__(self, pool: ConnectionPool) -> None:
        self.pool = pool

    async def _one(self, query: str, /, **values: Any) -> tuple[Any, ...] | None:
        async with self.pool.connection() as connection:
            found = await connection.execute(statement(query), values)
            row: tuple[Any, ...] | None = await found.fetchone()
            return row

    # Voters' sessions

    async def judge_session(self, token: Token) -> int:
        """The voting session of a judge's token; always the same one."""
        name = f"token:{token.api_token}"
        found = await self._one("make_judge_session", name=name) or await self._one(
            "find_judge_session", name=name
        )
        if found is None:
            raise NotAllowed("the session of this judge was revoked; create another token", known=True)
        return int(found[0])

    async def revoke_session(self, actor: str, session: int) -> None:
        """Revoke a session, a voter's or a judge's. Revoking it again has no effect. Its votes are not excluded."""
        if not 0 < session < 2**63:
            raise BadOption(f"session is {session}; expected a number from the operator's list of voters")
        values = {"session": session, "random": session >= _FIRST_RANDOM_SESSION}
        async with self.pool.connection() as connection, connection.transaction():
            row = await connection.execute(statement("revoke_session"), values)
            if await row.fetchone() is None:
                raise NotFound(f"no such session: {session}; the operator's page of voters lists them")
            detail = {"session": session, "revoked": [False, True]}
            await write_audit_entry(connection, actor, "revoke session", detail)

    async def keep_gate(self, session: int, gate: GateResult, origin: VoterOrigin) -> None:
        """Keep the result of the gate with a voter's session, and where it came from. Who has passed once stays so."""
        values = {"session": session, "gate": int(gate), **origin._asdict()}
        async with self.pool.connection() as connection:
            await connection.execute(statement("keep_gate"), values)

    async def revoked_sessions(self, within: timedelta) -> frozenset[int]:
        """Voters' sessions that were revoked within this time."""
        async with self.pool.connection() as connection:
            rows = await connection.execute(statement("revoked_sessions"), {"within": within})
            return frozenset(int(session) for (session,) in await rows.fetchall())

    # Operators

    async def has_operator(self) -> bool:
        """Whether the installation has an owner."""
        row = await self._one("has_operator")
        return row is not None and bool(row[0])

    async def make_operator_link(self) -> str:
        """Create a token that makes an owner of the installation, or sets an operator's password; once, within an hour."""
        token = secrets.token_urlsafe(32)
        async with self.pool.connection() as connection:
            await connection.execute(
                statement("make_operator_link"), {"token": hash_token(token), "life": OPERATOR_LINK_LIFETIME}
            )
        return token

    async def link_purpose(self, token: str) -> LinkPurpose | None:
        """What a link is for; ``None`` if it was used or has expired."""
        row = await self._one("find_operator_link", token=hash_token(token))
        return None if row is None else LinkPurpose(*row)

    async def claim(self, token: str, name: str, password: str) -> str:
        """Use a link: become an operator, or set the password of one and end its sessions. Returns the name."""
        check_password(password)
        purpose = await self.link_purpose(token)
        if purpose is None:
            raise NotAllowed(_LINK_USED_MESSAGE)
        name = purpose.operator or check_person_name(name)
        digest = await hash_password(password)
        async with self.pool.connection() as connection, connection.transaction():
            await connection.execute(statement("lock_operators"))
            used = await connection.execute(statement("use_operator_link"), {"token": hash_token(token)})
            link = await used.fetchone()
            if link is None:
                raise NotAllowed(_LINK_USED_MESSAGE)
            await _claim(connection, link, name, digest)
        return name

    async def sign_in(self, name: str, password: str, origin: SessionOrigin = _UNKNOWN_ORIGIN) -> str:
        """Check the password and return the token of a new operator session.

        If the operator has a second factor, the session waits for its code, and is none until then.
        """
        row = await self._one("find_operator", name=name)
        kept = _unmatched_hash() if row is None else str(row[1])
        right = await password_matches(kept, password)
        if row is None or not right:
            async with self.pool.connection() as connection:
                about = {"name": name, "address": origin.address}
                await write_audit_entry(connection, "nobody", "sign in failed", about)
            raise NotAllowed("name or password is wrong")
        async with self.pool.connection() as connection, connection.transaction():
            if _hasher().check_needs_rehash(kept):
                newer = await hash_password(password)
                await connection.execute(statement("set_password"), {"operator": row[0], "password": newer})
            return await open_operator_session(connection, row[0], origin, awaits_code=row[2])

    async def signed_in(self, token: str) -> OperatorSession | None:
        row = await self._one("find_operator_session", token=hash_token(token))
        if row is None:
            return None
        operator, name, session, second_factor, external, roles = row
        return OperatorSession(operator, name, session, second_factor, external, OperatorGrants.of(roles))

    async def note_session(self, session: int) -> None:
        """Remember that an operator session is used, to the minute."""
        async with self.pool.connection() as connection:
            await connection.execute(statement("note_operator_session"), {"session": session})

    async def sign_out(self, token: str) -> None:
        """End an operator session."""
        async with self.pool.connection() as connection, connection.transaction():
            row = await (
                await connection.execute(statement("end_operator_session"), {"token": hash_token(token)})
            ).fetchone()
            if row is not None:
                detail = {"session": row[0], "signed_in": [True, False]}
                await write_audit_entry(connection, f"operator:{row[1]}", "sign out", detail)

    async def list_owners(self, arena: str | None) -> list[str]:
        """Who can grant roles in an arena, or for the installation: a few names."""
        async with self.pool.connection() as connection:
            rows = await connection.execute(statement("list_owners"), {"arena": arena})
            return [str(name) for (name,) in await rows.fetchall()]

    # API tokens

    async def make_token(
        self,
        actor: str,
        name: str,
        scopes: Sequence[str],
        *,
        arena: str | None = None,
        life: timedelta | None = None,
        operator: int | None = None,
    ) -> tuple[str, Token]:
        """Create a token; return the secret, which cannot be shown again, and the token's record.

        It has the rights of the operator or, without one, all rights; and no more than its scopes.
        """
        _check_token(name, scopes, life)
        token = _TOKEN_PREFIX + secrets.token_urlsafe(32)
        values = {
            "name": name,
            "token": hash_token(token),
            "scopes": sorted(set(scopes)),
            "arena": arena,
            "life": life,
            "operator": operator,
        }
        async with self.pool.connection() as connection, connection.transaction():
            row = await (await connection.execute(statement("make_api_token"), values)).fetchone()
            if row is None:
                raise NotFound(
                    f"no such arena: {arena!r}; without --arena, tiltyard arena token create makes a token for all arenas"
                )
            made = _api_token(row)
            detail = {
                "token": made.api_token,
                "name": name,
                "arena": arena,
                "operator": made.operator,
                "scopes": [None, list(made.scopes)],
            }
            await write_audit_entry(connection, actor, "make token", detail)
        return token, made

    async def find_token(self, token: str) -> TokenRights | None:
        """A token and its rights; ``None`` if it is unknown, revoked or expired, or its operator was removed."""
        row = await self._one("find_api_token", token=hash_token(token))
        if row is None:
            return None
        *record, operator, roles = row
        grants = ALL_RIGHTS if operator is None else OperatorGrants.of(roles)
        return TokenRights(_api_token(record), operator, grants)

    async def list_tokens(self, operator: int | None = None) -> list[Token]:
        """All tokens, or those of one operator, including revoked and expired ones."""
        async with self.pool.connection() as connection:
            rows = await connection.execute(statement("list_api_tokens"), {"operator": operator})
            return [_api_token(row) for row in await rows.fetchall()]

    async def revoke_token(self, actor: str, api_token: int, *, operator: int | None = None) -> None:
        """Revoke a token; with an operator, only one of its own. Revoking it again has no effect."""
        values = {"api_token": api_token, "operator": operator}
        async with self.pool.connection() as connection, connection.transaction():
            row = await (await connection.execute(statement("revoke_api_token"), values)).fetchone()
            if row is None:
                raise NotFound(f"no such token: {api_token}; list tokens with: tiltyard arena token list")
            before, after = (None if at is None else at.isoformat(timespec="seconds") for at in row)
            detail = {"token": api_token, "revoked_at": [before, after]}
            await write_audit_entry(connection, actor, "revoke token", detail)


class RevokedSessions:
    """The revoked sessions of voters as one process knows them: read again, on demand, after some seconds."""

    def __init__(self, accounts: Accounts, within: timedelta) -> None:
        self._accounts = accounts
        #: The lifetime of a cookie: a session that was revoked before that cannot come back.
        self._within = within
        self._reading = SingleFlight()
        self._known: BoundedCache[str, frozenset[int]] = BoundedCache(1, seconds=_REVOKED_CACHE_SECONDS)

    def forget(self) -> None:
        """Read them again at the next question."""
        self._known.clear()

    async def has(self, session: int) -> bool:
        """Whether this session was revoked, as of a few seconds ago at most."""
        known = self._known.get("all")
        if known is None:
            known = await self._reading("all", self._read)
        return session in known

    async def _read(self) -> frozenset[int]:
        read_at = time.monotonic()
        return self._known.put("all", await self._accounts.revoked_sessions(self._within), read_at=read_at)


def _api_token(row: Sequence[Any]) -> Token:
    number, name, scopes, arena, created_at, expires_at, revoked_at, operator = row
    return Token(int(number), name, tuple(scopes), arena, created_at, expires_at, revoked_at, operator)


def _check_token(name: str, scopes: Sequence[str], life: timedelta | None) -> None:
    _check_label("token's name", name)
    unknown = sorted(set(scopes) - set(SCOPES))
    if unknown or not scopes:
        stated = ", ".join(map(repr, unknown)) or "empty"
        raise BadOption(f"scopes: {stated}; expected one or more of {', '.join(SCOPES)}")
    if life is not None and not timedelta(0) < life <= timedelta(days=3650):
        raise BadOption("the lifetime of a token must be positive and at most ten years")


def check_person_name(name: str) -> str:
    """Check the name of an operator; return it."""
    return _check_label("operator's name", name)


def check_password(password: str) -> str:
    """Check that a password is long enough and none of the commonest; return it."""
    if not _MIN_PASSWORD_CHARACTERS <= len(password) <= _MAX_PASSWORD_CHARACTERS:
        raise BadOption(
            f"the password has {len(password)} characters; expected {_MIN_PASSWORD_CHARACTERS} or more"
        )
    rest = password.lower()
    for common in _COMMON_IN_PASSWORDS:
        rest = rest.replace(common, "")
    if len(rest) < _UNCOMMON_CHARACTERS or len(set(password)) < _UNCOMMON_CHARACTERS:
        raise BadOption("this password is easily guessed; choose several words that do not belong together")
    return password


def _check_label(what: str, name: str) -> str:
    if not 1 <= len(name) <= 100 or not name.isprintable() or name != name.strip():
        raise BadOption(f"the {what} is {name[:120]!r}; expected 1 to 100 printable characters")
    return name


async def _in_background(compute: Callable[..., T], *values: str) -> T:
    """Compute a hash in a thread that gives way to everything else: guessed passwords must not delay votes."""
    return await asyncio.get_running_loop().run_in_executor(_hash_threads(), compute, *values)


@cache
def _hash_threads() -> ThreadPoolExecutor:
    def lower_priority() -> None:
        """Also of the threads that it starts, as Linux can; elsewhere it would be the priority of the process."""
        if sys.platform == "linux":
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOWER_PRIORITY_COUNT)

    return ThreadPoolExecutor(_HASH_THREAD_LIMIT, "password", initializer=lower_priority)


@cache
def _hasher() -> PasswordHasher:
    from argon2 import PasswordHasher

    return PasswordHasher()


@cache
def _unmatched_hash() -> str:
    """A hash that no password matches, so that an unknown name takes as long as a wrong password."""
    return _hasher().hash(secrets.token_urlsafe(32))


def _matches(kept: str, password: str) -> bool:
    from argon2.exceptions import Argon2Error, InvalidHashError

    try:
        return _hasher().verify(kept, password)
    except (Argon2Error, InvalidHashError):
        return False


_MAX_REASON_CHARACTERS = 1000


def validate_reason(reason: str) -> str:
    """Check the reason for a change; return it."""
    if not reason.strip() or len(reason) > _MAX_REASON_CHARACTERS or "\0" in reason:
        raise InputError(f"a reason of 1 to {_MAX_REASON_CHARACTERS} characters is required")
    return reason
