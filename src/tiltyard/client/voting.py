"""Calls of voters, people and judges alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from tiltyard.client.reading import listed, nothing, value_of
from tiltyard.client.wire import Call, path_of

__all__ = [
    "Ended",
    "Matchup",
    "Pair",
    "Place",
    "Places",
    "Revealed",
    "ShownPrompt",
    "ShownResponse",
    "Sides",
    "ToldVote",
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
class Sides:
    """The two responses."""

    a: ShownResponse
    b: ShownResponse


@dataclass(frozen=True, slots=True)
class Matchup:
    """Two responses to one prompt, blind. Nothing in it tells the models."""

    matchup: str
    arena: str
    prompt: ShownPrompt
    responses: Sides
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
class Place:
    """Where a model stands on the newest board; ``None`` where the votes do not support a number."""

    rank: int | None
    #: What the board is ordered by.
    score: float | None
    badge: str | None


@dataclass(frozen=True, slots=True)
class Places:
    """The places of both sides; ``None`` for a model that is not on the board yet."""

    a: Place | None
    b: Place | None


@dataclass(frozen=True, slots=True)
class Pair:
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
    standing: Places | None = None
    pair: Pair | None = None
    #: Whether the voter had been told neither name when the vote was cast.
    blind: bool = True


@dataclass(frozen=True, slots=True)
class ToldVote:
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
    return Call("POST", path_of("arenas", arena, "matchups"), value_of(Matchup), body={"ahead": ahead})


def open_matchups(arena: str) -> Call[list[Matchup]]:
    return Call("GET", path_of("arenas", arena, "matchups"), listed(Matchup, "matchups"))


def response(matchup: str, side: Side) -> Call[bytes]:
    path = path_of("m", matchup, side).removeprefix("/api/v1")
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
    return Call("POST", path_of("matchups", matchup, "vote"), value_of(Ended), body=body)


def undo(matchup: str, *, ballot: int = 0) -> Call[Ended]:
    return Call("POST", path_of("matchups", matchup, "undo"), value_of(Ended), body=_on(ballot))


def skip(matchup: str) -> Call[Ended]:
    return Call("POST", path_of("matchups", matchup, "skip"), value_of(Ended))


def reveal(matchup: str) -> Call[Revealed]:
    return Call("POST", path_of("matchups", matchup, "reveal"), value_of(Revealed))


def finish(arena: str) -> Call[list[ToldVote]]:
    # What was told once is not told again: an answer that is lost is found on the page of one's own votes.
    return Call("POST", path_of("arenas", arena, "finish"), listed(ToldVote, "votes"), repeatable=False)


def remark(matchup: str, tags: Sequence[str] = (), comment: str | None = None) -> Call[None]:
    body = {"tags": list(tags), "comment": comment}
    return Call("PUT", path_of("matchups", matchup, "remark"), nothing, body=body)


def report(matchup: str, reason: str, note: str | None = None) -> Call[None]:
    body = {"reason": reason, "note": note}
    # Told twice, it is written down twice.
    return Call("POST", path_of("matchups", matchup, "report"), nothing, body=body, repeatable=False)


def _on(ballot: int) -> dict[str, Any]:
    """Which ballot; a server that knows of no others is not told of the first."""
    return {"ballot": ballot} if ballot else {}
