"""Who may come in: voters' sessions, the operator, tokens for programs, and the audit of what was changed.

Secrets are handed out once and kept as hashes: SHA-256 of random tokens, argon2 of passwords.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, Final, get_args

from psycopg import AsyncConnection
from psycopg.types.json import Jsonb

from tiltyard.errors import BadOption, NotAllowed, NotFound
from tiltyard.postgres.connections import translate_errors
from tiltyard.postgres.statements import statement
from tiltyard.wire.operators import Token
from tiltyard.wire.vocabulary import Scope

if TYPE_CHECKING:
    from argon2 import PasswordHasher

    from tiltyard.postgres.connection_pool import ConnectionPool

__all__ = ["OPERATOR_LINK_LIFETIME", "SCOPES", "Accounts", "VoterSession", "hash_token", "write_audit_entry"]

#: What a token may be for. ``admin`` covers read, import and metrics; judging is granted by name.
SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
OPERATOR_LINK_LIFETIME = timedelta(hours=1)
OPERATOR_SESSION_LIFETIME = timedelta(days=7)

_TOKEN_PREFIX = "tyt_"  # noqa: S105 - not a secret: by it a scanner knows one
_LINK_USED_MESSAGE = (
    "this link was used before or is older than an hour; make another: tiltyard token operator"
)
_MIN_PASSWORD_CHARACTERS, _MAX_PASSWORD_CHARACTERS = 12, 1024


@dataclass(frozen=True, slots=True)
class VoterSession:
    """A voter's session, or a judge's."""

    session: int
    source: int


def hash_token(token: str) -> bytes:
    """What is kept of a random token."""
    return hashlib.sha256(token.encode()).digest()


async def write_audit_entry(
    connection: AsyncConnection,
    actor: str,
    action: str,
    detail: Mapping[str, object],
    *,
    arena: int | None = None,
) -> None:
    """One line of the audit, in whatever transaction the connection is in."""
    values = {"arena": arena, "actor": actor, "action": action, "detail": Jsonb(dict(detail))}
    await connection.execute(statement("write_audit"), values)


class Accounts:
    """The accounts of one database."""

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool

    @asynccontextmanager
    async def _connected(self, doing: str) -> AsyncIterator[AsyncConnection]:
        with translate_errors(doing):
            async with self._pool.connection() as connection:
                yield connection

    async def _one(self, query: str, /, **values: Any) -> tuple[Any, ...] | None:
        async with self._connected("read accounts") as connection:
            found = await connection.execute(statement(query), values)
            row: tuple[Any, ...] | None = await found.fetchone()
            return row

    # Voters' sessions

    async def make_session(self) -> tuple[str, VoterSession]:
        """A new voter; the token is for its cookie."""
        token = secrets.token_urlsafe(24)
        row = await self._one("make_session", token=hash_token(token), source=0, name=None)
        assert row is not None
        return token, VoterSession(int(row[0]), 0)

    async def find_session(self, token: str) -> VoterSession | None:
        """Whose cookie this is; nobody's if it is unknown or revoked."""
        row = await self._one("find_session", token=hash_token(token))
        return None if row is None else VoterSession(int(row[0]), int(row[1]))

    async def revoke_session(self, session: int) -> None:
        """End a voter's session; its votes stay."""
        if await self._one("revoke_session", session=session) is None:
            raise NotFound(f"there is no session {session}, or it was revoked before")

    async def judge_session(self, token: Token) -> VoterSession:
        """The session in which a judge's token votes: always the same one."""
        own = hashlib.sha256(f"judge's session of token {token.api_token}".encode()).digest()
        made = await self._one("make_session", token=own, source=1, name=f"token:{token.api_token}")
        found = made or await self._one("find_session", token=own)
        if found is None:
            raise NotAllowed("the session of this judge was revoked; make another token", known=True)
        return VoterSession(int(found[0]), 1)

    # The operator

    async def has_operator(self) -> bool:
        """Whether anybody has claimed this house."""
        row = await self._one("has_operator")
        return row is not None and bool(row[0])

    async def make_operator_link(self) -> str:
        """A token by which the operator's name and password can be set, once, within the hour."""
        token = secrets.token_urlsafe(32)
        async with self._connected("make an operator link") as connection:
            await connection.execute(
                statement("make_operator_link"), {"token": hash_token(token), "life": OPERATOR_LINK_LIFETIME}
            )
        return token

    async def link_is_open(self, token: str) -> bool:
        """Whether the link has neither been used nor lapsed."""
        row = await self._one("operator_link_is_open", token=hash_token(token))
        return row is not None and bool(row[0])

    async def claim(self, token: str, name: str, password: str) -> None:
        """Become the operator: name and password are set and earlier sign-ins end."""
        _check_operator(name, password)
        if not await self.link_is_open(token):
            raise NotAllowed(_LINK_USED_MESSAGE)
        digest = await asyncio.to_thread(_hasher().hash, password)
        async with self._connected("claim the operator's account") as connection, connection.transaction():
            await connection.execute(statement("lock_operators"))
            used = await connection.execute(statement("use_operator_link"), {"token": hash_token(token)})
            if await used.fetchone() is None:
                raise NotAllowed(_LINK_USED_MESSAGE)
            values = {"name": name, "password": digest}
            changed = await connection.execute(statement("change_operator"), values)
            if await changed.fetchone() is None:
                await connection.execute(statement("make_operator"), values)
            await connection.execute(statement("end_operator_sessions"))
            await write_audit_entry(connection, f"operator:{name}", "claim", {})

    async def sign_in(self, name: str, password: str) -> str:
        """The token of a new operator session."""
        row = await self._one("find_operator", name=name)
        kept = _unmatched_hash() if row is None else str(row[1])
        right = await asyncio.to_thread(_matches, kept, password)
        if row is None or not right:
            raise NotAllowed("name or password is wrong")
        token = secrets.token_urlsafe(32)
        async with self._connected("sign in") as connection, connection.transaction():
            if _hasher().check_needs_rehash(kept):
                newer = await asyncio.to_thread(_hasher().hash, password)
                await connection.execute(
                    statement("rehash_password"), {"operator": row[0], "password": newer}
                )
            await connection.execute(
                statement("make_operator_session"),
                {"token": hash_token(token), "operator": row[0], "life": OPERATOR_SESSION_LIFETIME},
            )
            await write_audit_entry(connection, f"operator:{name}", "sign in", {})
        return token

    async def signed_in(self, token: str) -> str | None:
        """The name of the operator who holds this token."""
        row = await self._one("find_operator_session", token=hash_token(token))
        return None if row is None else str(row[0])

    async def sign_out(self, token: str) -> None:
        """End an operator session."""
        async with self._connected("sign out") as connection:
            await connection.execute(statement("end_operator_session"), {"token": hash_token(token)})

    # Tokens for programs

    async def make_token(
        self,
        actor: str,
        name: str,
        scopes: Sequence[str],
        *,
        arena: str | None = None,
        life: timedelta | None = None,
    ) -> tuple[str, Token]:
        """A new token, which is shown only now, and what is known of it."""
        _check_token(name, scopes, life)
        token = _TOKEN_PREFIX + secrets.token_urlsafe(32)
        values = {
            "name": name,
            "token": hash_token(token),
            "scopes": sorted(set(scopes)),
            "arena": arena,
            "life": life,
        }
        async with self._connected("make a token") as connection, connection.transaction():
            row = await (await connection.execute(statement("make_api_token"), values)).fetchone()
            if row is None:
                raise NotFound(
                    f"there is no arena {arena!r}; tiltyard token create without --arena is for all"
                )
            made = _api_token(row)
            detail = {"token": made.api_token, "name": name, "scopes": list(made.scopes), "arena": arena}
            await write_audit_entry(connection, actor, "make token", detail)
        return token, made

    async def find_token(self, token: str) -> Token | None:
        """What a token allows; nothing if it is unknown, revoked or has lapsed."""
        row = await self._one("find_api_token", token=hash_token(token))
        return None if row is None else _api_token(row)

    async def list_tokens(self) -> list[Token]:
        """Every token there ever was."""
        async with self._connected("list tokens") as connection:
            rows = await connection.execute(statement("list_api_tokens"))
            return [_api_token(row) for row in await rows.fetchall()]

    async def revoke_token(self, actor: str, api_token: int) -> None:
        """The token is worth nothing from now on. Again changes nothing."""
        async with self._connected("revoke a token") as connection, connection.transaction():
            row = await connection.execute(statement("revoke_api_token"), {"api_token": api_token})
            if await row.fetchone() is None:
                raise NotFound(f"there is no token {api_token}; tiltyard token list shows them")
            await write_audit_entry(connection, actor, "revoke token", {"token": api_token})


