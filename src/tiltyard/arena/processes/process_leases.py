"""Leases of processes: a row that each process renews every second, and that expires soon after its process has died.

A process that hangs does not renew its lease either. All times are those of the database.

Living processes of one role divide work among arenas by rendezvous hashing: the process with the highest hash of its
number and the arena's has the arena, and all compute the same from the same list. Two may disagree for a moment, while
a lease expires. That costs time only: whoever writes holds the lock of the arena's log, or a term as its rater.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import secrets
from collections.abc import Callable, Iterable
from typing import Any, Final, Literal

from tiltyard.arena.tasks import cancel_and_wait
from tiltyard.errors import TiltyardError
from tiltyard.foundation.retries import Backoff, Retries
from tiltyard.postgres.connections import ConnectionPool
from tiltyard.postgres.statements import statement

_LOG = logging.getLogger(__name__)

Role = Literal["web", "rater", "boards"]
#: How long a lease lasts, and how often it is renewed.
LEASE_SECONDS: Final[dict[Role, float]] = {"web": 5.0, "rater": 3.0, "boards": 5.0}
RENEWAL_SECONDS: Final = 1.0
_MAX_RETRY_SECONDS = 5.0
#: Arenas of which is remembered whose they are.
_REMEMBERED_ARENA_LIMIT = 100_000


def new_process() -> int:
    """A number for this process."""
    return secrets.randbits(63)


def lease_values(process: int, role: Role) -> dict[str, Any]:
    """The values of the statements that renew and remove a lease."""
    return {"process": process, "role": role, "lease_seconds": LEASE_SECONDS[role]}


class ProcessRing:
    """The living processes of one role, as one of them sees them, and which arenas are its own."""

    def __init__(self, own: int) -> None:
        self.own = own
        self.members = frozenset({own})
        self._owned: dict[int, bool] = {}

    def update(self, others: Iterable[int]) -> bool:
        """Take the list of the other processes with a valid lease; return whether it has changed."""
        members = frozenset({self.own, *others})
        if members == self.members:
            return False
        self.members = members
        self._owned.clear()
        return True

    def owns(self, arena: int) -> bool:
        """Whether an arena is this process's share."""
        if arena not in self._owned:
            if len(self._owned) >= _REMEMBERED_ARENA_LIMIT:
                self._owned.clear()
            owner = max(self.members, key=lambda process: (_weight(process, arena), process))
            self._owned[arena] = owner == self.own
        return self._owned[arena]


class ProcessLease:
    """Renews the lease of a process with an event loop, and keeps its `ProcessRing` up to date.

    ``on_change`` is called when another process has come or gone.
    """

    def __init__(
        self, pool: ConnectionPool, on_change: Callable[[], None] = lambda: None, *, role: Role = "web"
    ) -> None:
        self.ring = ProcessRing(new_process())
        self._pool = pool
        self._on_change = on_change
        self._values = lease_values(self.ring.own, role)
        self._task: asyncio.Task[None] | None = None
        self._retries = Retries(
            _LOG, "renewing this process's lease", Backoff(RENEWAL_SECONDS, _MAX_RETRY_SECONDS)
        )

    async def start(self) -> None:
        """Take the lease and start to renew it."""
        await self._renew()
        self._task = asyncio.create_task(self._keep_renewing(), name="process lease")

    async def stop(self) -> None:
        """Give the lease back, so that other processes take over at once."""
        await cancel_and_wait(self._task)
        with contextlib.suppress(TiltyardError):
            async with self._pool.connection() as connection:
                await connection.execute(statement("processes_remove"), self._values)

    async def _keep_renewing(self) -> None:
        pause = RENEWAL_SECONDS
        while True:
            await asyncio.sleep(pause)
            try:
                await self._renew()
            except TiltyardError as error:
                pause = self._retries.failed(error)
            else:
                self._retries.succeeded()
                pause = RENEWAL_SECONDS

    async def _renew(self) -> None:
        async with self._pool.connection() as connection:
            found = await connection.execute(statement("processes_renew"), self._values)
            changed = self.ring.update(process for (process,) in await found.fetchall())
        if changed:
            self._on_change()


def _weight(process: int, arena: int) -> bytes:
    return hashlib.blake2b(f"{process} {arena}".encode(), digest_size=8).digest()
