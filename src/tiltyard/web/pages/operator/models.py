"""The models of an arena: enabled or retired, never deleted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import File, Form, Query, Request, UploadFile
from fastapi.responses import HTMLResponse, Response

from tiltyard.arena.content.arenas import Arena, find_model, list_models
from tiltyard.arena.content.model_details import DETAIL_FIELDS, parse_details_file, read_model_details
from tiltyard.arena.operators.arena_changes import describe_models, set_enabled
from tiltyard.errors import InputError, NotFound
from tiltyard.web.pages.board_data import board_page_cache_of
from tiltyard.web.pages.operator.operator_access import (
    FoundArena,
    actor_of,
    arena_page,
    operator_router,
    pool_of,
    redirect_with_notice,
)
from tiltyard.wire.records import Plain

router = operator_router("/arenas/{arena}/models")


@router.get("", response_class=HTMLResponse)
async def models_page(arena: FoundArena, request: Request) -> HTMLResponse:
    """All models that were ever added."""
    return await _list(request, arena)


@router.get("/details", response_class=HTMLResponse)
async def details_page(arena: FoundArena, request: Request, model: Annotated[Plain, Query()]) -> HTMLResponse:
    """What is said about a model, as a form."""
    await find_model(pool_of(request), arena.arena, model)
    details = await read_model_details(pool_of(request), arena.arena)
    return _details_form(request, arena, model, details.of(model).texts())


@router.post("/details")
async def details_form(arena: FoundArena, request: Request, model: Annotated[Plain, Form()]) -> Response:
    """Say something else about a model."""
    sent = await request.form()
    texts = {name: str(sent[name]) for name in DETAIL_FIELDS if name in sent}
    try:
        changed = await describe_models(
            pool_of(request), arena.name, {model: texts}, actor=actor_of(request).name
        )
    except InputError as error:
        return _details_form(request, arena, model, texts, trouble=str(error), status=422)
    return _saved(request, arena, changed)


@router.post("/details-file")
async def details_upload(
    arena: FoundArena, request: Request, file: Annotated[UploadFile, File()]
) -> Response:
    """Say something about many models, by a CSV file: all of it, or nothing."""
    try:
        texts = parse_details_file(await file.read())
        changed = await describe_models(pool_of(request), arena.name, texts, actor=actor_of(request).name)
    except (InputError, NotFound) as error:
        return await _list(request, arena, trouble=str(error), status=422)
    return _saved(request, arena, changed)


@router.get("/retire", response_class=HTMLResponse)
async def retire_page(arena: FoundArena, request: Request, model: Annotated[Plain, Query()]) -> HTMLResponse:
    """Confirm retiring a model."""
    await find_model(pool_of(request), arena.arena, model)
    return arena_page(request, arena, "retire.html", "models", model=model)


@router.post("/retire")
async def retire_form(arena: str, request: Request, model: Annotated[Plain, Form()]) -> Response:
    """Retire a model."""
    return await _set(arena, request, model, enabled=False)


@router.post("/enable")
async def enable_form(arena: str, request: Request, model: Annotated[Plain, Form()]) -> Response:
    """Enable a model."""
    return await _set(arena, request, model, enabled=True)


async def _list(request: Request, arena: Arena, **said: Any) -> HTMLResponse:
    models = await list_models(pool_of(request), arena.arena)
    details = await read_model_details(pool_of(request), arena.arena)
    return arena_page(
        request,
        arena,
        "models.html",
        "models",
        models=models,
        details=details,
        columns=("model", *DETAIL_FIELDS),
        **said,
    )


def _details_form(
    request: Request, arena: Arena, model: str, texts: Mapping[str, str], **said: Any
) -> HTMLResponse:
    return arena_page(
        request,
        arena,
        "model_details.html",
        "models",
        model=model,
        texts=dict.fromkeys(DETAIL_FIELDS, "") | dict(texts),
        **said,
    )


def _saved(request: Request, arena: Arena, changed: int) -> Response:
    board_page_cache_of(request).details.pop(arena.arena)
    return redirect_with_notice("described" if changed else "unchanged", "arenas", arena.name, "models")


async def _set(arena: str, request: Request, model: str, *, enabled: bool) -> Response:
    actor = actor_of(request).name
    position = await set_enabled(pool_of(request), arena, model, enabled=enabled, actor=actor)
    said = "unchanged" if not position else "enabled" if enabled else "retired"
    return redirect_with_notice(said, "arenas", arena, "models")
