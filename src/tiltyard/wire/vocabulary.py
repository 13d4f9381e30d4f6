"""Words and limits of the API."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final, Literal, get_args

from pydantic import PlainSerializer, StringConstraints, WithJsonSchema

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
