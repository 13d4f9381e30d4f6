"""Operator pages about voters and excluded votes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import Form, Path, Query
from fastapi.responses import HTMLResponse, Response

from tiltyard.arena.accounts import validate_reason
from tiltyard.arena.content.prompt_browser import read_prompt_words
from tiltyard.arena.log.event_log import HUMAN, SOURCES
from tiltyard.arena.operators.exclusions import (
    ExclusionPreview,
    VoteSelection,
    exclude,
    preview_exclusion,
    restore,
)
from tiltyard.arena.operators.invitations import find_invited_sessions, list_invitations
from tiltyard.arena.operators.moderation import read_excluded_votes, read_voter_names
from tiltyard.arena.operators.voter_data import HeldInArena, erase_session, read_held_in_arena
from tiltyard.arena.operators.voters import (
    find_flagged_group,
    list_flagged_groups,
    list_voter_page,
    voter_record,
)
from tiltyard.errors import Conflict, InputError, NotFound
from tiltyard.web.access.access import access_of
from tiltyard.web.pages.operator.operator_access import ArenaVisit, OnArena, operator_router
from tiltyard.wire.records import Plain

#: What voters chose, by the kind of the battle.
OUTCOMES: Mapping[int, str] = {
    0: "A is better",
    1: "B is better",
    2: "Tie",
    3: "Both bad",
    4: "A, leaning",
    5: "B, leaning",
    6: "Inconsistent",
}

router = operator_router("/arenas/{arena}")

Session = Annotated[int, Path(ge=0, lt=2**63)]
_PAGE_ROWS = 50
#: Sessions of a group that are listed with their evidence; all of them are selected together.
_LISTED_FLAGS = 50


@router.get("/voters")
async def voters_page(visit: OnArena, page: Annotated[int, Query(ge=0, lt=10**6)] = 0) -> HTMLResponse:
    """Sessions, ordered by votes."""
    voters, more = await list_voter_page(visit.pool, visit.arena, page=page, size=_PAGE_ROWS)
    voter_names = await read_voter_names(visit.pool, [one.session for one in voters])
    return visit.page(
        "voters.html",
        "voters",
        voters=voters,
        voter_names=voter_names,
        groups=[] if page else await list_flagged_groups(visit.pool, visit.arena),
        listed=_LISTED_FLAGS,
        sources=SOURCES,
        page=page,
        more=more,
        first=page * _PAGE_ROWS,
    )


@router.get("/voters/{session}")
async def voter_page(
    visit: OnArena, session: Session, before: Annotated[int | None, Query(ge=0, lt=2**63)] = None
) -> HTMLResponse:
    """One session's record."""
    record = await voter_record(visit.pool, visit.arena, session, before=before, size=_PAGE_ROWS)
    voter_names = await read_voter_names(visit.pool, [session])
    return visit.page(
        "voter.html",
        "voters",
        record=record,
        prompt_words=await read_prompt_words(visit.pool, visit.arena, [one.prompt for one in record.votes]),
        name=voter_names.get(session),
        outcomes=OUTCOMES,
        sources=SOURCES,
        human=any(one.source == HUMAN for one in record.counted),
    )


@router.get("/exclusions")
async def exclusions_page(visit: OnArena) -> HTMLResponse:
    """All exclusions, and whether they were restored."""
    known = await read_excluded_votes(visit.pool, visit.arena)
    return visit.page("exclusions.html", "exclusions", **known)


@router.get("/exclusions/{exclusion}/restore")
async def restore_page(visit: OnArena, exclusion: Session) -> HTMLResponse:
    """Confirm restoring votes."""
    known = await read_excluded_votes(visit.pool, visit.arena)
    one = next((each for each in known["exclusions"] if each.exclusion == exclusion), None)
    if one is None:
        raise NotFound(f"this arena has no exclusion {exclusion}; see the list of exclusions")
    return visit.page("restore.html", "exclusions", exclusion=one, **known)


@router.post("/exclusions/{exclusion}/restore")
async def restore_form(visit: OnArena, exclusion: Session) -> Response:
    """Restore the votes of an exclusion."""
    try:
        await restore(visit.pool, visit.arena.name, exclusion, actor=visit.actor.name)
    except Conflict:
        return visit.done("unchanged", "exclusions")
    return visit.done("restored", "exclusions")


#: Sessions or votes that are ticked one by one: more than a page of the list has.
_SELECTED_LIMIT = 200
#: Sessions in one text: as many as fit into a form.
_LISTED_LIMIT = 40_000
Number = Annotated[int, Query(ge=0, lt=2**63)]


@router.get("/exclude")
async def exclude_selected_page(
    visit: OnArena,
    session: Annotated[list[Number] | None, Query(max_length=_SELECTED_LIMIT)] = None,
    matchup: Annotated[list[UUID] | None, Query(max_length=_SELECTED_LIMIT)] = None,
    group: Annotated[str, Query(max_length=100)] = "",
    invitation: Annotated[int, Query(ge=0, lt=2**63)] = 0,
    reason: Annotated[str, Query()] = "",
) -> HTMLResponse:
    """Preview the exclusion of what was selected: sessions, votes, a group of voters, or all who came by an invitation."""
    if invitation:
        session = await find_invited_sessions(visit.pool, visit.arena.name, invitation)
    if group:
        flagged = await find_flagged_group(visit.pool, visit.arena, group)
        session = list(flagged.sessions)
    return await _preview_selection(visit, VoteSelection(sessions=session, matchups=matchup), reason)


