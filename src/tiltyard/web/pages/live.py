"""Pages of live battles: ask, read two answers while they are written, vote. All of them work without JavaScript."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse

from tiltyard.arena.live.live_battles import LiveBattles
from tiltyard.arena.live.live_records import AnswerFigures, FrameMark, LiveBattle, LiveFrame, TurnOutcome
from tiltyard.arena.live.live_store import list_battles, read_answer_figures, read_live_categories
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.arena.voting.voting_queue import VotingQueue
from tiltyard.errors import (
    BadOption,
    Busy,
    Closed,
    Conflict,
    NoMatchup,
    NotFound,
    OpenBattle,
    OutOfBudget,
    Paused,
    TiltyardError,
)
from tiltyard.web.access.access import access_of, context_of, registry_of
from tiltyard.web.pages import paths
from tiltyard.web.pages.layout import localization_of, redirect_to, render_page
from tiltyard.web.pages.live_view import LivePageStream, build_live_view
from tiltyard.web.pages.voter_texts import agree, read_voter_texts, unanswered_consent
from tiltyard.web.pages.voting_values import (
    finish_vote,
    matchup_values,
    read_matchup_id,
    revealed_names,
    shown_names,
    voting_frame,
)
from tiltyard.web.routes.live import STREAM_HEADERS, admit_reader
from tiltyard.web.routes.matchups import admit_asking, find_queue_and_voter

router = APIRouter(include_in_schema=False)

Text = Annotated[str, Form()]

_RAW_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
_PRIVATE = {"Cache-Control": "private, no-store", "Vary": "Cookie"}

#: Why a prompt was not sent, as the page says it.
Problem = Literal[
    "busy",
    "budget",
    "voter-budget",
    "too-long",
    "empty",
    "refused",
    "no-models",
    "paused",
    "consent",
    "open-battle",
]
_STATUS: dict[Problem, int] = {
    "busy": 429,
    "budget": 409,
    "voter-budget": 409,
    "no-models": 409,
    "paused": 409,
    "open-battle": 409,
}


_OUTCOMES: dict[str, TurnOutcome] = {"a": "a", "b": "b", "tie": "tie", "both_bad": "both_bad"}
_PROBLEMS: dict[type[TiltyardError], Problem] = {
    Busy: "busy",
    NoMatchup: "no-models",
    Paused: "paused",
    BadOption: "empty",
}


@dataclass(frozen=True, slots=True)
class Draft:
    """A prompt that was not sent, and why; empty before the first attempt."""

    prompt: str = ""
    category: str = ""
    problem: Problem | None = None
    #: In English: what an error says beyond that.
    detail: str = ""
    #: Seconds after which it can be sent again by itself.
    retry_after: int | None = None


async def live_vote_page(
    request: Request, queue: VotingQueue, voter: Voter | None, after: str = ""
) -> Response:
    """The voter's open battle, or the box for a new prompt. A battle that was void is offered once more."""
    if voter is None:
        return await _compose_page(request, queue, voter, Draft(), after=after)
    opened = await queue.open_matchups(voter)
    if opened:
        return redirect_to(paths.matchup(context_of(request).matchup_ids.format(opened[0].matchup)))
    last = await list_battles(registry_of(request).pool, queue.arena, voter.session, 1)
    void = last[0] if last and last[0].state == "void" and last[0].turns else None
    return await _compose_page(request, queue, voter, Draft(), after=after, void=void)


async def live_matchup_page(
    request: Request, queue: VotingQueue, voter: Voter, one: UUID, note: str = "", draft: Draft | None = None
) -> HTMLResponse:
    """A battle in any state, for its voter. ``draft``: a follow-up that was not sent."""
    live = await live_battles_of(request, queue)
    battle = await live.battle(voter, one)
    seen = await queue.review(voter, one)
    names = await queue.reveal(voter, one) if seen.revealed and seen.state == "voted" else None
    values = await voting_frame(request, queue, voter)
    shown = matchup_values(None, seen, await queue.remarked(voter, one), note)
    shown["expires_in"] = 0
    if battle.state not in ("open", "voted") or not battle.turns:
        template = "live/void.html" if battle.state == "void" or not battle.turns else "vote/ended.html"
        return render_page(
            request,
            template,
            headers=_PRIVATE,
            **values,
            **shown,
            **await shown_names(request, queue, voter, names),
            first_prompt=battle.turns[0].prompt if battle.turns else "",
            matchup=context_of(request).matchup_ids.format(one),
        )
    view = await build_live_view(request, battle, by_turn=queue.settings.live_votes == "turn")
    return render_page(
        request,
        "live/battle.html",
        status=200 if draft is None or draft.problem is None else _STATUS.get(draft.problem, 422),
        headers=_PRIVATE,
        **values,
        **shown,
        **await shown_names(request, queue, voter, names),
        live=view,
        figures=await answer_figures(request, queue, one) if names else None,
        draft=draft or Draft(),
        limits=queue.settings,
        categories=await _categories(request, queue),
        texts=await read_voter_texts(request, values["arena"]),
    )


