"""The rater process: rates every arena of a database that it leads.

Any number of rater processes may run at once, on any machines: each arena has one leader, and the
others are on standby.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable

from tiltyard.arena.rating.arena_rater import ArenaRater, RaterPace
from tiltyard.arena.rating.log_replay import replay_log
from tiltyard.arena.rating.rater_leadership import Leadership
from tiltyard.arena.rating.rater_progress import Connection, RatedArena, list_rated_arenas
from tiltyard.errors import StoreFault, TiltyardError
from tiltyard.postgres.connections import connect, is_broken
from tiltyard.retries import Backoff, Retries

__all__ = ["ArenaRater", "RaterPace", "RaterProcess", "rate_arenas", "replay_log"]

_LOG = logging.getLogger(__name__)
#: Seconds between polls of the logs when there is nothing to do, between checks of arenas and locks, and
#: before the first retry after a fault.
_IDLE_POLL_SECONDS = 0.5
_LEADERSHIP_POLL_SECONDS = 1.0
_FAULT_RETRY_SECONDS = 1.0
#: Seconds before a retry after an error that only a change of the log or the code can fix.
_DAMAGE_RETRY_SECONDS = 30.0


def rate_arenas(url: str, stop: threading.Event) -> None:
    """Rate every arena of a database until stopped."""
    RaterProcess(url).run(stop)


class RaterProcess:
    """One rater process. ``name`` is shown to operators as the leader's name."""

    def __init__(
        self,
        url: str,
        *,
        name: str | None = None,
        pace: RaterPace | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._url = url
        self._name = name
        self._pace = pace
        self._clock = clock
        self._connection: Connection | None = None
        self._leadership: Leadership | None = None
        self._arenas: list[RatedArena] = []
        self._polled_at = -_LEADERSHIP_POLL_SECONDS
        #: Raters of the arenas that this process leads, and the times before which failed arenas are not retried.
        self.raters: dict[int, ArenaRater] = {}
        self._not_before: dict[int, float] = {}
        self._retries = Retries(_LOG, "rating all arenas", Backoff(_FAULT_RETRY_SECONDS))
        self._arena_retries: dict[int, Retries] = {}

    def run(self, stop: threading.Event) -> None:
        """Run until stopped; then write checkpoints and release leadership."""
        try:
            while not stop.is_set():
                try:
                    pause = 0.0 if self.turn() else _IDLE_POLL_SECONDS
                    self._retries.succeeded()
                except TiltyardError as error:
                    self._disconnect()
                    pause = self._retries.failed(error)
                stop.wait(pause)
        finally:
            self.close()

    def turn(self) -> bool:
        """Do one step for every arena; return whether there is more to do. Raises if the connection is lost."""
        connection, leadership = self._connected()
        if self._clock() - self._polled_at >= _LEADERSHIP_POLL_SECONDS:
            self._arenas = list_rated_arenas(connection)
            led = leadership.still_leading()
            self.raters = {arena: rater for arena, rater in self.raters.items() if arena in led}
            self._polled_at = self._clock()
        busy = False
        for arena in self._arenas:
            if self._clock() >= self._not_before.get(arena.arena, 0.0):
                busy |= self._step(connection, leadership, arena)
        return busy

    def close(self) -> None:
        """Write checkpoints and release the leadership."""
        with contextlib.suppress(StoreFault):
            for rater in self.raters.values():
                rater.finish()
        self._disconnect()

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
            busy = rater.step()
        except Exception as error:
            if is_broken(connection) or leadership.lost:
                raise
            self._drop(leadership, arena, error)
            return False
        if arena.arena in self._arena_retries:
            self._arena_retries[arena.arena].succeeded()
        return busy

    def _drop(self, leadership: Leadership, arena: RatedArena, error: Exception) -> None:
        """Restart later, or let another process take over."""
        self.raters.pop(arena.arena, None)
        retries = self._arena_retries.get(arena.arena)
        if retries is None:
            what = f"rating arena {arena.name}"
            retries = Retries(_LOG, what, Backoff(_FAULT_RETRY_SECONDS), facts={"arena": arena.name})
            self._arena_retries[arena.arena] = retries
        wait = retries.failed(error, at_least=0.0 if isinstance(error, StoreFault) else _DAMAGE_RETRY_SECONDS)
        self._not_before[arena.arena] = self._clock() + wait
        leadership.resign(arena.arena)

    def _connected(self) -> tuple[Connection, Leadership]:
        if self._connection is None or self._leadership is None:
            self._disconnect()
            self._connection = connect(self._url, name="tiltyard rater")
            self._leadership = Leadership(self._url, name=self._name)
            self._polled_at = -_LEADERSHIP_POLL_SECONDS
        return self._connection, self._leadership

    def _disconnect(self) -> None:
        """Close the connections and discard the raters; they restart from what was written."""
        self.raters.clear()
        leadership, self._leadership = self._leadership, None
        if leadership is not None:
            leadership.close()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
