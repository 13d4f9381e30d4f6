"""Where people vote: a matchup, what becomes of it, and the next one. Everything here works without a script."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, TypedDict

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import HTMLResponse, Response

from tiltyard.arena.boards.rank_lookup import ModelRank, newest_ranks
from tiltyard.arena.content.arenas import Arena
from tiltyard.arena.voting.matchup_ids import parse_matchup_id
from tiltyard.arena.voting.remarks import Remark
from tiltyard.arena.voting.voter_requests import (
    Contribution,
    OfferedMatchup,
    RevealedMatchup,
    ReviewedMatchup,
    SessionProgress,
    Voter,
)
from tiltyard.arena.voting.voting_queue import VotingQueue
from tiltyard.core.battles import Outcome
from tiltyard.core.battles.outcome import SPELLED, kind_of
from tiltyard.errors import BadOption, Busy, Closed, Expired, NoMatchup, NotFound
from tiltyard.web.access import access_of, registry_of
from tiltyard.web.context import context_of
from tiltyard.web.pages import paths
from tiltyard.web.pages.layout import redirect_to, render_page
from tiltyard.web.pages.matchup_view import MatchupView, build_matchup_view
from tiltyard.web.pages.remark_form import COMPLAINTS, NEGATIVE_TAGS, POSITIVE_TAGS, read_remark
from tiltyard.web.reader_access import boards_of, personal_boards_of
from tiltyard.web.routes.matchups import find_queue_and_voter

__all__ = ["router"]

router = APIRouter(include_in_schema=False)

Text = Annotated[str, Form()]
Tags = Annotated[list[str] | None, Form()]
Ballot = Annotated[int, Form(ge=0, lt=2**31)]

#: What a page may be asked to say besides, by the ``note`` of its address.
_NOTES = frozenset({"stands", "reported", "noted", "late", "undone"})


class _Frame(TypedDict):
    """What every page of a voter has."""

    arena: Arena
    active: str
    undo_seconds: float
    contribution: Contribution | None
    reveal: str
    session_votes: int
    progress: SessionProgress | None


class _Names(TypedDict):
    """Who stood where, with their places on the newest board."""

    names: RevealedMatchup | None
    places: dict[str, ModelRank | None] | None


class _Stage(TypedDict):
    """What the stage's template wants."""

    praise: tuple[str, ...]
    reproach: tuple[str, ...]
    complaints: tuple[str, ...]
    scene: MatchupView | None
    state: str
    seen: ReviewedMatchup | None
    ballot: int
    outcome: str | None
    remark: Remark
    note: str | None
    expires_in: int | None


@dataclass(frozen=True, slots=True)
class _Counted:
    """A vote that stands and whose names were not told, as its line on the page wants it."""

    matchup: str
    outcome: str
    ballot: int
    left: float
    blind: bool


_NAMELESS: _Names = {"names": None, "places": None}


@router.get("/arenas/{arena}/vote", response_class=HTMLResponse)
async def vote_page(request: Request, arena: str, after: Annotated[str, Query()] = "") -> HTMLResponse:
    """The matchup that waits for this voter, ``after`` which vote; where none waits, what is asked of voters."""
    desk = await registry_of(request).desk(arena)
    voter = await access_of(request).voter(request, desk)
    opened = [] if voter is None else await desk.open_matchups(voter)
    values = await _frame(request, desk, voter)
    if voter is None or not opened:
        return render_page(request, "vote/welcome.html", **values)
    try:
        scene = await _scene(request, desk, opened[0])
    except NotFound:
        return render_page(request, "vote/welcome.html", **values)
    desk.mark_shown(opened[0].matchup)
    before = await _before(desk, voter, after)
    stage = _stage(scene, ballot=opened[0].ballot)
    counted = await _counted(desk, voter, after)
    return render_page(
        request, "vote/vote.html", **values, **stage, **_NAMELESS, before=before, counted=counted
    )


@router.post("/arenas/{arena}/vote")
async def next_page(
    request: Request, arena: str, last: Text = "", tags: Tags = None, comment: Text = ""
) -> Response:
    """Serve the next matchup. Where names are told after each vote, the last one is final from now on."""
    desk = await registry_of(request).desk(arena)
    voter, cookie, final = await access_of(request).voter(request, desk), None, False
    if voter is None:
        voter, cookie = await access_of(request).new_voter(request)
    elif last:
        final = await _finish(desk, voter, last, tags, comment)
    await desk.next_matchup(voter)
    return redirect_to(paths.vote(arena, after=last if final else None), cookie=cookie)


@router.post("/arenas/{arena}/vote/finish")
async def finish(request: Request, arena: str) -> Response:
    """End the session: the names of all its votes are told, and these are final."""
    desk = await registry_of(request).desk(arena)
    voter = await access_of(request).voter(request, desk)
    if voter is None:
        return redirect_to(paths.vote(arena))
    await desk.finish(voter)
    return redirect_to(paths.told(arena))


