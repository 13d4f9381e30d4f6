"""Watches the votes of people in one arena for changes of the crowd.

What is watched are blind votes that are rated or wait to be, and are not excluded. A vote that waits is compared with the
ratings, and they learn from it only when it is admitted. The watch has a memory of the latest votes only: a rater that starts
reads them again from the log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from tiltyard.arena.log.event_details import CrowdChangedDetail
from tiltyard.arena.log.event_log import HUMAN, LogKind
from tiltyard.arena.log.log_columns import LogColumns
from tiltyard.core.integrity.crowd_drift import CrowdDrift, DriftSign, WatchedVotes
from tiltyard.core.integrity.vote_groups import VOTE_GROUPS, VoteGrouping
from tiltyard.core.judging.power_analysis import POINTS_PER_LOGIT
from tiltyard.core.policy.state.vote_marks import NO_MARK, VoteMark
from tiltyard.core.ratings.scoring import Scoring

__all__ = ["HISTORY_EVENTS", "CrowdWatch"]

#: Events before its start that a watch reads: a span of the test has fewer.
HISTORY_EVENTS = 400_000
#: Votes between two looks at the evidence, for a small roster; each model adds two.
_LOOK_VOTES = 50
#: Sessions that are named with a change, those with most votes first.
_SESSION_LIMIT = 1_000
_SECOND_MICROSECONDS = 1_000_000
_SCORES = Scoring().by_kind()
#: Marks of votes that count, or will.
_WATCHED = (NO_MARK, VoteMark.WAITING)
_OF_BOTH_SOURCES = (LogKind.WIDEN, LogKind.CROWD_EXPLAINED)
_ENDINGS = (LogKind.VOTE, LogKind.SKIP, LogKind.EXPIRE, LogKind.RELEASED)


class _Vote(NamedTuple):
    position: int
    session: int
    a: int
    b: int
    score: float
    groups: tuple[bool, ...]
    counted: bool


class CrowdWatch:
    """The latest votes of one arena."""

    def __init__(self, models: int) -> None:
        self._drift = CrowdDrift(models, len(VOTE_GROUPS))
        self._grouping = VoteGrouping()
        #: When each open matchup was shown, in microseconds, by serial.
        self._shown: dict[int, int] = {}
        #: The votes that a sign may be about.
        self._latest: deque[_Vote] = deque(maxlen=self._drift.settings.span_votes)
        self._looked = 0

    @property
    def is_due(self) -> bool:
        """Whether there are enough new votes for another look at the evidence."""
        return self._drift.votes - self._looked >= _LOOK_VOTES + 2 * self._drift.models

    def follow(self, columns: LogColumns, excluded: Collection[int]) -> None:
        """Add the next events of the log. ``excluded`` are serials of votes that do not count."""
        rows = np.flatnonzero((columns.source == HUMAN) | np.isin(columns.kind, _OF_BOTH_SOURCES))
        names = ("position", "at", "kind", "serial", "session", "a", "b", "outcome", "blind", "mark")
        waiting: list[_Vote] = []
        for position, at, kind, serial, session, a, b, outcome, blind, mark in zip(
            *(getattr(columns, name)[rows].tolist() for name in names), strict=True
        ):
            if kind in (LogKind.SERVED, LogKind.SHOWN):
                self._shown[serial] = at
            elif kind in _ENDINGS:
                shown = self._shown.pop(serial, None)
                if kind == LogKind.SKIP:
                    self._grouping.skip(session)
                elif kind == LogKind.VOTE and blind != 0 and mark in _WATCHED and serial not in excluded:
                    seconds = None if shown is None else (at - shown) / _SECOND_MICROSECONDS
                    inside = self._grouping.vote(session, at / _SECOND_MICROSECONDS, seconds)
                    if not np.isnan(_SCORES[outcome]) and a != b:
                        score = float(_SCORES[outcome])
                        counted = mark == NO_MARK
                        waiting.append(_Vote(position, session, a, b, score, tuple(inside.tolist()), counted))
            elif kind == LogKind.ADMIT and serial not in excluded and not np.isnan(_SCORES[outcome]):
                self._watch(waiting)
                self._drift.count(a, b, float(_SCORES[outcome]))
            elif kind == LogKind.WIDEN:
                self._watch(waiting)
                self._drift.widen(max(a, self._drift.models))
            elif kind == LogKind.CROWD_EXPLAINED:
                self._watch(waiting)
                self._drift.forget_evidence()
        self._watch(waiting)

    def _watch(self, votes: list[_Vote]) -> None:
        """Give votes to the test, and empty the list."""
        if not votes:
            return
        self._drift.watch(
            WatchedVotes(
                a=np.array([vote.a for vote in votes]),
                b=np.array([vote.b for vote in votes]),
                score=np.array([vote.score for vote in votes]),
                session=np.array([vote.session for vote in votes]),
                groups=np.array([vote.groups for vote in votes]),
                counted=np.array([vote.counted for vote in votes]),
            )
        )
        self._latest.extend(votes)
        votes.clear()

    def look(self) -> dict[int, tuple[int, CrowdChangedDetail]]:
        """Models whose results shifted now, each with the group that shows it best, and the evidence.

        Where one model wins more, its opponents lose more: only shifts in the direction of the strongest one are told.
        """
        self._looked = self._drift.votes
        found: dict[int, tuple[int, CrowdChangedDetail]] = {}
        signs = self._drift.signs()
        for sign in signs:
            if sign.model not in found and sign.shift * signs[0].shift > 0.0:
                found[sign.model] = sign.group, self._detail(sign)
        return found

    def _detail(self, sign: DriftSign) -> CrowdChangedDetail:
        span = list(self._latest)[-sign.since_votes :]
        counts: dict[int, int] = {}
        for vote in span:
            if vote.groups[sign.group] and sign.model in (vote.a, vote.b):
                won = vote.score - 0.5 if vote.a == sign.model else 0.5 - vote.score
                if won * sign.shift > 0.0:
                    counts[vote.session] = counts.get(vote.session, 0) + 1
        sessions = sorted(counts, key=lambda session: (-counts[session], session))[:_SESSION_LIMIT]
        return {
            "since": span[0].position,
            "until": span[-1].position,
            "votes": len(span),
            "shift": round(sign.shift * POINTS_PER_LOGIT, 1),
            "log_evidence": round(sign.log_evidence, 2),
            "bar": round(self._drift.threshold, 2),
            "sessions": sessions,
        }
