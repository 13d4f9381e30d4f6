"""What voters ask of an arena, and what they are told."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tiltyard.battles import Kind
from tiltyard.store.log import LogKind

__all__ = ["Ended", "Offered", "Revealed", "Voter"]


@dataclass(frozen=True, slots=True)
class Voter:
    """Who asks: a session, and whether it is a person's (0) or a judge's (1)."""

    session: int
    source: int = 0


@dataclass(frozen=True, slots=True)
class Offered:
    """A matchup for its voter. The numbers of prompt and responses stay on the server."""

    matchup: str
    arena: str
    prompt: int
    response_a: int
    response_b: int
    served_at: datetime
    expires_at: datetime
    #: Whether it was served just now.
    new: bool = False


@dataclass(frozen=True, slots=True)
class Ended:
    """How a matchup ended, or that its vote was taken back."""

    matchup: str
    kind: LogKind
    outcome: Kind | None
    position: int
    at: datetime
    #: Until when the vote can be taken back; ``None`` if it cannot.
    undo_until: datetime | None = None
    revealed: bool = False


@dataclass(frozen=True, slots=True)
class Revealed:
    """The names, once the vote is final."""

    matchup: str
    model_a: str
    model_b: str
    prompt: str
    outcome: Kind
    lane: str
    reason: str
    position: int
