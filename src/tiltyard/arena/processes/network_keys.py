"""Keys for hashes of addresses: a random one for each day, shared by all processes and deleted soon after.

Hashes of two days cannot be joined, and once a key is deleted nobody can compute its hashes again, not even from a list
of all addresses.
"""

from __future__ import annotations

import hmac
import secrets
from datetime import UTC, date, datetime

from tiltyard.postgres.connections import Connection, ConnectionPool, connect_from_pool, translate_errors
from tiltyard.postgres.statements import statement

_KEY_BYTES = 32


class NetworkKeys:
    """The key of the present day, in one process."""

    def __init__(self) -> None:
        self._known: tuple[date, bytes] | None = None

    async def hash_of(self, pool: ConnectionPool, message: str) -> bytes:
        """A hash of an address, which is the same in all processes until the day (UTC) ends."""
        day = datetime.now(UTC).date()
        known = self._known
        if known is None or known[0] != day:
            known = self._known = (day, await _read(pool, day))
        return hmac.digest(known[1], message.encode(), "sha256")


async def delete_network_keys(connection: Connection, before: date) -> None:
    """Delete the keys of the days before one."""
    with translate_errors("delete keys of addresses"):
        await connection.execute(statement("network_keys_delete"), {"before": before})


async def _read(pool: ConnectionPool, day: date) -> bytes:
    async with connect_from_pool(pool) as connection:
        with translate_errors("read the key of a day"):
            values = {"day": day, "key": secrets.token_bytes(_KEY_BYTES)}
            await connection.execute(statement("network_keys_make"), values)
            row = await (await connection.execute(statement("network_keys_find"), {"day": day})).fetchone()
    assert row is not None
    return bytes(row[0])
