"""What voters ask of an arena, and what they are told."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple
from uuid import UUID

from tiltyard.arena.log.event_details import VoteDetail
from tiltyard.arena.log.event_log import LogKind
from tiltyard.core.battles import Kind

__all__ = [
    "REMARK_GRACE_SECONDS",
    "Contribution",
    "EndedMatchup",
    "OfferedMatchup",
    "RevealedMatchup",
    "ReviewedMatchup",
    "SentVote",
    "SessionProgress",
    "State",
    "Voter",
]

#: Seconds after the time to take a vote back in which a remark may still come, if the names were not shown.
REMARK_GRACE_SECONDS = 60.0

State = Literal["open", "voted", "skipped", "expired"]


@dataclass(frozen=True, slots=True)
class Voter:
    """Who asks: a session, and whether it is a person's (0) or a judge's (1)."""

    session: int
    source: int = 0


@dataclass(frozen=True, slots=True)
class OfferedMatchup:
    """A matchup for its voter. The numbers of prompt and responses stay on the server."""

    matchup: str
    arena: str
    prompt: int
    response_a: int
    response_b: int
    served_at: datetime
    expires_at: datetime
    #: How often the voter has undone a vote on it: a vote names this number.
    ballot: int = 0
    #: Whether it was served just now.
    new: bool = False


class SentVote(NamedTuple):
    """A vote as it was sent."""

    matchup: UUID
    kind: Kind
    #: How often the voter had undone a vote on it: a vote that was sent before an undo and arrives after it is refused.
    ballot: int = 0
    #: Whether the names are shown at once; the vote is final then.
    reveal: bool = False
    detail: VoteDetail | None = None


@dataclass(frozen=True, slots=True)
class EndedMatchup:
    """How a matchup ended, or that its vote was undone."""

    matchup: str
    kind: LogKind
    outcome: Kind | None
    position: int
    at: datetime
    #: Until when the vote can be taken back; ``None`` if it cannot.
    undo_until: datetime | None = None
    revealed: bool = False
    #: Which ballot this concerns; of an undo, the one that is open now.
    ballot: int = 0
    #: Of a vote: whether the voter had been told neither name. Only blind votes are rated.
    blind: bool = True


@dataclass(frozen=True, slots=True)
class RevealedMatchup:
    """The names, once the vote is final."""

    matchup: str
    model_a: str
    model_b: str
    prompt: str
    outcome: Kind
    lane: str
    reason: str
    position: int
    #: Decisive votes that these two have from people, or from judges, and how many they need.
    decisive: int = 0
    floor: int = 0
    #: Whether the voter had been told neither name when the vote was cast.
    blind: bool = True


@dataclass(frozen=True, slots=True)
class ReviewedMatchup:
    """A voter's own matchup, in whatever state it is. It has no names."""

    matchup: str
    arena: str
    state: State
    prompt: int
    #: The numbers of both responses, while they may be looked at.
    responses: tuple[int, int] | None
    expires_at: datetime
    outcome: Kind | None = None
    #: Until when the vote can be taken back; ``None`` if it cannot any more.
    undo_until: datetime | None = None
    #: Seconds until then.
    left: float = 0.0
    revealed: bool = False
    ballot: int = 0
    #: Of a vote: whether the voter had been told neither name.
    blind: bool = True


@dataclass(frozen=True, slots=True)
class SessionProgress:
    """How far a voter's session has come."""

    #: Votes whose names the voter was not told yet.
    votes: int
    #: After how many they are told; ``None`` where names are not told by session.
    told_after: int | None


@dataclass(frozen=True, slots=True)
class Contribution:
    """What a voter has given: final votes, and pairs of models that have enough votes, one of them theirs."""

    votes: int
    settled: int
