"""API routes for voters, both people and judges."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Request
from fastapi.responses import Response

from tiltyard.arena.boards import board_cache as rank_lookup
from tiltyard.arena.boards.board_cache import newest_ranks
from tiltyard.arena.content.blinding import strip_metadata
from tiltyard.arena.content.blob_store import ResponseContent
from tiltyard.arena.content.stored_conversations import (
    CONVERSATION,
    character_count,
    conversation_image,
    response_text,
)
from tiltyard.arena.live.live_store import read_battle
from tiltyard.arena.log.event_details import SkipDetail, VoteDetail
from tiltyard.arena.log.event_log import HUMAN, JUDGE, matchup_not_found_error
from tiltyard.arena.voting import voter_requests
from tiltyard.arena.voting.voter_requests import DeclaredSkills, OfferedMatchup, Voter
from tiltyard.arena.voting.voting_queue import VotingQueue
from tiltyard.core.battles import Kind, Label, Outcome
from tiltyard.core.battles.outcome import SPELLED, kind_of
from tiltyard.errors import BadBattle, BadOption, InputError, NoMatchup, NotFound
from tiltyard.settings.serving_settings import LimitedKind
from tiltyard.web.access.access import access_of, context_of, registry_of
from tiltyard.web.access.cookies import preset_languages
from tiltyard.web.access.route_access import boards_of, personal_boards_of
from tiltyard.web.edge.fast_routes import FastRoute, json_response
from tiltyard.web.edge.problem_details import Documented
from tiltyard.web.texts.app_sandbox import APP, APP_HEADERS, PLAIN, sandboxed_app
from tiltyard.wire.records import SkipReason
from tiltyard.wire.voting import (
    BoardPlace,
    BoardPlaces,
    ComplaintRequest,
    Ended,
    GateAnswer,
    Matchup,
    MatchupList,
    MatchupResponses,
    NextMatchupRequest,
    PairProgress,
    RemarkRequest,
    Revealed,
    RevealedVote,
    RevealedVoteList,
    ShownPrompt,
    ShownResponse,
    SkipRequest,
    UndoRequest,
    VoteRequest,
)

router = APIRouter(route_class=FastRoute, tags=["voters"])

Arena = Annotated[str, Path(description="The arena's name.", examples=["main"])]
MatchupId = Annotated[
    str, Path(description="A matchup's id.", min_length=1, examples=["0-AAAAAalDs15Fd09JuICZzttXMkdKMeVq"])
]

_AGAIN: Documented = {200: {"model": Matchup, "description": "A matchup that was served before."}}
_BYTES: Documented = {200: {"content": {"*/*": {}}, "description": "Its bytes."}}
_IMAGE_QUERY = {
    "parameters": [
        {
            "name": "image",
            "in": "query",
            "required": False,
            "description": "The number of an image of the response's messages, from 0: its bytes.",
            "schema": {"type": "integer", "minimum": 0},
        }
    ]
}
#: For a side that has no image of a number.
_NO_IMAGE = ResponseContent("", b"")
_NUMBER_DIGITS = 6
#: The same for both sides and all kinds.
_SHOWN = {
    **APP_HEADERS,
    "Cache-Control": "no-store",
    "Content-Disposition": "inline",
    "X-Content-Type-Options": "nosniff",
}


async def with_skills(request: Request, queue: VotingQueue, voter: Voter) -> Voter:
    """The voter with what they can judge: as declared, or else the languages of the browser. Judges declare nothing."""
    if voter.source != HUMAN:
        return voter
    declared, accepted = (
        access_of(request).skills.read(request, queue.arena),
        request.headers.get("accept-language"),
    )
    if declared is None and accepted:
        languages = await boards_of(request).languages(queue.name)
        found = preset_languages(accepted, languages)
        declared = DeclaredSkills(() if len(found) == len(languages) else found)
    return voter if declared is None else replace(voter, declared=declared)


@router.post("/api/v1/arenas/{arena}/matchups", response_model=Matchup, status_code=201, responses=_AGAIN)
async def next_matchup(arena: Arena, body: NextMatchupRequest, request: Request) -> Response:
    """Return the matchup to show to the voter now: the one that is open, or a new one.

    With `ahead`, return a further one, to be shown next. It is an exposure only from the moment when it is shown:
    by `show`, by a request without `ahead`, or by a vote. Unless it is shown, it expires within minutes. At most
    two wait to be shown; with a third, the oldest expires.

    A voter without a session gets one, in a cookie.
    """
    access, queue = access_of(request), await registry_of(request).voting_queue(arena)
    voter, cookie = await access.gate.begin(request, queue, await access.voter(request, queue))
    await count_request("matchups", request, queue, voter)
    judging = await with_skills(request, queue, voter)
    try:
        offered = await queue.next_matchup(judging, ahead=body.ahead)
    except NoMatchup:
        if access.skills.read(request, queue.arena) is not None:
            raise
        # The languages of the browser are a preference; only what was declared is a rule.
        offered = await queue.next_matchup(voter, ahead=body.ahead)
    answer = json_response(await _shown(request, queue, offered), 201 if offered.new else 200)
    if cookie is not None:
        answer.headers.append("set-cookie", cookie)
    return answer


@router.get("/api/v1/arenas/{arena}/gate", response_model=GateAnswer)
async def gate(arena: Arena, request: Request) -> Response:
    """What this voter must do before the first matchup: nothing, or solve the challenge that is returned.

    The proof is sent in the header `Tiltyard-Proof` with the request for the first matchup: the challenge with the
    `number` that was found instead of `maxnumber`, as JSON in base64.
    """
    queue = await registry_of(request).voting_queue(arena)
    access = access_of(request)
    answer = await access.gate.challenge(request, queue, await access.voter(request, queue))
    return json_response(answer)


@router.get("/api/v1/arenas/{arena}/matchups", response_model=MatchupList)
async def open_matchups(arena: Arena, request: Request) -> Response:
    """The voter's open matchups in the arena."""
    queue = await registry_of(request).voting_queue(arena)
    voter = await access_of(request).voter(request, queue)
    offered = [] if voter is None else await queue.open_matchups(voter)
    return json_response(MatchupList([await _shown(request, queue, one) for one in offered]))


