"""Requests of voters to an arena, and the replies."""

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
    "EndedMatchup",
    "OfferedMatchup",
    "RevealedMatchup",
    "ReviewedMatchup",
    "SentVote",
    "State",
    "Voter",
]

#: Seconds after the undo deadline during which remarks are still accepted, if the names are not revealed.
REMARK_GRACE_SECONDS = 60.0

State = Literal["open", "voted", "skipped", "expired"]


@dataclass(frozen=True, slots=True)
class Voter:
    """A voter: a session, and whether it belongs to a person (0) or a judge (1)."""

    session: int
    source: int = 0


@dataclass(frozen=True, slots=True)
class OfferedMatchup:
    """A matchup for its voter. The numbers of the prompt and the responses are never sent to the client."""

    matchup: str
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
    """A vote as it was sent."""

    matchup: UUID
    kind: Kind
    #: The ballot number that the voter saw, so that a vote sent before an undo and received after it is rejected.
    ballot: int = 0
    #: Whether to reveal the names at once, which makes the vote final.
    reveal: bool = False
    detail: VoteDetail | None = None


@dataclass(frozen=True, slots=True)
class EndedMatchup:
    """How a matchup ended, or that the vote on it was undone."""

    matchup: str
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


@dataclass(frozen=True, slots=True)
class RevealedMatchup:
    """The revealed names of a matchup, and why these models were matched."""

    matchup: str
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
    #: Whether the voter knew neither name when the vote was cast.
    blind: bool = True


@dataclass(frozen=True, slots=True)
class ReviewedMatchup:
    """A voter's own matchup in any state, without names."""

    matchup: str
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
