"""What voters ask and are told, people and judges alike."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints

from tiltyard.wire.records import (
    MAX_COMMENT_CHARACTERS,
    REMARK_TAG_LIMIT,
    ComplaintReason,
    Label,
    Moment,
    SaidEnding,
    SaidLabel,
    SaidResponseKind,
    SaidWinner,
    SkipReason,
    Tag,
    Text,
    Winner,
    strict_request,
)

#: Why no rating moves by a vote.
WhyUnrated = Annotated[
    Literal["not-blind", "unseen", "early", "waiting"] | None,
    Field(
        description="Why no rating moves by the vote: not-blind, the voter knew a name; unseen, a response had not been "
        "requested; early, the vote came too soon after both were shown; waiting, the voter is new, and the vote is rated "
        "later. Null: the vote is rated."
    ),
]


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


@strict_request
@dataclass(frozen=True, slots=True, kw_only=True)
class NextMatchupRequest:
    """How a matchup is asked for."""

    ahead: Annotated[bool, Field(description="A further one, to be shown next.")] = False


@strict_request
@dataclass(frozen=True, slots=True, kw_only=True)
class ShownTimes:
    """How many seconds before the vote each response was on screen first."""

    a: Seconds
    b: Seconds


@strict_request
@dataclass(frozen=True, slots=True, kw_only=True)
class VoteRequest:
    """A vote. ``shown``, ``receipt`` and ``recognized`` are for people, the last four are for judges."""

    winner: Winner
    ballot: Ballot = 0
    shown: Annotated[
        ShownTimes | None,
        Field(description="When both responses were on a person's screen; the log keeps it."),
    ] = None
    receipt: Annotated[
        str | None,
        Field(
            max_length=100,
            description="The receipt of the page that showed the texts. Not needed for responses that were fetched by their URLs.",
        ),
    ] = None
    reveal: Annotated[
        bool,
        Field(
            description="Show the names at once; the vote is final then. Refused to people unless the arena's reveal is vote."
        ),
    ] = False
    recognized: Annotated[
        bool,
        Field(
            description="Whether the voter knows a model by its response: the vote is not blind, and not rated."
        ),
    ] = False
    label: Annotated[Label | None, Field(description="How firmly a judge decided.")] = None
    both_bad: Annotated[
        bool | None,
        Field(
            description="Whether a judge calls both responses bad; the vote is rated by its winner all the same."
        ),
    ] = None
    pref: Annotated[
        float | None, Field(ge=0, le=1, description="A judge's probability that A is better.")
    ] = None
    judge_model: Annotated[Text, StringConstraints(min_length=1, max_length=200)] | None = None


@strict_request
@dataclass(frozen=True, slots=True, kw_only=True)
class SkipRequest:
    """Why a person skips a matchup; the log keeps it."""

    reason: SkipReason | None = None
    recognized: Annotated[bool, Field(description="Whether the voter knows a model by its response.")] = False


@strict_request
@dataclass(frozen=True, slots=True, kw_only=True)
class UndoRequest:
    """Which vote is undone."""

    ballot: Ballot = 0


@strict_request
@dataclass(frozen=True, slots=True, kw_only=True)
class ComplaintRequest:
    """What is wrong with a matchup."""

    reason: ComplaintReason
    note: Annotated[Text, StringConstraints(max_length=2000)] | None = None


@strict_request
@dataclass(frozen=True, slots=True, kw_only=True)
class RemarkRequest:
    """Why somebody voted so. Only the operator of the arena reads it."""

    tags: Annotated[list[Tag], Field(max_length=REMARK_TAG_LIMIT)] = field(default_factory=list)
    comment: Annotated[Text, StringConstraints(max_length=MAX_COMMENT_CHARACTERS)] | None = None


@dataclass(frozen=True, slots=True)
class ShownPrompt:
    """What was asked."""

    text: str


@dataclass(frozen=True, slots=True)
class ShownResponse:
    """Where one side's response is, and whether it is ``text``, ``image``, ``audio`` or ``app``."""

    url: str
    kind: SaidResponseKind


@dataclass(frozen=True, slots=True)
class MatchupResponses:
    """The two responses."""

    a: ShownResponse
    b: ShownResponse


@dataclass(frozen=True, slots=True)
class Matchup:
    """Two responses to one prompt, blind: nothing here tells the models apart."""

    matchup: str
    arena: str
    prompt: ShownPrompt
    responses: MatchupResponses
    served_at: Moment
    expires_at: Moment
    ballot: Annotated[
        int, Field(description="How often its vote was undone; the next vote names this number.")
    ]


@dataclass(frozen=True, slots=True)
class MatchupList:
    """Open matchups of whoever asks, the one served first first."""

    matchups: Sequence[Matchup]


