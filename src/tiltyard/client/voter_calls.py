"""Calls of voters, people and judges alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from tiltyard.client.api_call import Call, api_path
from tiltyard.client.decoder import decode_list, decode_nothing, decode_value

__all__ = [
    "BoardPlace",
    "BoardPlaces",
    "Ended",
    "Matchup",
    "MatchupResponses",
    "PairProgress",
    "Revealed",
    "RevealedVote",
    "ShownPrompt",
    "ShownResponse",
    "finish",
    "next_matchup",
    "open_matchups",
    "remark",
    "report",
    "response",
    "reveal",
    "skip",
    "undo",
    "vote",
]

Side = Literal["a", "b"]


@dataclass(frozen=True, slots=True)
class ShownPrompt:
    """What was asked."""

    text: str


@dataclass(frozen=True, slots=True)
class ShownResponse:
    """Where one side's response is, and whether it is ``text``, ``image``, ``audio`` or ``app``."""

    url: str
    kind: str


@dataclass(frozen=True, slots=True)
class MatchupResponses:
    """The two responses."""

    a: ShownResponse
    b: ShownResponse


@dataclass(frozen=True, slots=True)
class Matchup:
    """Two responses to one prompt, blind. Nothing in it tells the models."""

    matchup: str
    arena: str
    prompt: ShownPrompt
    responses: MatchupResponses
    served_at: datetime
    expires_at: datetime
    #: How often its vote was undone; the next vote names this number.
    ballot: int = 0


@dataclass(frozen=True, slots=True)
class Ended:
    """How a matchup ended: ``kind`` is vote, skip, expire or undo; ``winner`` stands where there was a vote."""

    matchup: str
    kind: str
    winner: str | None
    label: str | None
    #: Of a judge's vote: whether it calls both responses bad.
    both_bad: bool | None
    #: Where it stands in the arena's log.
    position: int
    at: datetime
    #: Until when the vote can be undone; ``None`` if it cannot.
    undo_until: datetime | None
    revealed: bool
    #: Which ballot it concerns; of an undo, the one that is open now.
    ballot: int = 0
    #: Of a vote: whether the voter had been told neither name; if not, no rating moves by it.
    blind: bool = True


@dataclass(frozen=True, slots=True)
class BoardPlace:
    """Where a model stands on the newest board; ``None`` where the votes do not support a number."""

    rank: int | None
    #: What the board is ordered by.
    score: float | None
    badge: str | None


@dataclass(frozen=True, slots=True)
class BoardPlaces:
    """The places of both sides; ``None`` for a model that is not on the board yet."""

    a: BoardPlace | None
    b: BoardPlace | None


@dataclass(frozen=True, slots=True)
class PairProgress:
    """Decisive votes that two models have, and how many the ranking policy asks for."""

    decisive: int
    floor: int


@dataclass(frozen=True, slots=True)
class Revealed:
    """Who stood on which side, and why these two met."""

    matchup: str
    model_a: str
    model_b: str
    #: The prompt's name.
    prompt: str
    winner: str
    label: str
    lane: str
    reason: str
    position: int
    #: ``None`` before there is a board, or from an older server.
    standing: BoardPlaces | None = None
    pair: PairProgress | None = None
    #: Whether the voter had been told neither name when the vote was cast.
    blind: bool = True


@dataclass(frozen=True, slots=True)
class RevealedVote:
    """A vote whose names were told."""

    matchup: str
    at: datetime
    model_a: str
    model_b: str
    #: The prompt's name.
    prompt: str
    winner: str
    #: Whether the voter had been told neither name when the vote was cast.
    blind: bool


def next_matchup(arena: str, *, ahead: bool = False) -> Call[Matchup]:
    return Call("POST", api_path("arenas", arena, "matchups"), decode_value(Matchup), body={"ahead": ahead})


def open_matchups(arena: str) -> Call[list[Matchup]]:
    return Call("GET", api_path("arenas", arena, "matchups"), decode_list(Matchup, "matchups"))


def response(matchup: str, side: Side) -> Call[bytes]:
    path = api_path("m", matchup, side).removeprefix("/api/v1")
    return Call("GET", path, bytes, raw=True)


def vote(
    matchup: str,
    winner: str,
    *,
    ballot: int = 0,
    reveal: bool = False,
    shown: Mapping[str, float] | None = None,
    label: str | None = None,
    both_bad: bool | None = None,
    pref: float | None = None,
    judge_model: str | None = None,
) -> Call[Ended]:
    stated: dict[str, Any] = {"label": label, "both_bad": both_bad, "pref": pref, "judge_model": judge_model}
    stated["shown"] = None if shown is None else dict(shown)
    body: dict[str, Any] = {"winner": winner, "reveal": reveal, **_on(ballot)}
    body |= {name: value for name, value in stated.items() if value is not None}
    return Call("POST", api_path("matchups", matchup, "vote"), decode_value(Ended), body=body)


def undo(matchup: str, *, ballot: int = 0) -> Call[Ended]:
    return Call("POST", api_path("matchups", matchup, "undo"), decode_value(Ended), body=_on(ballot))


def skip(matchup: str) -> Call[Ended]:
    return Call("POST", api_path("matchups", matchup, "skip"), decode_value(Ended))


def reveal(matchup: str) -> Call[Revealed]:
    return Call("POST", api_path("matchups", matchup, "reveal"), decode_value(Revealed))


def finish(arena: str) -> Call[list[RevealedVote]]:
    # What was told once is not told again: an answer that is lost is found on the page of one's own votes.
    return Call(
        "POST", api_path("arenas", arena, "finish"), decode_list(RevealedVote, "votes"), repeatable=False
    )


def remark(matchup: str, tags: Sequence[str] = (), comment: str | None = None) -> Call[None]:
    body = {"tags": list(tags), "comment": comment}
    return Call("PUT", api_path("matchups", matchup, "remark"), decode_nothing, body=body)


def report(matchup: str, reason: str, note: str | None = None) -> Call[None]:
    body = {"reason": reason, "note": note}
    # Told twice, it is written down twice.
    return Call("POST", api_path("matchups", matchup, "report"), decode_nothing, body=body, repeatable=False)


def _on(ballot: int) -> dict[str, Any]:
    """Which ballot; a server that knows of no others is not told of the first."""
    return {"ballot": ballot} if ballot else {}