@router.post("/api/v1/matchups/{matchup}/show", response_model=Matchup)
async def show(matchup: MatchupId, request: Request) -> Response:
    """Say that a matchup that was requested with `ahead` is shown now. Its time to be voted on starts."""
    queue, voter, one = await find_queue_and_voter(request, matchup)
    return json_response(await _shown(request, queue, await queue.show(voter, one)))


@router.post("/api/v1/matchups/{matchup}/vote", response_model=Ended)
async def vote(matchup: MatchupId, body: VoteRequest, request: Request) -> Response:
    """Vote on a matchup. Repeating the same vote gives the same response; a different vote is rejected."""
    queue, voter, one = await find_queue_and_voter(request, matchup, "votes")
    kind, detail = _decided(body, voter)
    sent = context_of(request).receipts.read(voter.session, one, body.receipt or "")
    ended = await queue.vote(
        voter, one, kind, ballot=body.ballot, reveal=body.reveal, detail=detail, sent=sent
    )
    return _ended_response(matchup, ended, voter)


@router.post("/api/v1/matchups/{matchup}/skip", response_model=Ended)
async def skip(matchup: MatchupId, body: SkipRequest, request: Request) -> Response:
    """Skip a matchup, which ends it without a vote. A person may say why."""
    queue, voter, one = await find_queue_and_voter(request, matchup, "skips")
    detail = skip_detail(body.reason, recognized=body.recognized)
    if detail is not None and voter.source != HUMAN:
        raise BadOption("reason and recognized are for people's skips; a judge's has none")
    return _ended_response(matchup, await queue.skip(voter, one, detail=detail), voter)


