"""Live battles: what voters ask, and what they see of two answers while these are written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from pydantic import Field, StringConstraints, WithJsonSchema

from tiltyard.wire.records import Moment, Plain, Text, strict_request

TurnWinner = Literal["model_a", "model_b", "tie", "both_bad"]
_TURN_STATES = ("waiting", "streaming", "done", "stopped", "void")
_BATTLE_STATES = ("open", "voted", "skipped", "expired", "void")

SaidTurnState = Annotated[str, WithJsonSchema({"type": "string", "enum": list(_TURN_STATES)})]
SaidBattleState = Annotated[str, WithJsonSchema({"type": "string", "enum": list(_BATTLE_STATES)})]
SaidTurnWinner = Annotated[str, WithJsonSchema({"type": "string", "enum": list(get_args(TurnWinner))})]
#: The arena's own limit is lower.
Prompt = Annotated[
    Text,
    StringConstraints(min_length=1, max_length=100_000),
    Field(description="What both models are asked."),
]


@strict_request
@dataclass(frozen=True, slots=True, kw_only=True)
class LivePromptRequest:
    """The first prompt of a battle."""

    prompt: Prompt
    category: Annotated[Plain | None, Field(description="One of the arena's; without it, the first one.")] = (
        None
    )


@strict_request
@dataclass(frozen=True, slots=True, kw_only=True)
class FollowUpRequest:
    """A further prompt for the same two models."""

    prompt: Prompt


@strict_request
@dataclass(frozen=True, slots=True, kw_only=True)
class TurnVoteRequest:
    """The verdict on one turn, in an arena that asks for it. It is not rated."""

    turn: Annotated[int, Field(ge=1, le=1_000)]
    winner: TurnWinner


@dataclass(frozen=True, slots=True)
class ShownTurn:
    """One prompt and both answers, as far as they may be shown."""

    turn: int
    prompt: str
    a: str
    b: str
    state: Annotated[
        SaidTurnState,
        Field(
            description="waiting: nothing is shown yet. streaming: text is coming. done: both are complete. stopped: by "
            "the voter. void: an answer failed, and nothing is rated."
        ),
    ]
    winner: Annotated[SaidTurnWinner | None, Field(description="The verdict on this turn, if there is one.")]


@dataclass(frozen=True, slots=True)
class ShownBattle:
    """A live battle as its voter sees it. Its matchup is voted on, skipped and revealed like any other."""

    matchup: str
    arena: str
    category: str
    state: SaidBattleState
    turns: Sequence[ShownTurn]
    began_at: Moment
    ballot: int
    can_continue: Annotated[bool, Field(description="Whether a further prompt may be sent now.")]
    frames: Annotated[str, Field(description="The address at which both answers arrive as they are written.")]


@dataclass(frozen=True, slots=True)
class ShownFrame:
    """What is added to both answers: the data of one event of a stream, whose id is turn and lengths."""

    turn: int
    a: str
    b: str
    state: SaidTurnState
    ended_a: bool
    ended_b: bool
