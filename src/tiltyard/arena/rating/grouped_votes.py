"""The watched votes of a log, each with the groups that it belongs to.

Watched are blind votes of people that are rated or wait to be, and are not excluded.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from psycopg import Connection

from tiltyard.arena.log.event_log import HUMAN, LogKind
from tiltyard.arena.log.log_columns import LogColumns
from tiltyard.core.integrity.vote_groups import VoteGrouping, VoterOrigin
from tiltyard.core.policy.state.vote_marks import NO_MARK, VoteMark
from tiltyard.core.ratings.scoring import Scoring
from tiltyard.postgres.connections import translate_errors
from tiltyard.postgres.statements import statement

Array = npt.NDArray[Any]

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
    with translate_errors("read where voters came from"):
        rows = connection.execute(statement("voter_origins"), {"sessions": sessions}).fetchall()
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
        if event.kind == LogKind.SKIP:
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
