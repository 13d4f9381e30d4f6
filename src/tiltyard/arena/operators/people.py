"""People who signed in: one voter for each, on all devices.

Who they are is known to the identity provider. Here, issuer and subject are a hash with the secret key; name and groups
are as of the last sign-in.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from tiltyard.arena.accounts import hash_token, session_number_from
from tiltyard.arena.log.buckets import fetch_one, fetch_row, run_statement
from tiltyard.arena.secret_keys import SecretKeys
from tiltyard.errors import IdentityFault
from tiltyard.foundation.caches import BoundedCache, SingleFlight
from tiltyard.identity.oidc_client import PersonIdentity
from tiltyard.postgres.connections import Connection, ConnectionPool
from tiltyard.postgres.statements import statement

#: Seconds for which a process relies on what it has read of a sign-in, as on revoked sessions.
_SIGN_IN_CACHE_SECONDS = 5.0
#: Seconds for which a process relies on what a gateway said of a person before it writes it down again.
_MET_CACHE_SECONDS = 60.0
_CACHED_PERSON_LIMIT = 50_000


@dataclass(frozen=True, slots=True)
class Person:
    person: int
    #: The number that their votes have.
    session: int
    name: str
    groups: frozenset[str]


class People:
    """The people of one database, with caches, in one process."""

    def __init__(self, pool: ConnectionPool, keys: SecretKeys) -> None:
        self._pool = pool
        self._keys = keys
        self._reading = SingleFlight()
        #: By token. A person who is not signed in any more is remembered as well.
        self._signed_in: BoundedCache[str, tuple[Person | None]] = BoundedCache(
            _CACHED_PERSON_LIMIT, seconds=_SIGN_IN_CACHE_SECONDS
        )
        self._met: BoundedCache[PersonIdentity, tuple[Person | None]] = BoundedCache(
            _CACHED_PERSON_LIMIT, seconds=_MET_CACHE_SECONDS
        )

    def forget(self) -> None:
        """Clear the caches, because something was revoked."""
        self._signed_in.clear()
        self._met.clear()

    async def start_sign_in(
        self, identity: PersonIdentity, state: str, life: timedelta
    ) -> tuple[str, Person]:
        """Sign a browser in; return its token and the person. ``state``: of the attempt, which makes one sign-in."""
        token = secrets.token_urlsafe(32)
        async with self._pool.connection() as connection, connection.transaction():
            person = await self._write(connection, identity)
            await connection.execute(statement("people_forget_sign_ins"), {"person": person.person})
            values = {
                "token": hash_token(token),
                "person": person.person,
                "state": hash_token(state),
                "life": life,
            }
            row = await fetch_row(connection, "people_sign_in", values)
            if row is None:
                raise IdentityFault("this sign-in was used before; sign in again")
        return token, person

    async def signed_in(self, token: str) -> Person | None:
        """The person who is signed in with this token, as of a few seconds ago at most."""
        known = self._signed_in.get(token)
        if known is None:
            known = await self._reading(("token", token), lambda: self._read(token))
        return known[0]

    async def meet(self, identity: PersonIdentity) -> Person | None:
        """The person whom a gateway names with each request; ``None`` if the person's number was revoked."""
        known = self._met.get(identity)
        if known is None:
            known = await self._reading(("identity", identity), lambda: self._meet(identity))
        return known[0]

    async def sign_out(self, token: str) -> None:
        await run_statement(self._pool, "people_sign_out", {"token": hash_token(token)})
        self._signed_in.clear()

    async def _read(self, token: str) -> tuple[Person | None]:
        read_at = time.monotonic()
        row: Sequence[Any] | None = await fetch_row(
            self._pool, "people_signed_in", {"token": hash_token(token)}
        )
        person = None if row is None or row[4] else _person(row)
        return self._signed_in.put(token, (person,), read_at=read_at)

    async def _meet(self, identity: PersonIdentity) -> tuple[Person | None]:
        read_at = time.monotonic()
        async with self._pool.connection() as connection, connection.transaction():
            person = await self._write(connection, identity)
            row = await fetch_row(connection, "people_revoked", {"session": person.session})
        return self._met.put(identity, (None if row is None or row[0] else person,), read_at=read_at)

    async def _write(self, connection: Connection, identity: PersonIdentity) -> Person:
        """Write down what is known of a person now. The number stays the same, also when the key is rotated."""
        message = f"{len(identity.issuer)}:{identity.issuer}:{identity.subject}".encode()
        hashes = self._keys.sign_with_all("identity", message)
        values = {
            "hash": hashes[0],
            "hashes": list(hashes),
            "session": session_number_from(self._keys.sign("session of an identity", message)),
            "name": identity.name,
            "groups": sorted(identity.groups),
        }
        found = await fetch_row(connection, "people_find", values)
        name = "people_add" if found is None else "people_renew"
        values["person"] = None if found is None else found[0]
        row = await fetch_one(connection, name, values)
        return _person(row)


def _person(row: Sequence[Any]) -> Person:
    return Person(int(row[0]), int(row[1]), row[2], frozenset(row[3]))
