"""The rater process: rates the arenas of a database that are its share.

Any number of rater processes may run at once, on any machines. They share the arenas by rendezvous hashing, and each
arena has one leader. An arena without new events costs nothing: its rater is dropped, and an announcement of new
events brings it back.

An arena has a new leader when the lease of the last one is over. A leader that was stopped for a while may not know
that, so its writes succeed only while the arena has its term.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any

import psycopg
from psycopg import Connection

from tiltyard.arena.log.buckets import fetch_row_sync
from tiltyard.arena.processes.process_leases import (
    LEASE_SECONDS,
    RENEWAL_SECONDS,
    ProcessRing,
    lease_values,
    new_process,
)
from tiltyard.arena.rating.arena_rater import ArenaRater, RaterPace
from tiltyard.arena.rating.crowd_watch import HeldChange
from tiltyard.arena.rating.rater_progress import RatedArena, find_unrated, read_rated_arenas
from tiltyard.arena.rating.version_change import carry_over
from tiltyard.core.integrity.vote_groups import VOTE_GROUPS
from tiltyard.errors import StoreFault, TiltyardError
from tiltyard.foundation.retries import Backoff, Retries
from tiltyard.foundation.telemetry import LED_ARENAS
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
            row = fetch_row_sync(self.connection, "leading_term", values, "lead an arena")
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


_LOG = logging.getLogger(__name__)
#: The longest wait for an announcement, and seconds between searches for events whose announcement was lost.
_WAIT_SECONDS = 0.5
_SEARCH_SECONDS = 60.0
#: Seconds of steps after which announcements are read again.
_TURN_SECONDS = 1.0
#: Arenas of one turn.
_TURN_ARENA_LIMIT = 500
#: Seconds before another attempt to lead an arena; between steps for what becomes due by itself; between steps for new
#: events while votes wait to become final; and without events before the rater of an arena is dropped.
_LEAD_RETRY_SECONDS = 2.0
_LEAST_PAUSE_SECONDS = 0.1
_ANNOUNCED_PAUSE_SECONDS = 2.0
_DROP_SECONDS = 30.0
#: Seconds before the first retry after a fault.
_FAULT_RETRY_SECONDS = 1.0
#: Seconds before a retry after an error that only a change of the log or the code can fix.
_DAMAGE_RETRY_SECONDS = 30.0


#: Appends a change of the crowd to the log of an arena, in a term of its rater, and holds the votes that made it.
HoldChange = Callable[[str, int, int, HeldChange], Coroutine[Any, Any, bool]]


class RaterProcess:
    """One rater process. ``name`` is shown to operators as the leader's name."""

    def __init__(
        self,
        url: str,
        *,
        name: str | None = None,
        pace: RaterPace | None = None,
        clock: Callable[[], float] = time.monotonic,
        on_step: Callable[[], None] = lambda: None,
        hold_change: HoldChange | None = None,
    ) -> None:
        """``hold_change`` appends a change of the crowd with its holds; without it the crowd is not watched."""
        self._url = url
        self._hold_change = hold_change
        self._on_step = on_step
        self._name = name
        self._pace = pace
        self._clock = clock
        self._process = new_process()
        self._leadership: Leadership | None = None
        self._carried_over = False
        self._looked_at = self._searched_at = -math.inf
        #: Arenas with events that are not rated yet, and when they were last announced or had something to do.
        self._busy: dict[int, float] = {}
        self._next_step: dict[int, float] = {}
        #: When each of them had its last step.
        self._stepped_at: dict[int, float] = {}
        #: Arenas whose announced events have not been looked at.
        self._heard: set[int] = set()
        #: Whether in the last turn an arena came first that was neither loaded nor announced.
        self._others_first = True
        #: Raters of the arenas that this process leads, and the times before which failed arenas are not retried.
        self.raters: dict[int, ArenaRater] = {}
        self._not_before: dict[int, float] = {}
        self._retries = Retries(_LOG, "rating all arenas", Backoff(_FAULT_RETRY_SECONDS))
        self._arena_retries: dict[int, Retries] = {}

    def run(self, stop: threading.Event) -> None:
        """Run until stopped; then write checkpoints and release leadership."""
        try:
            while not stop.is_set():
                self._on_step()
                try:
                    if not self._carried_over:
                        self._carry_over(stop)
                    busy = self.turn()
                    self._retries.succeeded()
                    if not busy:
                        self._hear(self._connected().wait_for_events(_WAIT_SECONDS))
                except TiltyardError as error:
                    self._disconnect()
                    stop.wait(self._retries.failed(error))
        finally:
            self.close()

    def _carry_over(self, stop: threading.Event) -> None:
        """Before this process takes its share of arenas, replay those whose state has another version."""
        with contextlib.closing(connect(self._url, name="tiltyard replay")) as connection:
            carry_over(connection, self._on_step, stop.is_set)
        self._carried_over = True

    def turn(self) -> bool:
        """Do one step for every arena that is due; return whether there is more to do. Raises if the connection is lost."""
        leadership = self._connected()
        now = self._clock()
        if now - self._looked_at >= RENEWAL_SECONDS:
            self._look_around(leadership)
        self._hear(leadership.wait_for_events(0.0))
        if now - self._searched_at >= _SEARCH_SECONDS:
            self.search()
        due = self._due(now)
        busy = False
        LED_ARENAS.record(len(self.raters))
        for arena in self._read_arenas(leadership.connection, due):
            self._on_step()
            busy |= self._step(leadership, arena)
            if self._clock() - now >= _TURN_SECONDS:
                return True
        return busy or len(due) > _TURN_ARENA_LIMIT

    def _tell_change(self, arena: int, change: HeldChange) -> None:
        """Append a change of the crowd to the log, on a connection of its own: it is rare."""
        assert self._hold_change is not None
        asyncio.run(self._hold_change(self._url, arena, self._connected().terms[arena], change))
        self._heard.add(arena)
        group = VOTE_GROUPS[change.group]
        _LOG.warning("the crowd of arena %s changed: model %s, votes of %s", arena, change.model, group)

    def _read_arenas(self, connection: Connection, due: Sequence[int]) -> list[RatedArena]:
        """The first arenas that are due, in their order."""
        first = due[:_TURN_ARENA_LIMIT]
        rated = read_rated_arenas(connection, first) if first else []
        found = {one.arena: one for one in rated}
        for arena in set(first) - found.keys():
            self._forget(arena)
        return [found[arena] for arena in first if arena in found]

    def search(self) -> None:
        """Look for events that are not rated, in all arenas, and take all of these arenas now.

        Their announcement may have been lost.
        """
        found = find_unrated(self._connected().connection)
        self._announced(found)
        for arena in found:
            self._next_step.pop(arena, None)
        self._searched_at = self._clock()

    def _hear(self, arenas: Iterable[int]) -> None:
        self._announced(arenas)
        self._heard.update(arena for arena in arenas if arena in self._busy)

    def _announced(self, arenas: Iterable[int]) -> None:
        """These arenas have new events. Where votes wait to become final, most events change nothing before that."""
        now, ring = self._clock(), self._connected().ring
        for arena in arenas:
            if ring.owns(arena):
                self._busy[arena] = now
                rater = self.raters.get(arena)
                if rater is not None and rater.waits_for_finality and arena in self._next_step:
                    self._next_step[arena] = min(self._next_step[arena], now + _ANNOUNCED_PAUSE_SECONDS)
                else:
                    self._next_step.pop(arena, None)

    def _due(self, now: float) -> list[int]:
        """The arenas that are due: those that were announced or are loaded, then the others.

        Of each the one first whose last step is longest ago, so that long replays leave room. At a start there may be
        thousands to load. Votes that come in or become final meanwhile do not wait for them. In every other turn one of
        the others comes first, so that they do not wait for ever where there is too much to do.
        """
        due = [
            arena
            for arena in self._busy
            if now >= max(self._not_before.get(arena, 0.0), self._next_step.get(arena, 0.0))
        ]
        first = self._heard | self.raters.keys()
        due.sort(key=lambda arena: (arena not in first, self._stepped_at.get(arena, 0.0)))
        others = next((place for place, arena in enumerate(due) if arena not in first), 0)
        self._others_first = not self._others_first
        if self._others_first and others:
            due.insert(0, due.pop(others))
        return due

    def _look_around(self, leadership: Leadership) -> None:
        """Drop the raters of arenas that this process does not lead any more, or that are another's share."""
        if leadership.look_around():
            self._searched_at = -math.inf
        for arena in list(self.raters):
            if arena not in leadership.terms:
                del self.raters[arena]
            elif not leadership.ring.owns(arena):
                self._release(leadership, arena)
        self._looked_at = self._clock()

    def _release(self, leadership: Leadership, arena: int) -> None:
        """Write a checkpoint, free the memory of an arena and let another process lead it."""
        rater = self.raters.pop(arena, None)
        if rater is not None:
            rater.finish()
        leadership.resign(arena)
        self._forget(arena)

    def _forget(self, arena: int) -> None:
        self._busy.pop(arena, None)
        self._next_step.pop(arena, None)
        self._stepped_at.pop(arena, None)
        self._heard.discard(arena)

    def close(self) -> None:
        """Write checkpoints and release the leadership."""
        with contextlib.suppress(StoreFault):
            for rater in self.raters.values():
                rater.finish()
        self._disconnect()

    def _step(self, leadership: Leadership, arena: RatedArena) -> bool:
        try:
            rater = self.raters.get(arena.arena)
            if rater is None:
                term = leadership.lead(arena.arena)
                if term is None:
                    self._next_step[arena.arena] = self._clock() + _LEAD_RETRY_SECONDS
                    return False
                rater = ArenaRater(
                    leadership.connection,
                    arena,
                    term,
                    pace=self._pace,
                    clock=self._clock,
                    tell_change=None if self._hold_change is None else self._tell_change,
                )
                self.raters[arena.arena] = rater
                _LOG.info("rating arena %s from position %s", arena.name, rater.position)
            rater.arena = arena
            busy = rater.step()
            self._plan_next_step(leadership, rater, busy=busy)
        except Exception as error:
            if leadership.lost:
                raise
            self._drop(leadership, arena, error)
            return False
        if arena.arena in self._arena_retries:
            self._arena_retries[arena.arena].succeeded()
        return busy

    def _plan_next_step(self, leadership: Leadership, rater: ArenaRater, *, busy: bool) -> None:
        now, arena = self._clock(), rater.arena.arena
        self._stepped_at[arena] = now
        self._heard.discard(arena)
        if busy or not rater.settled:
            self._busy[arena] = now
        if not busy:
            pause = rater.pause_seconds()
            wait = (
                self._busy[arena] + _DROP_SECONDS - now if pause is None else max(pause, _LEAST_PAUSE_SECONDS)
            )
            self._next_step[arena] = now + wait
        if now - self._busy[arena] >= _DROP_SECONDS:
            self._release(leadership, arena)

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

    def _connected(self) -> Leadership:
        if self._leadership is None:
            self._leadership = Leadership(self._url, self._process, name=self._name)
            self._looked_at = self._searched_at = -math.inf
        return self._leadership

    def _disconnect(self) -> None:
        """Close the connections and discard the raters; they restart from what was written."""
        self.raters.clear()
        leadership, self._leadership = self._leadership, None
        if leadership is not None:
            leadership.close()
