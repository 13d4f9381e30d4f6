"""Voting pages: the open matchup, the result, and the next one. All of them work without JavaScript."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Form, Query, Request
from fastapi.responses import HTMLResponse, Response

from tiltyard.arena.content.arenas import read_prompt_filters
from tiltyard.arena.content.prompt_browser import read_prompt_words
from tiltyard.arena.log.event_details import VoteDetail
from tiltyard.arena.log.event_log import HUMAN
from tiltyard.arena.operators.panel_records import own_list, read_panel
from tiltyard.arena.operators.panels import PanelRater, find_rater_by_session
from tiltyard.arena.voting.personal_boards import SessionReveal
from tiltyard.arena.voting.voter_requests import OfferedMatchup, Voter
from tiltyard.arena.voting.voting_queue import VotingQueue
from tiltyard.core.battles import Outcome
from tiltyard.core.battles.outcome import SPELLED, kind_of
from tiltyard.core.policy.state.events import Unrated
from tiltyard.errors import BadOption, Busy, Closed, Expired, NoMatchup, NotFound, Paused, ProofNeeded
from tiltyard.web.access.access import access_of, context_of, registry_of
from tiltyard.web.access.route_access import boards_of, personal_boards_of
from tiltyard.web.pages import paths
from tiltyard.web.pages.layout import redirect_to, render_page
from tiltyard.web.pages.live import answer_figures, live_matchup_page, live_vote_page
from tiltyard.web.pages.matchup_view import MatchupView, build_matchup_view
from tiltyard.web.pages.voter_texts import agree, read_voter_texts, unanswered_consent
from tiltyard.web.pages.voting_values import (
    COMPLAINTS,
    NO_NAMES,
    SkillForm,
    VotingFrame,
    arena_of,
    finish_vote,
    matchup_values,
    read_matchup_id,
    read_remark,
    revealed_names,
    shown_names,
    skill_choice,
    voting_frame,
)
from tiltyard.web.routes.matchups import count_request, find_queue_and_voter, skip_detail, with_skills
from tiltyard.wire.records import SKIP_REASONS

router = APIRouter(include_in_schema=False)

Text = Annotated[str, Form()]
Tags = Annotated[list[str] | None, Form()]
Ballot = Annotated[int, Form(ge=0, lt=2**31)]


@dataclass(frozen=True, slots=True)
class _Counted:
    """A vote whose names are not revealed yet, for the line that says it was counted."""

    matchup: str
    outcome: str
    ballot: int
    left: float
    unrated: Unrated | None


@router.get("/arenas/{arena}/vote")
async def vote_page(
    request: Request,
    arena: str,
    after: Annotated[str, Query()] = "",
    choose: Annotated[str, Query()] = "",
) -> Response:
    """The voter's open matchup, with the result of the vote ``after`` which it comes; without one, the instructions.

    With ``choose``, the instructions in any case, where voters say what they can judge; ``none`` says that nothing
    fits what they have said.
    """
    queue = await registry_of(request).voting_queue(arena)
    voter = await access_of(request).voter(request, queue)
    opened = [] if voter is None else await queue.open_matchups(voter)
    if voter is not None and not opened and await is_rater(request, queue, voter):
        return redirect_to(paths.within(arena, "panel"))
    if queue.settings.is_live:
        return await live_vote_page(request, queue, voter, after)
    values = await voting_frame(request, queue, voter)
    asked = await unanswered_consent(request, queue.arena, voter)
    if voter is None or not opened or asked or choose:
        return await _welcome(request, queue, values, asked=asked is not None, nothing_fits=choose == "none")
    try:
        scene = await _offered_view(request, queue, voter, opened[0])
    except NotFound:
        return await _welcome(request, queue, values)
    last = read_matchup_id(request, after)
    before = await revealed_names(queue, voter, last)
    shown = matchup_values(scene, ballot=opened[0].ballot)
    counted = await _counted(request, queue, voter, last)
    texts = await read_voter_texts(request, values["arena"])
    return render_page(
        request, "vote/vote.html", **values, **shown, **NO_NAMES, before=before, counted=counted, texts=texts
    )


@router.post("/arenas/{arena}/vote")
async def next_page(
    request: Request,
    arena: str,
    skills: Annotated[SkillForm, Depends()],
    last: Text = "",
    tags: Tags = None,
    comment: Text = "",
    consent: Text = "",
) -> Response:
    """Serve the next matchup. If names are revealed after each vote, the last vote becomes final.

    The form of the welcome page says what the voter can judge; whoever has not seen it is sent there, if it has something
    to say or to ask. A voter who has not given the arena's consent, and does
    not give it now, is asked for it.
    """
    queue, access = await registry_of(request).voting_queue(arena), access_of(request)
    voter, cookie, final = await access.voter(request, queue), None, False
    if queue.settings.is_live:
        final = voter is not None and await finish_vote(
            queue, voter, read_matchup_id(request, last), tags, comment
        )
        return redirect_to(paths.vote(arena, after=last if final else None))
    asked = await unanswered_consent(request, queue.arena, voter)
    unwelcomed = not (skills.declared or consent or last) and await _needs_welcome(request, queue, voter)
    if unwelcomed or (asked is not None and consent != asked):
        return redirect_to(paths.vote(arena))
    if voter is not None and last:
        final = await finish_vote(queue, voter, read_matchup_id(request, last), tags, comment)
    voter, cookie = await access.gate.begin(request, queue, voter)
    await count_request("matchups", request, queue, voter)
    if asked is not None:
        await agree(request, queue.arena, voter, asked)
    declared = None
    if skills.declared and voter.source == HUMAN:
        filters = await read_prompt_filters(registry_of(request).pool, await arena_of(request, queue))
        declared = skills.read(*filters)
        voter = replace(voter, declared=declared)
    else:
        voter = await with_skills(request, queue, voter)
    answer = redirect_to(
        await _serve_next(request, queue, voter, after=last if final else None), cookie=cookie
    )
    if declared is not None:
        answer.headers.append("set-cookie", access.skills.header(queue.arena, declared))
    return answer


async def _serve_next(request: Request, queue: VotingQueue, voter: Voter, *, after: str | None = None) -> str:
    """Serve the next matchup; return the path of the page that shows it, or says why there is none."""
    if queue.settings.is_live:
        return paths.vote(queue.name, after=after)
    try:
        with suppress(Paused):
            await queue.next_matchup(voter)
    except NoMatchup:
        if await is_rater(request, queue, voter):
            return paths.within(queue.name, "panel")
        if voter.declared.is_everything:
            raise
        return paths.vote(queue.name, choose="none")
    return paths.vote(queue.name, after=after)


@router.post("/arenas/{arena}/vote/finish")
async def finish(request: Request, arena: str) -> Response:
    """End the session: reveal the names of all its votes, which become final."""
    queue = await registry_of(request).voting_queue(arena)
    voter = await access_of(request).voter(request, queue)
    if voter is None:
        return redirect_to(paths.vote(arena))
    await queue.finish(voter)
    return redirect_to(paths.revealed(arena))


@router.get("/arenas/{arena}/vote/names")
async def told_page(request: Request, arena: str) -> HTMLResponse:
    """The votes whose names were revealed to this voter last, with the names."""
    queue = await registry_of(request).voting_queue(arena)
    voter = await access_of(request).voter(request, queue)
    values = await voting_frame(request, queue, voter)
    votes = () if voter is None else await personal_boards_of(request).last_revealed(values["arena"], voter)
    texts = await read_voter_texts(request, values["arena"])
    words = await read_prompt_words(
        registry_of(request).pool, values["arena"], [vote.prompt for vote in votes]
    )
    return render_page(
        request,
        "vote/revealed.html",
        **values,
        votes=votes,
        told=SessionReveal.of(votes),
        origin=registry_of(request).settings.address(),
        texts=texts,
        prompt_words=words,
    )


@router.post("/arenas/{arena}/vote/ahead")
async def ahead(request: Request, arena: str, shown: Text = "") -> HTMLResponse:
    """The matchup after the one that is shown, as an HTML fragment that is loaded in advance.

    It is an exposure only when it is ``shown`` itself, which the next such request says.
    """
    queue = await registry_of(request).voting_queue(arena)
    voter = await access_of(request).voter(request, queue)
    if voter is None:
        raise NotFound("there is no session yet; request a first matchup")
    if queue.settings.is_live:
        raise NotFound("a live arena has no next matchup; it begins with your prompt")
    access_of(request).gate.require_passed(request, queue, voter)
    await count_request("matchups", request, queue, voter)
    voter = await with_skills(request, queue, voter)
    offered = await queue.look_ahead(voter, read_matchup_id(request, shown))
    scene = await _offered_view(request, queue, voter, offered)
    values = await voting_frame(request, queue, None)
    return render_page(
        request, "vote/ahead.html", **values, **matchup_values(scene, ballot=offered.ballot), **NO_NAMES
    )


@router.get("/matchups/{matchup}")
async def matchup_page(request: Request, matchup: str, note: Annotated[str, Query()] = "") -> HTMLResponse:
    """A voter's own matchup in any state; usually after the vote."""
    queue, voter, one = await find_queue_and_voter(request, matchup)
    if queue.settings.is_live:
        return await live_matchup_page(request, queue, voter, one, note)
    seen = await queue.review(voter, one)
    names = await queue.reveal(voter, one) if seen.revealed and seen.state == "voted" else None
    remark = await queue.remarked(voter, one)
    scene = None
    if seen.responses is not None:
        # The voter may no longer see it.
        with suppress(NotFound):
            scene = await build_matchup_view(
                request, queue, voter, one, seen.prompt, seen.responses, seen.expires_at
            )
    values = await voting_frame(request, queue, voter)
    return render_page(
        request,
        "vote/vote.html" if scene is not None else "vote/ended.html",
        **values,
        **matchup_values(scene, seen, remark, note),
        **await shown_names(request, queue, voter, names),
        before=names,
        counted=None,
        texts=await read_voter_texts(request, values["arena"]),
    )


