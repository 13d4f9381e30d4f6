"""Leader election for raters: one process per arena, held by a lock that is released with its connection.

A lock alone is not enough. A leader that lost its connection may not know it yet, so each leader has
a term number, and its writes succeed only while the arena has that term.
"""

from __future__ import annotations

import contextlib
import os
import socket
from typing import Any

import psycopg

from tiltyard.errors import StoreFault
from tiltyard.postgres.connections import connect, is_broken, translate_errors
from tiltyard.postgres.statements import statement

__all__ = ["Leadership"]


class Leadership:
    """The arenas that this process leads, on a connection of its own.

    ``name`` is shown to operators. A leader whose process dies is replaced at once, one whose machine
    disappears within a few seconds.
    """

    def __init__(self, url: str, *, name: str | None = None) -> None:
        self.name = f"{socket.gethostname()} {os.getpid()}" if name is None else name
        #: Terms by arena.
        self.terms: dict[int, int] = {}
        self._connection = connect(url, name="tiltyard leader")
        with translate_errors("lead an arena"):
            self._connection.execute(statement("leading_alive"))
            self._connection.execute(statement("log_listen"))

    @property
    def lost(self) -> bool:
        """Whether the connection, and with it all locks, is lost."""
        return is_broken(self._connection)

    def lead(self, arena: int) -> int | None:
        """Try to lead an arena; return the term, or ``None`` while another process leads it."""
        if arena in self.terms:
            return self.terms[arena]
        with translate_errors("lead an arena"):
            (free,) = self._one("leading_try", arena=arena)
            if not free:
                return None
            try:
                (self.terms[arena],) = self._one("leading_term", arena=arena, leader=self.name)
            except psycopg.Error:
                if not is_broken(self._connection):
                    self._one("leading_release", arena=arena)
                raise
        return self.terms[arena]

    def still_leading(self) -> set[int]:
        """The arenas that this process still leads; raises if the connection, and with it all locks, is lost."""
        with translate_errors("keep the lead of an arena"):
            held = {int(arena) for (arena,) in self._connection.execute(statement("leading_held"))}
        self.terms = {arena: term for arena, term in self.terms.items() if arena in held}
        return set(self.terms)

    def resign(self, arena: int) -> None:
        """Release the leadership of an arena."""
        term = self.terms.pop(arena, None)
        if term is not None:
            with translate_errors("resign the lead of an arena"), self._connection.transaction():
                self._connection.execute(statement("leading_resign"), {"arena": arena, "term": term})
                self._connection.execute(statement("leading_release"), {"arena": arena})

    def wait_for_events(self, seconds: float) -> set[int]:
        """Wait until an arena has new events, at most so many seconds; return the arenas that were announced."""
        with translate_errors("wait for new events"):
            heard = list(self._connection.notifies(timeout=seconds, stop_after=1))
            heard += self._connection.notifies(timeout=0)
        return {int(arena) for one in heard for arena in one.payload.split()}

    def close(self) -> None:
        """Release the leadership of all arenas and disconnect."""
        with contextlib.suppress(StoreFault):
            for arena in list(self.terms):
                self.resign(arena)
        with contextlib.suppress(psycopg.Error):
            self._connection.close()

    def _one(self, name: str, **values: object) -> tuple[Any, ...]:
        row = self._connection.execute(statement(name), values).fetchone()
        assert row is not None
        return tuple(row)