@router.get("/arenas/{arena}/vote/names", response_class=HTMLResponse)
async def told_page(request: Request, arena: str) -> HTMLResponse:
    """The votes whose names this voter was told last, with their names."""
    desk = await registry_of(request).desk(arena)
    voter = await access_of(request).voter(request, desk)
    values = await _frame(request, desk, voter)
    votes = () if voter is None else await personal_boards_of(request).last_revealed(values["arena"], voter)
    return render_page(request, "vote/told.html", **values, votes=votes)


@router.post("/arenas/{arena}/vote/ahead", response_class=HTMLResponse)
async def ahead(request: Request, arena: str, shown: Text = "") -> HTMLResponse:
    """The matchup after the one that is shown, as a piece of a page, so that it is there when it is wanted."""
    desk = await registry_of(request).desk(arena)
    voter = await access_of(request).voter(request, desk)
    if voter is None:
        raise NotFound("nobody votes here yet; ask for a first matchup")
    opened = await desk.open_matchups(voter)
    waiting = [one for one in opened if one.matchup != shown]
    if len(waiting) < len(opened):
        desk.mark_shown(shown)
    offered = waiting[0] if waiting else await desk.next_matchup(voter, ahead=bool(opened))
    scene = await _scene(request, desk, offered)
    values = await _frame(request, desk, None)
    return render_page(
        request, "vote/ahead.html", **values, **_stage(scene, ballot=offered.ballot), **_NAMELESS
    )


@router.get("/matchups/{matchup}", response_class=HTMLResponse)
async def matchup_page(request: Request, matchup: str, note: Annotated[str, Query()] = "") -> HTMLResponse:
    """A voter's own matchup in whatever state it is: after the vote, usually."""
    desk, voter = await find_queue_and_voter(request, matchup)
    seen = await desk.review(voter, matchup)
    names = await desk.reveal(voter, matchup) if seen.revealed and seen.state == "voted" else None
    if seen.state == "open":
        desk.mark_shown(matchup)
    remark = await desk.remarked(voter, matchup)
    scene = await _seen(request, desk, seen)
    return render_page(
        request,
        "vote/vote.html" if scene is not None else "vote/ended.html",
        **await _frame(request, desk, voter),
        **_stage(scene, seen, remark, note),
        **await _names(request, desk, voter, names),
        before=names,
        counted=None,
    )


@router.get("/matchups/{matchup}/counted", response_class=HTMLResponse)
async def counted_piece(request: Request, matchup: str) -> HTMLResponse:
    """What is told of a vote before its names are, as a piece of the page with the next matchup."""
    desk, voter = await find_queue_and_voter(request, matchup)
    values = await _frame(request, desk, voter)
    return render_page(request, "vote/counted.html", **values, counted=await _counted(desk, voter, matchup))


@router.post("/matchups/{matchup}/vote")
async def cast(request: Request, matchup: str, winner: Text = "", ballot: Ballot = 0) -> Response:
    """Vote. Another vote on the same ballot changes nothing: the page says which one stands.

    Where names are not told after each vote, the next matchup comes at once.
    """
    if winner not in set(Outcome):
        raise BadOption("the vote is none of model_a, model_b, tie and both_bad; go back and press a button")
    desk, voter = await find_queue_and_voter(request, matchup)
    try:
        ended = await desk.vote(voter, matchup, kind_of(Outcome(winner)), ballot=ballot)
    except (Closed, Expired):
        return redirect_to(paths.matchup(matchup) + "?note=stands")
    if desk.settings.reveal == "vote":
        return redirect_to(paths.matchup(matchup))
    if ended.revealed:
        return redirect_to(paths.told(desk.name))
    with suppress(NoMatchup, Busy):
        await desk.next_matchup(voter)
    return redirect_to(paths.vote(desk.name, after=matchup))


@router.post("/matchups/{matchup}/skip")
async def pass_over(request: Request, matchup: str) -> Response:
    """Pass a matchup over, and go on to the next."""
    desk, voter = await find_queue_and_voter(request, matchup)
    try:
        await desk.skip(voter, matchup)
    except (Closed, Expired):
        return redirect_to(paths.matchup(matchup) + "?note=stands")
    await desk.next_matchup(voter)
    return redirect_to(paths.vote(desk.name))


@router.post("/matchups/{matchup}/undo")
async def take_back(request: Request, matchup: str, ballot: Ballot = 0) -> Response:
    """Undo a vote, while that can be; the same matchup waits for another."""
    desk, voter = await find_queue_and_voter(request, matchup)
    try:
        await desk.undo(voter, matchup, ballot=ballot)
    except Closed:
        return redirect_to(paths.matchup(matchup) + "?note=late")
    return redirect_to(paths.matchup(matchup) + "?note=undone")


@router.post("/matchups/{matchup}/reveal")
async def show_names(
    request: Request, matchup: str, part: Text = "", tags: Tags = None, comment: Text = ""
) -> Response:
    """Show the names; the vote is final from now on. A script asks for a ``part`` of the page alone."""
    desk, voter = await find_queue_and_voter(request, matchup)
    if not part:
        await _finish(desk, voter, matchup, tags, comment)
        return redirect_to(paths.matchup(matchup))
    names = await desk.reveal(voter, matchup)
    return render_page(
        request,
        "vote/names.html",
        **await _frame(request, desk, voter),
        **await _names(request, desk, voter, names),
    )