@router.post("/api/v1/matchups/{matchup}/undo", response_model=Ended)
async def undo(matchup: MatchupId, body: UndoRequest, request: Request) -> Response:
    """Undo a vote, soon after it and before the names are revealed. The matchup is open again."""
    queue, voter, one = await find_queue_and_voter(request, matchup)
    return _ended_response(matchup, await queue.undo(voter, one, ballot=body.ballot), voter)


@router.post("/api/v1/matchups/{matchup}/reveal", response_model=Revealed)
async def reveal(matchup: MatchupId, request: Request) -> Response:
    """Reveal the names of the models. The vote becomes final."""
    queue, voter, one = await find_queue_and_voter(request, matchup, "reveals")
    names = await queue.reveal(voter, one)
    winner, label = SPELLED[names.outcome]
    return json_response(
        Revealed(
            matchup=matchup,
            model_a=names.model_a,
            model_b=names.model_b,
            prompt=await _first_prompt(request, queue, one) if queue.settings.is_live else names.prompt,
            winner=winner,
            label=label,
            lane=names.lane,
            reason=names.reason,
            position=names.position,
            standing=await _standing(request, queue, voter, names),
            pair=PairProgress(names.decisive, names.floor),
            blind=names.blind,
            unrated=names.unrated,
        )
    )


@router.post("/api/v1/arenas/{arena}/finish", response_model=RevealedVoteList)
async def finish(arena: Arena, request: Request) -> Response:
    """End a person's session: reveal the names of all votes since the last reveal. These votes become final."""
    queue = await registry_of(request).voting_queue(arena)
    voter = await access_of(request).voter(request, queue)
    revealed = 0 if voter is None else await queue.finish(voter)
    if voter is None or not revealed:
        return json_response(RevealedVoteList([]))
    found = await boards_of(request).arena(arena)
    votes = await personal_boards_of(request).last_revealed(found, voter)
    written = context_of(request).matchup_ids
    return json_response(
        RevealedVoteList(
            [
                RevealedVote(
                    matchup=written.format(one.matchup),
                    at=one.at,
                    model_a=one.model_a,
                    model_b=one.model_b,
                    prompt=one.prompt,
                    winner=one.outcome,
                    blind=one.blind,
                    unrated=one.unrated,
                )
                for one in votes
            ]
        )
    )


@router.put("/api/v1/matchups/{matchup}/remark", status_code=204, response_model=None)
async def remark(matchup: MatchupId, body: RemarkRequest, request: Request) -> Response:
    """Give the reason for a vote, after the vote and before the names are revealed. It replaces an earlier remark."""
    queue, voter, one = await find_queue_and_voter(request, matchup)
    async with access_of(request).quota("remarks", queue.arena):
        await queue.remark(voter, one, tuple(dict.fromkeys(body.tags)), body.comment or None)
    return Response(status_code=204)


@router.post("/api/v1/matchups/{matchup}/report", status_code=204, response_model=None)
async def report_matchup(matchup: MatchupId, body: ComplaintRequest, request: Request) -> Response:
    """Report a problem with a matchup to the operator, before or after the vote."""
    queue, voter, one = await find_queue_and_voter(request, matchup, "reports")
    async with access_of(request).quota("reports", queue.arena):
        await context_of(request).response_kinds.complain(
            queue.arena, one, voter.source, voter.session, body.reason, body.note
        )
    return Response(status_code=204)


@router.get("/m/{matchup}/a", response_class=Response, responses=_BYTES, openapi_extra=_IMAGE_QUERY)
async def response_a(matchup: MatchupId, request: Request) -> Response:
    """The response on side A of a matchup that is open, or was voted on and has not expired."""
    return await _side(request, matchup, 0)


@router.get("/m/{matchup}/b", response_class=Response, responses=_BYTES, openapi_extra=_IMAGE_QUERY)
async def response_b(matchup: MatchupId, request: Request) -> Response:
    """The response on side B of a matchup that is open, or was voted on and has not expired."""
    return await _side(request, matchup, 1)


