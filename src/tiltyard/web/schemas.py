"""What the routes of this room take and give, as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from tiltyard.arena.voting.voter_requests import MAX_COMMENT_CHARACTERS, REMARK_TAG_LIMIT, Tag

__all__ = [
    "AskIn",
    "ClaimIn",
    "EndedOut",
    "MatchupOut",
    "MatchupsOut",
    "MeOut",
    "NewTokenOut",
    "PairOut",
    "PlaceOut",
    "PlacesOut",
    "PromptOut",
    "ReadyOut",
    "RemarkIn",
    "ReportIn",
    "ResponseOut",
    "ResponsesOut",
    "RevealedOut",
    "ShownIn",
    "SignInIn",
    "StatusOut",
    "TokenIn",
    "TokenOut",
    "TokensOut",
    "UndoIn",
    "VoteIn",
]

Scope = Literal["read", "judge", "import", "admin", "metrics"]
Winner = Literal["model_a", "model_b", "tie", "both_bad"]
Label = Literal["win", "lean", "tie", "both_bad", "inconsistent"]
Ballot = Annotated[
    int,
    Field(
        ge=0,
        lt=2**31,
        description="Which ballot of the matchup: 0, and one more each time that its vote was undone.",
    ),
]
#: At most a week, longer than any matchup waits.
Seconds = Annotated[float, Field(ge=0, le=604_800, allow_inf_nan=False)]
#: PostgreSQL keeps no text with NUL in it.
Text = Annotated[str, StringConstraints(pattern=r"^[^\x00]*$")]


class _In(BaseModel):
    """What comes in has no fields but those that are known."""

    model_config = ConfigDict(extra="forbid", strict=True)


class AskIn(_In):
    """How a matchup is asked for."""

    ahead: bool = Field(False, description="Also a second one, to be shown next.")


class ShownIn(_In):
    """How many seconds before the vote each response was on screen first."""

    a: Seconds
    b: Seconds


class VoteIn(_In):
    """A vote. ``shown`` is for people, the last four are for judges."""

    winner: Winner
    ballot: Ballot = 0
    shown: ShownIn | None = Field(
        None, description="When both responses were on a person's screen; the log keeps it."
    )
    reveal: bool = Field(
        False,
        description="Show the names at once; the vote is final then. Refused to people unless the arena's reveal is vote.",
    )
    label: Label | None = Field(None, description="How firmly a judge decided.")
    both_bad: bool | None = Field(
        None,
        description="Whether a judge calls both responses bad; the vote is rated by its winner all the same.",
    )
    pref: float | None = Field(None, ge=0, le=1, description="A judge's probability that A is better.")
    judge_model: Annotated[Text, StringConstraints(min_length=1, max_length=200)] | None = None


class UndoIn(_In):
    """Which vote is undone."""

    ballot: Ballot = 0


class ReportIn(_In):
    """What is wrong with a matchup."""

    reason: Literal["broken", "identifies-model", "harmful", "personal-data", "copyright", "other"]
    note: Annotated[Text, StringConstraints(max_length=2000)] | None = None


class RemarkIn(_In):
    """Why somebody voted so. Only the operator of the arena reads it."""

    tags: list[Tag] = Field(default_factory=list, max_length=REMARK_TAG_LIMIT)
    comment: Annotated[Text, StringConstraints(max_length=MAX_COMMENT_CHARACTERS)] | None = None


class PromptOut(BaseModel):
    """What was asked."""

    text: str


class ResponseOut(BaseModel):
    """Where a response is, and of what kind."""

    url: str
    kind: Literal["text", "image", "audio", "app"]


class ResponsesOut(BaseModel):
    """The two sides."""

    a: ResponseOut
    b: ResponseOut


class MatchupOut(BaseModel):
    """Two responses to one prompt, blind: nothing here tells the models apart."""

    matchup: str
    arena: str
    prompt: PromptOut
    responses: ResponsesOut
    served_at: datetime
    expires_at: datetime
    ballot: int = Field(description="How often its vote was undone; the next vote names this number.")


class MatchupsOut(BaseModel):
    """Open matchups of whoever asks, the one served first first."""

    matchups: list[MatchupOut]


class EndedOut(BaseModel):
    """How a matchup ended, or that its vote was undone."""

    matchup: str
    kind: Literal["vote", "skip", "expire", "undo"]
    winner: Winner | None
    label: Label | None
    both_bad: bool | None = Field(description="Of a judge's vote: whether it calls both responses bad.")
    position: int = Field(description="Where it stands in the arena's log.")
    at: datetime
    undo_until: datetime | None = Field(description="Until when the vote can be undone.")
    revealed: bool
    ballot: int = Field(description="Which ballot it concerns; of an undo, the one that is open now.")
    blind: bool = Field(
        description="Of a vote: whether the voter had been told neither name; if not, no rating moves by it."
    )


class PlaceOut(BaseModel):
    """Where a model stands on the newest board; null where the votes do not support a number."""

    rank: int | None
    score: float | None = Field(description="What the board is ordered by.")
    badge: str | None


class PlacesOut(BaseModel):
    """The places of both sides; null for a model that is not on the board yet."""

    a: PlaceOut | None
    b: PlaceOut | None


class PairOut(BaseModel):
    """How much is known of these two against each other."""

    decisive: int = Field(description="Decisive votes of this source that are final.")
    floor: int = Field(description="How many the ranking policy asks for.")


class RevealedOut(BaseModel):
    """The names, and why these two met."""

    matchup: str
    model_a: str
    model_b: str
    prompt: str = Field(description="The prompt's name.")
    winner: Winner
    label: Label
    lane: str
    reason: str
    position: int
    standing: PlacesOut | None = Field(None, description="Null before there is a board.")
    pair: PairOut | None = None
    blind: bool = Field(description="Whether the voter had been told neither name when the vote was cast.")


class ToldVoteOut(BaseModel):
    """A vote whose names were told."""

    matchup: str
    at: datetime
    model_a: str
    model_b: str
    prompt: str = Field(description="The prompt's name.")
    winner: Winner
    blind: bool = Field(description="Whether the voter had been told neither name when the vote was cast.")


class FinishedOut(BaseModel):
    """The votes of a session whose names are told now, oldest first."""

    votes: list[ToldVoteOut]


class ClaimIn(_In):
    """Who the operator is from now on."""

    token: Annotated[Text, StringConstraints(min_length=1, max_length=200)]
    name: Annotated[Text, StringConstraints(min_length=1, max_length=100)]
    password: Annotated[Text, StringConstraints(min_length=12, max_length=1024)]


class SignInIn(_In):
    """The operator's name and password."""

    name: Annotated[Text, StringConstraints(min_length=1, max_length=100)]
    password: Annotated[Text, StringConstraints(min_length=1, max_length=1024)]