@router.post("/arenas/{arena}/ask")
async def ask(
    request: Request,
    arena: str,
    prompt: Text = "",
    category: Text = "",
    consent: Text = "",
    last: Text = "",
) -> Response:
    """Begin a battle with the voter's prompt. The vote before it, if its names were not shown, becomes final."""
    queue, access = await registry_of(request).voting_queue(arena), access_of(request)
    voter, cookie = await access.voter(request, queue), None
    live = await live_battles_of(request, queue)
    asked = await unanswered_consent(request, queue.arena, voter)
    draft = Draft(_normalized(prompt), category)
    if asked is not None and consent != asked:
        return await _compose_page(request, queue, voter, replace(draft, problem="consent"))
    known = voter is not None
    voter, cookie = await access.gate.begin(request, queue, voter)
    if known and last:
        await finish_vote(queue, voter, read_matchup_id(request, last), None, "")
    if asked is not None:
        await agree(request, queue.arena, voter, asked)
    try:
        payer = await admit_asking(request, queue, voter)
        battle = await live.ask(payer, draft.prompt, category or None)
    except OpenBattle as error:
        draft = replace(draft, problem="open-battle")
        return await live_matchup_page(request, queue, voter, UUID(error.matchup), draft=draft)
    except TiltyardError as error:
        page = await _compose_page(request, queue, voter, _unsent(draft, error, queue))
        if cookie is not None:
            page.headers.append("set-cookie", cookie)
        return page
    return redirect_to(paths.matchup(context_of(request).matchup_ids.format(battle.matchup)), cookie=cookie)


@router.post("/live/{matchup}/follow-up")
async def follow_up(request: Request, matchup: str, prompt: Text = "") -> Response:
    """Send a further prompt to the same two models."""
    queue, voter, one = await find_queue_and_voter(request, matchup)
    live, text = await live_battles_of(request, queue), _normalized(prompt)
    try:
        battle = await live.follow_up(await admit_asking(request, queue, voter), one, text)
    except (Closed, Conflict):
        return redirect_to(paths.matchup(matchup))
    except TiltyardError as error:
        return await live_matchup_page(request, queue, voter, one, draft=_unsent(Draft(text), error, queue))
    return redirect_to(f"{paths.matchup(matchup)}#turn-{len(battle.turns)}")


@router.post("/live/{matchup}/stop")
async def stop(request: Request, matchup: str, part: Text = "") -> Response:
    """Stop both answers; what came counts. With ``part``, for scripts, nothing is returned: the stream tells."""
    queue, voter, one = await find_queue_and_voter(request, matchup)
    await (await live_battles_of(request, queue)).stop(voter, one)
    return Response(status_code=204) if part else redirect_to(paths.matchup(matchup))


@router.post("/live/{matchup}/again")
async def again(request: Request, matchup: str) -> Response:
    """A new battle with the same prompt. An open one is skipped; a vote before it becomes final."""
    queue, voter, one = await find_queue_and_voter(request, matchup)
    live = await live_battles_of(request, queue)
    await finish_vote(queue, voter, one, None, "")
    prompt = (await live.battle(voter, one)).turns[0].prompt
    try:
        battle = await live.again(await admit_asking(request, queue, voter), one)
    except OpenBattle:
        return redirect_to(paths.vote(queue.name))
    except TiltyardError as error:
        return await _compose_page(request, queue, voter, _unsent(Draft(prompt), error, queue))
    return redirect_to(paths.matchup(context_of(request).matchup_ids.format(battle.matchup)))


@router.post("/live/{matchup}/turn")
async def vote_on_turn(
    request: Request, matchup: str, turn: Annotated[int, Form(ge=0, le=1000)] = 0, winner: Text = ""
) -> Response:
    """Save the verdict on one turn, in an arena that asks for it."""
    queue, voter, one = await find_queue_and_voter(request, matchup)
    outcome = _OUTCOMES.get(winner)
    if outcome is None:
        raise BadOption("the verdict must be a, b, tie or both_bad; go back and press a button")
    await (await live_battles_of(request, queue)).turn_vote(voter, one, turn, outcome)
    return redirect_to(f"{paths.matchup(matchup)}#follow-up")


