"""What the routes of arenas, boards and their operators take and give, as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints

from tiltyard.web.reader_access import Plain

__all__ = [
    "ArenaChangeIn",
    "ArenaIn",
    "ArenaOut",
    "ArenasOut",
    "AuditOut",
    "BoardOut",
    "ComplaintsOut",
    "EnabledOut",
    "ExcludeIn",
    "ExcludedOut",
    "ExclusionsOut",
    "FilteredBoardOut",
    "ImportedOut",
    "ModelPageOut",
    "ModelsOut",
    "PhaseIn",
    "PolicyOut",
    "PromptsOut",
    "ReportOut",
    "ReportsOut",
    "RestoredOut",
    "SettledOut",
    "SnapshotsOut",
    "WithdrawIn",
    "WithdrawnOut",
]

Reason = Annotated[str, StringConstraints(pattern=r"^[^\x00]*\S[^\x00]*$", min_length=1, max_length=1000)]
Values = dict[str, Any]


class _In(BaseModel):
    """What comes in has no fields but those that are known."""

    model_config = ConfigDict(extra="forbid")


class _Open(BaseModel):
    """A document that may say more than is listed here."""

    model_config = ConfigDict(extra="allow")


class ArenaOut(BaseModel):
    """An arena as everybody who may see it does."""

    arena: str
    title: str
    created_at: datetime
    settings: Values = Field(description="How it is run: visibility, seconds to undo, order of its board.")
    categories: list[str] | None = Field(
        None, description="Categories of its prompts, where one is asked for."
    )
    languages: list[str] | None = Field(None, description="Languages of its prompts, likewise.")


class ArenasOut(BaseModel):
    """The arenas that whoever asks may see."""

    arenas: list[ArenaOut]


class ArenaIn(_In):
    """An arena to be made."""

    name: Plain = Field(description="1 to 64 of a to z, 0 to 9 and hyphens.")
    title: Plain | None = None
    settings: Values = Field(default_factory=dict, description="Settings that differ from the defaults.")
    policy: Values = Field(default_factory=dict, description="Constants of the ranking policy that differ.")


class ArenaChangeIn(_In):
    """What is to change of an arena."""

    title: Plain | None = None
    settings: Values = Field(default_factory=dict, description="Settings by name; others stay.")


class ImportedOut(BaseModel):
    """What an import brought."""

    models: int
    prompts: int
    responses: int
    unchanged: int = Field(description="Answers that were there already.")
    position: int = Field(description="The log's last position.")
    mentioned: int = Field(
        description="Answers whose responses name a model, their family or maker, or claim another: voters will read it."
    )
    mentions: list[str] = Field(
        description="The first of them: where it is, which name it says, and whose that is."
    )


class ModelOut(BaseModel):
    """A model with what there is of it now."""

    model: str
    enabled: bool
    responses: int
    added_at: datetime


class ModelsOut(BaseModel):
    """Every model that was ever added."""

    models: list[ModelOut]


class EnabledOut(BaseModel):
    """A model that may be served, or is no more."""

    model: str
    enabled: bool
    position: int = Field(description="Where the log says so; 0 if it was so already.")


class PromptRowOut(BaseModel):
    """A prompt with what there is of it now."""

    number: int
    prompt: str
    text: str | None = Field(description="Null once it is withdrawn.")
    category: str | None
    language: str | None
    responses: int
    added_at: datetime
    withdrawn_at: datetime | None


class PromptsOut(BaseModel):
    """A page of prompts; ``after`` of the next page is the last number."""

    prompts: list[PromptRowOut]


class WithdrawIn(_In):
    """What is to be taken down: one model's response, or a prompt with all its responses."""

    prompt: Plain
    model: Plain | None = None
    reason: Reason


class WithdrawnOut(BaseModel):
    """What was taken down."""

    responses: int
    matchups: int = Field(description="Open matchups that ended by it.")
    position: int


class PhaseIn(_In):
    """Which phase of the ranking policy is in force."""

    phase: Literal[1, 2, 3, 4]


class PolicyOut(BaseModel):
    """The ranking policy in force."""

    policy: Values


class ExcludeIn(_In):
    """Votes to leave out of the ratings: those that fit everything that is said."""

    reason: Reason
    sessions: list[Annotated[int, Field(ge=0, lt=2**63)]] | None = Field(
        None, min_length=1, max_length=10_000
    )
    voters: list[Plain] | None = Field(
        None, min_length=1, max_length=10_000, description="As an export of ``release`` calls them."
    )
    release: Plain | None = None
    matchups: list[Plain] | None = Field(None, min_length=1, max_length=10_000)
    since: AwareDatetime | None = None
    until: AwareDatetime | None = None
    source: Literal["human", "llm-judge"] | None = None


class ExcludedOut(BaseModel):
    """An exclusion that was made."""

    exclusion: int
    votes: int
    position: int


class RestoredOut(BaseModel):
    """An exclusion that was taken back."""

    exclusion: int
    position: int


class ExclusionOut(BaseModel):
    """Votes that were excluded together."""

    exclusion: int
    reason: str
    votes: int
    excluded: int = Field(description="Position of the event.")
    restored: int | None = Field(description="Position of the event that took it back.")
    made_at: datetime


class ExclusionsOut(BaseModel):
    """Every exclusion, newest first."""

    exclusions: list[ExclusionOut]


class AuditEntryOut(BaseModel):
    """One change and who made it."""

    entry: int
    at: datetime
    actor: str
    action: str
    detail: Values


class AuditOut(BaseModel):
    """A page of changes, newest first; ``before`` of the next page is the last entry."""

    entries: list[AuditEntryOut]


class ComplaintOut(BaseModel):
    """What a voter said is wrong with a matchup."""

    complaint: int
    reason: str
    note: str | None
    made_at: datetime
    settled_at: datetime | None
    model_a: str | None
    model_b: str | None
    prompt: str | None


class ComplaintsOut(BaseModel):
    """A page of complaints, oldest first; ``after`` of the next page is the last one."""

    complaints: list[ComplaintOut]


class SettledOut(BaseModel):
    """A complaint that was looked at."""

    complaint: int


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
    rows: list[Values]
    rules: list[Values]
    findings: list[Values]
    method: Values


class FilteredBoardOut(_Open):
    """A board of some prompts, or with excluded votes: batch Bradley–Terry on the votes there."""

    format: str
    arena: str
    source: str
    snapshot: str
    position: int
    generation: int
    filter: Values
    excluded: Literal["left-out", "counted"] = Field(description="What became of excluded votes.")
    prompts: int
    votes: int
    order: str
    method: Values
    rows: list[Values]
    findings: list[Values]


class SnapshotOut(BaseModel):
    """A published board, without its contents."""

    snapshot: str = Field(description="The SHA-256 of the board's document.")
    generation: int
    position: int
    votes: int
    evaluated: bool = Field(
        description="Whether an evaluation of the rules fell on it; such boards are kept."
    )
    citable: bool = Field(
        description="Whether to cite it: it is kept for ever, and no vote was excluded or restored since."
    )
    made_at: datetime


class SnapshotsOut(BaseModel):
    """A page of boards, newest first."""

    snapshots: list[SnapshotOut]


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


class ReportRowOut(BaseModel):
    """A weekly validity report, without its contents."""

    report: str = Field(description="The SHA-256 of the report's document.")
    since: datetime
    until: datetime
    position: int
    made_at: datetime


class ReportsOut(BaseModel):
    """Every weekly report, newest first."""

    reports: list[ReportRowOut]


class ReportOut(_Open):
    """A validity report as it was made."""
