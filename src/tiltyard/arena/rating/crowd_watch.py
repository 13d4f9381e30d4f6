"""Watches the votes of people in one arena for changes of the crowd.

A vote that waits is compared with the ratings, and they learn from it only when it is admitted. Votes are tested in
blocks that the log alone determines, so that a watch finds the same changes at the same positions however it is fed,
and if it is saved and restored in between.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tiltyard.arena.log.event_details import CrowdChangedDetail
from tiltyard.arena.log.event_log import HUMAN, LogKind
from tiltyard.arena.log.log_columns import LogColumns
from tiltyard.arena.rating.grouped_votes import EVENT_COLUMNS, SCORES, GroupedVote, VoteGrouper, WatchedEvent
from tiltyard.core.integrity.crowd_drift import CrowdDrift, DriftSign, WatchedVotes
from tiltyard.core.integrity.vote_groups import VOTE_GROUPS, VoterOrigin, group_flags
from tiltyard.core.judging.power_analysis import POINTS_PER_LOGIT
from tiltyard.core.policy.validity.fold_state import decode_state, encode_state

#: Events that are read at least to start a watch from the log, and twice as many at most: a span of the test has fewer.
HISTORY_EVENTS = 400_000
#: The version of a saved watch. One of another version cannot be restored.
WATCH_VERSION = f"watch-1 {len(VOTE_GROUPS)} groups"
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
Ints = npt.NDArray[np.int64]
Votes = npt.NDArray[np.void]


@dataclass(frozen=True, slots=True)
class FoundSign:
    """The results of a model shifted in a group of votes, as seen at a position of the log."""

    position: int
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

    def __init__(self, models: int, position: int = 0) -> None:
        self.position = position
        self._drift = CrowdDrift(models, len(VOTE_GROUPS))
        self._grouper = VoteGrouper()
        #: Votes of a block that is not complete.
        self._block: list[GroupedVote] = []
        #: The votes that a sign may be about, in pieces, and how many there are.
        self._latest: deque[Votes] = deque()
        self._latest_count = 0
        self._unlooked_blocks = 0

    def follow(
        self, columns: LogColumns, excluded: Collection[int], origins: Mapping[int, VoterOrigin]
    ) -> list[FoundSign]:
        """Add the next events of the log; return the models whose results shifted, at each look at the evidence.

        ``excluded`` are serials of votes that do not count; origins are by session.
        """
        rows = np.flatnonzero((columns.source == HUMAN) | np.isin(columns.kind, _OF_BOTH_SOURCES))
        found: list[FoundSign] = []
        for row in zip(*(getattr(columns, name)[rows].tolist() for name in EVENT_COLUMNS), strict=True):
            event = WatchedEvent(*row)
            vote = self._grouper.read(event, excluded, origins)
            if vote is not None:
                self._block.append(vote)
                found += self._test_block()
            elif event.kind == LogKind.ADMIT and event.serial not in excluded:
                self._admit(event)
            elif event.kind in _OF_BOTH_SOURCES:
                self._test()
                if event.kind == LogKind.WIDEN:
                    self._drift.widen(max(event.a, self._drift.models))
                else:
                    self._drift.forget_evidence()
        if len(columns):
            self.position = int(columns.position[-1])
        return found

    def _admit(self, event: WatchedEvent) -> None:
        """A vote that waited counts from now on."""
        if not np.isnan(SCORES[event.outcome]):
            self._drift.count(event.a, event.b, float(SCORES[event.outcome]))

    def _test_block(self) -> list[FoundSign]:
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
        self._drift.watch(
            WatchedVotes(
                a=votes["a"].astype(np.int64),
                b=votes["b"].astype(np.int64),
                score=votes["score"] / 2.0,
                session=votes["session"],
                groups=group_flags(votes["groups"].astype(np.int64)),
                counted=votes["counted"],
            )
        )
        self._latest.append(votes)
        self._latest_count += len(votes)
        while self._latest_count - len(self._latest[0]) >= self._drift.settings.span_votes:
            self._latest_count -= len(self._latest.popleft())

    def _look(self) -> list[FoundSign]:
        """Models whose results shifted now, each with the group that shows it best, and the evidence.

        Where one model wins more, its opponents lose more: only shifts in the direction of the strongest one are told.
        """
        found: dict[int, FoundSign] = {}
        signs = self._drift.signs()
        for sign in signs:
            if sign.model not in found and sign.shift * signs[0].shift > 0.0:
                detail = self._detail(sign)
                found[sign.model] = FoundSign(detail["until"], sign.model, sign.group, detail)
        return list(found.values())

    def _detail(self, sign: DriftSign) -> CrowdChangedDetail:
        span = np.concatenate(self._latest)[-sign.since_votes :]
        won = np.where(span["a"] == sign.model, 1, -1) * (span["score"] - 1)
        inside = (span["groups"] >> sign.group & 1 == 1) & (won * sign.shift > 0.0)
        inside &= (span["a"] == sign.model) | (span["b"] == sign.model)
        sessions, counts = np.unique(span["session"][inside], return_counts=True)
        most = np.lexsort((sessions, -counts))[:_SESSION_LIMIT]
        return {
            "since": int(span["position"][0]),
            "until": int(span["position"][-1]),
            "votes": len(span),
            "shift": round(sign.shift * POINTS_PER_LOGIT, 1),
            "log_evidence": round(sign.log_evidence, 2),
            "bar": round(self._drift.threshold, 2),
            "sessions": sessions[most].tolist(),
        }

    def latest_votes(self) -> LatestVotes:
        """The votes that a sign may be about, with their groups."""
        votes = np.concatenate([np.array(self._block, _VOTE), *self._latest])
        return LatestVotes(
            *(votes[name].astype(np.int64) for name in ("position", "session", "groups", "a", "b"))
        )

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
        watch = cls(0, values["position"])
        watch._drift = CrowdDrift.restored(parts["drift"])
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
