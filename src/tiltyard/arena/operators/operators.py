"""Operators and their roles: who they are, invitations, changes of roles, removal, password resets.

Every change is made under one lock and is in the audit log with what was before and after. The installation always keeps
an owner who can sign in."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from tiltyard.arena.accounts import (
    OPERATOR_LINK_LIFETIME,
    OPERATOR_ROLES,
    OPERATOR_SESSION_LIFETIME,
    OperatorGrants,
    SessionOrigin,
    check_password,
    check_person_name,
    hash_password,
    hash_token,
    open_operator_session,
    write_audit_entry,
)
from tiltyard.arena.content.answer_rows import validate_name
from tiltyard.arena.content.arenas import find_arena
from tiltyard.arena.log.buckets import fetch_one, fetch_row, fetch_rows
from tiltyard.arena.operators.invitations import InvitationTerms
from tiltyard.errors import BadOption, Conflict, NotAllowed, NotFound
from tiltyard.postgres.connections import Connection, ConnectionPool
from tiltyard.postgres.statements import statement
from tiltyard.wire.records import OperatorRole

#: Invitations that can still be used, at most.
_OPEN_INVITATION_LIMIT = 1_000


@dataclass(frozen=True, slots=True)
class OperatorRecord:
    """An operator, as other operators see it."""

    operator: int
    name: str
    created_at: datetime
    second_factor: bool
    #: The identity provider where it signs in; ``None`` for a password.
    issuer: str | None
    #: Sessions that are valid, and when one was last used.
    sessions: int
    last_seen_at: datetime | None
    grants: OperatorGrants


@dataclass(frozen=True, slots=True)
class OperatorInvitation:
    """A link that invites a new operator, without its code."""

    link: int
    invitee: str
    role: OperatorRole
    #: ``None``: for the installation.
    arena: str | None
    created_at: datetime
    expires_at: datetime
    used_at: datetime | None
    revoked_at: datetime | None


@dataclass(frozen=True, slots=True)
class ExternalIdentity:
    """A person at an identity provider."""

    issuer: str
    subject: str
    #: What it is called on pages and in the audit log. Where another operator has the name, a number is added.
    name: str


def check_role(role: str) -> OperatorRole:
    """Check the name of a role; return it."""
    for known in OPERATOR_ROLES:
        if role == known:
            return known
    raise BadOption(f"role is {role[:100]!r}; expected {', '.join(OPERATOR_ROLES)}")


async def list_operators(pool: ConnectionPool, arena: str | None = None) -> list[OperatorRecord]:
    """All operators by name or, of one arena, those with a role there."""
    async with pool.connection() as connection:
        number = await _arena_number(connection, arena)
        rows = await fetch_rows(connection, "people_list", {"arena": number})
        return [_record(*row) for row in rows]


def _record(*row: Any) -> OperatorRecord:
    operator, name, created_at, second_factor, issuer, sessions, last_seen_at, roles = row
    grants = OperatorGrants.of(roles)
    return OperatorRecord(operator, name, created_at, second_factor, issuer, sessions, last_seen_at, grants)


async def find_operator_number(pool: ConnectionPool, name: str) -> int:
    """The number of an operator; `NotFound` if there is none with this name."""
    for one in await list_operators(pool):
        if one.name == name:
            return one.operator
    raise _unknown_operator_error(name)


def invitation_terms(invitee: str, life: timedelta) -> InvitationTerms:
    """The terms of an invitation for one operator."""
    return InvitationTerms(validate_name("invited person", invitee), 1, life)


async def invite_operator(
    pool: ConnectionPool, terms: InvitationTerms, role: str, *, arena: str | None, actor: str
) -> tuple[str, OperatorInvitation]:
    """Make a link by which one person becomes an operator with this role; return its code, and its record."""
    if terms.uses != 1:
        raise BadOption(f"uses is {terms.uses}; an operator's invitation is for one person")
    code, granted = secrets.token_urlsafe(32), check_role(role)
    async with pool.connection() as connection, connection.transaction():
        await connection.execute(statement("lock_operators"))
        number = await _arena_number(connection, arena)
        values = {
            "token": hash_token(code),
            "life": terms.life,
            "role": granted,
            "arena": number,
            "invitee": terms.batch,
            "limit": _OPEN_INVITATION_LIMIT,
        }
        row = await fetch_row(connection, "people_invite", values)
        if row is None:
            raise Conflict(f"there are {_OPEN_INVITATION_LIMIT:,} invitations of operators; revoke some")
        made = OperatorInvitation(*row)
        about = {
            "invitation": made.link,
            "invitee": made.invitee,
            "expires_at": made.expires_at.isoformat(timespec="seconds"),
            "role": [None, granted],
        }
        await write_audit_entry(connection, actor, "invite operator", about, arena=number)
    return code, made


async def list_operator_invitations(
    pool: ConnectionPool, arena: str | None = None
) -> list[OperatorInvitation]:
    """Invitations of operators that can be used, oldest first: all, or to one arena."""
    async with pool.connection() as connection:
        number = await _arena_number(connection, arena)
        rows = await fetch_rows(connection, "people_invitations", {"arena": number})
        return [OperatorInvitation(*row) for row in rows]


async def revoke_operator_invitation(
    pool: ConnectionPool, link: int, *, arena: str | None = None, actor: str
) -> None:
    """Revoke an invitation of an operator that was not used; with an arena, only one to it."""
    async with pool.connection() as connection, connection.transaction():
        number = await _arena_number(connection, arena)
        values = {"link": link, "arena": number}
        row = await fetch_row(connection, "people_revoke_invitation", values)
        if row is None:
            raise NotFound(f"no invitation {link} that can be used; list them: tiltyard arena operator list")
        about = {"invitation": link, "revoked_at": [None, row[0].isoformat(timespec="seconds")]}
        await write_audit_entry(connection, actor, "revoke operator invitation", about, arena=row[1])


async def set_operator_role(
    pool: ConnectionPool, name: str, role: str | None, *, arena: str | None, actor: str
) -> None:
    """Give an operator a role in an arena, or for the installation; ``None`` takes it away.

    It applies to sessions and tokens from their next request on. `Conflict` for the last owner of the installation.
    """
    granted = None if role is None else check_role(role)
    async with pool.connection() as connection, connection.transaction():
        number = await _arena_number(connection, arena)
        operator = await _lock_operator(connection, name)
        await _change_role(connection, operator, granted, number, actor=actor, name=name)
        await _check_owner_left(connection, name)


async def remove_operator(pool: ConnectionPool, name: str, *, actor: str) -> None:
    """Remove an operator: its roles, sessions and tokens end at once. `Conflict` for the last owner."""
    async with pool.connection() as connection, connection.transaction():
        operator = await _lock_operator(connection, name)
        held = await _read_roles(connection, operator)
        values = {"operator": operator, "kept": None}
        ended = await fetch_rows(connection, "end_sessions_of", values)
        revoked = await fetch_rows(connection, "people_revoke_tokens", values)
        await connection.execute(statement("people_take_roles"), values)
        await connection.execute(statement("people_close_links"), values)
        await connection.execute(statement("people_remove"), values)
        await _check_owner_left(connection, name)
        roles = {"installation" if arena is None else f"arena {arena}": role for arena, role in held.items()}
        about = {
            "operator": name,
            "roles": [roles, {}],
            "sessions": [len(ended), 0],
            "tokens": [len(revoked), 0],
        }
        await write_audit_entry(connection, actor, "remove operator", about)


async def make_password_link(pool: ConnectionPool, name: str, *, actor: str) -> str:
    """A code by which one operator sets its password, once, within an hour."""
    code = secrets.token_urlsafe(32)
    async with pool.connection() as connection, connection.transaction():
        operator = await _lock_operator(connection, name)
        values = {"token": hash_token(code), "life": OPERATOR_LINK_LIFETIME, "operator": operator}
        row = await fetch_one(connection, "people_password_link", values)
        about = {"operator": name, "link": [None, row[0]]}
        await write_audit_entry(connection, actor, "make password link", about)
    return code


async def set_operator_password(pool: ConnectionPool, name: str, password: str, *, actor: str) -> None:
    """Set an operator's password, and sign it out everywhere."""
    digest = await hash_password(check_password(password))
    async with pool.connection() as connection, connection.transaction():
        operator = await _lock_operator(connection, name)
        await connection.execute(statement("set_password"), {"operator": operator, "password": digest})
        values = {"operator": operator, "kept": None}
        ended = await fetch_rows(connection, "end_sessions_of", values)
        about = {"operator": name, "password": ["old", "new"], "sessions": [len(ended), 0]}
        await write_audit_entry(connection, actor, "set password", about)