@router.get("/live/{matchup}/stream")
async def stream(
    request: Request, matchup: str, start: Annotated[str, Query(alias="from")] = ""
) -> StreamingResponse:
    """The answers of the turn that is shown, as events, from where the page is."""
    queue, voter, one = await find_queue_and_voter(request, matchup)
    live = await live_battles_of(request, queue)
    mark = FrameMark.parsed(request.headers.get("last-event-id", "")) or FrameMark.parsed(start)
    if mark is None:
        raise BadOption("from must be three numbers with dots between them; reload the page")

    async def next_frame(after: FrameMark) -> LiveFrame:
        return await live.frames(voter, one, after)

    events = LivePageStream(next_frame, localization_of(request).texts.gettext)
    await events.begin(mark)
    reader = admit_reader(request, one)
    return StreamingResponse(events.events(reader), headers=STREAM_HEADERS, media_type="text/event-stream")


@router.get("/live/{matchup}/b")
@router.get("/live/{matchup}/a")
async def raw_side(request: Request, matchup: str) -> PlainTextResponse:
    """What a side has answered so far, as the model wrote it."""
    queue, voter, one = await find_queue_and_voter(request, matchup)
    battle = await (await live_battles_of(request, queue)).battle(voter, one)
    texts = [turn.a if request.url.path.endswith("/a") else turn.b for turn in battle.turns]
    return PlainTextResponse("\n\n".join(text for text in texts if text), headers=_RAW_HEADERS)


async def live_battles_of(request: Request, queue: VotingQueue) -> LiveBattles:
    """The live battles of an arena; raises if it has none."""
    if not queue.settings.is_live:
        raise NotFound("this arena has no live battles: its prompts are the operator's")
    return await registry_of(request).live_battles(queue.name)


async def answer_figures(
    request: Request, queue: VotingQueue, one: UUID
) -> tuple[AnswerFigures, AnswerFigures] | None:
    """How long both answers took and what they cost; ``None`` in other arenas. Call it once the names are revealed."""
    if not queue.settings.is_live:
        return None
    return await read_answer_figures(registry_of(request).pool, queue.arena, one)


async def _compose_page(
    request: Request,
    queue: VotingQueue,
    voter: Voter | None,
    draft: Draft,
    *,
    after: str = "",
    void: LiveBattle | None = None,
) -> Response:
    values = await voting_frame(request, queue, voter)
    settings, texts = values["arena"].settings, await read_voter_texts(request, values["arena"])
    if not settings.serves:
        ended = not settings.accepts_votes
        return render_page(request, "vote/paused.html", **values, texts=texts, ended=ended)
    before = None if voter is None else await revealed_names(queue, voter, read_matchup_id(request, after))
    headers = dict(_PRIVATE)
    if draft.retry_after is not None:
        headers["Retry-After"] = str(draft.retry_after)
    return render_page(
        request,
        "live/compose.html",
        status=200 if draft.problem is None else _STATUS.get(draft.problem, 422),
        headers=headers,
        **values,
        texts=texts,
        before=before,
        void=void,
        asked=await unanswered_consent(request, queue.arena, voter) is not None,
        draft=draft,
        limits=settings,
        categories=await _categories(request, queue),
    )


async def _categories(request: Request, queue: VotingQueue) -> tuple[str, ...]:
    """What a prompt can be about."""
    return await read_live_categories(registry_of(request).pool, queue.arena)


def _unsent(draft: Draft, error: TiltyardError, queue: VotingQueue) -> Draft:
    """A draft with why it was not sent; raises the error if it is no answer to a voter."""
    problem = next((problem for kind, problem in _PROBLEMS.items() if isinstance(error, kind)), None)
    if isinstance(error, OutOfBudget):
        problem = "voter-budget" if error.scope == "voter" else "budget"
    elif isinstance(error, BadOption) and draft.prompt.strip():
        problem = "too-long" if len(draft.prompt) > queue.settings.live_prompt_characters else "refused"
    if problem is None:
        raise error
    after = max(1, round(error.retry_after)) if isinstance(error, Busy) else None
    return replace(draft, problem=problem, detail=str(error), retry_after=after)


def _normalized(prompt: str) -> str:
    """A prompt with the line ends that people write, not those that forms send."""
    return prompt.replace("\r\n", "\n").strip()
