"""Leader election for raters: one process per arena, by its lease and a term number.

An arena has a new leader when the lease of the last one is over. A leader that was stopped for a while may not know
that, so its writes succeed only while the arena has its term.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from typing import Any

import psycopg

from tiltyard.arena.processes.process_leases import (
    LEASE_SECONDS,
    RENEWAL_SECONDS,
    ProcessRing,
    lease_values,
)
from tiltyard.errors import StoreFault
from tiltyard.postgres.connections import connect, is_broken, translate_errors
from tiltyard.postgres.statements import statement


class Leadership:
    """The lease of a rater process, the arenas that it leads, and the connection on which it rates them.

    A thread renews the lease on a connection of its own, so that it does not lapse during a long step. ``name`` is shown
    to operators.
    """

    def __init__(self, url: str, process: int, *, name: str | None = None) -> None:
        self.name = f"{socket.gethostname()} {os.getpid()}" if name is None else name
        self.ring = ProcessRing(process)
        #: Terms by arena.
        self.terms: dict[int, int] = {}
        self._lease = lease_values(process, "rater")
        self._others: frozenset[int] = frozenset()
        with contextlib.ExitStack() as opened, translate_errors("lead an arena"):
            self._renewing = opened.enter_context(connect(url, name="tiltyard lease"))
            self.connection = opened.enter_context(connect(url, name="tiltyard rater"))
            self.connection.execute(statement("log_listen"))
            self._renew()
            opened.pop_all()
        self.ring.update(self._others)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep_renewing, name="rater lease", daemon=True)
        self._thread.start()

    @property
    def lost(self) -> bool:
        """Whether a connection is lost."""
        return is_broken(self.connection) or not self._thread.is_alive()

    def lead(self, arena: int) -> int | None:
        """Try to lead an arena; return the term, or ``None`` while another process leads it."""
        if arena not in self.terms:
            values = {"arena": arena, "leader": self.name, "process": self.ring.own}
            with translate_errors("lead an arena"):
                row = self.connection.execute(statement("leading_term"), values).fetchone()
            if row is None:
                return None
            self.terms[arena] = int(row[0])
        return self.terms[arena]

    def look_around(self) -> bool:
        """Find out which arenas this process still leads, and which processes there are; return whether these changed.

        Raises if a connection is lost, and with it perhaps the lease.
        """
        if self.lost:
            raise StoreFault("the rater has lost a connection to its database")
        with translate_errors("keep the lead of an arena"):
            held: set[Any] = set(
                self.connection.execute(statement("leading_held"), {"process": self.ring.own}).fetchall()
            )
        self.terms = {arena: term for arena, term in self.terms.items() if (arena, term) in held}
        return self.ring.update(self._others)

    def resign(self, arena: int) -> None:
        """Release the leadership of an arena."""
        term = self.terms.pop(arena, None)
        if term is not None:
            with translate_errors("resign the lead of an arena"):
                self.connection.execute(statement("leading_resign"), {"arena": arena, "term": term})

    def wait_for_events(self, seconds: float) -> set[int]:
        """Wait until an arena has new events, at most so many seconds; return the arenas that were announced."""
        with translate_errors("wait for new events"):
            heard = list(self.connection.notifies(timeout=seconds, stop_after=1))
            heard += self.connection.notifies(timeout=0)
        return {int(arena) for one in heard for arena in one.payload.split()}

    def close(self) -> None:
        """Release the leadership of all arenas and the lease, and disconnect."""
        self._stop.set()
        self._thread.join(LEASE_SECONDS["rater"])
        with contextlib.suppress(StoreFault, psycopg.Error):
            for arena in list(self.terms):
                self.resign(arena)
            self.connection.execute(statement("processes_remove"), self._lease)
        self.connection.close()

    def _keep_renewing(self) -> None:
        """Renew the lease until the end, or until the connection is lost: then everything starts anew."""
        with contextlib.closing(self._renewing), contextlib.suppress(psycopg.Error):
            while not self._stop.wait(RENEWAL_SECONDS):
                self._renew()

    def _renew(self) -> None:
        rows = self._renewing.execute(statement("processes_renew"), self._lease).fetchall()
        self._others = frozenset(process for (process,) in rows)
