"""The groups of votes in which a change of the crowd is looked for, besides all votes."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

__all__ = ["VOTE_GROUPS", "VoteGrouping"]

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
#: Sessions that are remembered, at least: those that did nothing while so many others came begin anew.
_REMEMBERED_SESSION_COUNT = 50_000


@dataclass(slots=True)
class _SessionCounts:
    votes: int = 0
    skips: int = 0


@dataclass(slots=True)
class VoteGrouping:
    """Says to which groups each vote belongs, from what its session did before it."""

    _lately: dict[int, _SessionCounts] = field(default_factory=dict)
    _before: dict[int, _SessionCounts] = field(default_factory=dict)

    def skip(self, session: int) -> None:
        """A session skipped a matchup."""
        self._counts(session).skips += 1

    def vote(self, session: int, at: float, seconds: float | None) -> npt.NDArray[np.bool_]:
        """Membership in each group. ``at`` in seconds since 1970; ``seconds`` since the matchup was shown, if known."""
        counts = self._counts(session)
        counts.votes += 1
        inside = np.zeros(len(VOTE_GROUPS), dtype=bool)
        inside[0] = True
        inside[1] = counts.votes <= _NEW_VOTES
        inside[2] = counts.skips >= _SKIP_COUNT and counts.skips > counts.votes
        inside[3] = seconds is not None and seconds < _QUICK_SECONDS
        inside[len(VOTE_GROUPS) - _QUARTER_COUNT + int(at // _QUARTER_SECONDS) % _QUARTER_COUNT] = True
        return inside

    def _counts(self, session: int) -> _SessionCounts:
        known = self._lately.get(session)
        if known is None:
            if len(self._lately) >= _REMEMBERED_SESSION_COUNT:
                self._before, self._lately = self._lately, {}
            known = self._lately[session] = self._before.pop(session, _SessionCounts())
        return known
