"""Ids of matchups: a shard, the arena's number and random bits, signed where they leave the server.

Stored, an id is 128 bits: 16 of the shard, 32 of the arena, 80 random ones. As text it is ``SHARD-REST``: the shard as
a decimal number, by which a proxy routes, and 32 characters of base64url: arena, random bits and 80 bits of a
signature over all of them. Without the secret key nobody makes a text that is accepted.
"""

from __future__ import annotations

import base64
import binascii
import secrets
from uuid import UUID

from tiltyard.arena.content.arenas import find_arena_by_number
from tiltyard.arena.log.event_log import matchup_not_found_error
from tiltyard.arena.secret_keys import SecretKeys
from tiltyard.postgres.connections import ConnectionPool

_SHARD_BYTES, _ARENA_BYTES, _RANDOM_BYTES, _SIGNATURE_BYTES = 2, 4, 10, 10
_REST_CHARACTERS = 32
_PURPOSE = "matchup id"


def new_matchup_id(shard: int, arena: int) -> UUID:
    """A new id, which contains its shard and its arena, so that neither is searched for."""
    place = shard.to_bytes(_SHARD_BYTES) + arena.to_bytes(_ARENA_BYTES)
    return UUID(bytes=place + secrets.token_bytes(_RANDOM_BYTES))


def matchup_arena_number(matchup: UUID) -> int:
    """The arena's number in an id."""
    return int.from_bytes(matchup.bytes[_SHARD_BYTES : _SHARD_BYTES + _ARENA_BYTES])


class MatchupIds:
    """Writes ids as signed texts, and reads the texts of its own shard."""

    def __init__(self, keys: SecretKeys, shard: int) -> None:
        self._keys = keys
        self._shard = shard.to_bytes(_SHARD_BYTES)
        self._prefix = f"{shard}-"

    def format(self, matchup: UUID) -> str:
        """The id as text that is safe in URLs."""
        stored = matchup.bytes
        signature = self._keys.sign(_PURPOSE, stored)[:_SIGNATURE_BYTES]
        rest = base64.urlsafe_b64encode(stored[_SHARD_BYTES:] + signature).decode("ascii")
        return f"{int.from_bytes(stored[:_SHARD_BYTES])}-{rest}"

    def parse(self, text: str) -> UUID:
        """Read an id; `NotFound`, without a look at the database, if it is of another shard or was not signed here."""
        rest = text.removeprefix(self._prefix)
        decoded = _decoded(rest) if text.startswith(self._prefix) and len(rest) == _REST_CHARACTERS else None
        if decoded is None:
            raise matchup_not_found_error()
        stored = self._shard + decoded[:-_SIGNATURE_BYTES]
        if not self._keys.verify(_PURPOSE, stored, decoded[-_SIGNATURE_BYTES:], shortest=_SIGNATURE_BYTES):
            raise matchup_not_found_error()
        return UUID(bytes=stored)


def _decoded(rest: str) -> bytes | None:
    """The bytes of the text's second part. 32 characters are 24 bytes exactly, so that they have one spelling."""
    try:
        return base64.b64decode(rest, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None


class MatchupArenas:
    """A cache of arena names by number."""

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool
        self._names: dict[int, str] = {}

    async def find(self, matchup: UUID) -> str:
        """The name of a matchup's arena; `NotFound` if there is none."""
        return await self.name_of(matchup_arena_number(matchup))

    async def name_of(self, number: int) -> str:
        """The name of an arena by number; `NotFound` if there is none.

        Ids are signed, so a number that is not cached is that of an arena which was not used here yet.
        """
        name = self._names.get(number)
        if name is None:
            async with self._pool.connection() as connection:
                found = await find_arena_by_number(connection, number)
            if found is None:
                raise matchup_not_found_error()
            name = self._names[number] = found.name
        return name