async def sign_in_identity(
    pool: ConnectionPool,
    identity: ExternalIdentity,
    roles: Mapping[str | None, OperatorRole],
    origin: SessionOrigin,
    *,
    life: timedelta = OPERATOR_SESSION_LIFETIME,
) -> str:
    """Sign in a person whom an identity provider vouches for; return the token of the operator session.

    ``roles``: those that the provider's groups grant, by arena, ``None`` for the installation. They replace all roles that
    the person had: the provider decides, even if no owner is left then (`tiltyard arena token operator` makes one). Arenas that
    do not exist are left out. Without any role, `NotAllowed` is raised, and earlier sessions and tokens are worth nothing.
    """
    actor = f"identity:{identity.name}"
    async with pool.connection() as connection:
        async with connection.transaction():
            await connection.execute(statement("lock_operators"))
            operator, name = await _identity_operator(connection, identity, has_roles=bool(roles))
            names = [arena for arena in roles if arena is not None]
            rows = await fetch_rows(connection, "people_arenas", {"names": names})
            wanted: dict[int | None, OperatorRole] = {number: roles[arena] for number, arena in rows}
            if None in roles:
                wanted[None] = roles[None]
            if operator is not None:
                held = await _read_roles(connection, operator)
                for arena in {*held, *wanted}:
                    await _change_role(connection, operator, wanted.get(arena), arena, actor=actor, name=name)
        if operator is None or not wanted:
            raise NotAllowed(
                "none of your groups has a role here; ask whoever runs this installation", known=True
            )
        async with connection.transaction():
            return await open_operator_session(connection, operator, origin, life=life)


