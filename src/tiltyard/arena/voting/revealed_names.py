"""What voters of an arena were told: which responses they know the names of, and which votes wait for theirs.

A vote is blind if its voter knows neither response. The tables have it all; a process keeps what it needs of
the voters that it has heard of last, and folds the log into it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tiltyard.arena.log.event_log import LogRow, OpenMatchup, PendingNames, ToldResponse
from tiltyard.settings.arena_settings import MAX_SESSION_VOTES

__all__ = ["CACHED_SESSION_LIMIT", "RevealedNames", "VoterKnowledge"]

#: Voters of whom a process remembers what they were told: many more than one batch has.
CACHED_SESSION_LIMIT = 1_000


@dataclass(slots=True)
class VoterKnowledge:
    """What one voter was told."""

    #: Model and prompt of every response whose name the voter knows.
    told: dict[int, tuple[int, int]] = field(default_factory=dict)
    #: A person's votes whose names were not told, oldest first, by serial. The newest are enough: no session is longer.
    pending: dict[int, PendingNames] = field(default_factory=dict)

    def is_blind(self, one: OpenMatchup) -> bool:
        """Whether the voter knows neither name of a matchup."""
        return one.response_a not in self.told and one.response_b not in self.told

    def vote(self, one: OpenMatchup) -> None:
        """The voter voted, and waits for the names."""
        self.pending[one.serial] = PendingNames.of(one)
        if len(self.pending) > MAX_SESSION_VOTES:
            del self.pending[next(iter(self.pending))]

    def undo(self, serial: int) -> None:
        """The vote on a matchup was undone."""
        self.pending.pop(serial, None)

    def tell(self, row: LogRow) -> None:
        """The voter was told the names of a matchup."""
        self.told[row.response_a] = (row.a, row.prompt)
        self.told[row.response_b] = (row.b, row.prompt)
        self.pending.pop(row.serial, None)


class RevealedNames:
    """Voters of one arena by their sessions; those asked for longest ago are forgotten."""

    def __init__(self) -> None:
        self._known: dict[int, VoterKnowledge] = {}

    def __contains__(self, session: int) -> bool:
        return session in self._known

    def of(self, session: int) -> VoterKnowledge:
        """What a voter was told who was `remember`-ed."""
        known = self._known[session] = self._known.pop(session)
        return known

    def find(self, session: int) -> VoterKnowledge | None:
        """The same of a voter who may not be known here."""
        return self._known.get(session)

    def remember(self, session: int, told: Iterable[ToldResponse], pending: Iterable[PendingNames]) -> None:
        """A voter as the tables have it."""
        self._known[session] = VoterKnowledge(
            {one.response: (one.model, one.prompt) for one in told}, {one.serial: one for one in pending}
        )
        if len(self._known) > CACHED_SESSION_LIMIT:
            del self._known[next(iter(self._known))]
