"""How records are checked, and how they become JSON. An answer has every field: it has no defaults."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from functools import cache
from typing import Annotated, Any, Final, Literal, TypeVar, cast, get_args

from pydantic import (
    ConfigDict,
    Field,
    PlainSerializer,
    StringConstraints,
    TypeAdapter,
    WithJsonSchema,
    with_config,
)

Record = TypeVar("Record")

#: A request: a field that is not known is refused.
request = with_config(ConfigDict(extra="forbid"))
#: The same, and no value is converted. For routes that read JSON directly.
strict_request = with_config(ConfigDict(extra="forbid", strict=True))


def reader_of(record: type[Record]) -> TypeAdapter[Record]:
    """Checks what came from the other side."""
    return _adapter(cast("Hashable", record))


@cache
def _adapter(record: Any) -> TypeAdapter[Any]:
    return TypeAdapter(record)


def json_bytes(record: object) -> bytes:
    """A record as JSON. Nothing is checked: this is on the way of every vote."""
    return _adapter(cast("Hashable", type(record))).serializer.to_json(record)


def body_of(record: object) -> dict[str, object]:
    """A request as it is sent: fields that are None are left out."""
    values = ((one.name, getattr(record, one.name)) for one in fields(cast("Any", record)))
    return {name: _sent(value) for name, value in values if value is not None}


def _sent(value: object) -> object:
    if is_dataclass(value):
        return body_of(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (list, tuple)):
        return [_sent(one) for one in value]
    return value.isoformat() if isinstance(value, datetime) else value


Scope = Literal["read", "judge", "import", "admin", "metrics"]
#: From the one that may do everything to the one that may do least.
OperatorRole = Literal["owner", "operator", "moderator", "analyst"]
SourceName = Literal["human", "llm-judge"]
Winner = Literal["model_a", "model_b", "tie", "both_bad"]
Label = Literal["win", "lean", "tie", "both_bad", "inconsistent"]
Ending = Literal["vote", "skip", "expire", "undo"]
ResponseKind = Literal["text", "image", "audio", "app"]
ComplaintReason = Literal["broken", "identifies-model", "harmful", "personal-data", "copyright", "other"]
#: Why somebody skipped a matchup.
SkipReason = Literal["cannot-judge", "language", "unclear-prompt", "too-long", "broken", "other"]
SKIP_REASONS: Final[tuple[SkipReason, ...]] = get_args(SkipReason)
#: Why somebody decided so: what was good about the better response, or bad about both.
Tag = Literal[
    "accurate",
    "complete",
    "clear",
    "well-written",
    "follows-instructions",
    "safe",
    "creative",
    "concise",
    "wrong",
    "incomplete",
    "unclear",
    "off-topic",
    "unsafe",
    "too-long",
]
TAGS: Final[tuple[Tag, ...]] = get_args(Tag)
#: How many of them one remark has at most, and how long its comment is.
REMARK_TAG_LIMIT = 8
MAX_COMMENT_CHARACTERS = 1000

# Answers name their words in the API's description, and a reader takes others, too: a newer server may have more.
SaidScope = Annotated[str, WithJsonSchema({"type": "string", "enum": list(get_args(Scope))})]
SaidWinner = Annotated[str, WithJsonSchema({"type": "string", "enum": list(get_args(Winner))})]
SaidLabel = Annotated[str, WithJsonSchema({"type": "string", "enum": list(get_args(Label))})]
SaidEnding = Annotated[str, WithJsonSchema({"type": "string", "enum": list(get_args(Ending))})]
SaidResponseKind = Annotated[str, WithJsonSchema({"type": "string", "enum": list(get_args(ResponseKind))})]

#: A moment that is written with its offset, ``+00:00``, as voters' routes always have.
Moment = Annotated[
    datetime,
    PlainSerializer(datetime.isoformat, return_type=str),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
#: PostgreSQL keeps no text with NUL in it.
Text = Annotated[str, StringConstraints(pattern=r"^[^\x00]*$")]
Plain = Annotated[str, StringConstraints(pattern=r"^[^\x00]*$", max_length=200)]


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """One field of a request that is wrong."""

    field: str
    problem: str


@dataclass(frozen=True, slots=True)
class Problem:
    """What went wrong (RFC 9457)."""

    type: Annotated[
        str, Field(description="Which problem it is: urn:tiltyard:problem:… and a name that stays.")
    ]
    title: Annotated[str, Field(description="The same in words; always alike for one type.")]
    status: Annotated[int, Field(description="The HTTP status.")]
    detail: Annotated[str, Field(description="What was wrong this time, and what to do.")]
    instance: Annotated[str, Field(description="A name of this occurrence; the server's log has it too.")]
    errors: Annotated[Sequence[FieldProblem] | None, Field(description="Each field that is wrong.")] = None
    arena: Annotated[
        str | None,
        Field(
            description="The private arena that has to be entered first, by a link, a passcode or a sign-in."
        ),
    ] = None
    matchup: Annotated[
        str | None, Field(description="The live battle that has to be voted on or skipped first.")
    ] = None
    gate: Annotated[
        str | None,
        Field(
            description="The arena that asks for a proof first: GET /api/v1/arenas/{arena}/gate has a challenge."
        ),
    ] = None
    columns: Annotated[
        Mapping[str, str] | None,
        Field(description="The columns of a file, and what each seems to hold; `parameter` says it."),
    ] = None
    parameter: Annotated[
        str | None, Field(description="The query parameter that is missing, with what it could be.")
    ] = None