@router.post("/matchups/{matchup}/remark")
async def say_why(request: Request, matchup: str, tags: Tags = None, comment: Text = "") -> Response:
    """Keep why somebody voted so."""
    desk, voter = await find_queue_and_voter(request, matchup)
    remark = read_remark(tags, comment)
    try:
        await desk.remark(voter, matchup, remark.tags, remark.comment)
    except Closed:
        return redirect_to(paths.matchup(matchup))
    return redirect_to(paths.matchup(matchup) + "?note=noted")


@router.post("/matchups/{matchup}/report")
async def complain(request: Request, matchup: str, reason: Text = "", note: Text = "") -> Response:
    """Tell the operator what is wrong with a matchup."""
    if reason not in COMPLAINTS:
        raise BadOption(f"the reason is none of {', '.join(COMPLAINTS)}; go back and choose one")
    desk, voter = await find_queue_and_voter(request, matchup)
    said = read_remark((), note).comment
    await context_of(request).stage.complain(
        desk.arena, parse_matchup_id(matchup), voter.source, voter.session, reason, said
    )
    return redirect_to(paths.matchup(matchup) + "?note=reported")


async def _finish(desk: VotingQueue, voter: Voter, matchup: str, tags: Tags, comment: str) -> bool:
    """Keep the remark that came along, if it is not too late for it; show the names, if it is time for them.

    Whether something can be told of the vote on the next page.
    """
    remark = read_remark(tags, comment)
    if remark != Remark():
        with suppress(Closed, Expired, NotFound):
            await desk.remark(voter, matchup, remark.tags, remark.comment)
    if desk.settings.reveal != "vote":
        return True
    with suppress(Closed, Expired, NotFound):
        await desk.reveal(voter, matchup)
        return True
    return False


async def _before(desk: VotingQueue, voter: Voter, matchup: str) -> RevealedMatchup | None:
    """The names of a vote of this voter's that is final by now; of anything else nothing is told."""
    with suppress(Closed, NotFound):
        seen = await desk.review(voter, matchup)
        if seen.state == "voted" and seen.revealed:
            return await desk.reveal(voter, matchup)
    return None


async def _counted(desk: VotingQueue, voter: Voter, matchup: str) -> _Counted | None:
    with suppress(Closed, NotFound):
        seen = await desk.review(voter, matchup)
        if seen.outcome is not None and not seen.revealed:
            return _Counted(matchup, SPELLED[seen.outcome][0], seen.ballot, seen.left, seen.blind)
    return None


async def _scene(request: Request, desk: VotingQueue, offered: OfferedMatchup) -> MatchupView:
    responses = (offered.response_a, offered.response_b)
    return await build_matchup_view(
        request, desk, offered.matchup, offered.prompt, responses, offered.expires_at
    )


async def _seen(request: Request, desk: VotingQueue, seen: ReviewedMatchup) -> MatchupView | None:
    """The scene of a matchup that may be looked at still."""
    if seen.responses is None:
        return None
    try:
        return await build_matchup_view(
            request, desk, seen.matchup, seen.prompt, seen.responses, seen.expires_at
        )
    except NotFound:
        return None


async def _frame(request: Request, desk: VotingQueue, voter: Voter | None) -> _Frame:
    """The arena, and what the votes so far come to."""
    arena: Arena = await boards_of(request).arena(desk.name)
    progress = None
    if voter is not None and desk.settings.reveal == "session":
        progress = await desk.session_progress(voter)
    return {
        "arena": arena,
        "active": "vote",
        "undo_seconds": desk.settings.undo_seconds,
        "contribution": None if voter is None else await desk.contribution(voter),
        "reveal": desk.settings.reveal,
        "session_votes": desk.settings.session_votes,
        "progress": progress,
    }


async def _names(request: Request, desk: VotingQueue, voter: Voter, names: RevealedMatchup | None) -> _Names:
    if names is None:
        return _NAMELESS
    found = await newest_ranks(boards_of(request), desk.arena, voter.source) or {}
    return {"names": names, "places": {"a": found.get(names.model_a), "b": found.get(names.model_b)}}


def _stage(
    scene: MatchupView | None,
    seen: ReviewedMatchup | None = None,
    remark: Remark | None = None,
    note: str = "",
    ballot: int = 0,
) -> _Stage:
    outcome = None if seen is None or seen.outcome is None else SPELLED[seen.outcome][0]
    return {
        "praise": POSITIVE_TAGS,
        "reproach": NEGATIVE_TAGS,
        "complaints": COMPLAINTS,
        "scene": scene,
        "state": "open" if seen is None else seen.state,
        "seen": seen,
        "ballot": ballot if seen is None else seen.ballot,
        "outcome": outcome,
        "remark": remark or Remark(),
        "note": note if note in _NOTES else None,
        "expires_in": None if scene is None else _until(scene.expires_at),
    }


def _until(moment: datetime) -> int:
    """Whole seconds until a moment."""
    return max(0, int((moment - datetime.now(moment.tzinfo)).total_seconds()))
