"""Watches the votes of people in one arena for changes of the crowd.

A vote that waits is compared with the ratings, and they learn from it only when it is admitted. Votes are tested in
blocks that the log alone determines, so that a watch finds the same changes at the same positions however it is fed,
and if it is saved and restored in between.

In live arenas a model is watched in each category by itself: which category is asked for is the voters' choice.

Watched are blind votes of people that are rated or wait to be, and are not excluded.

A watch is stored with a checkpoint, if it has seen enough events since it last was. A rater that starts continues from
there. If votes were excluded or restored before that, it reads the latest part of the log again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from psycopg import AsyncConnection, Connection

from tiltyard.arena.log.buckets import fetch_row, fetch_rows_sync
from tiltyard.arena.log.crowd_changes import read_changes_unexplained_at
from tiltyard.arena.log.event_details import CrowdChangedDetail
from tiltyard.arena.log.event_log import HUMAN, LogKind
from tiltyard.arena.log.log_columns import LogColumns, read_columns
from tiltyard.arena.log.rosters import read_roster_sync
from tiltyard.arena.rating.log_replay import active_exclusions
from tiltyard.arena.rating.rater_progress import (
    find_first_excluded,
    read_exclusion_changes,
    read_undone_votes,
)
from tiltyard.core.integrity.crowd_drift import LIVE_DRIFT, CrowdDrift, DriftSign, WatchedVotes
from tiltyard.core.integrity.vote_groups import VOTE_GROUPS, VoteGrouping, VoterOrigin, group_flags
from tiltyard.core.judging.power_analysis import POINTS_PER_LOGIT
from tiltyard.core.policy.state.events import NO_MARK, VoteMark
from tiltyard.core.policy.validity.arena_fold import decode_state, encode_state
from tiltyard.core.ratings.pairs import Scoring
from tiltyard.errors import BadOption
from tiltyard.foundation.arrays import Ints
from tiltyard.postgres.connections import translate_errors
from tiltyard.postgres.statements import statement

#: A's result by outcome; not a number for what rates nobody.
SCORES = Scoring().by_kind()
_SECOND_MICROSECONDS = 1_000_000
#: Marks of votes that count, or will.
_WATCHED = (NO_MARK, VoteMark.WAITING)
_UNKNOWN = VoterOrigin()
_ENDINGS = (LogKind.VOTE, LogKind.SKIP, LogKind.EXPIRE, LogKind.RELEASED)


class WatchedEvent(NamedTuple):
    """What a watch needs of an event, as `LogColumns` has it."""

    position: int
    at: int
    kind: int
    serial: int
    session: int
    a: int
    b: int
    prompt: int
    outcome: int
    blind: int
    mark: int


EVENT_COLUMNS = WatchedEvent._fields


class GroupedVote(NamedTuple):
    """A vote that rates somebody. Its groups are bits, and its score is twice A's result."""

    position: int
    session: int
    groups: int
    a: int
    b: int
    score: int
    counted: bool


def read_origins(connection: Connection, columns: LogColumns) -> dict[int, VoterOrigin]:
    """Where the sessions that vote in these events came from, as far as it is known."""
    voted = columns.session[(columns.source == HUMAN) & (columns.kind == LogKind.VOTE)]
    sessions = np.unique(voted).tolist()
    if not sessions:
        return {}
    rows = fetch_rows_sync(connection, "voter_origins", {"sessions": sessions}, "read where voters came from")
    return {session: VoterOrigin(network, language) for session, network, language in rows}