class MeOut(BaseModel):
    """Who is asking."""

    name: str = Field(description="operator:NAME or token:NAME.")
    scopes: list[Scope]
    arena: str | None = Field(description="The one arena it is for; null: every arena.")


class TokenIn(_In):
    """A token to be made."""

    name: Annotated[Text, StringConstraints(min_length=1, max_length=100)]
    scopes: list[Scope] = Field(min_length=1, max_length=5)
    arena: Annotated[Text, StringConstraints(max_length=64)] | None = None
    days: int | None = Field(None, ge=1, le=3650, description="How long it is valid; null: until revoked.")


class TokenOut(BaseModel):
    """What is known of a token."""

    api_token: int
    name: str
    scopes: list[Scope]
    arena: str | None
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


class NewTokenOut(TokenOut):
    """The same with the token itself, which is never shown again."""

    token: str


class TokensOut(BaseModel):
    """Every token there ever was."""

    tokens: list[TokenOut]


class StatusOut(BaseModel):
    """Whether the process lives."""

    status: Literal["ok"]


class ReadyOut(BaseModel):
    """Whether the process can serve voters."""

    status: Literal["ok"]
    arenas: int = Field(description="Arenas that this process has loaded.")
    loading: int = Field(description="Arenas that it has opened and not loaded, or lost to a fault.")
