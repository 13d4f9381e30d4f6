"""Entry to private arenas: invitation links and passcodes, and who was let in by them.

An invitation is a batch of people: those who use one link, or one passcode. A browser that was let in has a grant in a
signed cookie: the number of the invitation, and the session in which it votes, whatever other cookies it has. Revoking
the invitation ends the access of all of them.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from tiltyard.arena.accounts import (
    hash_password,
    hash_token,
    password_matches,
    random_groups,
    session_number_from,
    write_audit_entry,
)
from tiltyard.arena.content.answer_rows import validate_name
from tiltyard.arena.content.arenas import Arena, connect_to_arena, find_arena, find_arena_by_number
from tiltyard.arena.log.buckets import fetch_one, fetch_row, fetch_rows
from tiltyard.arena.secret_keys import SecretKeys
from tiltyard.core.integrity.vote_groups import VoterOrigin
from tiltyard.errors import BadOption, Conflict, NotAdmitted, NotFound
from tiltyard.foundation.caches import BoundedCache, SingleFlight
from tiltyard.postgres.connections import Connection, ConnectionPool, Database
from tiltyard.postgres.statements import statement
from tiltyard.settings.arena_settings import Entry

#: Why a link cannot be used any more.
LinkTrouble = Literal["revoked", "expired", "used up"]
#: For how many people an invitation is.
Reach = Literal["one", "many"]

DEFAULT_INVITATION_DAYS = 14
#: Seconds for which a process relies on the invitations that it has read, as on revoked sessions.
_LIVE_CACHE_SECONDS = 5.0
_CACHED_ARENA_LIMIT = 10_000
#: Seconds after which a grant is no longer new: until then, what a process has read may be older than its invitation.
_NEW_GRANT_SECONDS = 60.0
#: Invitations of one arena that are not revoked: each process with visitors of the arena holds their numbers.
_LIVE_INVITATION_LIMIT = 1_000
_USE_LIMIT = 100_000
_MAX_LIFETIME = timedelta(days=3650)
_CODE_BYTES = 24
#: A code is the number of a shard, a hyphen, and 32 characters.
_MAX_CODE_CHARACTERS = 40
_MIN_PASSCODE_CHARACTERS, _MAX_PASSCODE_CHARACTERS = 8, 200
#: 14 characters have 69 bits.
_PASSCODE_GROUP_CHARACTERS = (5, 4, 5)
_PASSCODE_BATCH = "passcode"
_UNKNOWN_ORIGIN = VoterOrigin()


@dataclass(frozen=True, slots=True)
class InvitationTerms:
    """What an invitation link is for: its batch, how many people may use it, for how long, and who, if it is for one."""

    batch: str
    uses: int = 1
    life: timedelta = timedelta(days=DEFAULT_INVITATION_DAYS)
    name: str | None = None

    def __post_init__(self) -> None:
        validate_name("batch", self.batch)
        if self.name is not None:
            validate_name("the name", self.name)
        if not 1 <= self.uses <= _USE_LIMIT:
            raise BadOption(f"uses is {self.uses}; expected a number of people from 1 to {_USE_LIMIT:,}")
        if not timedelta(0) < self.life <= _MAX_LIFETIME:
            raise BadOption("an invitation must expire after more than 0 seconds and at most ten years")


@dataclass(frozen=True, slots=True)
class Invitation:
    """An invitation link or a passcode, as operators see it: without its code."""

    invitation: int
    batch: str
    #: Whom it is for, if it is for one person who has a name.
    name: str | None
    is_passcode: bool
    #: How many people may use it; ``None`` for a passcode.
    uses_allowed: int | None
    uses: int
    created_at: datetime
    #: When it stops letting people in; those who are in stay. ``None`` for a passcode.
    expires_at: datetime | None
    revoked_at: datetime | None
    #: How many of those who came in were of one network at most. Networks are kept for a month.
    of_one_network: int = 0
    #: Of a named one: the voter who came in by it, and how many of their votes stand.
    session: int | None = None
    votes: int = 0

    @property
    def called(self) -> str:
        """Whom it is for."""
        return self.name or self.batch

    @property
    def used_up(self) -> bool:
        """Whether everybody whom it is for has come in."""
        return self.uses_allowed is not None and self.uses >= self.uses_allowed


@dataclass(frozen=True, slots=True)
class InvitationOffer:
    """What a link or passcode leads to, for the person who has it."""

    arena: Arena
    invitation: int
    #: Whether it works once only.
    single: bool
    #: Why it cannot be used any more; ``None`` if it can.
    trouble: LinkTrouble | None = None
    #: The session of whoever uses it, if that was decided before.
    session: int | None = None


@dataclass(frozen=True, slots=True)
class EntryGrant:
    """What a browser that was let in to an arena has: by which invitation, and in which second since 1970."""

    invitation: int
    issued: int
    #: The session in which it votes: one for each use of an invitation.
    session: int = 0


async def invite(
    pool: ConnectionPool, arena: str, terms: InvitationTerms, *, shard: int, actor: str
) -> tuple[str, Invitation]:
    """Make an invitation link; return its code, which cannot be shown again, and its record."""
    (made,) = await invite_all(pool, arena, [terms], shard=shard, actor=actor)
    return made


async def invite_all(
    pool: ConnectionPool, arena: str, terms: Sequence[InvitationTerms], *, shard: int, actor: str
) -> list[tuple[str, Invitation]]:
    """Make all of these links, or none; return the codes and the records."""
    async with pool.connection() as connection, connection.transaction():
        found = await find_arena(connection, arena)
        return await add_invitations(connection, found, terms, shard=shard, actor=actor)


async def add_invitations(
    connection: Connection, arena: Arena, terms: Sequence[InvitationTerms], *, shard: int, actor: str
) -> list[tuple[str, Invitation]]:
    """Make links in the connection's current transaction; return the codes and the records."""
    await connection.execute(statement("invitations_lock"), {"arena": arena.arena})
    if len(await _read_live(connection, arena.arena)) + len(terms) > _LIVE_INVITATION_LIMIT:
        raise Conflict(
            f"the arena {arena.name} would have more than {_LIVE_INVITATION_LIMIT:,} invitations that are not revoked;"
            f" revoke some: tiltyard arena revoke-invitation {arena.name} NUMBER"
        )
    added = []
    for one in terms:
        code = _new_code(shard)
        values = {
            "arena": arena.arena,
            "batch": one.batch,
            "name": one.name,
            "code": hash_token(code),
            "passcode": None,
            "uses": one.uses,
            "life": one.life,
        }
        made = Invitation(*await fetch_one(connection, "invitations_add", values))
        about = {
            "invitation": made.invitation,
            "batch": made.batch,
            "uses": made.uses_allowed,
            "valid": [False, True],
            "expires_at": None if made.expires_at is None else made.expires_at.isoformat(timespec="seconds"),
        }
        await write_audit_entry(connection, actor, "invite", about, arena=arena.arena)
        added.append((code, made))
    return added