class VoteGrouper:
    """Reads the events of people in order, and remembers what their sessions did."""

    def __init__(self) -> None:
        self._grouping = VoteGrouping()
        #: When each open matchup was shown, in microseconds, by serial.
        self._shown: dict[int, int] = {}

    def read(
        self, event: WatchedEvent, excluded: Collection[int], origins: Mapping[int, VoterOrigin]
    ) -> GroupedVote | None:
        """The vote of an event; ``None`` if it is none that is watched.

        ``excluded`` are serials, and origins are by session, as far as they are known.
        """
        if event.kind in (LogKind.SERVED, LogKind.SHOWN):
            self._shown[event.serial] = event.at
            return None
        if event.kind not in _ENDINGS:
            return None
        shown = self._shown.pop(event.serial, None)
        # One that was fetched ahead and never shown was refused as well as one that was skipped.
        if event.kind in (LogKind.SKIP, LogKind.RELEASED):
            self._grouping.skip(event.session)
        if (
            event.kind != LogKind.VOTE
            or event.blind == 0
            or event.mark not in _WATCHED
            or event.serial in excluded
        ):
            return None
        seconds = None if shown is None else (event.at - shown) / _SECOND_MICROSECONDS
        origin = origins.get(event.session, _UNKNOWN)
        groups = self._grouping.vote(event.session, event.at / _SECOND_MICROSECONDS, seconds, origin)
        if np.isnan(SCORES[event.outcome]) or event.a == event.b:
            return None
        score, counted = int(2 * SCORES[event.outcome]), event.mark == NO_MARK
        return GroupedVote(event.position, event.session, groups, event.a, event.b, score, counted)

    def saved(self) -> dict[str, Array]:
        """Everything, as arrays."""
        return {
            **self._grouping.saved(),
            "shown_serials": np.fromiter(self._shown.keys(), np.int64, len(self._shown)),
            "shown_times": np.fromiter(self._shown.values(), np.int64, len(self._shown)),
        }

    @classmethod
    def restored(cls, saved: Mapping[str, Array]) -> VoteGrouper:
        """What `saved` returned."""
        grouper = cls()
        grouper._grouping = VoteGrouping.restored(saved)
        shown = (saved[name].tolist() for name in ("shown_serials", "shown_times"))
        grouper._shown = dict(zip(*shown, strict=True))
        return grouper


#: Events that are read at least to start a watch from the log, and twice as many at most: a span of the test has fewer.
HISTORY_EVENTS = 400_000
#: The version of a saved watch. One of another version cannot be restored.
WATCH_VERSION = f"watch-2 {len(VOTE_GROUPS)} groups"
#: Votes that are tested at once; and models for which the evidence is looked at after each block, twice as many for which it
#: is after every second, and so on.
_BLOCK_VOTES = 50
_LOOK_MODEL_COUNT = 20
#: Sessions that are named with a change, those with most votes first.
_SESSION_LIMIT = 1_000
_OF_BOTH_SOURCES = (LogKind.WIDEN, LogKind.CROWD_EXPLAINED)
#: A `GroupedVote` as it is remembered.
_VOTE = np.dtype(
    [
        ("position", np.int64),
        ("session", np.int64),
        ("groups", np.int32),
        ("a", np.int16),
        ("b", np.int16),
        ("score", np.int8),
        ("counted", np.bool_),
    ]
)

Array = npt.NDArray[Any]
Votes = npt.NDArray[np.void]


class HeldChange(NamedTuple):
    """The results of a model shifted in a group of votes; the sessions of the detail made it."""

    model: int
    group: int
    detail: CrowdChangedDetail


@dataclass(frozen=True, slots=True, eq=False)
class LatestVotes:
    """Watched votes, as columns. Groups are bits."""

    position: Ints
    session: Ints
    groups: Ints
    a: Ints
    b: Ints


