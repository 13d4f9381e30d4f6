"""The bytes of responses by hash: small ones in the database, larger ones in a folder or a bucket.

Bytes never change, because they are addressed by their hash. They are stored before a row refers to them, and
deleted only when no current response refers to them, so that a reader never finds a hash without its bytes.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from psycopg import AsyncConnection

from tiltyard.arena.content.object_storage import ObjectStorage
from tiltyard.arena.log.buckets import fetch_row, fetch_rows
from tiltyard.errors import Conflict, NotFound, StoreFault
from tiltyard.foundation.caches import BoundedCache
from tiltyard.postgres.connections import ConnectionPool
from tiltyard.postgres.statements import statement

#: Larger blobs are stored outside the database.
INLINE_LIMIT_BYTES = 64 * 1024

#: Seconds for which a process may still serve a response that another process has withdrawn.
_WITHDRAWAL_CACHE_SECONDS = 2.0
_CACHED_RESPONSE_LIMIT = 100_000
#: Blobs removed under one lock; writers wait meanwhile.
_REMOVAL_BATCH_COUNT = 20


class ResponseContent(NamedTuple):
    """The content of a response, with its media type."""

    media_type: str
    data: bytes


class BlobStore:
    """Stores bytes by hash, with a cache. ``object_storage`` has those that are too large for the database."""

    def __init__(
        self, pool: ConnectionPool, object_storage: ObjectStorage, *, cached: int = 64 * 1024 * 1024
    ) -> None:
        self.object_storage = object_storage
        self._pool = pool
        self._bytes: BoundedCache[bytes, bytes] = BoundedCache(cached, heaviest=cached // 4)
        #: The hash and the media type of each.
        self._responses: BoundedCache[int, tuple[bytes, str]] = BoundedCache(
            _CACHED_RESPONSE_LIMIT, seconds=_WITHDRAWAL_CACHE_SECONDS
        )

    async def put_many(self, many: Sequence[bytes]) -> list[bytes]:
        """Store many blobs; return their SHA-256 in the same order."""
        hashes = [hashlib.sha256(data).digest() for data in many]
        found = dict(zip(hashes, many, strict=True))
        async with self._pool.connection() as connection, connection.transaction():
            await connection.execute(statement("contents_lock_shared"))
            for sha256, data in found.items():
                if len(data) > INLINE_LIMIT_BYTES:
                    await self.object_storage.put(sha256.hex(), data)
            small = [data if len(data) <= INLINE_LIMIT_BYTES else None for data in found.values()]
            sizes = [len(data) for data in found.values()]
            values = {"sha256": list(found), "size": sizes, "bytes": small}
            await connection.execute(statement("contents_add"), values)
        return hashes

    async def hold(self, connection: AsyncConnection) -> None:
        """Begin a transaction during which no stored bytes are deleted.

        A caller that also needs an arena's lock must take this lock first, so that voters do not wait for a sweep.
        """
        await connection.execute(statement("log_begin"))
        await connection.execute(statement("contents_lock_shared"))

    async def check(self, connection: AsyncConnection, hashes: Collection[bytes]) -> None:
        """Raise `Conflict` if some of these bytes are missing, because a sweep deleted them before `hold`."""
        found = await fetch_rows(connection, "contents_known", {"sha256": list(hashes)})
        if len(found) < len(hashes):
            raise Conflict(
                "bytes of these answers were deleted meanwhile by a withdrawal; import the file again"
            )

    async def read(self, response: int) -> ResponseContent:
        """The content of a response; `NotFound` if it is withdrawn."""
        known = self._responses.get(response)
        if known is None:
            now = time.monotonic()
            try:
                found = await self._look_up("contents_of_response", response)
            except NotFound:
                self.forget([response])
                raise
            known = self._responses.put(response, found, read_at=now)
        sha256, media_type = known
        return ResponseContent(media_type, await self.read_bytes(sha256))

    async def read_kept(self, response: int) -> ResponseContent:
        """The content of a response that is live or hidden, for operators; `NotFound` if it is withdrawn."""
        sha256, media_type = await self._look_up("contents_of_kept", response)
        return ResponseContent(media_type, await self.read_bytes(sha256))

    async def read_bytes(self, sha256: bytes) -> bytes:
        """The bytes with this hash; `StoreFault` if they are damaged or missing."""
        held = self._bytes.get(sha256)
        if held is not None:
            return held
        row = await fetch_row(self._pool, "contents_read", {"sha256": sha256})
        if row is None:
            raise StoreFault(
                f"the bytes of {sha256.hex()} are missing; restore the responses from the last backup"
            )
        data = bytes(row[0]) if row[0] is not None else await self.object_storage.get(sha256.hex())
        if hashlib.sha256(data).digest() != sha256:
            raise StoreFault(
                f"the bytes of {sha256.hex()} are damaged; restore the responses from the last backup"
            )
        return self._bytes.put(sha256, data, len(data))

    def forget(self, responses: Iterable[int]) -> None:
        """Remove withdrawn responses from the cache."""
        for response in responses:
            known = self._responses.pop(response)
            if known is not None:
                self._bytes.pop(known[0])

    async def sweep(self) -> int:
        """Delete bytes that no current response refers to; return how many.

        They are deleted in small batches, so that writers wait only briefly. After a failure, the next sweep deletes
        the rest.
        """
        removed = 0
        async with self._pool.connection() as connection:
            found = await fetch_rows(connection, "contents_abandoned", {})
            hashes = [bytes(sha256) for (sha256,) in found]
            for start in range(0, len(hashes), _REMOVAL_BATCH_COUNT):
                batch = hashes[start : start + _REMOVAL_BATCH_COUNT]
                async with connection.transaction():
                    removed += await self._remove(connection, batch)
        return removed

    async def _remove(self, connection: AsyncConnection, hashes: Sequence[bytes]) -> int:
        await connection.execute(statement("contents_lock"))
        rows = await fetch_rows(connection, "contents_still_abandoned", {"sha256": list(hashes)})
        for sha256, elsewhere in rows:
            self._bytes.pop(bytes(sha256))
            if elsewhere:
                await self.object_storage.remove(bytes(sha256).hex())
        if rows:
            await connection.execute(statement("contents_remove"), {"sha256": [row[0] for row in rows]})
        return len(rows)

    async def _look_up(self, name: str, response: int) -> tuple[bytes, str]:
        row = await fetch_row(self._pool, name, {"response": response})
        if row is None:
            raise NotFound(f"response {response} was withdrawn or does not exist")
        return bytes(row[0]), str(row[1])