@dataclass(frozen=True, slots=True)
class Ended:
    """How a matchup ended, or that its vote was undone; ``winner`` stands where there was a vote."""

    matchup: str
    kind: SaidEnding
    winner: SaidWinner | None
    label: SaidLabel | None
    both_bad: Annotated[
        bool | None, Field(description="Of a judge's vote: whether it calls both responses bad.")
    ]
    position: Annotated[int, Field(description="Where it stands in the arena's log.")]
    at: Moment
    undo_until: Annotated[Moment | None, Field(description="Until when the vote can be undone.")]
    revealed: bool
    ballot: Annotated[
        int, Field(description="Which ballot it concerns; of an undo, the one that is open now.")
    ]
    blind: Annotated[
        bool,
        Field(
            description="Of a vote: whether the voter had been told neither name; if not, no rating moves by it."
        ),
    ]
    unrated: WhyUnrated


@dataclass(frozen=True, slots=True)
class BoardPlace:
    """Where a model stands on the newest board; null where the votes do not support a number."""

    rank: Annotated[
        int | None, Field(description="Its place in the order of the board, which claims nothing.")
    ]
    rank_low: Annotated[int | None, Field(description="The best rank that the votes do not rule out.")]
    rank_high: Annotated[int | None, Field(description="The worst rank that the votes do not rule out.")]
    score: Annotated[float | None, Field(description="What the board is ordered by.")]
    badge: str | None


@dataclass(frozen=True, slots=True)
class BoardPlaces:
    """The places of both sides; null for a model that is not on the board yet."""

    a: BoardPlace | None
    b: BoardPlace | None


@dataclass(frozen=True, slots=True)
class PairProgress:
    """How much is known of these two against each other."""

    decisive: Annotated[int, Field(description="Decisive votes of this source that are final.")]
    floor: Annotated[int, Field(description="How many the ranking policy asks for.")]


@dataclass(frozen=True, slots=True)
class Revealed:
    """The names, and why these two met."""

    matchup: str
    model_a: str
    model_b: str
    prompt: Annotated[str, Field(description="The prompt's name.")]
    winner: SaidWinner
    label: SaidLabel
    lane: str
    reason: str
    position: int
    standing: Annotated[BoardPlaces | None, Field(description="Null before there is a board.")]
    pair: PairProgress | None
    blind: Annotated[
        bool, Field(description="Whether the voter had been told neither name when the vote was cast.")
    ]
    unrated: WhyUnrated


@dataclass(frozen=True, slots=True)
class RevealedVote:
    """A vote whose names were told."""

    matchup: str
    at: Moment
    model_a: str
    model_b: str
    prompt: Annotated[str, Field(description="The prompt's name.")]
    winner: SaidWinner
    blind: Annotated[
        bool, Field(description="Whether the voter had been told neither name when the vote was cast.")
    ]
    unrated: WhyUnrated


@dataclass(frozen=True, slots=True)
class RevealedVoteList:
    """The votes of a session whose names are told now, oldest first."""

    votes: Sequence[RevealedVote]


ALGORITHM: Final = "SHA-256"
#: A server that asks for more is not obeyed: it would take minutes.
_NUMBER_LIMIT = 50_000_000


@dataclass(frozen=True, slots=True)
class GateChallenge:
    """A challenge: the number from 0 to maxnumber is wanted for which SHA-256(salt + number) is the challenge."""

    algorithm: Annotated[str, Field(description="SHA-256.")]
    challenge: Annotated[str, Field(description="The hash, in hexadecimal digits.")]
    maxnumber: Annotated[int, Field(description="The largest number that it can be.")]
    salt: Annotated[
        str, Field(description="What stands before the number's digits. It has the time of expiry.")
    ]
    signature: Annotated[str, Field(description="The server's signature, to be sent back.")]


@dataclass(frozen=True, slots=True)
class GateAnswer:
    """What this voter must do before the first matchup."""

    gate: Annotated[str, Field(description="proof, or none if nothing is to be done.")]
    challenge: Annotated[GateChallenge | None, Field(description="For proof: what is to be solved.")]


def solve_challenge(challenge: GateChallenge) -> str | None:
    """The proof to be sent for a challenge; ``None`` if there is none, or it would take too long."""
    if challenge.algorithm != ALGORITHM or not 0 <= challenge.maxnumber <= _NUMBER_LIMIT:
        return None
    wanted = challenge.challenge.lower()
    salted = hashlib.sha256(challenge.salt.encode())
    for number in range(challenge.maxnumber + 1):
        tried = salted.copy()
        tried.update(b"%d" % number)
        if tried.hexdigest() == wanted:
            proof = {
                "algorithm": ALGORITHM,
                "challenge": challenge.challenge,
                "number": number,
                "salt": challenge.salt,
                "signature": challenge.signature,
            }
            return base64.b64encode(json.dumps(proof, separators=(",", ":")).encode()).decode()
    return None