class CrowdWatch:
    """The crowd of one arena up to ``position`` of its log."""

    def __init__(self, models: int, position: int = 0, *, live: bool = False) -> None:
        self.position = position
        #: In live arenas: models by category, in the order in which they were voted on. The test knows their numbers.
        self._cells: dict[tuple[int, int], int] | None = {} if live else None
        self._drift = CrowdDrift(0 if live else models, len(VOTE_GROUPS), LIVE_DRIFT if live else None)
        self._grouper = VoteGrouper()
        #: Votes of a block that is not complete.
        self._block: list[GroupedVote] = []
        #: The votes that a sign may be about, in pieces, and how many there are.
        self._latest: deque[Votes] = deque()
        self._latest_count = 0
        self._unlooked_blocks = 0

    def follow(
        self, columns: LogColumns, excluded: Collection[int], origins: Mapping[int, VoterOrigin]
    ) -> list[HeldChange]:
        """Add the next events of the log; return the models whose results shifted, at each look at the evidence.

        ``excluded`` are serials of votes that do not count; origins are by session.
        """
        rows = np.flatnonzero((columns.source == HUMAN) | np.isin(columns.kind, _OF_BOTH_SOURCES))
        found: list[HeldChange] = []
        for row in zip(*(getattr(columns, name)[rows].tolist() for name in EVENT_COLUMNS), strict=True):
            event = WatchedEvent(*row)
            vote = self._grouper.read(event, excluded, origins)
            if vote is not None:
                a, b = self._watched_numbers(event)
                self._block.append(vote._replace(a=a, b=b))
                found += self._test_block()
            elif event.kind == LogKind.ADMIT and event.serial not in excluded:
                # It waited, and counts from now on.
                if not np.isnan(SCORES[event.outcome]):
                    self._drift.count(*self._watched_numbers(event), float(SCORES[event.outcome]))
            elif event.kind in _OF_BOTH_SOURCES:
                self._test()
                if event.kind == LogKind.WIDEN and self._cells is None:
                    self._drift.widen(max(event.a, self._drift.models))
                elif event.kind == LogKind.CROWD_EXPLAINED:
                    self._drift.forget_evidence()
        if len(columns):
            self.position = int(columns.position[-1])
        return found

    def _watched_numbers(self, event: WatchedEvent) -> tuple[int, int]:
        """The numbers by which the test knows both models of an event."""
        if self._cells is None:
            return event.a, event.b
        a, b = (
            self._cells.setdefault((model, event.prompt), len(self._cells)) for model in (event.a, event.b)
        )
        if len(self._cells) > self._drift.models:
            self._drift.widen(len(self._cells))
        return a, b

    def _models_of(self, numbers: Ints) -> Ints:
        """The models that the test knows by these numbers."""
        if self._cells is None:
            return numbers
        return np.array([model for model, _ in self._cells], np.int64)[numbers]

    def _test_block(self) -> list[HeldChange]:
        """Test the votes of a complete block, and look at the evidence if that is due."""
        if len(self._block) < _BLOCK_VOTES:
            return []
        self._test()
        self._unlooked_blocks += 1
        if self._unlooked_blocks * _LOOK_MODEL_COUNT < self._drift.models:
            return []
        self._unlooked_blocks = 0
        return self._look()

    def _test(self) -> None:
        """Give the votes that wait for their block to be complete to the test."""
        if not self._block:
            return
        votes = np.array(self._block, dtype=_VOTE)
        self._block = []
        self._drift.watch(_watched(votes))
        self._latest.append(votes)
        self._latest_count += len(votes)
        while self._latest_count - len(self._latest[0]) >= self._drift.settings.span_votes:
            self._latest_count -= len(self._latest.popleft())

    def _look(self) -> list[HeldChange]:
        """Models whose results shifted now, each with the group that shows it best, and the evidence.

        Where one model wins more, its opponents lose more: only shifts in the direction of the strongest one are told.
        """
        found: dict[int, HeldChange] = {}
        signs = self._drift.signs()
        for sign in signs:
            (model,) = self._models_of(np.array([sign.model])).tolist()
            if model not in found and sign.shift * signs[0].shift > 0.0:
                found[model] = HeldChange(model, sign.group, self._detail(sign))
        return list(found.values())

    def _detail(self, sign: DriftSign) -> CrowdChangedDetail:
        span = np.concatenate(self._latest)[-sign.since_votes :]
        sessions = self._drift.movers(sign, _watched(span))
        return {
            "since": int(span["position"][0]),
            "until": int(span["position"][-1]),
            "votes": len(span),
            "shift": round(sign.shift * POINTS_PER_LOGIT, 1),
            "log_evidence": round(sign.log_evidence, 2),
            "bar": round(self._drift.threshold, 2),
            "sessions": sessions[:_SESSION_LIMIT].tolist(),
        }

    def latest_votes(self) -> LatestVotes:
        """The votes that a sign may be about, with their groups."""
        votes = np.concatenate([np.array(self._block, _VOTE), *self._latest])
        position, session, groups, *pair = (
            votes[name].astype(np.int64) for name in ("position", "session", "groups", "a", "b")
        )
        a, b = map(self._models_of, pair)
        return LatestVotes(position, session, groups, a, b)

    def save(self) -> bytes:
        """Everything, as few bytes."""
        latest = np.concatenate([np.empty(0, _VOTE), *self._latest])
        sessions, places = np.unique(latest["session"], return_inverse=True)
        parts = {
            "drift": self._drift.saved(),
            "grouper": self._grouper.saved(),
            "latest": {name: latest[name] for name in _VOTE.names or () if name != "session"},
            "sessions": {"numbers": sessions, "places": places},
        }
        arrays = {f"{part} {name}": array for part, named in parts.items() for name, array in named.items()}
        values = {
            "position": self.position,
            "block": self._block,
            "pieces": [len(piece) for piece in self._latest],
            "unlooked_blocks": self._unlooked_blocks,
            "cells": None if self._cells is None else list(self._cells),
        }
        return encode_state(arrays, values)

    @classmethod
    def restore(cls, saved: bytes) -> CrowdWatch:
        """What `save` returned; it goes on as if it had never stopped."""
        arrays, values = decode_state(saved)
        parts: dict[str, dict[str, Array]] = {}
        for label, array in arrays.items():
            part, name = label.split(" ")
            parts.setdefault(part, {})[name] = array
        cells = values.get("cells")
        watch = cls(0, values["position"], live=cells is not None)
        if cells is not None:
            watch._cells = {(model, category): number for number, (model, category) in enumerate(cells)}
        watch._drift = CrowdDrift.restored(parts["drift"], watch._drift.settings)
        watch._grouper = VoteGrouper.restored(parts["grouper"])
        watch._block = [GroupedVote(*vote) for vote in values["block"]]
        watch._unlooked_blocks = values["unlooked_blocks"]
        latest = np.empty(len(parts["sessions"]["places"]), _VOTE)
        latest["session"] = parts["sessions"]["numbers"][parts["sessions"]["places"]]
        for name, array in parts["latest"].items():
            latest[name] = array
        ends = np.cumsum(values["pieces"], dtype=np.int64)
        watch._latest = deque(np.split(latest, ends[:-1]) if len(latest) else [])
        watch._latest_count = len(latest)
        return watch


