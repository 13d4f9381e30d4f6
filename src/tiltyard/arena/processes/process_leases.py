"""Leases of processes: a row that each process renews every second, and that expires soon after its process has died.

A process that hangs does not renew its lease either. All times are those of the database.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import socket
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

from tiltyard.arena.processes.rendezvous import ProcessRing, ServingProcess
from tiltyard.arena.tasks import cancel_and_wait
from tiltyard.errors import TiltyardError
from tiltyard.postgres.connection_pool import ConnectionPool
from tiltyard.postgres.connections import translate_errors
from tiltyard.postgres.statements import statement
from tiltyard.retries import Backoff, Retries

__all__ = [
    "LEASE_SECONDS",
    "RENEWAL_SECONDS",
    "ProcessLease",
    "lease_values",
    "living_processes",
    "new_process",
    "read_processes",
]

_LOG = logging.getLogger(__name__)

Role = Literal["web", "rater"]
#: How long a lease lasts, and how often it is renewed. A rater whose lease lapses while it works keeps the lock of
#: its arenas, so that a short one costs little; a web process hands its arenas over.
LEASE_SECONDS: Final[dict[Role, float]] = {"web": 5.0, "rater": 3.0}
RENEWAL_SECONDS: Final = 1.0
_MAX_RETRY_SECONDS = 5.0


def new_process(address: str = "") -> ServingProcess:
    """This process, with a new number."""
    return ServingProcess(secrets.randbits(63), address, _machine())


def lease_values(process: ServingProcess, role: Role) -> dict[str, Any]:
    """The values of the statements that renew and remove a lease."""
    return {
        "process": process.process,
        "role": role,
        "address": process.address,
        "machine": process.machine,
        "lease_seconds": LEASE_SECONDS[role],
    }


def read_processes(rows: Sequence[Sequence[Any]]) -> list[ServingProcess]:
    """The rows of ``processes_renew``."""
    return [ServingProcess(*row) for row in rows]


async def living_processes(pool: ConnectionPool, role: Role = "web") -> list[int]:
    """The numbers of all processes of a role that are alive, on this machine and on others."""
    async with pool.connection() as connection:
        with translate_errors("list the processes of this service"):
            found = await connection.execute(statement("processes_living"), {"role": role})
            return [process for (process,) in await found.fetchall()]


class ProcessLease:
    """Renews the lease of a web process, and keeps its `ProcessRing` up to date."""

    def __init__(
        self,
        pool: ConnectionPool,
        process: ServingProcess,
        role: Role = "web",
        *,
        on_change: Callable[[frozenset[ServingProcess]], None] | None = None,
    ) -> None:
        self.ring = ProcessRing(process)
        self._on_change = on_change
        self._pool = pool
        self._values = lease_values(process, role)
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
                with translate_errors("end a process's lease"):
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
            with translate_errors("renew a process's lease"):
                found = await connection.execute(statement("processes_renew"), self._values)
                changed = self.ring.update(read_processes(await found.fetchall()))
        if changed and self._on_change is not None:
            self._on_change(self.ring.members)


@cache
def _machine() -> str:
    """Identifies this machine, or this container: its host name, and the id of the last boot where there is one."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    started = boot.read_text(encoding="ascii").strip() if boot.exists() else ""
    return f"{socket.gethostname()} {started}".strip()
