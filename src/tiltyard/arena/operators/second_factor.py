"""The second factor of an operator: setting it up, checking codes, recovery codes, turning it off.

The key of the codes is not stored. It is derived from the server's secret key and a random number in the database, so that
a copy of the database does not have it. After a rotation of the secret key, the old one must stay until operators have set
up a new second factor; recovery codes do not depend on it.
"""

from __future__ import annotations

import base64
import hmac
import secrets
import struct
import time
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote

from tiltyard.arena.accounts import (
    OperatorSession,
    SessionOrigin,
    hash_token,
    open_operator_session,
    random_groups,
    write_audit_entry,
)
from tiltyard.arena.log.buckets import fetch_one, fetch_row
from tiltyard.arena.secret_keys import SecretKeys
from tiltyard.errors import BadOption, CodeNeeded, Conflict, NotAllowed, NotFound
from tiltyard.postgres.connections import Connection, ConnectionPool
from tiltyard.postgres.statements import statement

_NONCE_BYTES = 20
_KEY_BYTES = 20
_RECOVERY_CODE_COUNT = 10
#: 16 characters have 79 bits.
_RECOVERY_GROUP_CHARACTERS = (4, 4, 4, 4)
_MAX_CODE_CHARACTERS = 40
_PURPOSE = "second factor"


@dataclass(frozen=True, slots=True)
class SecondFactor:
    """The state of an operator's second factor."""

    #: When it was set up; ``None`` if it is not in use.
    since: datetime | None
    #: Recovery codes that were not used.
    recovery_codes: int


async def read_second_factor(pool: ConnectionPool, operator: int) -> SecondFactor:
    """The state of an operator's second factor."""
    row = await fetch_one(pool, "factor_read", {"operator": operator})
    return SecondFactor(*row)


async def begin_second_factor(pool: ConnectionPool, keys: SecretKeys, operator: int) -> bytes:
    """The key for an operator's authenticator app. It is in use after `confirm_second_factor`."""
    values = {"operator": operator, "nonce": secrets.token_bytes(_NONCE_BYTES)}
    row = await fetch_row(pool, "factor_begin", values)
    if row is None:
        raise Conflict("the second factor is in use already; turn it off before you set up another")
    return keys.sign(_PURPOSE, _message(operator, bytes(row[0])))[:_KEY_BYTES]


async def confirm_second_factor(
    pool: ConnectionPool, keys: SecretKeys, operator: int, code: str, *, actor: str
) -> list[str]:
    """Put the second factor in use, if the code is right; return recovery codes, which cannot be shown again."""
    codes = [random_groups(_RECOVERY_GROUP_CHARACTERS) for _ in range(_RECOVERY_CODE_COUNT)]
    async with pool.connection() as connection, connection.transaction():
        known = await _lock(connection, operator)
        if known.since is not None or known.nonce is None:
            raise Conflict("there is no second factor to confirm; begin again")
        step = _step(keys, operator, known, code)
        if step is None:
            raise BadOption(
                "this is not the current code; check the time of your device, and type the next one"
            )
        await fetch_one(connection, "factor_confirm", {"operator": operator, "step": step})
        await connection.execute(statement("factor_forget_codes"), {"operator": operator})
        hashes = [hash_token(_plain(each)) for each in codes]
        await connection.execute(statement("factor_add_codes"), {"operator": operator, "codes": hashes})
        about = {"operator": known.name, "second_factor": [False, True]}
        await write_audit_entry(connection, actor, "set up second factor", about)
    return codes


async def finish_sign_in(
    pool: ConnectionPool, keys: SecretKeys, token: str, code: str, origin: SessionOrigin
) -> str:
    """Turn a session that waits for a code into one that is signed in; return its new token.

    `CodeNeeded` if the code is wrong or was used before. After five wrong ones the password must be typed again.
    """
    async with pool.connection() as connection, connection.transaction():
        row = await fetch_row(connection, "factor_waiting", {"token": hash_token(token)})
        if row is None:
            raise NotAllowed("the sign-in took too long, or had too many wrong codes; sign in again")
        session, operator = row
        right = await _use_code(connection, keys, operator, code)
        if right:
            await connection.execute(statement("end_operator_session"), {"token": hash_token(token)})
            return await open_operator_session(connection, operator, origin)
        await connection.execute(statement("factor_wrong_code"), {"session": session})
    raise CodeNeeded("the code is wrong, or was used before; type the next one")


async def turn_off_second_factor(
    pool: ConnectionPool, keys: SecretKeys, own: OperatorSession, code: str, *, actor: str
) -> None:
    """Turn the second factor off, with a code of it. The fifth wrong code of a session ends the session."""
    async with pool.connection() as connection, connection.transaction():
        right = await _use_code(connection, keys, own.operator, code)
        if right:
            await _turn_off(connection, own.operator, actor, "turn off second factor")
        else:
            await connection.execute(statement("factor_wrong_code"), {"session": own.session})
    if not right:
        raise CodeNeeded("the code is wrong, or was used before; type the next one")


