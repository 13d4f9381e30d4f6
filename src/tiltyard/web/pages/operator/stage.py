"""The stage of an arena: open a draft, pause and resume, archive, delete and restore."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Form, Query
from fastapi.responses import HTMLResponse, Response

from tiltyard.arena.operators.stages import (
    DELETION_GRACE_DAYS,
    clear_test_votes,
    keep_arena,
    open_draft,
    read_checklist,
    read_deletions,
    request_deletion,
    set_stage,
)
from tiltyard.web.pages.operator.operator_access import (
    ArenaVisit,
    OnArena,
    operator_router,
    redirect_with_notice,
)

router = operator_router("/arenas/{arena}/stage")

StageAct = Literal["open", "clear", "pause", "resume", "archive", "reopen"]
#: Those that are explained on a page of their own first.
ConfirmedAct = Literal["open", "archive"]


@router.get("")
async def stage_page(visit: OnArena) -> HTMLResponse:
    """The current stage, and what can be done."""
    return await _page(visit)


@router.get("/confirm")
async def stage_confirm(visit: OnArena, act: Annotated[ConfirmedAct, Query()]) -> HTMLResponse:
    """What an act does, before it is done."""
    return await _confirm(visit, act)


@router.post("")
async def stage_form(visit: OnArena, act: Annotated[StageAct, Form()]) -> Response:
    """Change the stage."""
    visit.on_refusal(_page)
    await _do(visit, act)
    await visit.apply_settings()
    return visit.done(f"stage-{act}", "stage")


@router.get("/delete")
async def delete_page(visit: OnArena) -> HTMLResponse:
    """What deleting does, before it is done."""
    return await _confirm(visit, "delete")


@router.post("/delete")
async def delete_form(visit: OnArena, typed: Annotated[str, Form()] = "") -> Response:
    """Hide the arena and have it deleted later. Its name is typed."""
    if typed.strip() != visit.arena.name:
        trouble = f"type {visit.arena.name} to confirm that this arena is meant"
        return await _confirm(visit, "delete", trouble=trouble, status=422)
    visit.on_refusal(_page)
    await request_deletion(visit.pool, visit.arena.name, actor=visit.actor.name)
    await visit.apply_settings()
    return redirect_with_notice("stage-delete")


@router.post("/keep")
async def keep_form(visit: OnArena) -> Response:
    """Restore an arena that was going to be deleted."""
    visit.on_refusal(_page)
    await keep_arena(visit.pool, visit.arena.name, actor=visit.actor.name)
    await visit.apply_settings()
    return visit.done("stage-keep", "stage")


async def _do(visit: ArenaVisit, act: StageAct) -> None:
    pool, name, actor = visit.pool, visit.arena.name, visit.actor.name
    if act == "open":
        await open_draft(pool, name, actor=actor)
    elif act == "clear":
        await clear_test_votes(pool, name, actor=actor)
    elif act == "pause":
        await set_stage(pool, name, "paused", actor=actor)
    elif act == "archive":
        await set_stage(pool, name, "archived", actor=actor)
    else:
        await set_stage(pool, name, "open", actor=actor)


async def _page(visit: ArenaVisit, **said: Any) -> HTMLResponse:
    pool = visit.pool
    return visit.page(
        "stage.html",
        "stage",
        stage=visit.arena.settings.stage,
        checklist=await read_checklist(pool, visit.arena),
        due=(await read_deletions(pool)).get(visit.arena.arena),
        **said,
    )


async def _confirm(visit: ArenaVisit, act: Literal["open", "archive", "delete"], **said: Any) -> HTMLResponse:
    return visit.page(
        "stage_confirm.html",
        "stage",
        act=act,
        days=DELETION_GRACE_DAYS,
        checklist=await read_checklist(visit.pool, visit.arena),
        **said,
    )
