"""Keeps the watch of an arena's crowd level with its rater, and stores it, so that it outlives the rater.

A watch is stored with a checkpoint, if it has seen enough events since it last was. A rater that starts continues from
there. If votes were excluded or restored before that, it reads the latest part of the log again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass

from psycopg import AsyncConnection, Connection

from tiltyard.arena.log.buckets import fetch_row
from tiltyard.arena.log.crowd_changes import read_changes_unexplained_at
from tiltyard.arena.log.event_details import CrowdChangedDetail
from tiltyard.arena.log.log_columns import LogColumns, read_columns
from tiltyard.arena.log.rosters import read_roster_sync
from tiltyard.arena.rating.crowd_watch import HISTORY_EVENTS, WATCH_VERSION, CrowdWatch, LatestVotes
from tiltyard.arena.rating.grouped_votes import read_origins
from tiltyard.arena.rating.log_replay import active_exclusions
from tiltyard.arena.rating.rater_progress import find_first_cast, read_exclusion_changes, read_undone_votes
from tiltyard.errors import BadOption
from tiltyard.postgres.connections import translate_errors
from tiltyard.postgres.statements import statement

#: Appends that the results of a model shifted in a group of votes of an arena.
TellChange = Callable[[int, int, int, CrowdChangedDetail], object]

_LOG = logging.getLogger(__name__)
#: Events after which a watch is stored again: reading so many takes less time than storing a large one. A small one is
#: stored after a tenth of its events.
_STORE_EVENTS = 2_000
_STORE_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class RatedPlace:
    """How far a rater is: with which exclusions, the serials of excluded votes of people, and the last known event."""

    generation: int
    position: int
    excluded: Collection[int]
    known: int


async def read_grouped_votes(connection: AsyncConnection, arena: int) -> tuple[int, LatestVotes] | None:
    """The latest votes of an arena with their groups, as stored, and up to which position; ``None`` if there are none."""
    with translate_errors("read the watch of an arena's crowd"):
        row = await fetch_row(connection, "crowd_watches_find", {"arena": arena})
    if row is None or row[2] != WATCH_VERSION:
        return None
    votes = await asyncio.to_thread(lambda: CrowdWatch.restore(bytes(row[3])).latest_votes())
    return int(row[1]), votes


class WatchedCrowd:
    """The watch of one arena, during one term of its rater."""

    def __init__(self, connection: Connection, arena: int, tell_change: TellChange) -> None:
        self._connection = connection
        self._arena = arena
        self._tell_change = tell_change
        self._watch: CrowdWatch | None = None
        self._generation = self._stored = 0
        #: Up to here the crowd was looked at before votes were excluded or restored.
        self._quiet = 0

    def take(self, columns: LogColumns, excluded: Collection[int]) -> None:
        """Follow events that the rater has read, if they are the next ones; those of undone votes are marked as such."""
        if self._watch is not None and len(columns) and columns.position[0] == self._watch.position + 1:
            self._follow(self._watch, columns, excluded)

    def catch_up(self, place: RatedPlace, most: int) -> bool:
        """Follow the log towards the rater's position, at most so many events; return whether there are more."""
        if self._watch is None or self._generation != place.generation:
            self._watch = self._begin(place)
        watch = self._watch
        if watch.position < place.position:
            after, upto = watch.position, min(place.position, watch.position + most)
            undone = read_undone_votes(self._connection, self._arena, after, place.known)
            columns = read_columns(self._connection, self._arena, after, upto)
            self._follow(watch, columns.without(undone), place.excluded)
        return watch.position < place.position

    def store(self) -> None:
        """Store the watch, inside the caller's transaction, if that is worth it."""
        if self._watch is None:
            return
        position = self._watch.position
        if position - self._stored < min(_STORE_EVENTS, _STORE_SHARE * position):
            return
        values = {
            "arena": self._arena,
            "generation": self._generation,
            "position": position,
            "version": WATCH_VERSION,
            "state": self._watch.save(),
        }
        with translate_errors("store the watch of an arena's crowd"):
            self._connection.execute(statement("crowd_watches_put"), values)
        self._stored = position

    def _follow(self, watch: CrowdWatch, columns: LogColumns, excluded: Collection[int]) -> None:
        origins = read_origins(self._connection, columns)
        for sign in watch.follow(columns, excluded, origins):
            if sign.position <= self._quiet:
                continue
            # One that was told and explained later than this look is told no more, if the log is read again.
            told = read_changes_unexplained_at(self._connection, self._arena, sign.position)
            if sign.model not in {change.model for change in told}:
                self._tell_change(self._arena, sign.model, sign.group, sign.detail)

    def _begin(self, place: RatedPlace) -> CrowdWatch:
        """The stored watch, or an empty one at the start of the latest part of the log."""
        changes = read_exclusion_changes(self._connection, self._arena)
        self._quiet = changes[place.generation - 1].position if place.generation else 0
        self._generation, self._stored = place.generation, 0
        with translate_errors("read the watch of an arena's crowd"):
            row = self._connection.execute(statement("crowd_watches_find"), {"arena": self._arena}).fetchone()
        if row is not None:
            generation, position, version, state = row
            differing = active_exclusions(changes, place.generation) ^ active_exclusions(changes, generation)
            first = find_first_cast(self._connection, self._arena, differing) if differing else None
            same_votes = first is None or first > position
            if version == WATCH_VERSION and position <= place.position and same_votes:
                try:
                    watch = CrowdWatch.restore(bytes(state))
                except BadOption as error:
                    _LOG.warning("stored watch of arena %s at %s: %s", self._arena, position, error)
                else:
                    self._stored = position
                    return watch
        # In whole pieces, so that whoever begins again a little later begins at the same place.
        after = max(place.position // HISTORY_EVENTS - 1, 0) * HISTORY_EVENTS
        models = len(read_roster_sync(self._connection, self._arena).models) if after else 0
        return CrowdWatch(models, after)
