"""The models of an arena: enabled or retired, never deleted."""

from __future__ import annotations

from typing import Annotated

from fastapi import Form, Query, Request
from fastapi.responses import HTMLResponse, Response

from tiltyard.arena.content.catalog import check_model, read_models
from tiltyard.arena.operators.arena_changes import set_enabled
from tiltyard.web.pages.operator.operator_access import (
    actor_of,
    arena_of,
    arena_page,
    operator_router,
    pool_of,
    redirect_with_notice,
)
from tiltyard.web.reader_access import Plain

__all__ = ["router"]

router = operator_router("/arenas/{arena}/models")


@router.get("", response_class=HTMLResponse)
async def models_page(arena: str, request: Request) -> HTMLResponse:
    """All models that were ever added."""
    found = await arena_of(request, arena)
    models = await read_models(pool_of(request), found)
    return arena_page(request, found, "models.html", "models", models=models)


@router.get("/retire", response_class=HTMLResponse)
async def retire_page(arena: str, request: Request, model: Annotated[Plain, Query()]) -> HTMLResponse:
    """Confirm retiring a model."""
    found = await arena_of(request, arena)
    await check_model(pool_of(request), found, model)
    return arena_page(request, found, "retire.html", "models", model=model)


@router.post("/retire")
async def retire_form(arena: str, request: Request, model: Annotated[Plain, Form()]) -> Response:
    """Retire a model."""
    return await _set(arena, request, model, enabled=False)


@router.post("/enable")
async def enable_form(arena: str, request: Request, model: Annotated[Plain, Form()]) -> Response:
    """Enable a model."""
    return await _set(arena, request, model, enabled=True)


async def _set(arena: str, request: Request, model: str, *, enabled: bool) -> Response:
    actor = actor_of(request).name
    position = await set_enabled(pool_of(request), arena, model, enabled=enabled, actor=actor)
    said = "unchanged" if not position else "enabled" if enabled else "retired"
    return redirect_with_notice(said, "arenas", arena, "models")
