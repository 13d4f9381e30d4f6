"""The stage of an arena: open a draft, pause and resume, archive, delete and restore."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Form, Query, Request
from fastapi.responses import HTMLResponse, Response

from tiltyard.arena.content.arenas import Arena
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
from tiltyard.errors import Conflict
from tiltyard.web.access.access import registry_of
from tiltyard.web.access.route_access import boards_of
from tiltyard.web.pages.operator.operator_access import (
    FoundArena,
    actor_of,
    arena_of,
    arena_page,
    operator_router,
    pool_of,
    redirect_with_notice,
)

router = operator_router("/arenas/{arena}/stage")

StageAct = Literal["open", "clear", "pause", "resume", "archive", "reopen"]
#: Those that are explained on a page of their own first.
ConfirmedAct = Literal["open", "archive"]


@router.get("", response_class=HTMLResponse)
async def stage_page(arena: FoundArena, request: Request) -> HTMLResponse:
    """The current stage, and what can be done."""
    return await _page(request, arena)


@router.get("/confirm", response_class=HTMLResponse)
async def stage_confirm(
    arena: FoundArena, request: Request, act: Annotated[ConfirmedAct, Query()]
) -> HTMLResponse:
    """What an act does, before it is done."""
    return await _confirm(request, arena, act)


@router.post("")
async def stage_form(arena: FoundArena, request: Request, act: Annotated[StageAct, Form()]) -> Response:
    """Change the stage."""
    try:
        await _do(request, arena, act)
    except Conflict as error:
        return await _page(request, arena, trouble=str(error), status=409)
    await _spread(request, arena.name)
    return redirect_with_notice(f"stage-{act}", "arenas", arena.name, "stage")


@router.get("/delete", response_class=HTMLResponse)
async def delete_page(arena: FoundArena, request: Request) -> HTMLResponse:
    """What deleting does, before it is done."""
    return await _confirm(request, arena, "delete")


@router.post("/delete")
async def delete_form(arena: FoundArena, request: Request, typed: Annotated[str, Form()] = "") -> Response:
    """Hide the arena and have it deleted later. Its name is typed."""
    if typed.strip() != arena.name:
        trouble = f"type {arena.name} to confirm that this arena is meant"
        return await _confirm(request, arena, "delete", trouble=trouble, status=422)
    try:
        await request_deletion(pool_of(request), arena.name, actor=actor_of(request).name)
    except Conflict as error:
        return await _page(request, arena, trouble=str(error), status=409)
    await _spread(request, arena.name)
    return redirect_with_notice("stage-delete")


@router.post("/keep")
async def keep_form(arena: str, request: Request) -> Response:
    """Restore an arena that was going to be deleted."""
    try:
        await keep_arena(pool_of(request), arena, actor=actor_of(request).name)
    except Conflict as error:
        return await _page(request, await arena_of(request, arena), trouble=str(error), status=409)
    await _spread(request, arena)
    return redirect_with_notice("stage-keep", "arenas", arena, "stage")


async def _spread(request: Request, arena: str) -> None:
    """Let what this process remembers of the arena follow the change."""
    await registry_of(request).settings_changed()
    boards_of(request).forget(arena)


async def _do(request: Request, arena: Arena, act: StageAct) -> None:
    pool, name, actor = pool_of(request), arena.name, actor_of(request).name
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


async def _page(request: Request, arena: Arena, **said: Any) -> HTMLResponse:
    pool = pool_of(request)
    return arena_page(
        request,
        arena,
        "stage.html",
        "stage",
        stage=arena.settings.stage,
        checklist=await read_checklist(pool, arena),
        due=(await read_deletions(pool)).get(arena.arena),
        **said,
    )


async def _confirm(
    request: Request, arena: Arena, act: Literal["open", "archive", "delete"], **said: Any
) -> HTMLResponse:
    return arena_page(
        request,
        arena,
        "stage_confirm.html",
        "stage",
        act=act,
        days=DELETION_GRACE_DAYS,
        checklist=await read_checklist(pool_of(request), arena),
        **said,
    )