async def _side(request: Request, matchup: str, side: int) -> Response:
    """The bytes of one side, or of an image of its messages, without metadata.

    Both sides are always processed, so that they take the same time.
    """
    queue, voter, one = await find_queue_and_voter(request, matchup)
    offered = await queue.find(voter, one, voted=True)
    if queue.settings.is_live:
        raise NotFound(f"a live battle has no stored responses; its answers are at /api/v1/live/{matchup}")
    blobs = registry_of(request).blobs
    try:
        both = await asyncio.gather(blobs.read(offered.response_a), blobs.read(offered.response_b))
    except NotFound:
        raise NotFound("this matchup was withdrawn; request another one") from None
    image = request.query_params.get("image")
    if image is None:
        shown = [_for_destination(request, one) for one in both]
    else:
        shown = await asyncio.to_thread(lambda: [_image(one, image) for one in both])
    if shown[side] is _NO_IMAGE:
        raise NotFound("this response has no such image")
    sent = await _blind(shown)
    if image is None:
        # Of both, so that they take the same time.
        characters = [character_count(content) for content in both][side]
        await queue.note_sent(one, side, characters)
    return Response(sent[side], headers=_SHOWN, media_type=shown[side].media_type)


def _image(content: ResponseContent, number: str) -> ResponseContent:
    """An image of a response's messages by its number, which is foreign text."""
    if not (number.isascii() and number.isdigit() and len(number) < _NUMBER_DIGITS):
        return _NO_IMAGE
    try:
        return conversation_image(content, int(number))
    except NotFound:
        return _NO_IMAGE


def _for_destination(request: Request, content: ResponseContent) -> ResponseContent:
    """What a browser is sent: a conversation as a transcript, an app as itself.

    An app that is opened outside a frame is sent as source code, because only the page around it can sandbox it.
    """
    if content.media_type == CONVERSATION:
        return ResponseContent(PLAIN, response_text(content).encode())
    alone = request.headers.get("sec-fetch-dest") == "document"
    return content._replace(media_type=PLAIN) if alone and content.media_type == APP else content


async def _blind(both: Sequence[ResponseContent]) -> list[bytes]:
    """The bytes of two responses, without metadata; apps are sandboxed."""
    if all(media_type == PLAIN for media_type, _ in both):
        return [data for _, data in both]
    try:
        return await asyncio.to_thread(
            lambda: [
                sandboxed_app(data) if media_type == APP else strip_metadata(media_type, data)
                for media_type, data in both
            ]
        )
    except InputError:
        raise NotFound(
            "a file of this matchup is damaged and cannot be shown; report the matchup, and skip it"
        ) from None


async def count_request(kind: LimitedKind, request: Request, queue: VotingQueue, voter: Voter) -> None:
    """Count a request of a voter; `Busy` if there were too many."""
    await access_of(request).limits.admit(kind, request, queue, voter)


async def admit_asking(request: Request, queue: VotingQueue, voter: Voter) -> Voter:
    """Count a request that may call models; return the voter with the accounts that pay. `Busy` if there were too many."""
    await count_request("matchups", request, queue, voter)
    return await access_of(request).with_payers(request, queue, voter)


async def find_queue_and_voter(
    request: Request, matchup: str, counted: LimitedKind | None = None
) -> tuple[VotingQueue, Voter, UUID]:
    """The voting queue of a matchup, the voter and the matchup's id.

    ``counted``: as what the request is counted against the limits.
    """
    access = access_of(request)
    if not await access.may_have_voted(request):
        # Without a session, the matchup is not found, and not looked for.
        raise matchup_not_found_error()
    one = context_of(request).matchup_ids.parse(matchup)
    queue = await registry_of(request).voting_queue_of(one)
    try:
        voter = await access.voter(request, queue)
    except NotFound:
        raise matchup_not_found_error() from None
    if voter is None:
        raise matchup_not_found_error()
    if counted is not None:
        await count_request(counted, request, queue, voter)
    return queue, voter, one


