"""OpenAPI schemas of documents that are sent as they are stored: boards, model pages, reports."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field

from tiltyard.core.board.document import LeftOutVotes
from tiltyard.wire.arenas import Values

__all__ = ["BoardOut", "EffectsOut", "FilteredBoardOut", "ModelPageOut", "ReportOut"]


class _Open(BaseModel):
    """A document that may say more than is listed here."""

    model_config = ConfigDict(extra="allow")


class BoardOut(_Open):
    """A board as it was published: canonical JSON, whose SHA-256 is the ETag and the permalink."""

    format: str
    arena: str
    source: str
    position: int
    generation: int
    at: datetime
    order: str
    phase: int
    status: str | None
    votes: int
    first_place: Values | None = Field(
        default=None, description="How many votes would change first place, at most up to a limit."
    )
    rows: list[Values]
    rules: list[Values]
    findings: list[Values]
    method: Values


class FilteredBoardOut(_Open):
    """A board of some prompts, or with excluded votes: made from the votes there by the method of the whole board."""

    format: str
    arena: str
    source: str
    snapshot: str
    position: int
    generation: int
    filter: Values
    excluded: LeftOutVotes = Field(
        description="What became of excluded votes; or all votes were counted, also those that are not rated."
    )
    prompts: int
    votes: int
    order: str
    first_place: Values | None = None
    method: Values
    rows: list[Values]
    findings: list[Values]


class EffectsOut(_Open):
    """What twice the length and twice the waiting time are worth in the votes of a live arena."""

    arena: str
    source: str
    snapshot: str
    position: int
    generation: int
    votes: int = Field(description="Votes that rate skill, on battles whose lengths and times are known.")
    left_out: int
    prompts: int
    voters: int
    level: float
    effects: list[Values] = Field(
        description="By trait: points for a doubling, with the ends of the interval."
    )
    findings: list[Values] = Field(description="The same in words, or what is missing.")


class ModelPageOut(_Open):
    """One model: its row and its neighbours, whom it met, where it won, and how it came here."""

    arena: str
    source: str
    snapshot: str
    position: int
    generation: int
    model: str
    row: Values | None
    above: Values | None
    below: Values | None
    head_to_head: list[Values]
    prompts: list[Values]
    history: list[Values]


class ReportOut(_Open):
    """A validity report as it was made."""