@router.get("/matchups/{matchup}/counted")
async def counted_piece(request: Request, matchup: str) -> HTMLResponse:
    """The line about a vote whose names are not revealed yet, as an HTML fragment for the page of the next matchup."""
    queue, voter, one = await find_queue_and_voter(request, matchup)
    values = await voting_frame(request, queue, voter)
    return render_page(
        request, "vote/counted.html", **values, counted=await _counted(request, queue, voter, one)
    )


@router.post("/matchups/{matchup}/vote")
async def cast(
    request: Request,
    matchup: str,
    winner: Text = "",
    ballot: Ballot = 0,
    recognized: Text = "",
    receipt: Text = "",
) -> Response:
    """Vote. Another vote on the same ballot changes nothing; the page then shows the first one.

    If names are not revealed after each vote, the next matchup is shown at once.
    """
    if winner not in set(Outcome):
        raise BadOption("the vote must be model_a, model_b, tie or both_bad; go back and press a button")
    queue, voter, one = await find_queue_and_voter(request, matchup, "votes")
    try:
        detail: VoteDetail | None = {"recognized": True} if recognized else None
        sent = context_of(request).receipts.read(voter.session, one, receipt)
        ended = await queue.vote(
            voter, one, kind_of(Outcome(winner)), ballot=ballot, detail=detail, sent=sent
        )
    except (Closed, Expired):
        return redirect_to(paths.matchup(matchup) + "?note=stands")
    if queue.settings.reveal == "vote":
        return redirect_to(paths.matchup(matchup))
    if ended.revealed:
        return redirect_to(paths.revealed(queue.name))
    if queue.settings.is_live:
        return redirect_to(paths.matchup(matchup))
    with suppress(NoMatchup, Busy, Paused, ProofNeeded):
        access_of(request).gate.require_passed(request, queue, voter)
        await queue.next_matchup(await with_skills(request, queue, voter))
    return redirect_to(paths.vote(queue.name, after=matchup))