async def set_passcode(
    pool: ConnectionPool, arena: str, passcode: str | None = None, *, actor: str
) -> tuple[str, Invitation]:
    """Set the passcode of an arena, a random one if none is given; the earlier one is revoked, with all it let in."""
    shown = new_passcode() if passcode is None else passcode.strip()
    if not _MIN_PASSCODE_CHARACTERS <= len(shown) <= _MAX_PASSCODE_CHARACTERS or not shown.isprintable():
        raise BadOption(
            f"the passcode has {len(shown)} characters; expected {_MIN_PASSCODE_CHARACTERS} to"
            f" {_MAX_PASSCODE_CHARACTERS} printable ones"
        )
    digest = await hash_password(shown)
    async with pool.connection() as connection, connection.transaction():
        found = await find_arena(connection, arena)
        await connection.execute(statement("invitations_lock"), {"arena": found.arena})
        row = await fetch_row(connection, "invitations_revoke_passcode", {"arena": found.arena})
        values = {"arena": found.arena, "batch": _PASSCODE_BATCH, "passcode": digest}
        unlimited = {"name": None, "code": None, "uses": None, "life": None}
        made = Invitation(*await fetch_one(connection, "invitations_add", values | unlimited))
        about = {"invitation": [None if row is None else row[0], made.invitation]}
        await write_audit_entry(connection, actor, "set passcode", about, arena=found.arena)
    return shown, made


