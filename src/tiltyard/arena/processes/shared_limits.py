"""Rate limits that all processes share: local token buckets, filled by blocks that are leased from the database.

A process admits a tenth of a limit without asking anybody, of a session's limit a quarter. Whoever needs more makes it
lease a block of the same size from the bucket in the database; what was spent lately without a lease is charged there
too. So most requests cost no query, and the others one row of a query for a block of requests. With n processes, a limit
is exceeded by n such shares at most.

If the database does not answer, each process goes on alone with the whole limit of a session or an arena. A network, of which
nobody is known, is refused what it asks beyond its share: a fault must not open what the limit closes.

An IPv6 network is counted with those around it, since one client may have many of its size.

Keys for hashes of addresses: a random one for each day, shared by all processes and deleted soon after.

Hashes of two days cannot be joined, and once a key is deleted nobody can compute its hashes again, not even from a list
of all addresses.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import math
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from functools import lru_cache
from itertools import islice

from tiltyard.arena.secret_keys import SecretKeys
from tiltyard.arena.tasks import cancel_and_wait
from tiltyard.errors import Busy
from tiltyard.foundation.caches import BoundedCache
from tiltyard.foundation.retries import Backoff, Retries
from tiltyard.foundation.telemetry import LIMIT_LEASES, LIMITED
from tiltyard.postgres.connections import Connection, ConnectionPool
from tiltyard.postgres.statements import statement

_LOG = logging.getLogger(__name__)

#: Buckets that are tracked in one process; the least recently used is dropped first.
_TRACKED_BUCKET_LIMIT = 100_000
#: A process admits this part of a limit without a lease, and leases as much at a time: more of a session's, so that
#: nobody who votes at the speed of people costs a lease.
_SHARES_PER_LIMIT = 10
_SHARES_PER_SESSION_LIMIT = 4
#: Buckets that are leased in one statement.
_LEASE_BATCH_LIMIT = 500
#: How long a lease may take, and for how long none is tried after one that failed.
_LEASE_SECONDS = 1.0
_ALONE_SECONDS = 5.0
#: How often a process deletes old buckets.
_PURGE_SECONDS = 600.0
#: The shortest and the longest time for which a process refuses without asking again.
_MIN_REFUSAL_SECONDS, _MAX_REFUSAL_SECONDS = 0.01, 30.0
_BUCKET_BYTES = 16
#: Networks around an IPv6 client's own, by the bits of their prefix, and how many times its limit they have.
_WIDER_NETWORKS = {56: 2, 48: 4}


@dataclass(frozen=True, slots=True)
class SharedLimit:
    """So many in a span of time, for each key. Bursts of as many are allowed."""

    #: Distinguishes the limit from others; stable, since all processes must use the same.
    name: str
    #: What is limited and whose, for the metric: ``votes`` and ``session``.
    kind: str
    scope: str
    count: int
    #: What whoever exceeds it is told.
    message: str
    seconds: float = 60.0
    #: What a process admits without a lease, and what it leases at a time.
    share: int = field(init=False)

    def __post_init__(self) -> None:
        shares = _SHARES_PER_SESSION_LIMIT if self.scope == "session" else _SHARES_PER_LIMIT
        object.__setattr__(self, "share", max(1, self.count // shares))


@lru_cache(maxsize=10_000)
def _counted(limit: SharedLimit, key: int | str) -> tuple[tuple[SharedLimit, int | str], ...]:
    """What is counted with one key: an IPv6 network before those around it."""
    wider = wider_networks(str(key)) if limit.scope == "network" else {}
    # What its own refuses must not use up that of its neighbours.
    return (
        (limit, key),
        *(
            (replace(limit, name=f"{limit.name} /{bits}", count=limit.count * _WIDER_NETWORKS[bits]), network)
            for bits, network in wider.items()
        ),
    )


def wider_networks(network: str) -> dict[int, str]:
    """The networks around an IPv6 network by the bits of their prefix, the narrowest first; none around others."""
    try:
        own = ipaddress.ip_network(network)
    except ValueError:
        return {}
    return {} if own.version == 4 else {bits: str(own.supernet(new_prefix=bits)) for bits in _WIDER_NETWORKS}


@dataclass(slots=True)
class _Bucket:
    """What a process has of one key's limit."""

    #: What it may admit without a lease, which grows slowly, and when that was so.
    free: float
    at: float
    #: What it was granted and has not spent.
    granted: int = 0
    #: What it admitted lately without a lease and has not reported. What has grown again is no longer lately.
    spent: float = 0.0
    refused_until: float = -math.inf
    #: What it would grant itself without the database, and when that was so.
    alone: float = math.inf
    alone_at: float = 0.0
    waiting: int = 0
    leased: asyncio.Future[None] | None = None


