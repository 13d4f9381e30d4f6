"""The groups of votes in which a change of the crowd is looked for, besides all votes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tiltyard.core.integrity.recent_table import RecentTable

__all__ = ["VOTE_GROUPS", "VoteGrouping", "group_flags"]

Array = npt.NDArray[Any]

#: By number, as the log stores them: append, never reorder. Hours are of the day, in UTC.
VOTE_GROUPS = (
    "all",
    "new-voters",
    "skipping-voters",
    "quick-votes",
    "hours-0-6",
    "hours-6-12",
    "hours-12-18",
    "hours-18-24",
)
_NEW_VOTES = 10
_SKIP_COUNT = 5
_QUICK_SECONDS = 5.0
_QUARTER_SECONDS = 6 * 3600
_QUARTER_COUNT = 4
_FIRST_QUARTER = VOTE_GROUPS.index("hours-0-6")
#: Sessions that neither voted nor skipped while others did so often begin anew, which bounds the memory.
_REMEMBERED_DEED_COUNT = 50_000


class VoteGrouping:
    """Says to which groups each vote belongs, from what its session did before it."""

    def __init__(self) -> None:
        self._deeds = 0
        #: Votes and skips of each session.
        self._sessions = RecentTable()

    def skip(self, session: int) -> None:
        """A session skipped a matchup."""
        self._count(session, 0, 1)

    def vote(self, session: int, at: float, seconds: float | None) -> int:
        """The groups as bits of a number, the first group lowest.

        ``at`` in seconds since 1970; ``seconds`` since the matchup was shown, if known.
        """
        votes, skips = self._count(session, 1, 0)
        quarter = int(at // _QUARTER_SECONDS) % _QUARTER_COUNT
        inside = (
            True,
            votes <= _NEW_VOTES,
            skips >= _SKIP_COUNT and skips > votes,
            seconds is not None and seconds < _QUICK_SECONDS,
        )
        bits = sum(1 << group for group, is_member in enumerate(inside) if is_member)
        return bits | 1 << _FIRST_QUARTER + quarter

    def saved(self) -> dict[str, Array]:
        """Everything, as arrays."""
        return {"deeds": np.array([self._deeds]), **self._sessions.saved()}

    @classmethod
    def restored(cls, saved: Mapping[str, Array]) -> VoteGrouping:
        """What `saved` returned."""
        grouping = cls()
        grouping._deeds = int(saved["deeds"][0])
        grouping._sessions = RecentTable.restored(saved)
        return grouping

    def _count(self, session: int, votes: int, skips: int) -> tuple[float, float]:
        """Add to the counts of a session; return them."""
        self._deeds += 1
        if self._deeds % _REMEMBERED_DEED_COUNT == 0:
            self._sessions.age()
        known = self._sessions.get(session)
        counts = known[0] + votes, known[1] + skips
        self._sessions.put(session, counts)
        return counts


def group_flags(bits: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """The groups of votes by vote and group, from their bits."""
    return (bits[:, None] >> np.arange(len(VOTE_GROUPS)) & 1).astype(bool)
