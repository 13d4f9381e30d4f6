"""The operator's page about changes of the crowd: what was found, and why it happened."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Form, Path, Request
from fastapi.responses import HTMLResponse, Response

from tiltyard.arena.operators.crowd import explain_crowd_change, preview_groups, read_crowd_changes
from tiltyard.core.integrity.vote_groups import VOTE_GROUP_LABELS
from tiltyard.errors import InputError
from tiltyard.foundation.caches import SingleFlight
from tiltyard.web.pages.operator.operator_access import (
    actor_of,
    arena_of,
    arena_page,
    operator_router,
    pool_of,
    redirect_with_notice,
)

router = operator_router("/arenas/{arena}/crowd")

#: Computed once for all who ask at the same time, and for those who load the page again at once.
_PREVIEWS = SingleFlight(keep_seconds=5.0)

Change = Annotated[int, Path(ge=0, lt=2**63)]


@router.get("", response_class=HTMLResponse)
async def crowd_page(arena: str, request: Request, *, without: bool = False) -> HTMLResponse:
    """Changes of the crowd, newest first; ``without``: and what the board would be without each group of votes."""
    return await _list(request, arena, without=without)


@router.post("/{change}/explain")
async def explain_form(
    arena: str, change: Change, request: Request, reason: Annotated[str, Form()] = ""
) -> Response:
    """Say why the crowd changed; the board is no longer held back by it."""
    try:
        await explain_crowd_change(pool_of(request), arena, change, reason, actor=actor_of(request).name)
    except InputError as error:
        return await _list(request, arena, trouble=str(error), status=422)
    return redirect_with_notice("explained", "arenas", arena, "crowd")


async def _list(request: Request, arena: str, *, without: bool = False, **said: Any) -> HTMLResponse:
    found = await arena_of(request, arena)
    pool = pool_of(request)
    return arena_page(
        request,
        found,
        "crowd.html",
        "crowd",
        changes=await read_crowd_changes(pool, found.arena),
        groups=VOTE_GROUP_LABELS,
        previews=await _PREVIEWS(found.arena, lambda: preview_groups(pool, found)) if without else None,
        without=without,
        **said,
    )
