"""Calls of voters in live battles."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import cast

from tiltyard.client.api_call import Call, api_path
from tiltyard.client.decoder import decode_value
from tiltyard.wire.live import (
    FollowUpRequest,
    LivePromptRequest,
    ShownBattle,
    ShownFrame,
    ShownTurn,
    TurnVoteRequest,
    TurnWinner,
)
from tiltyard.wire.records import body_of

__all__ = [
    "ShownBattle",
    "ShownFrame",
    "ShownTurn",
    "again",
    "ask",
    "follow_up",
    "frames",
    "live_battle",
    "read_frames",
    "stop",
    "turn_vote",
]


def ask(arena: str, prompt: str, *, category: str | None = None) -> Call[ShownBattle]:
    body = body_of(LivePromptRequest(prompt=prompt, category=category))
    # Sent twice, it may cost twice.
    return Call(
        "POST", api_path("arenas", arena, "live"), decode_value(ShownBattle), body=body, repeatable=False
    )


def live_battle(matchup: str) -> Call[ShownBattle]:
    return Call("GET", api_path("live", matchup), decode_value(ShownBattle))


def follow_up(matchup: str, prompt: str) -> Call[ShownBattle]:
    body = body_of(FollowUpRequest(prompt=prompt))
    return Call(
        "POST", api_path("live", matchup, "turns"), decode_value(ShownBattle), body=body, repeatable=False
    )


def stop(matchup: str) -> Call[ShownBattle]:
    return Call("POST", api_path("live", matchup, "stop"), decode_value(ShownBattle))


def again(matchup: str) -> Call[ShownBattle]:
    return Call("POST", api_path("live", matchup, "again"), decode_value(ShownBattle), repeatable=False)


def turn_vote(matchup: str, turn: int, winner: str) -> Call[ShownBattle]:
    body = body_of(TurnVoteRequest(turn=turn, winner=cast("TurnWinner", winner)))
    return Call("POST", api_path("live", matchup, "turn-vote"), decode_value(ShownBattle), body=body)


def frames(matchup: str, *, after: str | None = None) -> Call[bytes]:
    return Call("GET", api_path("live", matchup, "frames"), bytes, query={"after": after}, raw=True)


def read_frames(pieces: Iterable[bytes]) -> Iterator[ShownFrame]:
    """The frames of a stream of events."""
    read, left = decode_value(ShownFrame), b""
    for piece in pieces:
        *lines, left = (left + piece).split(b"\n")
        for line in lines:
            if line.startswith(b"data: "):
                yield read(json.loads(line.removeprefix(b"data: ")))