async def _shown(request: Request, queue: VotingQueue, offered: OfferedMatchup) -> Matchup:
    """A matchup for its voter, with nothing that reveals the models."""
    kind_a, kind_b = await context_of(request).response_kinds.kinds(offered.response_a, offered.response_b)
    matchup = context_of(request).matchup_ids.format(offered.matchup)
    base = f"/m/{matchup}"
    if queue.settings.is_live:
        prompt = await _first_prompt(request, queue, offered.matchup)
    else:
        prompt = await registry_of(request).prompt_text(queue.arena, offered.prompt)
    return Matchup(
        matchup=matchup,
        arena=offered.arena,
        prompt=ShownPrompt(prompt),
        responses=MatchupResponses(ShownResponse(f"{base}/a", kind_a), ShownResponse(f"{base}/b", kind_b)),
        served_at=offered.served_at,
        expires_at=offered.expires_at,
        ballot=offered.ballot,
    )


async def _first_prompt(request: Request, queue: VotingQueue, matchup: UUID) -> str:
    """What the voter of a live battle asked first; empty before it has begun, and once it was erased."""
    battle = await read_battle(registry_of(request).pool, queue.arena, matchup)
    return battle.turns[0].prompt if battle is not None and battle.turns else ""


async def _standing(
    request: Request, queue: VotingQueue, voter: Voter, names: voter_requests.RevealedMatchup
) -> BoardPlaces | None:
    """The places of both models on the newest board of the voter's source."""
    places = await newest_ranks(registry_of(request).boards, queue.arena, voter.source)
    if places is None:
        return None
    return BoardPlaces(_place(places.get(names.model_a)), _place(places.get(names.model_b)))


def _place(found: rank_lookup.ModelRank | None) -> BoardPlace | None:
    if found is None:
        return None
    return BoardPlace(found.rank, found.rank_low, found.rank_high, found.score, found.badge)


def _ended_response(matchup: str, ended: voter_requests.EndedMatchup, voter: Voter) -> Response:
    winner, label = (None, None) if ended.outcome is None else SPELLED[ended.outcome]
    judged = ended.outcome if voter.source == JUDGE else None
    return json_response(
        Ended(
            matchup=matchup,
            kind=ended.kind.name.lower(),
            winner=winner,
            label=label,
            both_bad=None if judged is None else judged.flagged,
            position=ended.position,
            at=ended.at,
            undo_until=ended.undo_until,
            revealed=ended.revealed,
            ballot=ended.ballot,
            blind=ended.blind,
            unrated=ended.unrated,
        )
    )


def skip_detail(reason: SkipReason | None, *, recognized: bool) -> SkipDetail | None:
    """The details of a skip for the log; ``None`` if the voter did not say why."""
    detail: SkipDetail = {}
    if reason is not None:
        detail["reason"] = reason
    if recognized:
        detail["recognized"] = True
    return detail or None


def _decided(body: VoteRequest, voter: Voter) -> tuple[Kind, VoteDetail | None]:
    """The kind of a vote, and the details for the log: for a person's vote, when both responses were on screen."""
    detail: VoteDetail = {}
    if body.pref is not None:
        detail["pref"] = body.pref
    if body.judge_model is not None:
        detail["judge_model"] = body.judge_model
    if voter.source == HUMAN:
        if detail or body.label is not None or body.both_bad is not None:
            raise BadOption("label, both_bad, pref and judge_model are for judges; a person's vote has none")
        seen: VoteDetail = {}
        if body.shown is not None:
            seen["shown"] = {"a": body.shown.a, "b": body.shown.b}
        if body.recognized:
            seen["recognized"] = True
        return kind_of(Outcome(body.winner)), seen or None
    if body.shown is not None or body.recognized:
        raise BadOption("shown and recognized are for people's votes; a judge's vote has none")
    if body.winner == "both_bad":
        raise BadOption(
            "a judge must say which of two bad responses is better: send winner model_a, model_b or tie, and both_bad true"
        )
    try:
        label = None if body.label is None else Label(body.label)
        kind = kind_of(Outcome(body.winner), label, both_bad=bool(body.both_bad))
    except BadBattle as error:
        raise BadOption(str(error)) from None
    return kind, detail or None
