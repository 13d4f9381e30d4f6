"""One process's part in deciding for arenas: its lease, its links to other processes, and the calls between them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tiltyard.arena.processes.process_leases import ProcessLease, new_process
from tiltyard.arena.processes.process_links import LinkServer, ProcessLinks
from tiltyard.arena.processes.rendezvous import ProcessRing, ServingProcess
from tiltyard.arena.secret_keys import SecretKeys
from tiltyard.arena.voting.owner_calls import OwnerCalls, handle_call
from tiltyard.postgres.connection_pool import ConnectionPool

__all__ = ["ArenaOwnership"]


class ArenaOwnership:
    """The lease and the links of one web process.

    ``find`` finds the object of an arena that runs a call, by the call's name and the arena's number, for requests that
    other processes send. ``on_change`` is called when the list of living processes has changed.
    """

    def __init__(
        self,
        pool: ConnectionPool,
        keys: SecretKeys,
        find: Callable[[str, int], Awaitable[object]],
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._pool = pool
        self._links = ProcessLinks(keys)
        self._server = LinkServer(keys, lambda request: handle_call(request, find))
        self._lease: ProcessLease | None = None
        self._on_change = on_change
        self.calls = OwnerCalls(ProcessRing(new_process()), self._links)

    @property
    def ring(self) -> ProcessRing:
        """The web processes that are alive, as this one sees them."""
        return self.calls.ring

    async def start(self, host: str) -> None:
        """Listen to other processes on this address, and take a lease."""
        process = new_process(await self._server.start(host))
        self._lease = ProcessLease(self._pool, process, on_change=self._ring_changed)
        self.calls.ring = self._lease.ring
        await self._lease.start()

    async def stop(self) -> None:
        """Give the lease back and close all links."""
        if self._lease is not None:
            await self._lease.stop()
        self._links.close()
        await self._server.stop()

    def _ring_changed(self, members: frozenset[ServingProcess]) -> None:
        self._links.keep(members)
        self._on_change()
