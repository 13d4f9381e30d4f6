"""API routes of live battles. Whatever models answer, headers and frames are the same."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response, StreamingResponse

from tiltyard.arena.live.live_battles import LiveBattles
from tiltyard.arena.live.live_records import FrameMark, LiveBattle, LiveFrame, TurnOutcome
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.errors import BadOption, Busy, OpenBattle, TiltyardError
from tiltyard.web.access.access import access_of, context_of, registry_of
from tiltyard.web.edge.fast_routes import FastRoute, json_response
from tiltyard.web.edge.problem_details import Documented
from tiltyard.web.routes.matchups import admit_asking, find_queue_and_voter
from tiltyard.wire.live import (
    FollowUpRequest,
    LivePromptRequest,
    ShownBattle,
    ShownFrame,
    ShownTurn,
    TurnVoteRequest,
    TurnWinner,
)
from tiltyard.wire.records import json_bytes

router = APIRouter(route_class=FastRoute, tags=["voters"])
#: Its query is read by the framework.
stream_router = APIRouter(tags=["voters"])

Arena = Annotated[str, Path(description="The arena's name.", examples=["main"])]
MatchupId = Annotated[
    str,
    Path(description="A battle's matchup.", min_length=1, examples=["0-AAAAAalDs15Fd09JuICZzttXMkdKMeVq"]),
]

_EVENTS: Documented = {
    200: {
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
        "description": "Events whose data are frames.",
    }
}
#: No proxy may hold frames back or compress them: sizes and times would tell what is in them.
STREAM_HEADERS = {
    "Cache-Control": "no-store, no-transform",
    "Content-Encoding": "identity",
    "X-Accel-Buffering": "no",
}
#: A comment is sent after so many seconds without a frame, so that no proxy takes the connection for dead.
_HEARTBEAT_SECONDS = 10.0
_HEARTBEAT = b":\n\n"
#: The browser comes back so soon after a connection is lost.
_HELLO = b"retry: 500\n\n"
#: Readers of one battle in one process.
_READER_LIMIT = 12
_ENDED_STATES = frozenset({"done", "stopped", "void"})
#: The verdicts on a turn, as the API and as the store spell them.
OUTCOMES: dict[TurnWinner, TurnOutcome] = {
    "model_a": "a",
    "model_b": "b",
    "tie": "tie",
    "both_bad": "both_bad",
}
_WINNERS = {outcome: winner for winner, outcome in OUTCOMES.items()}


@router.post("/api/v1/arenas/{arena}/live", response_model=ShownBattle, status_code=201)
async def begin_live_battle(arena: Arena, body: LivePromptRequest, request: Request) -> Response:
    """Send a prompt to two hidden models. The voter's last battle must have been voted on or skipped.

    A voter without a session gets one, in a cookie.
    """
    access, queue = access_of(request), await registry_of(request).voting_queue(arena)
    voter, cookie = await access.gate.begin(request, queue, await access.voter(request, queue))
    voter = await admit_asking(request, queue, voter)
    battles = await registry_of(request).live_battles(arena)
    try:
        battle = await battles.ask(voter, body.prompt, body.category)
    except OpenBattle as refusal:
        matchup = context_of(request).matchup_ids.format(UUID(refusal.matchup))
        raise OpenBattle(str(refusal), matchup=matchup) from None
    answer = json_response(said_battle(request, battle), 201)
    if cookie is not None:
        answer.headers.append("set-cookie", cookie)
    return answer


@router.get("/api/v1/live/{matchup}", response_model=ShownBattle)
async def live_battle(matchup: MatchupId, request: Request) -> Response:
    """A battle with all its turns, as far as they may be shown."""
    battles, voter, one = await find_battles_and_voter(request, matchup)
    return json_response(said_battle(request, await battles.battle(voter, one)))


@router.post("/api/v1/live/{matchup}/turns", response_model=ShownBattle, status_code=201)
async def follow_up(matchup: MatchupId, body: FollowUpRequest, request: Request) -> Response:
    """Send a further prompt to the same two models, each with its own part of the conversation."""
    battles, voter, one = await find_battles_and_voter(request, matchup, asks=True)
    return json_response(said_battle(request, await battles.follow_up(voter, one, body.prompt)), 201)


@router.post("/api/v1/live/{matchup}/stop", response_model=ShownBattle)
async def stop_live_battle(matchup: MatchupId, request: Request) -> Response:
    """Stop both answers where they are. What is shown by then counts."""
    battles, voter, one = await find_battles_and_voter(request, matchup)
    return json_response(said_battle(request, await battles.stop(voter, one)))


@router.post("/api/v1/live/{matchup}/again", response_model=ShownBattle, status_code=201)
async def repeat_live_battle(matchup: MatchupId, request: Request) -> Response:
    """Begin a new battle with the first prompt of this one. This one is skipped, unless it has ended."""
    battles, voter, one = await find_battles_and_voter(request, matchup, asks=True)
    return json_response(said_battle(request, await battles.again(voter, one)), 201)


@router.post("/api/v1/live/{matchup}/turn-vote", response_model=ShownBattle)
async def vote_on_turn(matchup: MatchupId, body: TurnVoteRequest, request: Request) -> Response:
    """Give the verdict on one turn, in an arena that asks for it. The vote on the whole battle is the one that is rated."""
    battles, voter, one = await find_battles_and_voter(request, matchup)
    battle = await battles.turn_vote(voter, one, body.turn, OUTCOMES[body.winner])
    return json_response(said_battle(request, battle))


@stream_router.get("/api/v1/live/{matchup}/frames", response_class=Response, responses=_EVENTS)
async def live_frames(
    matchup: MatchupId,
    request: Request,
    after: Annotated[
        str | None,
        Query(description="The id of the last event that the reader has; it gets the rest.", max_length=60),
    ] = None,
) -> Response:
    """Server-sent events until the turn has ended: at most 15 a second, each with what is new on both sides.

    The id of an event says how much of both answers its reader has. A reader that comes back sends it as
    `Last-Event-ID` or as `after`, and gets exactly the rest.
    """
    battles, voter, one = await find_battles_and_voter(request, matchup)
    stated = request.headers.get("last-event-id") or after
    mark = FrameMark.parsed(stated) if stated else FrameMark()
    if mark is None:
        raise BadOption("after is not the id of an event; expected turn and two lengths, such as 1.120.118")
    # Refusals must come before the stream begins.
    first = await battles.frames(voter, one, mark, 0.0)
    reader = admit_reader(request, one)
    return StreamingResponse(
        stream_frames(partial(battles.frames, voter, one), mark, first, reader),
        headers=STREAM_HEADERS,
        media_type="text/event-stream",
    )


async def find_battles_and_voter(
    request: Request, matchup: str, *, asks: bool = False
) -> tuple[LiveBattles, Voter, UUID]:
    """The live battles of a matchup's arena, the voter and the matchup's id. Access is checked again.

    ``asks``: whether models may be called, which is counted.
    """
    queue, voter, one = await find_queue_and_voter(request, matchup)
    if asks:
        voter = await admit_asking(request, queue, voter)
    return await registry_of(request).live_battles(queue.name), voter, one


def admit_reader(request: Request, battle: UUID) -> AbstractContextManager[None]:
    """A place for one more reader of a battle, which is counted inside the block; `Busy` if there are too many."""
    readers = context_of(request).live_readers
    if readers[battle] >= _READER_LIMIT:
        raise Busy("this battle is open in too many tabs; close some of them", retry_after=5)
    return _counted(readers, battle)


async def stream_frames(
    read: Callable[[FrameMark], Awaitable[LiveFrame]],
    mark: FrameMark,
    first: LiveFrame,
    reading: AbstractContextManager[None],
) -> AsyncIterator[bytes]:
    """The events of a turn, from the first frame on. After a fault the stream ends: its reader comes back."""
    frame, sent_at = first, time.monotonic()
    with reading:
        yield _HELLO
        while True:
            if frame.mark != mark or frame.a or frame.b or frame.state in _ENDED_STATES:
                yield _event(frame)
                mark, sent_at = frame.mark, time.monotonic()
            elif time.monotonic() - sent_at >= _HEARTBEAT_SECONDS:
                yield _HEARTBEAT
                sent_at = time.monotonic()
            if frame.state in _ENDED_STATES:
                return
            try:
                frame = await read(mark)
            except TiltyardError:
                return


def said_battle(request: Request, battle: LiveBattle) -> ShownBattle:
    """A battle for its voter."""
    matchup = context_of(request).matchup_ids.format(battle.matchup)
    return ShownBattle(
        matchup=matchup,
        arena=battle.arena,
        category=battle.category,
        state=battle.state,
        turns=[
            ShownTurn(
                one.turn,
                one.prompt,
                one.a,
                one.b,
                one.state,
                None if one.outcome is None else _WINNERS[one.outcome],
            )
            for one in battle.turns
        ],
        began_at=battle.began_at,
        ballot=battle.ballot,
        can_continue=battle.can_continue,
        frames=f"/api/v1/live/{matchup}/frames",
    )


def _event(frame: LiveFrame) -> bytes:
    data = json_bytes(
        ShownFrame(frame.mark.turn, frame.a, frame.b, frame.state, frame.ended_a, frame.ended_b)
    )
    return b"id: %s\ndata: %s\n\n" % (str(frame.mark).encode(), data)


@contextmanager
def _counted(readers: Counter[UUID], battle: UUID) -> Iterator[None]:
    readers[battle] += 1
    try:
        yield
    finally:
        readers[battle] -= 1
        if not readers[battle]:
            del readers[battle]
