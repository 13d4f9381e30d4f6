"""Arenas, what they hold, how they are run, and their boards and weekly reports without their contents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any

from pydantic import Field, StringConstraints

from tiltyard.wire.records import Plain, request

Reason = Annotated[str, StringConstraints(pattern=r"^[^\x00]*\S[^\x00]*$", min_length=1, max_length=1000)]
#: JSON by name, whose fields are those of the settings or of the policy: an older client reads a newer server's.
Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ArenaInfo:
    """An arena as everybody who may see it does."""

    arena: str
    title: str
    created_at: datetime
    settings: Annotated[
        Values, Field(description="How it is run: visibility, seconds to undo, order of its board.")
    ]
    categories: Annotated[
        tuple[str, ...] | None, Field(description="Categories of its prompts, where one is asked for.")
    ]
    languages: Annotated[tuple[str, ...] | None, Field(description="Languages of its prompts, likewise.")]


@dataclass(frozen=True, slots=True)
class ArenaList:
    """The arenas that whoever asks may see."""

    arenas: Sequence[ArenaInfo]


@request
@dataclass(frozen=True, slots=True, kw_only=True)
class CreateArenaRequest:
    """An arena to be made."""

    name: Annotated[Plain, Field(description="1 to 64 of a to z, 0 to 9 and hyphens.")]
    title: Plain | None = None
    settings: Annotated[Values, Field(description="Settings that differ from the defaults.")] = field(
        default_factory=dict
    )
    policy: Annotated[Values, Field(description="Constants of the ranking policy that differ.")] = field(
        default_factory=dict
    )
    volatility: Annotated[
        float | None,
        Field(gt=0, le=1, description="With which models start in Glicko-2; it stays. Default: 0.003."),
    ] = None


@request
@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeArenaRequest:
    """What is to change of an arena."""

    title: Plain | None = None
    settings: Annotated[Values, Field(description="Settings by name; others stay.")] = field(
        default_factory=dict
    )


@dataclass(frozen=True, slots=True)
class ImportedVotes:
    """What an import of past votes added."""

    votes: Annotated[int, Field(description="Votes of the file.")]
    added: Annotated[int, Field(description="Those that the arena did not have.")]
    repeated: Annotated[int, Field(description="Those added that equal others: they count twice.")]
    left_out: Annotated[
        Mapping[str, int], Field(description="Rows of the file that are no votes to be rated, by reason.")
    ]

    @property
    def warning(self) -> str:
        """What to say of repeated votes."""
        return f"{self.repeated:,} votes equal imported ones in voter, prompt, models, outcome and time: they count twice."


@dataclass(frozen=True, slots=True)
class VoteFileInfo:
    """A file of past votes."""

    name: str
    sha256: Annotated[str, Field(description="Of its bytes.")]
    votes: Annotated[int, Field(description="Votes of the file.")]
    done: Annotated[
        int,
        Field(description="Those that are in the log; fewer while an import runs or after it was stopped."),
    ]
    began_at: datetime


@dataclass(frozen=True, slots=True)
class VoteFileList:
    """The files of past votes, in the order in which they came."""

    files: Sequence[VoteFileInfo]


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import brought."""

    models: int
    prompts: int
    responses: int
    unchanged: Annotated[int, Field(description="Answers that were there already.")]
    position: Annotated[int, Field(description="The log's last position.")]
    mentioned: Annotated[
        int,
        Field(
            description="Answers whose responses name a model, their family or maker, or claim another: voters will read it."
        ),
    ]
    mentions: Annotated[
        tuple[str, ...],
        Field(description="The first of them: where it is, which name it says, and whose that is."),
    ]
    suspect: Annotated[
        int,
        Field(
            description="Answers whose responses are empty, look cut off, or had files that are not shown."
        ),
    ]
    suspects: Annotated[
        tuple[str, ...], Field(description="The first of them: where it is, and what is wrong with it.")
    ]


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A model with what there is of it now."""

    model: str
    enabled: bool
    responses: int
    added_at: datetime


@dataclass(frozen=True, slots=True)
class ModelList:
    """Every model that was ever added."""

    models: Sequence[ModelInfo]


@dataclass(frozen=True, slots=True)
class Enabled:
    """A model that may be served, or is no more."""

    model: str
    enabled: bool
    position: Annotated[int, Field(description="Where the log says so; 0 if it was so already.")]


@dataclass(frozen=True, slots=True)
class PromptInfo:
    """A prompt with what there is of it now."""

    number: int
    prompt: str
    text: Annotated[str | None, Field(description="Null once it is withdrawn.")]
    category: str | None
    language: str | None
    responses: int
    added_at: datetime
    withdrawn_at: datetime | None


@dataclass(frozen=True, slots=True)
class PromptList:
    """A page of prompts; ``after`` of the next page is the last number."""

    prompts: Sequence[PromptInfo]


@request
@dataclass(frozen=True, slots=True, kw_only=True)
class WithdrawRequest:
    """What is to be taken down: one model's response, or a prompt with all its responses."""

    prompt: Plain
    model: Plain | None = None
    reason: Reason


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """What was taken down."""

    responses: int
    matchups: Annotated[int, Field(description="Open matchups that ended by it.")]
    position: int