async def list_invitations(pool: ConnectionPool, arena: str) -> list[Invitation]:
    """All invitations of an arena, also those that were revoked, oldest first."""
    async with connect_to_arena(pool, arena) as (connection, found):
        rows = await fetch_rows(connection, "invitations_list", {"arena": found.arena})
        return [Invitation(*row) for row in rows]


async def revoke_invitation(pool: ConnectionPool, arena: str, invitation: int, *, actor: str) -> Invitation:
    """Revoke an invitation: nobody comes in by it any more, and those who did are out."""
    async with pool.connection() as connection, connection.transaction():
        found = await find_arena(connection, arena)
        row = None
        if 0 < invitation < 2**63:
            values = {"arena": found.arena, "invitation": invitation}
            row = await fetch_row(connection, "invitations_revoke", values)
        if row is None:
            raise NotFound(
                f"the arena {arena} has no invitation {invitation}, or it was revoked already; list them:"
                f" tiltyard arena invitations {arena}"
            )
        revoked = Invitation(*row)
        assert revoked.revoked_at is not None
        at = revoked.revoked_at.isoformat(timespec="seconds")
        about = {
            "invitation": invitation,
            "batch": revoked.batch,
            "uses": revoked.uses,
            "revoked_at": [None, at],
        }
        await write_audit_entry(connection, actor, "revoke invitation", about, arena=found.arena)
    return revoked


async def renew_invitation(
    pool: ConnectionPool, arena: str, invitation: int, *, shard: int, actor: str
) -> tuple[str, Invitation] | None:
    """Another code for a link that nobody has used, in place of the earlier one; ``None`` if somebody has."""
    code = _new_code(shard)
    async with pool.connection() as connection, connection.transaction():
        found = await find_arena(connection, arena)
        life = timedelta(days=DEFAULT_INVITATION_DAYS)
        values = {"arena": found.arena, "invitation": invitation, "code": hash_token(code), "life": life}
        row = await fetch_row(connection, "invitations_renew", values)
        if row is None:
            return None
        about = {"invitation": invitation, "renewed": [False, True]}
        await write_audit_entry(connection, actor, "renew invitation", about, arena=found.arena)
    return code, Invitation(*row)


def _new_code(shard: int) -> str:
    return f"{shard}-{secrets.token_urlsafe(_CODE_BYTES)}"


async def find_invitation(pool: ConnectionPool, code: str) -> InvitationOffer:
    """The arena that a link leads to, without using the link; `NotAdmitted` if there is no such link."""
    if not code.isascii() or not code.isprintable() or len(code) > _MAX_CODE_CHARACTERS:
        raise _unknown_link_error()
    async with pool.connection() as connection:
        row = await fetch_row(connection, "invitations_find", {"code": hash_token(code)})
        arena = None if row is None else await find_arena_by_number(connection, row[0])
    if row is None or arena is None or arena.settings.hidden:
        raise _unknown_link_error()
    _, invitation, revoked, expired, used, uses_allowed = row
    trouble: LinkTrouble | None = None
    if revoked or arena.settings.entry in {"passcode", "sign-in"}:
        trouble = "revoked"
    elif expired:
        trouble = "expired"
    elif used:
        trouble = "used up"
    return InvitationOffer(arena, invitation, uses_allowed == 1, trouble)


