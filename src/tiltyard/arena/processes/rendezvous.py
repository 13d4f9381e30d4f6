"""Which of several processes decides for an arena.

Every process computes the same answer from the same list of living processes, by rendezvous hashing: the process
with the highest hash of its number and the arena's is the owner. When a process joins or leaves, only the arenas
that it gains or loses change their owner.

Two processes may disagree for a moment, while a lease expires. That costs time, not votes: whoever decides holds the
lock of the arena's log and first reads what others have written.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

__all__ = ["ProcessRing", "ServingProcess"]

#: Seconds for which a process that did not answer is passed over. By then its lease has expired, if it is dead.
_SUSPECT_SECONDS = 5.0
#: Arenas whose owner is remembered.
_REMEMBERED_ARENA_LIMIT = 100_000


@dataclass(frozen=True, slots=True)
class ServingProcess:
    """A process with a valid lease."""

    #: A random number, chosen when it started.
    process: int
    #: Host and port at which other processes reach it; empty if they cannot.
    address: str
    #: The machine on which it runs. A loopback address is reachable from the same machine only.
    machine: str


class ProcessRing:
    """The living processes of one role, as one of them sees them.

    Only those that it can reach count, unless they never call each other (``linked`` is false).
    """

    def __init__(
        self, own: ServingProcess, *, linked: bool = True, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.own = own
        self._linked = linked
        self._clock = clock
        self._members = frozenset({own})
        self._suspects: dict[int, float] = {}
        self._owners: dict[int, ServingProcess] = {}

    @property
    def members(self) -> frozenset[ServingProcess]:
        """The processes with a valid lease that can be reached from here, this one included."""
        return self._members

    def update(self, living: Iterable[ServingProcess]) -> bool:
        """Take the list of processes with a valid lease; return whether it has changed."""
        members = frozenset({self.own, *(one for one in living if self._reachable(one))})
        now = self._clock()
        over = [process for process, until in self._suspects.items() if until <= now]
        for process in over:
            del self._suspects[process]
        changed = members != self._members
        if changed or over:
            self._owners.clear()
        self._members = members
        return changed

    def owner_of(self, arena: int) -> ServingProcess:
        """The process that decides for an arena."""
        owner = self._owners.get(arena)
        if owner is None:
            if len(self._owners) >= _REMEMBERED_ARENA_LIMIT:
                self._owners.clear()
            candidates = [one for one in self._members if one.process not in self._suspects]
            owner = self._owners[arena] = max(
                candidates, key=lambda one: (_weight(one.process, arena), one.process)
            )
        return owner

    def owns(self, arena: int) -> bool:
        """Whether this process decides for an arena."""
        return self.owner_of(arena) == self.own

    def suspect(self, process: ServingProcess) -> None:
        """Pass over a process that did not answer, for a few seconds."""
        if process != self.own:
            self._suspects[process.process] = self._clock() + _SUSPECT_SECONDS
            self._owners.clear()

    def _reachable(self, process: ServingProcess) -> bool:
        return not self._linked or process.machine == self.own.machine or not _is_loopback(process.address)


def _weight(process: int, arena: int) -> bytes:
    return hashlib.blake2b(f"{process} {arena}".encode(), digest_size=8).digest()


def _is_loopback(address: str) -> bool:
    host = address.rpartition(":")[0].strip("[]")
    return host in {"", "localhost", "::1"} or host.startswith("127.")
