"""Exclude the votes of several sessions, of a group that the tests found, or several votes of one, for one reason."""

from __future__ import annotations

from typing import Annotated, Literal
from uuid import UUID

from fastapi import Form, Query, Request
from fastapi.responses import HTMLResponse, Response

from tiltyard.arena.accounts import validate_reason
from tiltyard.arena.content.arenas import Arena
from tiltyard.arena.log.event_log import SOURCES
from tiltyard.arena.operators.exclusions import ExclusionPreview, VoteSelection, exclude, preview_exclusion
from tiltyard.arena.operators.voters import find_flagged_group
from tiltyard.errors import InputError, NotFound
from tiltyard.web.pages.operator.operator_access import (
    actor_of,
    arena_of,
    arena_page,
    operator_router,
    pool_of,
    redirect_with_notice,
)
from tiltyard.web.pages.operator.voter_erasure import session_number

router = operator_router("/arenas/{arena}/exclude")

#: Sessions or votes that are ticked one by one: more than a page of the list has.
_SELECTED_LIMIT = 200
#: Sessions in one text: as many as fit into a form.
_LISTED_LIMIT = 40_000
Number = Annotated[int, Query(ge=0, lt=2**63)]


@router.get("", response_class=HTMLResponse)
async def exclude_selected_page(
    arena: str,
    request: Request,
    session: Annotated[list[Number] | None, Query(max_length=_SELECTED_LIMIT)] = None,
    matchup: Annotated[list[UUID] | None, Query(max_length=_SELECTED_LIMIT)] = None,
    group: Annotated[str, Query(max_length=100)] = "",
    reason: Annotated[str, Query()] = "",
) -> HTMLResponse:
    """Preview the exclusion of what was selected: sessions, votes, or a group of the page of voters."""
    found = await arena_of(request, arena)
    if group:
        flagged = await find_flagged_group(pool_of(request), found, group)
        session = list(flagged.sessions)
    return await _preview(request, found, VoteSelection(sessions=session, matchups=matchup), reason)


@router.post("")
async def exclude_selected_form(
    arena: str,
    request: Request,
    session: Annotated[list[int] | None, Form(max_length=_SELECTED_LIMIT)] = None,
    matchup: Annotated[list[UUID] | None, Form(max_length=_SELECTED_LIMIT)] = None,
    sessions: Annotated[str, Form()] = "",
    act: Annotated[Literal["preview", "exclude"], Form()] = "exclude",
    reason: Annotated[str, Form()] = "",
) -> Response:
    """Exclude the selected votes from the ratings, or show the effect of that. ``sessions``: numbers with spaces between."""
    found = await arena_of(request, arena)
    listed = [*(session or ()), *_read_numbers(sessions)]
    selection = VoteSelection(sessions=listed or None, matchups=matchup)
    if act == "preview":
        return await _preview(request, found, selection, reason)
    try:
        await exclude(pool_of(request), arena, selection, reason, actor=actor_of(request).name)
    except InputError as error:
        return await _preview(request, found, selection, reason, trouble=str(error), status=422)
    return redirect_with_notice("excluded", "arenas", arena, "exclusions")


def _read_numbers(text: str) -> list[int]:
    """The numbers of sessions in a text."""
    words = text.split()
    if len(words) > _LISTED_LIMIT:
        raise InputError(f"{len(words):,} sessions are selected; exclude at most {_LISTED_LIMIT:,} at a time")
    return [session_number(word) for word in words]


async def _preview(
    request: Request,
    arena: Arena,
    selection: VoteSelection,
    reason: str,
    *,
    trouble: str | None = None,
    status: int = 200,
) -> HTMLResponse:
    if trouble is None:
        trouble = _trouble_of(selection, reason)
        status = 200 if trouble is None else 422
    previews = [] if trouble else await _by_source(request, arena, selection)
    return arena_page(
        request,
        arena,
        "exclude.html",
        "voters",
        status=status,
        trouble=trouble,
        previews=previews,
        session=None,
        selection=selection,
        reason=reason,
        sources=SOURCES,
    )


def _trouble_of(selection: VoteSelection, reason: str) -> str | None:
    """What is missing before an effect can be shown."""
    if not selection.sessions and not selection.matchups:
        return "nothing is selected; go back and tick what is to be excluded"
    try:
        validate_reason(reason)
    except InputError as error:
        return str(error)
    return None


async def _by_source(request: Request, arena: Arena, selection: VoteSelection) -> list[ExclusionPreview]:
    """The effect on the board of people and on that of judges, as far as votes of each are selected."""
    previews: list[ExclusionPreview] = []
    trouble: NotFound | None = None
    for source in range(len(SOURCES)):
        try:
            previews.append(await preview_exclusion(pool_of(request), arena, selection, source))
        except NotFound as error:
            trouble = error
    if not previews and trouble is not None:
        raise trouble
    return previews