async def use_invitation(
    pool: ConnectionPool,
    keys: SecretKeys,
    offer: InvitationOffer,
    visit: str | None = None,
    origin: VoterOrigin = _UNKNOWN_ORIGIN,
) -> EntryGrant:
    """Use a link or passcode once; `NotAdmitted` if it cannot be used any more, or somebody else was quicker.

    ``visit``: a random text of the page on which the button was pressed. The same one again, within a minute, is let
    in again without another use: the answer to the first request may be lost, or the button pressed twice.
    """
    session = offer.session
    if session is None:
        use = f"{offer.invitation} {visit or secrets.token_hex()}"
        session = session_number_from(keys.sign("session of an admission", use.encode()))
    row = None
    if offer.trouble not in {"revoked", "expired"}:
        hashed = None if visit is None else hash_token(visit)
        values = {"invitation": offer.invitation, "visit": hashed, "session": session, **origin._asdict()}
        row = await fetch_row(pool, "invitations_use", values)
    if row is None:
        state = offer.trouble or "used up"
        raise NotAdmitted(f"this invitation is {state}; ask whoever sent the link for another")
    return EntryGrant(offer.invitation, int(row[0]), session)


async def find_passcode(pool: ConnectionPool, arena: Arena, passcode: str) -> InvitationOffer:
    """What the passcode leads to; `NotAdmitted` if it is wrong. An arena without a passcode lets nobody in."""
    row = await fetch_row(pool, "invitations_passcode", {"arena": arena.arena})
    typed = passcode.strip()[: _MAX_PASSCODE_CHARACTERS + 1]
    right = await password_matches(None if row is None else str(row[1]), typed)
    if row is None or not right:
        raise NotAdmitted(
            "this is not the passcode of this arena; check it, or ask whoever gave it to you",
            arena=arena.name,
            entry="passcode",
        )
    return InvitationOffer(arena, row[0], single=False)


async def find_invited_sessions(pool: ConnectionPool, arena: str, invitation: int) -> list[int]:
    """The sessions of those who came in by an invitation; `NotFound` if nobody did."""
    async with connect_to_arena(pool, arena) as (connection, found):
        values = {"arena": found.arena, "invitation": invitation}
        rows = await fetch_rows(connection, "invitations_sessions", values)
    if not rows:
        raise NotFound(f"nobody came in to the arena {arena} by an invitation {invitation}")
    return [session for (session,) in rows]


def new_passcode() -> str:
    """A random passcode, such as ``k7dmq-x2rp-hw94t``."""
    return random_groups(_PASSCODE_GROUP_CHARACTERS)


class LiveInvitations:
    """The invitations that are not revoked, as one process knows them: read again, on demand, after some seconds.

    If they cannot be read, `StoreFault` is raised: nobody is let in by what may have been revoked.
    """

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool
        self._reading = SingleFlight()
        self._known: BoundedCache[int, Mapping[int, tuple[bool, int, Reach]]] = BoundedCache(
            _CACHED_ARENA_LIMIT, seconds=_LIVE_CACHE_SECONDS
        )

    def forget(self) -> None:
        """Read them again at the next question."""
        self._known.clear()

    async def admit(self, arena: int, entry: Entry, grant: EntryGrant) -> Reach | None:
        """For how many the invitation of a grant is, if it lets in to this arena, as of a few seconds ago at most.

        A grant from before its invitation was made belongs to another one, of a database that was restored since.
        """
        known = self._known.get(arena)
        is_new = time.time() - grant.issued < _NEW_GRANT_SECONDS
        if known is None or (grant.invitation not in known and is_new):
            known = await self._reading(arena, lambda: self._read(arena))
        is_passcode, created, reach = known.get(grant.invitation, (None, 0, None))
        return reach if is_passcode is (entry == "passcode") and created <= grant.issued else None

    async def _read(self, arena: int) -> Mapping[int, tuple[bool, int, Reach]]:
        read_at = time.monotonic()
        return self._known.put(arena, await _read_live(self._pool, arena), read_at=read_at)


async def _read_live(database: Database, arena: int) -> dict[int, tuple[bool, int, Reach]]:
    rows = await fetch_rows(database, "invitations_live", {"arena": arena})
    return {number: (is_passcode, created, reach) for number, is_passcode, created, reach in rows}


def _unknown_link_error() -> NotAdmitted:
    return NotAdmitted("there is no such invitation; check that the link is complete")
