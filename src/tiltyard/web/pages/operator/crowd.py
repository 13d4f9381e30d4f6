"""The operator's page about changes of the crowd: what was found, and why it happened."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Form, Path
from fastapi.responses import HTMLResponse, Response

from tiltyard.arena.log.crowd_changes import list_changes
from tiltyard.arena.operators.crowd import explain_crowd_change, preview_groups
from tiltyard.core.integrity.vote_groups import VOTE_GROUP_LABELS
from tiltyard.foundation.caches import SingleFlight
from tiltyard.web.pages.operator.operator_access import ArenaVisit, OnArena, operator_router

router = operator_router("/arenas/{arena}/crowd")

#: Computed once for all who ask at the same time, and for those who load the page again at once.
_PREVIEWS = SingleFlight(keep_seconds=5.0)

Change = Annotated[int, Path(ge=0, lt=2**63)]


@router.get("")
async def crowd_page(visit: OnArena, *, without: bool = False) -> HTMLResponse:
    """Changes of the crowd, newest first; ``without``: and what the board would be without each group of votes."""
    return await _list(visit, without=without)


@router.post("/{change}/explain")
async def explain_form(
    visit: OnArena,
    change: Change,
    reason: Annotated[str, Form()] = "",
    keep_out: Annotated[bool, Form()] = False,
) -> Response:
    """Say why the crowd changed; the votes that it held count again, or are kept out."""
    visit.on_refusal(_list)
    await explain_crowd_change(
        visit.pool, visit.arena.name, change, reason, keep_out=keep_out, actor=visit.actor.name
    )
    return visit.done("explained", "crowd")


async def _list(visit: ArenaVisit, *, without: bool = False, **said: Any) -> HTMLResponse:
    pool, arena = visit.pool, visit.arena
    return visit.page(
        "crowd.html",
        "crowd",
        changes=await list_changes(pool, arena.arena),
        groups=VOTE_GROUP_LABELS,
        previews=await _PREVIEWS(arena.arena, lambda: preview_groups(pool, arena)) if without else None,
        without=without,
        **said,
    )
