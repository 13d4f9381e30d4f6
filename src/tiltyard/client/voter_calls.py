"""Calls of voters, people and judges alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, cast

from tiltyard.client.api_call import Call, api_path
from tiltyard.client.decoder import decode_list, decode_nothing, decode_value
from tiltyard.errors import BadOption
from tiltyard.wire.gate import GateAnswer, GateChallenge
from tiltyard.wire.records import body_of
from tiltyard.wire.vocabulary import ComplaintReason, Label, SkipReason, Tag, Winner
from tiltyard.wire.voting import (
    BoardPlace,
    BoardPlaces,
    ComplaintRequest,
    Ended,
    Matchup,
    MatchupResponses,
    NextMatchupRequest,
    PairProgress,
    RemarkRequest,
    Revealed,
    RevealedVote,
    ShownPrompt,
    ShownResponse,
    ShownTimes,
    SkipRequest,
    UndoRequest,
    VoteRequest,
)

__all__ = [
    "BoardPlace",
    "BoardPlaces",
    "Ended",
    "GateAnswer",
    "GateChallenge",
    "Matchup",
    "MatchupResponses",
    "PairProgress",
    "Revealed",
    "RevealedVote",
    "ShownPrompt",
    "ShownResponse",
    "finish",
    "gate",
    "next_matchup",
    "open_matchups",
    "remark",
    "report",
    "response",
    "reveal",
    "show",
    "skip",
    "undo",
    "vote",
]

Side = Literal["a", "b"]


def next_matchup(arena: str, *, ahead: bool = False) -> Call[Matchup]:
    body = body_of(NextMatchupRequest(ahead=ahead))
    return Call("POST", api_path("arenas", arena, "matchups"), decode_value(Matchup), body=body)


def gate(arena: str) -> Call[GateAnswer]:
    return Call("GET", api_path("arenas", arena, "gate"), decode_value(GateAnswer))


def open_matchups(arena: str) -> Call[list[Matchup]]:
    return Call("GET", api_path("arenas", arena, "matchups"), decode_list(Matchup, "matchups"))


def show(matchup: str) -> Call[Matchup]:
    return Call("POST", api_path("matchups", matchup, "show"), decode_value(Matchup))


def response(matchup: str, side: Side, image: int | None = None) -> Call[bytes]:
    path = api_path("m", matchup, side).removeprefix("/api/v1")
    return Call("GET", path, bytes, {"image": image}, raw=True)


def vote(
    matchup: str,
    winner: str,
    *,
    ballot: int = 0,
    reveal: bool = False,
    shown: Mapping[str, float] | None = None,
    recognized: bool = False,
    label: str | None = None,
    both_bad: bool | None = None,
    pref: float | None = None,
    judge_model: str | None = None,
) -> Call[Ended]:
    request = VoteRequest(
        winner=cast("Winner", winner),
        ballot=ballot,
        shown=None if shown is None else _times(shown),
        reveal=reveal,
        recognized=recognized,
        label=cast("Label | None", label),
        both_bad=both_bad,
        pref=pref,
        judge_model=judge_model,
    )
    return Call("POST", api_path("matchups", matchup, "vote"), decode_value(Ended), body=_on_ballot(request))


def undo(matchup: str, *, ballot: int = 0) -> Call[Ended]:
    return Call(
        "POST",
        api_path("matchups", matchup, "undo"),
        decode_value(Ended),
        body=_on_ballot(UndoRequest(ballot=ballot)),
    )


def skip(matchup: str, *, reason: str | None = None, recognized: bool = False) -> Call[Ended]:
    request = SkipRequest(reason=cast("SkipReason | None", reason), recognized=recognized)
    # A server that knows of no reasons is not told of none.
    body = None if request == SkipRequest() else body_of(request)
    return Call("POST", api_path("matchups", matchup, "skip"), decode_value(Ended), body=body)


def reveal(matchup: str) -> Call[Revealed]:
    return Call("POST", api_path("matchups", matchup, "reveal"), decode_value(Revealed))


def finish(arena: str) -> Call[list[RevealedVote]]:
    # What was told once is not told again: an answer that is lost is found on the page of one's own votes.
    return Call(
        "POST", api_path("arenas", arena, "finish"), decode_list(RevealedVote, "votes"), repeatable=False
    )


def remark(matchup: str, tags: Sequence[str] = (), comment: str | None = None) -> Call[None]:
    body = body_of(RemarkRequest(tags=cast("list[Tag]", list(tags)), comment=comment))
    return Call("PUT", api_path("matchups", matchup, "remark"), decode_nothing, body=body)


def report(matchup: str, reason: str, note: str | None = None) -> Call[None]:
    body = body_of(ComplaintRequest(reason=cast("ComplaintReason", reason), note=note))
    # Told twice, it is written down twice.
    return Call("POST", api_path("matchups", matchup, "report"), decode_nothing, body=body, repeatable=False)


def _times(shown: Mapping[str, float]) -> ShownTimes:
    if shown.keys() != {"a", "b"}:
        raise BadOption(f"shown has the seconds of a and b, not of {', '.join(shown) or 'neither'}")
    return ShownTimes(a=shown["a"], b=shown["b"])


def _on_ballot(request: VoteRequest | UndoRequest) -> dict[str, object]:
    """A server that knows of no other ballots is not told of the first, nor one that knows of no recognition of none."""
    body = body_of(request)
    if not request.ballot:
        del body["ballot"]
    if not body.get("recognized", True):
        del body["recognized"]
    return body