@router.post("/exclude")
async def exclude_selected_form(
    visit: OnArena,
    session: Annotated[list[int] | None, Form(max_length=_SELECTED_LIMIT)] = None,
    matchup: Annotated[list[UUID] | None, Form(max_length=_SELECTED_LIMIT)] = None,
    sessions: Annotated[str, Form()] = "",
    act: Annotated[Literal["preview", "exclude"], Form()] = "exclude",
    reason: Annotated[str, Form()] = "",
) -> Response:
    """Exclude the selected votes from the ratings, or show the effect of that. ``sessions``: numbers with spaces between."""
    words = sessions.split()
    if len(words) > _LISTED_LIMIT:
        raise InputError(f"{len(words):,} sessions are selected; exclude at most {_LISTED_LIMIT:,} at a time")
    listed = [*(session or ()), *map(session_number, words)]
    selection = VoteSelection(sessions=listed or None, matchups=matchup)
    if act == "preview":
        return await _preview_selection(visit, selection, reason)
    if len(listed) == 1 and not matchup:
        record = await voter_record(visit.pool, visit.arena, listed[0], size=1)
        if record.excluded == record.total:
            return visit.done("unchanged", "exclusions")
    try:
        await exclude(visit.pool, visit.arena.name, selection, reason, actor=visit.actor.name)
    except InputError:
        return await _preview_selection(visit, selection, reason)
    return visit.done("excluded", "exclusions")


async def _preview_selection(visit: ArenaVisit, selection: VoteSelection, reason: str) -> HTMLResponse:
    said: dict[str, Any] = {}
    if not selection.sessions and not selection.matchups:
        said = {"trouble": "nothing is selected; go back and tick what is to be excluded", "status": 422}
    try:
        validate_reason(reason)
    except InputError as error:
        said = said or {"trouble": str(error), "status": 422}
    return visit.page(
        "exclude.html",
        "voters",
        previews=[] if said else await _by_source(visit, selection),
        selection=selection,
        voter_names=await read_voter_names(visit.pool, list(selection.sessions or ())[:_PAGE_ROWS]),
        reason=reason,
        sources=SOURCES,
        **said,
    )


async def _by_source(visit: ArenaVisit, selection: VoteSelection) -> list[ExclusionPreview]:
    """The effect on the board of people and on that of judges, as far as votes of each are selected."""
    previews: list[ExclusionPreview] = []
    trouble: NotFound | None = None
    for source in range(len(SOURCES)):
        try:
            previews.append(await preview_exclusion(visit.pool, visit.arena, selection, source))
        except NotFound as error:
            trouble = error
    if not previews and trouble is not None:
        raise trouble
    return previews


#: Digits of the greatest number of a session.
_SESSION_DIGITS = 19


@router.get("/erase")
async def erase_page(visit: OnArena, session: Annotated[Plain, Query(max_length=100)] = "") -> HTMLResponse:
    """Ask for a voter's name or number; with one, show what is deleted and what stays, and the button."""
    return await _ask(visit, session.strip())


@router.post("/erase")
async def erase_form(
    visit: OnArena, session: Annotated[Plain, Form(max_length=100)] = "", reason: Annotated[str, Form()] = ""
) -> Response:
    """Delete the voter, and say what was deleted."""
    visit.on_refusal(_ask, session.strip(), reason=reason)
    pool, number = visit.pool, await _find_session(visit, session.strip())
    erased = await erase_session(pool, visit.arena.name, number, reason=reason, actor=visit.actor.name)
    access_of(visit.request).forget()
    return visit.page("erased.html", "voters", erased=erased)


async def _ask(
    visit: ArenaVisit,
    session: str,
    *,
    reason: str = "",
    **said: Any,
) -> HTMLResponse:
    held: HeldInArena | None = None
    number = 0
    if session:
        try:
            number = await _find_session(visit, session)
            held = await read_held_in_arena(visit.pool, visit.arena, number)
        except (NotFound, InputError) as error:
            status = 404 if isinstance(error, NotFound) else 422
            said = said or {"trouble": str(error), "status": status}
    return visit.page(
        "erase.html",
        "voters",
        **said,
        session=session if held is None else str(number),
        name=(await read_voter_names(visit.pool, [number])).get(number),
        held=held,
        reason=reason,
    )


async def _find_session(visit: ArenaVisit, text: str) -> int:
    """The number of a session, or that of the one voter who was invited by this name."""
    known = await list_invitations(visit.pool, visit.arena.name)
    sessions = [one.session for one in known if one.session is not None and one.name == text]
    if len(sessions) > 1:
        raise InputError(
            f"{len(sessions)} voters are called {text!r}; follow Delete… on the page of invitations"
        )
    return sessions[0] if sessions else session_number(text)


def session_number(text: str) -> int:
    """Parse the number of a session; raise `InputError` if the text is not one."""
    if not (text.isascii() and text.isdigit() and len(text) <= _SESSION_DIGITS and int(text) < 2**63):
        raise InputError(
            f"{text[:40]!r} is no number of a session; the page of voters and each voter's page Your data have it. By name "
            "you find those who were invited by name and have come"
        )
    return int(text)