async def reset_second_factor(pool: ConnectionPool, name: str, *, actor: str) -> None:
    """Turn an operator's second factor off without a code, and sign it out everywhere."""
    async with pool.connection() as connection, connection.transaction():
        row = await fetch_row(connection, "lock_operator", {"name": name})
        if row is None or row[1] is not None:
            raise NotFound(f"no such operator: {name[:100]!r}; list them: tiltyard arena operator list")
        await connection.execute(statement("end_sessions_of"), {"operator": row[0], "kept": None})
        await _turn_off(connection, row[0], actor, "reset second factor")


@dataclass(frozen=True, slots=True)
class _StoredFactor:
    name: str
    nonce: bytes | None
    since: datetime | None
    #: The last step whose code was used.
    step: int


async def _lock(connection: Connection, operator: int) -> _StoredFactor:
    row = await fetch_row(connection, "factor_lock", {"operator": operator})
    if row is None:
        raise NotFound("this operator was removed; ask an owner")
    return _StoredFactor(*row)


async def _use_code(connection: Connection, keys: SecretKeys, operator: int, code: str) -> bool:
    """Whether a code is right, and is used by this: no code is right twice."""
    known = await _lock(connection, operator)
    if known.since is None:
        return False
    step = _step(keys, operator, known, code)
    if step is not None:
        await connection.execute(statement("factor_use_step"), {"operator": operator, "step": step})
        return True
    values = {"operator": operator, "code": hash_token(_plain(code[:_MAX_CODE_CHARACTERS]))}
    row = await fetch_row(connection, "factor_use_code", values)
    if row is None:
        return False
    about = {"operator": known.name, "recovery_codes": [row[0] + 1, row[0]]}
    await write_audit_entry(connection, f"operator:{known.name}", "use recovery code", about)
    return True


def _step(keys: SecretKeys, operator: int, known: _StoredFactor, code: str) -> int | None:
    typed = "".join(code[:_MAX_CODE_CHARACTERS].split())
    if known.nonce is None or not typed.isascii() or not typed.isdigit():
        return None
    for signature in keys.sign_with_all(_PURPOSE, _message(operator, known.nonce)):
        step = matching_step(signature[:_KEY_BYTES], typed, time.time(), known.step)
        if step is not None:
            return step
    return None


async def _turn_off(connection: Connection, operator: int, actor: str, action: str) -> None:
    known = await _lock(connection, operator)
    await connection.execute(statement("factor_forget_codes"), {"operator": operator})
    await connection.execute(statement("factor_off"), {"operator": operator})
    about = {"operator": known.name, "second_factor": [known.since is not None, False]}
    await write_audit_entry(connection, actor, action, about)


def _message(operator: int, nonce: bytes) -> bytes:
    return f"{operator}:".encode() + nonce


def _plain(code: str) -> str:
    """A recovery code as it is hashed: without hyphens and spaces, in small letters."""
    return "".join(code.split()).replace("-", "").lower()


#: Codes depend on the time: TOTP (RFC 6238) over HOTP (RFC 4226). Six digits, steps of 30 seconds, SHA-1: what every
#: authenticator app can do. SHA-1 is sound in an HMAC.
STEP_SECONDS = 30
_DIGIT_COUNT = 6
#: Steps before and after the current one whose codes are accepted, because clocks differ (RFC 6238, section 5.2).
_TOLERATED_STEP_COUNT = 1


def code_at(key: bytes, step: int) -> str:
    """The code of a step: dynamic truncation (RFC 4226, section 5.3)."""
    digest = hmac.digest(key, struct.pack(">Q", step), "sha1")
    offset = digest[-1] & 0x0F
    number = int.from_bytes(digest[offset : offset + 4], "big") & 0x7FFFFFFF
    return str(number % 10**_DIGIT_COUNT).zfill(_DIGIT_COUNT)


def matching_step(key: bytes, code: str, now: float, last: int) -> int | None:
    """The step of a code that is right now; ``None`` if it is wrong, or its step is not after the ``last`` one used."""
    current = int(now) // STEP_SECONDS
    found = None
    for step in range(current - _TOLERATED_STEP_COUNT, current + _TOLERATED_STEP_COUNT + 1):
        right = hmac.compare_digest(code_at(key, max(step, 0)).encode(), code.encode())
        if right and step > last and found is None:
            found = step
    return found


def key_text(key: bytes) -> str:
    """A key as authenticator apps take it: Base32 without padding."""
    return base64.b32encode(key).decode().rstrip("=")


def otpauth_link(key: bytes, name: str, issuer: str) -> str:
    """A link that authenticator apps open."""
    label = quote(f"{issuer}:{name}", safe="")
    return f"otpauth://totp/{label}?secret={key_text(key)}&issuer={quote(issuer, safe='')}"