@dataclass(frozen=True, slots=True)
class PolicyInForce:
    """The ranking policy in force."""

    policy: Values


@dataclass(frozen=True, slots=True)
class SnapshotInfo:
    """A published board, without its contents."""

    snapshot: Annotated[str, Field(description="The SHA-256 of the board's document.")]
    generation: int
    position: int
    votes: int
    evaluated: Annotated[
        bool, Field(description="Whether an evaluation of the rules fell on it; such boards are kept.")
    ]
    citable: Annotated[
        bool,
        Field(
            description="Whether to cite it: it is kept for ever, and no vote was excluded or restored since."
        ),
    ]
    made_at: datetime


@dataclass(frozen=True, slots=True)
class NewestBoards:
    """Which boards are the newest."""

    arena: str
    snapshots: Annotated[Mapping[str, str], Field(description="Their hashes by source, where there is one.")]


@dataclass(frozen=True, slots=True)
class SnapshotList:
    """A page of boards, newest first."""

    snapshots: Sequence[SnapshotInfo]


@dataclass(frozen=True, slots=True)
class ShadowRow:
    """A model's place by legacy Elo and under the ranking policy."""

    model: str
    legacy_rank: int | None
    policy_rank: int | None
    legacy_elo: float | None
    rating: float | None
    rd: float | None
    volatility: float | None
    conservative: float | None
    bradley_terry: float | None
    coverage: float | None
    badge: str | None
    why: Annotated[str, Field(description="Why the two places differ; empty if they do not.")]


@dataclass(frozen=True, slots=True)
class ShadowBoard:
    """What the ranking policy makes of the newest board, for operators: from phase 1 on, where readers see nothing of it."""

    arena: str
    source: str
    snapshot: Annotated[str, Field(description="The board that readers see.")]
    position: int
    generation: int
    votes: int
    phase: int
    order: Annotated[str, Field(description="What orders the board from phase 3 on.")]
    status: str | None
    unordered: Annotated[bool, Field(description="Whether the votes settle no order, whatever badges say.")]
    models: Annotated[Sequence[ShadowRow], Field(description="Ranked models, in the order of the board.")]

    @property
    def moved(self) -> int:
        """The number of models whose two ranks differ."""
        return sum(one.legacy_rank != one.policy_rank for one in self.models)


@dataclass(frozen=True, slots=True)
class ReportInfo:
    """A weekly validity report, without its contents."""

    report: Annotated[str, Field(description="The SHA-256 of the report's document.")]
    since: datetime
    until: datetime
    position: int
    made_at: datetime


@dataclass(frozen=True, slots=True)
class ReportList:
    """Every weekly report, newest first."""

    reports: Sequence[ReportInfo]
