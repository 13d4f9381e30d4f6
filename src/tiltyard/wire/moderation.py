"""What operators watch over: excluded votes, the audit, complaints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from pydantic import AwareDatetime, Field

from tiltyard.wire.arenas import Reason, Values
from tiltyard.wire.records import Plain, SourceName, request

Session = Annotated[int, Field(ge=0, lt=2**63)]


@request
@dataclass(frozen=True, slots=True, kw_only=True)
class ExcludeRequest:
    """Votes to leave out of the ratings: those that fit everything that is said."""

    reason: Reason
    sessions: Annotated[list[Session] | None, Field(min_length=1, max_length=10_000)] = None
    voters: Annotated[
        list[Plain] | None,
        Field(min_length=1, max_length=10_000, description="As an export of ``release`` calls them."),
    ] = None
    release: Plain | None = None
    invitation: Annotated[
        int | None, Field(ge=1, lt=2**63, description="Of all who came in by this invitation or passcode.")
    ] = None
    matchups: Annotated[list[Plain] | None, Field(min_length=1, max_length=10_000)] = None
    since: AwareDatetime | None = None
    until: AwareDatetime | None = None
    source: SourceName | None = None


@dataclass(frozen=True, slots=True)
class Excluded:
    """An exclusion that was made."""

    exclusion: int
    votes: int
    position: int


@dataclass(frozen=True, slots=True)
class Restored:
    """An exclusion that was taken back."""

    exclusion: int
    position: int


@dataclass(frozen=True, slots=True)
class Exclusion:
    """Votes that were excluded together."""

    exclusion: int
    reason: str
    votes: int
    excluded: Annotated[int, Field(description="Position of the event.")]
    restored: Annotated[int | None, Field(description="Position of the event that took it back.")]
    made_at: datetime


@dataclass(frozen=True, slots=True)
class ExclusionList:
    """Every exclusion, newest first."""

    exclusions: Sequence[Exclusion]


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One change and who made it."""

    entry: int
    at: datetime
    actor: str
    action: str
    detail: Values


@dataclass(frozen=True, slots=True)
class AuditPage:
    """A page of changes, newest first; ``before`` of the next page is the last entry."""

    entries: Sequence[AuditEntry]


@dataclass(frozen=True, slots=True)
class Complaint:
    """What a voter said is wrong with a matchup."""

    complaint: int
    reason: str
    note: str | None
    made_at: datetime
    settled_at: datetime | None
    model_a: str | None
    model_b: str | None
    prompt: str | None


@dataclass(frozen=True, slots=True)
class ComplaintList:
    """A page of complaints, oldest first; ``after`` of the next page is the last one."""

    complaints: Sequence[Complaint]


@dataclass(frozen=True, slots=True)
class ComplaintSettled:
    """A complaint that was looked at."""

    complaint: int