@dataclass(frozen=True, slots=True)
class _Lease:
    bucket: bytes
    limit: SharedLimit
    spent: float
    block: int


class SharedLimits:
    """The limits of one process. `take` admits without waiting, `admit` leases if it must."""

    def __init__(
        self, pool: ConnectionPool, keys: SecretKeys, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._pool = pool
        self._keys = keys
        self._clock = clock
        self._buckets: BoundedCache[tuple[str, int | str], _Bucket] = BoundedCache(_TRACKED_BUCKET_LIMIT)
        self._asked: dict[bytes, tuple[SharedLimit, _Bucket]] = {}
        self._task: asyncio.Task[None] | None = None
        self._alone_until = self._purged_at = -math.inf
        self._retries = Retries(_LOG, "leasing rate limits", Backoff(_ALONE_SECONDS))

    def __len__(self) -> int:
        return len(self._buckets)

    async def stop(self) -> None:
        await cancel_and_wait(self._task)

    def take(self, limit: SharedLimit, key: int | str) -> bool:
        """Count one with this key alone, if this process may admit it without waiting."""
        bucket, now = self._bucket(limit, key), self._clock()
        if bucket.granted:
            bucket.granted -= 1
            return True
        if now > bucket.at:
            bucket.free = min(limit.share, bucket.free + (now - bucket.at) * limit.share / limit.seconds)
            bucket.spent = min(bucket.spent, limit.share - bucket.free)
        bucket.at = now
        if bucket.free < 1 or now < bucket.refused_until:
            return False
        bucket.free -= 1
        bucket.spent += 1
        return True

    def give_back(self, limit: SharedLimit, key: int | str) -> None:
        """Uncount one that was counted and turned out not to be meant by the limit."""
        for counted, place in _counted(limit, key):
            bucket = self._bucket(counted, place)
            bucket.granted = min(bucket.granted + 1, counted.count)

    async def admit(self, limit: SharedLimit, key: int | str) -> None:
        """Count one, or raise `Busy`. Waits for the database only if this process's share is used up."""
        wait = await self.refusal_seconds(limit, key)
        if wait:
            LIMITED.record(1.0, limit.kind, limit.scope)
            raise Busy(limit.message, retry_after=wait)

    async def refusal_seconds(self, limit: SharedLimit, key: int | str) -> float:
        """Count one and return 0, or return in how many seconds the next one may be counted."""
        for counted, place in _counted(limit, key):
            while not self.take(counted, place):
                bucket = self._bucket(counted, place)
                wait = bucket.refused_until - self._clock()
                if wait > 0:
                    return wait
                await self._lease(counted, place, bucket)
        return 0.0

    def _bucket(self, limit: SharedLimit, key: int | str) -> _Bucket:
        name = (limit.name, key)
        return self._buckets.get(name) or self._buckets.put(name, _Bucket(limit.share, self._clock()))

    async def _lease(self, limit: SharedLimit, key: int | str, bucket: _Bucket) -> None:
        """Wait until the bucket was granted something, or is refused until some time."""
        if self._clock() < self._alone_until:
            self._grant_alone(limit, bucket)
            return
        if bucket.leased is None:
            bucket.leased = asyncio.get_running_loop().create_future()
            signed = self._keys.sign("limit bucket", f"{limit.name}\0{key}".encode())
            self._asked[signed[:_BUCKET_BYTES]] = (limit, bucket)
            if self._task is None or self._task.done():
                self._task = asyncio.create_task(self._run(), name="rate limit leases")
        bucket.waiting += 1
        try:
            await asyncio.shield(bucket.leased)
        finally:
            bucket.waiting -= 1

    async def _run(self) -> None:
        while self._asked:
            batch = dict(islice(self._asked.items(), _LEASE_BATCH_LIMIT))
            for hashed in batch:
                del self._asked[hashed]
            try:
                await self._lease_batch(batch)
            finally:
                for _, bucket in batch.values():
                    if bucket.leased is not None and not bucket.leased.done():
                        bucket.leased.set_result(None)
                    bucket.leased = None

    async def _lease_batch(self, batch: Mapping[bytes, tuple[SharedLimit, _Bucket]]) -> None:
        leases = [
            _Lease(number, limit, bucket.spent, max(limit.share, min(bucket.waiting, limit.count)))
            for number, (limit, bucket) in sorted(batch.items())
        ]
        try:
            async with asyncio.timeout(_LEASE_SECONDS):
                granted = await self._ask(leases)
        except Exception as error:  # noqa: BLE001 - whatever it is, who is known is not refused by it
            LIMIT_LEASES.record(len(leases), "failed")
            self._alone_until = self._clock() + _ALONE_SECONDS
            self._retries.report(error)
            for limit, bucket in batch.values():
                self._grant_alone(limit, bucket)
            return
        self._retries.succeeded()
        for lease in leases:
            limit, bucket = batch[lease.bucket]
            tokens, left = granted[lease.bucket]
            bucket.spent = max(bucket.spent - lease.spent, 0.0)
            self._grant(limit, bucket, tokens, left)
            LIMIT_LEASES.record(1.0, "granted" if tokens else "refused")

    def _grant(self, limit: SharedLimit, bucket: _Bucket, tokens: int, left: float) -> None:
        """Add what was granted; if nothing was, refuse until there is something."""
        bucket.granted += tokens
        if not tokens:
            wait = (1.0 - left) * limit.seconds / limit.count
            bucket.refused_until = self._clock() + min(max(wait, _MIN_REFUSAL_SECONDS), _MAX_REFUSAL_SECONDS)

    def _grant_alone(self, limit: SharedLimit, bucket: _Bucket) -> None:
        """Grant a block as if there were no other process; refuse a network for as long as the database is not asked."""
        now = self._clock()
        if limit.scope == "network":
            bucket.refused_until = self._alone_until
            return
        grown = max(now - bucket.alone_at, 0.0) * limit.count / limit.seconds
        left = min(float(limit.count), bucket.alone + grown)
        tokens = min(limit.share, math.floor(left))
        bucket.alone, bucket.alone_at = left - tokens, now
        self._grant(limit, bucket, tokens, bucket.alone)

    async def _ask(self, leases: Sequence[_Lease]) -> dict[bytes, tuple[int, float]]:
        """What the database grants of each bucket, and what is left in it."""
        values = {
            "hashes": [lease.bucket for lease in leases],
            "capacities": [float(lease.limit.count) for lease in leases],
            "spans": [lease.limit.seconds for lease in leases],
            "spent": [lease.spent for lease in leases],
            "blocks": [float(lease.block) for lease in leases],
        }
        async with self._pool.connection() as connection:
            rows = await (await connection.execute(statement("limits_lease"), values)).fetchall()
            if self._clock() - self._purged_at > _PURGE_SECONDS:
                self._purged_at = self._clock()
                await connection.execute(statement("limits_purge"))
        return {bytes(bucket): (int(granted), float(tokens)) for bucket, granted, tokens in rows}


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
    await connection.execute(statement("network_keys_delete"), {"before": before})


async def _read(pool: ConnectionPool, day: date) -> bytes:
    async with pool.connection() as connection:
        values = {"day": day, "key": secrets.token_bytes(_KEY_BYTES)}
        await connection.execute(statement("network_keys_make"), values)
        row = await (await connection.execute(statement("network_keys_find"), {"day": day})).fetchone()
    assert row is not None
    return bytes(row[0])
