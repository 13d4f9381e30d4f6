"""A cache of what voters know: the responses whose model names were revealed to them, and votes still unrevealed.

A vote is blind if the name of neither response was revealed to its voter. The tables have all of it; a process
keeps it for the most recent voters and folds the log into it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tiltyard.arena.log.event_log import LogRow, OpenMatchup, PendingNames, ToldResponse
from tiltyard.core.policy.state.events import NO_FREE_PROMPT
from tiltyard.settings.arena_settings import MAX_SESSION_VOTES

#: Voters that a process remembers: many more than one batch has.
CACHED_SESSION_LIMIT = 1_000


@dataclass(slots=True)
class VoterKnowledge:
    """The names that were revealed to one voter."""

    #: Model and prompt of every response whose name the voter knows.
    revealed: dict[int, tuple[int, int]] = field(default_factory=dict)
    #: A person's votes whose names are not revealed yet, oldest first, by serial; as many as a session can have.
    pending: dict[int, PendingNames] = field(default_factory=dict)
    #: Whether a vote of theirs is rated, so that the next ones need not wait.
    is_known: bool = False

    def is_blind(self, one: OpenMatchup) -> bool:
        """Whether the voter knows neither name of a matchup."""
        return one.response_a not in self.revealed and one.response_b not in self.revealed

    def vote(self, one: OpenMatchup) -> None:
        """Add a vote whose names are not revealed yet."""
        self.pending[one.serial] = PendingNames.of(one)
        if len(self.pending) > MAX_SESSION_VOTES:
            del self.pending[next(iter(self.pending))]

    def undo(self, serial: int) -> None:
        """Remove a vote that was undone."""
        self.pending.pop(serial, None)

    def tell(self, row: LogRow) -> None:
        """Note that the names of a matchup were revealed. The answers of a live battle are shown only once."""
        if row.free_prompt == NO_FREE_PROMPT:
            self.revealed[row.response_a] = (row.a, row.prompt)
            self.revealed[row.response_b] = (row.b, row.prompt)
        self.pending.pop(row.serial, None)


class RevealedNames:
    """What the voters of one arena know, by session; the least recently used are dropped."""

    def __init__(self) -> None:
        self._known: dict[int, VoterKnowledge] = {}

    def __contains__(self, session: int) -> bool:
        return session in self._known

    def of(self, session: int) -> VoterKnowledge:
        """What a voter knows; the voter must have been added by `remember`."""
        known = self._known[session] = self._known.pop(session)
        return known

    def find(self, session: int) -> VoterKnowledge | None:
        """What a voter knows; ``None`` if the voter is not in the cache."""
        return self._known.get(session)

    def remember(
        self, session: int, revealed: Iterable[ToldResponse], pending: Iterable[PendingNames]
    ) -> None:
        """Add a voter, with what was read from the tables."""
        self._known[session] = VoterKnowledge(
            {one.response: (one.model, one.prompt) for one in revealed}, {one.serial: one for one in pending}
        )
        if len(self._known) > CACHED_SESSION_LIMIT:
            del self._known[next(iter(self._known))]
