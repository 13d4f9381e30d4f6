"""Accounts: voters' sessions, the operator, API tokens, and the audit log of changes.

Secrets are shown once and stored as hashes: SHA-256 for random tokens, argon2 for passwords.
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

#: Scopes of tokens. ``admin`` includes read, import and metrics, but not judge.
SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
OPERATOR_LINK_LIFETIME = timedelta(hours=1)
OPERATOR_SESSION_LIFETIME = timedelta(days=7)

_TOKEN_PREFIX = "tyt_"  # noqa: S105 - not a secret: lets scanners recognise our tokens
_LINK_USED_MESSAGE = (
    "this link has been used or is more than an hour old; create another: tiltyard token operator"
)
_MIN_PASSWORD_CHARACTERS, _MAX_PASSWORD_CHARACTERS = 12, 1024


@dataclass(frozen=True, slots=True)
class VoterSession:
    """A voter's session, or a judge's."""

    session: int
    source: int


def hash_token(token: str) -> bytes:
    """The hash under which a random token is stored."""
    return hashlib.sha256(token.encode()).digest()


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
        """Create a voter's session; return the token for its cookie and the session."""
        token = secrets.token_urlsafe(24)
        row = await self._one("make_session", token=hash_token(token), source=0, name=None)
        assert row is not None
        return token, VoterSession(int(row[0]), 0)

    async def find_session(self, token: str) -> VoterSession | None:
        """The session of a cookie's token; ``None`` if it is unknown or revoked."""
        row = await self._one("find_session", token=hash_token(token))
        return None if row is None else VoterSession(int(row[0]), int(row[1]))

    async def judge_session(self, token: Token) -> VoterSession:
        """The voting session of a judge's token; always the same one."""
        own = hashlib.sha256(f"judge's session of token {token.api_token}".encode()).digest()
        made = await self._one("make_session", token=own, source=1, name=f"token:{token.api_token}")
        found = made or await self._one("find_session", token=own)
        if found is None:
            raise NotAllowed("the session of this judge was revoked; create another token", known=True)
        return VoterSession(int(found[0]), 1)

    # The operator

    async def has_operator(self) -> bool:
        """Whether the operator account exists."""
        row = await self._one("has_operator")
        return row is not None and bool(row[0])

    async def make_operator_link(self) -> str:
        """Create a token that allows setting the operator's name and password, once, within an hour."""
        token = secrets.token_urlsafe(32)
        async with self._connected("make an operator link") as connection:
            await connection.execute(
                statement("make_operator_link"), {"token": hash_token(token), "life": OPERATOR_LINK_LIFETIME}
            )
        return token

    async def link_is_open(self, token: str) -> bool:
        """Whether the link is unused and has not expired."""
        row = await self._one("operator_link_is_open", token=hash_token(token))
        return row is not None and bool(row[0])

    async def claim(self, token: str, name: str, password: str) -> None:
        """Set the operator's name and password; end all operator sessions."""
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
        """Check the password and return the token of a new operator session."""
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
        """The name of the operator who is signed in with this token, or ``None``."""
        row = await self._one("find_operator_session", token=hash_token(token))
        return None if row is None else str(row[0])

    async def sign_out(self, token: str) -> None:
        """End an operator session."""
        async with self._connected("sign out") as connection:
            await connection.execute(statement("end_operator_session"), {"token": hash_token(token)})

    # API tokens

    async def make_token(
        self,
        actor: str,
        name: str,
        scopes: Sequence[str],
        *,
        arena: str | None = None,
        life: timedelta | None = None,
    ) -> tuple[str, Token]:
        """Create a token; return the secret, which cannot be shown again, and the token's record."""
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
                    f"no such arena: {arena!r}; without --arena, tiltyard token create makes a token for all arenas"
                )
            made = _api_token(row)
            detail = {"token": made.api_token, "name": name, "scopes": list(made.scopes), "arena": arena}
            await write_audit_entry(connection, actor, "make token", detail)
        return token, made

    async def find_token(self, token: str) -> Token | None:
        """The record of a token; ``None`` if it is unknown, revoked or expired."""
        row = await self._one("find_api_token", token=hash_token(token))
        return None if row is None else _api_token(row)

    async def list_tokens(self) -> list[Token]:
        """All tokens, including revoked and expired ones."""
        async with self._connected("list tokens") as connection:
            rows = await connection.execute(statement("list_api_tokens"))
            return [_api_token(row) for row in await rows.fetchall()]

    async def revoke_token(self, actor: str, api_token: int) -> None:
        """Revoke a token. Revoking it again has no effect."""
        async with self._connected("revoke a token") as connection, connection.transaction():
            row = await connection.execute(statement("revoke_api_token"), {"api_token": api_token})
            if await row.fetchone() is None:
                raise NotFound(f"no such token: {api_token}; list tokens with: tiltyard token list")
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
        raise BadOption("the lifetime of a token must be positive and at most ten years")


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
    """A hash that no password matches, so that an unknown name takes as long as a wrong password."""
    return _hasher().hash(secrets.token_urlsafe(32))


def _matches(kept: str, password: str) -> bool:
    from argon2.exceptions import Argon2Error, InvalidHashError

    try:
        return _hasher().verify(kept, password)
    except (Argon2Error, InvalidHashError):
        return False