def _watched(votes: Votes) -> WatchedVotes:
    return WatchedVotes(
        a=votes["a"].astype(np.int64),
        b=votes["b"].astype(np.int64),
        score=votes["score"] / 2.0,
        session=votes["session"],
        groups=group_flags(votes["groups"].astype(np.int64)),
        counted=votes["counted"],
    )


#: Appends a change to the log of an arena.
TellChange = Callable[[int, HeldChange], object]

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
    row = await fetch_row(connection, "crowd_watches_find", {"arena": arena})
    if row is None or row[2] != WATCH_VERSION:
        return None
    votes = await asyncio.to_thread(lambda: CrowdWatch.restore(bytes(row[3])).latest_votes())
    return int(row[1]), votes


class WatchedCrowd:
    """The watch of one arena, during one term of its rater."""

    def __init__(
        self, connection: Connection, arena: int, tell_change: TellChange, *, live: bool = False
    ) -> None:
        self._connection = connection
        self._live = live
        self._arena = arena
        self._tell_change = tell_change
        self._watch: CrowdWatch | None = None
        self._generation = self._stored = 0
        #: The last exclusion or restoration that is regarded; and the last by an operator, before which the crowd was looked at
        #: with other votes. Where a change held votes, the rest of them are looked at again.
        self._regarded = self._quiet = 0

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
            until = sign.detail["until"]
            if until <= self._quiet:
                continue
            # One whose votes are not yet regarded as held is told no more, if the log is read again; those who go on are.
            told = read_changes_unexplained_at(self._connection, self._arena, until)
            since = max(until, self._regarded)
            if sign.model not in {change.model for change in told if change.position > since}:
                self._tell_change(self._arena, sign)

    def _begin(self, place: RatedPlace) -> CrowdWatch:
        """The stored watch, or an empty one at the start of the latest part of the log."""
        changes = read_exclusion_changes(self._connection, self._arena)
        # The exclusion that a change makes follows it in the log.
        own = {
            change.position + 1 for change in read_changes_unexplained_at(self._connection, self._arena, 0)
        }
        regarded = [change.position for change in changes[: place.generation]]
        self._regarded = max(regarded, default=0)
        self._quiet = max((position for position in regarded if position not in own), default=0)
        self._generation, self._stored = place.generation, 0
        with translate_errors("read the watch of an arena's crowd"):
            row = self._connection.execute(statement("crowd_watches_find"), {"arena": self._arena}).fetchone()
        if row is not None:
            generation, position, version, state = row
            differing = active_exclusions(changes, place.generation) ^ active_exclusions(changes, generation)
            first = None
            if differing:
                _, first = find_first_excluded(self._connection, self._arena, differing)
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
        return CrowdWatch(models, after, live=self._live)