def _api_token(row: Sequence[Any]) -> Token:
    number, name, scopes, arena, created_at, expires_at, revoked_at = row
    return Token(int(number), name, tuple(scopes), arena, created_at, expires_at, revoked_at)


def _check_token(name: str, scopes: Sequence[str], life: timedelta | None) -> None:
    _check_name("token's name", name)
    unknown = sorted(set(scopes) - set(SCOPES))
    if unknown or not scopes:
        stated = ", ".join(map(repr, unknown)) or "empty"
        raise BadOption(f"scopes: {stated}; expected one or more of {', '.join(SCOPES)}")
    if life is not None and not timedelta(0) < life <= timedelta(days=3650):
        raise BadOption("a token lives for at least a moment and at most ten years")


def _check_operator(name: str, password: str) -> None:
    _check_name("operator's name", name)
    if not _MIN_PASSWORD_CHARACTERS <= len(password) <= _MAX_PASSWORD_CHARACTERS:
        raise BadOption(
            f"the password has {len(password)} characters; expected {_MIN_PASSWORD_CHARACTERS} or more"
        )


def _check_name(what: str, name: str) -> None:
    if not 1 <= len(name) <= 100 or not name.isprintable() or name != name.strip():
        raise BadOption(f"the {what} is {name[:120]!r}; expected 1 to 100 printable characters")


@cache
def _hasher() -> PasswordHasher:
    from argon2 import PasswordHasher

    return PasswordHasher()


@cache
def _unmatched_hash() -> str:
    """A hash that no password matches: an unknown name takes as long as a wrong password."""
    return _hasher().hash(secrets.token_urlsafe(32))


def _matches(kept: str, password: str) -> bool:
    from argon2.exceptions import Argon2Error, InvalidHashError

    try:
        return _hasher().verify(kept, password)
    except (Argon2Error, InvalidHashError):
        return False