@router.post("/matchups/{matchup}/skip")
async def pass_over(request: Request, matchup: str, reason: Text = "", recognized: Text = "") -> Response:
    """Skip a matchup, perhaps with a reason, and show the next one."""
    said = next((one for one in SKIP_REASONS if one == reason), None)
    if reason and said is None:
        raise BadOption(f"the reason must be one of {', '.join(SKIP_REASONS)}; go back and choose one")
    queue, voter, one = await find_queue_and_voter(request, matchup, "skips")
    try:
        await queue.skip(voter, one, detail=skip_detail(said, recognized=bool(recognized)))
    except (Closed, Expired):
        return redirect_to(paths.matchup(matchup) + "?note=stands")
    access_of(request).gate.require_passed(request, queue, voter)
    voter = await with_skills(request, queue, voter)
    return redirect_to(await _serve_next(request, queue, voter))


@router.post("/matchups/{matchup}/undo")
async def take_back(request: Request, matchup: str, ballot: Ballot = 0) -> Response:
    """Undo a vote, if that is still possible; the matchup is open again."""
    queue, voter, one = await find_queue_and_voter(request, matchup)
    try:
        await queue.undo(voter, one, ballot=ballot)
    except Closed:
        return redirect_to(paths.matchup(matchup) + "?note=late")
    return redirect_to(paths.matchup(matchup) + "?note=undone")


@router.post("/matchups/{matchup}/reveal")
async def show_names(
    request: Request, matchup: str, part: Text = "", tags: Tags = None, comment: Text = ""
) -> Response:
    """Reveal the names; the vote becomes final. With ``part``, returns only a fragment, for scripts."""
    queue, voter, one = await find_queue_and_voter(request, matchup, "reveals")
    if not part:
        await finish_vote(queue, voter, one, tags, comment)
        return redirect_to(paths.matchup(matchup))
    names = await queue.reveal(voter, one)
    return render_page(
        request,
        "vote/names.html",
        **await voting_frame(request, queue, voter),
        **await shown_names(request, queue, voter, names),
        figures=await answer_figures(request, queue, one),
    )


@router.post("/matchups/{matchup}/remark")
async def say_why(request: Request, matchup: str, tags: Tags = None, comment: Text = "") -> Response:
    """Save a remark on a vote."""
    queue, voter, one = await find_queue_and_voter(request, matchup)
    remark = read_remark(tags, comment)
    try:
        async with access_of(request).quota("remarks", queue.arena):
            await queue.remark(voter, one, remark.tags, remark.comment)
    except Closed:
        return redirect_to(paths.matchup(matchup))
    return redirect_to(paths.matchup(matchup) + "?note=noted")


