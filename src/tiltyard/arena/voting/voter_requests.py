"""Requests of voters to an arena, and the replies."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple
from uuid import UUID

from tiltyard.arena.log.event_details import ServedDetail, VoteDetail
from tiltyard.arena.log.event_log import LogKind
from tiltyard.arena.voting.sent_responses import SentSides
from tiltyard.core.battles import Kind
from tiltyard.core.policy.state.events import Unrated

#: Seconds after the undo deadline during which remarks are still accepted, if the names are not revealed.
REMARK_GRACE_SECONDS = 60.0

State = Literal["open", "voted", "skipped", "expired"]


@dataclass(frozen=True, slots=True)
class DeclaredSkills:
    """The languages and the categories of prompts that a voter can judge; empty for all."""

    languages: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()

    @property
    def is_everything(self) -> bool:
        """Whether nothing was declared."""
        return not self.languages and not self.categories

    def detail(self) -> ServedDetail | None:
        """What the log keeps with a matchup that was chosen by it."""
        kept: ServedDetail = {}
        if self.languages:
            kept["languages"] = list(self.languages)
        if self.categories:
            kept["categories"] = list(self.categories)
        return kept or None


@dataclass(frozen=True, slots=True)
class Voter:
    """A voter: a session, and whether it belongs to a person (0) or a judge (1)."""

    session: int
    source: int = 0
    #: What this request says that the voter can judge.
    declared: DeclaredSkills = DeclaredSkills()
    #: Accounts on which live battles are counted besides the session's: they stay when a cookie is deleted.
    payers: tuple[int, ...] = field(default=(), compare=False)
    #: Whether votes count at once, and for no network: the voter is named, or came by an invitation for one person.
    trusted: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class OfferedMatchup:
    """A matchup for its voter. The numbers of the prompt and the responses are never sent to the client."""

    matchup: UUID
    arena: str
    prompt: int
    response_a: int
    response_b: int
    served_at: datetime
    expires_at: datetime
    #: How often the voter has undone a vote on this matchup. A vote must state this number.
    ballot: int = 0
    #: Whether it was served just now.
    new: bool = False


class SentVote(NamedTuple):
    matchup: UUID
    kind: Kind
    #: The ballot number that the voter saw, so that a vote sent before an undo and received after it is rejected.
    ballot: int = 0
    #: Whether to reveal the names at once, which makes the vote final.
    reveal: bool = False
    detail: VoteDetail | None = None
    #: What was sent of the matchup; ``None`` if that is not checked.
    sent: SentSides | None = None
    #: Whether the voter or an answer talked of who answers.
    named: bool = False


@dataclass(frozen=True, slots=True)
class EndedMatchup:
    """How a matchup ended, or that the vote on it was undone."""

    matchup: UUID
    kind: LogKind
    outcome: Kind | None
    position: int
    at: datetime
    #: Until when the vote can be undone; ``None`` if it cannot.
    undo_until: datetime | None = None
    revealed: bool = False
    #: The ballot number; after an undo, the one that is open now.
    ballot: int = 0
    #: For a vote: whether the voter knew neither name. Only blind votes are rated.
    blind: bool = True
    #: For a vote: why it is not rated; ``None`` if it is.
    unrated: Unrated | None = None


@dataclass(frozen=True, slots=True)
class RevealedMatchup:
    """The revealed names of a matchup, and why these models were matched."""

    matchup: UUID
    model_a: str
    model_b: str
    prompt: str
    outcome: Kind
    lane: str
    reason: str
    position: int
    #: Decisive votes between these two models, from people or from judges, and how many they need.
    decisive: int = 0
    floor: int = 0
    #: About how many more votes the policy wants between them; ``None`` if it can tell no number.
    missing: int | None = None
    #: Whether the voter knew neither name when the vote was cast.
    blind: bool = True
    #: Why the vote is not rated; ``None`` if it is.
    unrated: Unrated | None = None


@dataclass(frozen=True, slots=True)
class ReviewedMatchup:
    """A voter's own matchup in any state, without names."""

    matchup: UUID
    arena: str
    state: State
    prompt: int
    #: The numbers of both responses, while the voter may see them.
    responses: tuple[int, int] | None
    expires_at: datetime
    outcome: Kind | None = None
    #: Until when the vote can be undone; ``None`` if it cannot.
    undo_until: datetime | None = None
    #: Seconds until then.
    left: float = 0.0
    revealed: bool = False
    ballot: int = 0
    #: For a vote: whether the voter knew neither name.
    blind: bool = True
    #: For a vote: why it is not rated; ``None`` if it is.
    unrated: Unrated | None = None