async def _identity_operator(
    connection: Connection, identity: ExternalIdentity, *, has_roles: bool
) -> tuple[int | None, str]:
    """The operator of an identity, which is made, or restored, if it has a role; and its name."""
    values = {"issuer": identity.issuer, "subject": identity.subject, "has_roles": has_roles}
    row = await fetch_row(connection, "people_find_identity", values)
    if row is not None:
        return int(row[0]), str(row[1])
    name = check_person_name(" ".join(identity.name.split())[:90] or "operator")
    if not has_roles:
        return None, name
    for number in range(1, 1000):
        tried = name if number == 1 else f"{name} ({number})"
        made = await fetch_row(connection, "people_make_identity", {**values, "name": tried})
        if made is not None:
            return made[0], tried
    raise Conflict(f"too many operators are called {name!r}")


async def _arena_number(connection: Connection, arena: str | None) -> int | None:
    return None if arena is None else (await find_arena(connection, arena)).arena


async def _lock_operator(connection: Connection, name: str) -> int:
    """The number of an operator, and the lock under which operators change."""
    await connection.execute(statement("lock_operators"))
    row = await fetch_row(connection, "lock_operator", {"name": name})
    if row is None or row[1] is not None:
        raise _unknown_operator_error(name)
    return int(row[0])


def _unknown_operator_error(name: str) -> NotFound:
    return NotFound(f"no such operator: {name[:100]!r}; list them: tiltyard arena operator list")


async def _read_roles(connection: Connection, operator: int) -> dict[int | None, OperatorRole]:
    rows = await fetch_rows(connection, "people_roles", {"operator": operator})
    return dict(rows)


async def _change_role(
    connection: Connection,
    operator: int,
    role: OperatorRole | None,
    arena: int | None,
    *,
    actor: str,
    name: str,
) -> None:
    before = (await _read_roles(connection, operator)).get(arena)
    if before == role:
        return
    values = {"operator": operator, "arena": arena, "role": role}
    await connection.execute(statement("people_take_role" if role is None else "grant_role"), values)
    about = {"operator": name, "role": [before, role]}
    await write_audit_entry(connection, actor, "change role", about, arena=arena)


async def _check_owner_left(connection: Connection, name: str) -> None:
    """Raise, so that the transaction is rolled back, if the installation has no owner any more."""
    row = await fetch_row(connection, "has_operator", {})
    if row is None or not row[0]:
        raise Conflict(
            f"{name} is the last owner of the installation; make somebody else an owner first:"
            " tiltyard arena operator role NAME owner"
        )


@dataclass(frozen=True, slots=True)
class SessionRecord:
    session: int
    created_at: datetime
    last_seen_at: datetime
    address: str
    #: What the browser calls itself.
    browser: str


async def list_sessions(pool: ConnectionPool, operator: int) -> list[SessionRecord]:
    """The sessions of an operator that are valid, the last used first."""
    rows = await fetch_rows(pool, "operator_sessions_list", {"operator": operator})
    return [SessionRecord(*row) for row in rows]


async def end_session(pool: ConnectionPool, operator: int, session: int, *, actor: str) -> None:
    """End one session of an operator; `NotFound` if it has none with this number."""
    values = {"operator": operator, "session": session}
    async with pool.connection() as connection, connection.transaction():
        row = await fetch_row(connection, "operator_sessions_end", values)
        if row is None:
            raise NotFound(f"no session {session} that is signed in; see the list of sessions")
        about = {"operator": row[0], "session": session, "signed_in": [True, False]}
        await write_audit_entry(connection, actor, "sign out", about)


async def end_sessions(pool: ConnectionPool, operator: int, *, kept: int | None = None, actor: str) -> int:
    """End all sessions of an operator, except one that is kept; return how many."""
    values = {"operator": operator, "kept": kept}
    async with pool.connection() as connection, connection.transaction():
        ended = await fetch_rows(connection, "end_sessions_of", values)
        row = await fetch_row(connection, "operator_name", values)
        left = 0 if kept is None else 1
        about = {"operator": None if row is None else row[0], "sessions": [len(ended) + left, left]}
        if ended:
            await write_audit_entry(connection, actor, "sign out", about)
    return len(ended)