@router.post("/matchups/{matchup}/report")
async def complain(request: Request, matchup: str, reason: Text = "", note: Text = "") -> Response:
    """Report a problem with a matchup to the operator."""
    if reason not in COMPLAINTS:
        raise BadOption(f"the reason must be one of {', '.join(COMPLAINTS)}; go back and choose one")
    queue, voter, one = await find_queue_and_voter(request, matchup, "reports")
    said = read_remark((), note).comment
    async with access_of(request).quota("reports", queue.arena):
        await context_of(request).response_kinds.complain(
            queue.arena, one, voter.source, voter.session, reason, said
        )
    return redirect_to(paths.matchup(matchup) + "?note=reported")


async def _needs_welcome(request: Request, queue: VotingQueue, voter: Voter | None) -> bool:
    """Whether a browser comes for its first matchup here, and the page before it has something to say or to ask."""
    if "authorization" in request.headers or access_of(request).skills.read(request, queue.arena) is not None:
        return False
    if voter is not None and (
        await queue.open_matchups(voter)
        or await queue.final_votes(voter)
        or await is_rater(request, queue, voter)
    ):
        return False
    arena = await arena_of(request, queue)
    filters = await read_prompt_filters(registry_of(request).pool, arena)
    texts = await read_voter_texts(request, arena)
    return texts.instructions is not None or any(len(one) > 1 for one in filters)


async def _welcome(
    request: Request,
    queue: VotingQueue,
    values: VotingFrame,
    *,
    asked: bool = False,
    nothing_fits: bool = False,
) -> HTMLResponse:
    """The page before the first vote, or why there is nothing to vote on.

    It has the consent if it is still asked, and the choice of what the voter can judge where there is a choice.
    """
    settings = values["arena"].settings
    texts = await read_voter_texts(request, values["arena"])
    if not settings.serves:
        return render_page(
            request, "vote/paused.html", **values, texts=texts, ended=not settings.accepts_votes
        )
    categories, languages = await read_prompt_filters(registry_of(request).pool, values["arena"])
    declared = access_of(request).skills.read(request, queue.arena)
    choice = skill_choice(languages, categories, declared, request.headers.get("accept-language"))
    return render_page(
        request,
        "vote/welcome.html",
        **values,
        texts=texts,
        asked=asked,
        choice=choice,
        nothing_fits=nothing_fits,
    )


async def _counted(request: Request, queue: VotingQueue, voter: Voter, one: UUID | None) -> _Counted | None:
    if one is None:
        return None
    with suppress(Closed, NotFound):
        seen = await queue.review(voter, one)
        if seen.outcome is not None and not seen.revealed:
            matchup = context_of(request).matchup_ids.format(one)
            return _Counted(matchup, SPELLED[seen.outcome][0], seen.ballot, seen.left, seen.unrated)
    return None


async def _offered_view(
    request: Request, queue: VotingQueue, voter: Voter, offered: OfferedMatchup
) -> MatchupView:
    responses = (offered.response_a, offered.response_b)
    return await build_matchup_view(
        request, queue, voter, offered.matchup, offered.prompt, responses, offered.expires_at
    )


_NOT_STORED = {"Cache-Control": "no-store"}


@router.get("/arenas/{arena}/panel")
async def panel_page(request: Request, arena: str) -> HTMLResponse:
    """A rater's own list. Nobody else is shown anything of it."""
    registry = registry_of(request)
    queue = await registry.voting_queue(arena)
    voter = await access_of(request).voter(request, queue)
    found = None if voter is None else await _rater(request, queue, voter)
    if found is None:
        raise NotFound("this browser is in no expert panel of this arena; open the link that you were sent")
    name, rater = found
    record = await read_panel(registry.pool, arena, name)
    shown = own_list(record, rater.rater)
    about = await boards_of(request).arena(arena)
    return render_page(
        request,
        "vote/panel.html",
        headers=_NOT_STORED,
        arena=about,
        texts=await read_voter_texts(request, about),
        active="vote",
        own=shown,
        prompt_words=await read_prompt_words(registry.pool, about, [task.prompt for task in shown.tasks]),
    )


async def is_rater(request: Request, queue: VotingQueue, voter: Voter) -> bool:
    """Whether a voter has a list of its own in this arena."""
    return await _rater(request, queue, voter) is not None


async def _rater(request: Request, queue: VotingQueue, voter: Voter) -> tuple[str, PanelRater] | None:
    if voter.source != HUMAN:
        return None
    return await find_rater_by_session(registry_of(request).pool, queue.arena, voter.session)
