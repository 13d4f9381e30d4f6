"""Operator pages about voters and excluded votes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from fastapi import Form, Path, Query, Request
from fastapi.responses import HTMLResponse, Response

from tiltyard.arena.accounts import validate_reason
from tiltyard.arena.content.arenas import Arena
from tiltyard.arena.log.event_log import HUMAN, SOURCES
from tiltyard.arena.operators.exclusions import (
    VoteSelection,
    exclude,
    preview_exclusion,
    restore,
)
from tiltyard.arena.operators.moderation import read_excluded_votes, read_judge_names
from tiltyard.arena.operators.voters import list_flagged_groups, list_voter_page, voter_record
from tiltyard.errors import Conflict, InputError, NotFound
from tiltyard.web.pages.operator.operator_access import (
    actor_of,
    arena_of,
    arena_page,
    operator_router,
    pool_of,
    redirect_with_notice,
)

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


@router.get("/voters", response_class=HTMLResponse)
async def voters_page(
    arena: str, request: Request, page: Annotated[int, Query(ge=0, lt=10**6)] = 0
) -> HTMLResponse:
    """Sessions, ordered by votes."""
    found = await arena_of(request, arena)
    voters, more = await list_voter_page(pool_of(request), found, page=page, size=_PAGE_ROWS)
    judges = await read_judge_names(pool_of(request), [one.session for one in voters])
    return arena_page(
        request,
        found,
        "voters.html",
        "voters",
        voters=voters,
        judges=judges,
        groups=[] if page else await list_flagged_groups(pool_of(request), found),
        listed=_LISTED_FLAGS,
        sources=SOURCES,
        page=page,
        more=more,
        first=page * _PAGE_ROWS,
    )


@router.get("/voters/{session}", response_class=HTMLResponse)
async def voter_page(
    arena: str,
    session: Session,
    request: Request,
    before: Annotated[int | None, Query(ge=0, lt=2**63)] = None,
) -> HTMLResponse:
    """One session's record."""
    return await _record(request, await arena_of(request, arena), session, before=before)


@router.get("/voters/{session}/exclude", response_class=HTMLResponse)
async def exclude_page(
    arena: str, session: Session, request: Request, reason: Annotated[str, Query()] = ""
) -> HTMLResponse:
    """Preview the exclusion of a session's votes."""
    found = await arena_of(request, arena)
    return await _preview(request, found, session, reason)


@router.post("/voters/{session}/exclude")
async def exclude_form(
    arena: str, session: Session, request: Request, reason: Annotated[str, Form()] = ""
) -> Response:
    """Exclude a session's votes from the ratings."""
    found = await arena_of(request, arena)
    record = await voter_record(pool_of(request), found, session, size=1)
    if record.excluded == record.total:
        return redirect_with_notice("unchanged", "arenas", arena, "exclusions")
    try:
        await exclude(
            pool_of(request), arena, VoteSelection(sessions=[session]), reason, actor=actor_of(request).name
        )
    except InputError as error:
        return await _record(request, found, session, reason=reason, trouble=str(error), status=422)
    return redirect_with_notice("excluded", "arenas", arena, "exclusions")


@router.get("/exclusions", response_class=HTMLResponse)
async def exclusions_page(arena: str, request: Request) -> HTMLResponse:
    """All exclusions, and whether they were restored."""
    found = await arena_of(request, arena)
    known = await read_excluded_votes(pool_of(request), found)
    return arena_page(
        request,
        found,
        "exclusions.html",
        "exclusions",
        exclusions=known.exclusions,
        whose=known.whose,
        judges=known.judges,
    )


@router.get("/exclusions/{exclusion}/restore", response_class=HTMLResponse)
async def restore_page(arena: str, exclusion: Session, request: Request) -> HTMLResponse:
    """Confirm restoring votes."""
    found = await arena_of(request, arena)
    known = await read_excluded_votes(pool_of(request), found)
    one = next((each for each in known.exclusions if each.exclusion == exclusion), None)
    if one is None:
        raise NotFound(f"this arena has no exclusion {exclusion}; see the list of exclusions")
    return arena_page(
        request,
        found,
        "restore.html",
        "exclusions",
        exclusion=one,
        exclusions=known.exclusions,
        whose=known.whose,
        judges=known.judges,
    )


@router.post("/exclusions/{exclusion}/restore")
async def restore_form(arena: str, exclusion: Session, request: Request) -> Response:
    """Restore the votes of an exclusion."""
    try:
        await restore(pool_of(request), arena, exclusion, actor=actor_of(request).name)
    except Conflict:
        return redirect_with_notice("unchanged", "arenas", arena, "exclusions")
    return redirect_with_notice("restored", "arenas", arena, "exclusions")


async def _record(
    request: Request,
    arena: Arena,
    session: int,
    *,
    before: int | None = None,
    reason: str = "",
    trouble: str | None = None,
    status: int = 200,
) -> HTMLResponse:
    record = await voter_record(pool_of(request), arena, session, before=before, size=_PAGE_ROWS)
    judges = await read_judge_names(pool_of(request), [session])
    return arena_page(
        request,
        arena,
        "voter.html",
        "voters",
        status=status,
        record=record,
        judge=judges.get(session),
        outcomes=OUTCOMES,
        sources=SOURCES,
        human=any(one.source == HUMAN for one in record.counted),
        reason=reason,
        trouble=trouble,
    )


async def _preview(request: Request, arena: Arena, session: int, reason: str) -> HTMLResponse:
    try:
        validate_reason(reason)
    except InputError as error:
        return await _record(request, arena, session, reason=reason, trouble=str(error), status=422)
    record = await voter_record(pool_of(request), arena, session, size=1)
    selection = VoteSelection(sessions=[session])
    preview = await preview_exclusion(pool_of(request), arena, selection, record.source)
    return arena_page(
        request,
        arena,
        "exclude.html",
        "voters",
        previews=[preview],
        session=session,
        reason=reason,
        sources=SOURCES,
    )
