"""What was sent to voters of the matchups that one process served, and when: a vote counts only after a look at both.

Times are of the process's own steady clock. What another process served is not known here, and nothing is held against
votes on it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from uuid import UUID

from tiltyard.arena.log.event_details import VoteDetail
from tiltyard.core.policy.state.vote_marks import NO_MARK, Look
from tiltyard.foundation.caches import BoundedCache

__all__ = ["Deliveries"]

#: Matchups that are remembered, the last used; about 350 bytes each.
_KNOWN_MATCHUP_LIMIT = 50_000


@dataclass(slots=True)
class _Delivery:
    """When a matchup was shown and each of its responses was sent, and how long the responses are."""

    shown: float | None
    sent_a: float | None = None
    sent_b: float | None = None
    characters_a: int = 0
    characters_b: int = 0


class Deliveries:
    """What was sent of the matchups of one arena."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self.clock = clock
        self._known: BoundedCache[UUID, _Delivery] = BoundedCache(_KNOWN_MATCHUP_LIMIT)

    def __len__(self) -> int:
        return len(self._known)

    def begin(self, matchup: UUID, *, shown: float | None) -> None:
        """A matchup is served here: shown at this time, or prefetched."""
        self._known.put(matchup, _Delivery(shown))

    def show(self, matchup: UUID, at: float) -> None:
        """A matchup is on show since this time, unless it was before."""
        known = self._known.get(matchup)
        if known is not None and known.shown is None:
            known.shown = at

    def send(self, matchup: UUID, a: int | None, b: int | None) -> None:
        """Responses are sent, with so many characters each; ``None`` for one that is not. The first time counts."""
        known = self._known.get(matchup)
        if known is None:
            return
        if a is not None and known.sent_a is None:
            known.sent_a, known.characters_a = self.clock(), a
        if b is not None and known.sent_b is None:
            known.sent_b, known.characters_b = self.clock(), b

    def mark(self, matchup: UUID, at: float, detail: VoteDetail | None) -> int:
        """The `VoteMark` of a vote that came at this time; `NO_MARK` if nothing speaks against it."""
        known = self._known.get(matchup)
        if known is None:
            return NO_MARK
        seconds = None
        if known.sent_a is not None and known.sent_b is not None:
            sent = max(known.sent_a, known.sent_b)
            # Who never said that the matchup is shown has it on show since it was sent.
            seconds = at - (sent if known.shown is None else max(sent, known.shown))
        shown = None if detail is None else detail.get("shown")
        reported = None if shown is None else max(shown["a"], shown["b"])
        return Look(seconds, known.characters_a + known.characters_b, reported).mark()
