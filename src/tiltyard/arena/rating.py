"""All arenas of a database, rated by one process as far as it leads them.

Any number of processes may do this at once, on any machines: each arena has one leader, and the
others stand by.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable

from tiltyard.arena.rater import ArenaRater, Pace
from tiltyard.arena.replaying import replay_from_zero
from tiltyard.errors import StoreFault, TiltyardError
from tiltyard.store.connecting import broken, connect
from tiltyard.store.leading import Leadership
from tiltyard.store.raters import Connection, RatedArena, rated_arenas

__all__ = ["ArenaRater", "Pace", "RatingHouse", "rate_arenas", "replay_from_zero"]

_LOG = logging.getLogger(__name__)
#: Seconds between looks at the logs when nothing is waiting; at arenas and locks; and after a fault.
_PAUSE = 0.5
_GLANCE = 1.0
_AFTER_FAULT = 1.0
#: After what only a change of the log or of the code can mend.
_AFTER_DAMAGE = 30.0


def rate_arenas(url: str, stop: threading.Event) -> None:
    """Rate every arena of a database until told to stop."""
    RatingHouse(url).run(stop)


class RatingHouse:
    """One process that rates. ``name`` is how operators see it as a leader."""

    def __init__(
        self,
        url: str,
        *,
        name: str | None = None,
        pace: Pace | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._url = url
        self._name = name
        self._pace = pace
        self._clock = clock
        self._connection: Connection | None = None
        self._leadership: Leadership | None = None
        self._arenas: list[RatedArena] = []
        self._glanced = -_GLANCE
        #: Raters of the arenas that are led, and when an arena that failed is tried again.
        self.raters: dict[int, ArenaRater] = {}
        self._not_before: dict[int, float] = {}

    def run(self, stop: threading.Event) -> None:
        """Until told to stop; then checkpoints are written and others may lead."""
        try:
            while not stop.is_set():
                try:
                    pause = 0.0 if self.turn() else _PAUSE
                except TiltyardError as error:
                    _LOG.warning("rating has to begin again: %s", error)
                    self._hang_up()
                    pause = _AFTER_FAULT
                stop.wait(pause)
        finally:
            self.close()

    def turn(self) -> bool:
        """One step of every arena; whether more is waiting. Raises when the connection is lost."""
        connection, leadership = self._connected()
        if self._clock() - self._glanced >= _GLANCE:
            self._arenas = rated_arenas(connection)
            led = leadership.still_leading()
            self.raters = {arena: rater for arena, rater in self.raters.items() if arena in led}
            self._glanced = self._clock()
        busy = False
        for arena in self._arenas:
            if self._clock() >= self._not_before.get(arena.arena, 0.0):
                busy |= self._step(connection, leadership, arena)
        return busy

    def close(self) -> None:
        """Write what is not in a checkpoint, and let others lead."""
        with contextlib.suppress(StoreFault):
            for rater in self.raters.values():
                rater.finish()
        self._hang_up()

    def _step(self, connection: Connection, leadership: Leadership, arena: RatedArena) -> bool:
        try:
            rater = self.raters.get(arena.arena)
            if rater is None:
                term = leadership.lead(arena.arena)
                if term is None:
                    return False
                rater = ArenaRater(connection, arena, term, pace=self._pace, clock=self._clock)
                self.raters[arena.arena] = rater
                _LOG.info("rating arena %s from position %s", arena.name, rater.position)
            rater.arena = arena
            return rater.step()
        except Exception as error:
            if broken(connection) or leadership.lost:
                raise
            known = isinstance(error, TiltyardError)
            _LOG.warning("rating arena %s stopped: %s", arena.name, error, exc_info=not known)
            self._drop(leadership, arena.arena, error)
            return False

    def _drop(self, leadership: Leadership, arena: int, error: Exception) -> None:
        """Begin anew later, or let another try."""
        self.raters.pop(arena, None)
        wait = _AFTER_FAULT if isinstance(error, StoreFault) else _AFTER_DAMAGE
        self._not_before[arena] = self._clock() + wait
        leadership.resign(arena)

    def _connected(self) -> tuple[Connection, Leadership]:
        if self._connection is None or self._leadership is None:
            self._hang_up()
            self._connection = connect(self._url, name="tiltyard rater")
            self._leadership = Leadership(self._url, name=self._name)
            self._glanced = -_GLANCE
        return self._connection, self._leadership

    def _hang_up(self) -> None:
        """Everything in memory goes with the connections: what counts is what was written."""
        self.raters.clear()
        leadership, self._leadership = self._leadership, None
        if leadership is not None:
            leadership.close()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
