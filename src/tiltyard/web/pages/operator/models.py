"""The models of an arena: enabled or retired, never deleted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import File, Form, Query, UploadFile
from fastapi.responses import HTMLResponse, Response

from tiltyard.arena.content.arenas import find_model, list_models
from tiltyard.arena.content.model_details import DETAIL_FIELDS, parse_details_file, read_model_details
from tiltyard.arena.operators.arena_changes import describe_models, set_enabled
from tiltyard.web.pages.board_data import board_page_cache_of
from tiltyard.web.pages.operator.operator_access import ArenaVisit, OnArena, operator_router
from tiltyard.wire.records import Plain

router = operator_router("/arenas/{arena}/models")


@router.get("")
async def models_page(visit: OnArena) -> HTMLResponse:
    """All models that were ever added."""
    return await _list(visit)


@router.get("/details")
async def details_page(visit: OnArena, model: Annotated[Plain, Query()]) -> HTMLResponse:
    """What is said about a model, as a form."""
    await find_model(visit.pool, visit.arena.arena, model)
    details = await read_model_details(visit.pool, visit.arena.arena)
    return await _details_form(visit, model, details.of(model).texts())


@router.post("/details")
async def details_form(visit: OnArena, model: Annotated[Plain, Form()]) -> Response:
    """Say something else about a model."""
    sent = await visit.request.form()
    texts = {name: str(sent[name]) for name in DETAIL_FIELDS if name in sent}
    visit.on_refusal(_details_form, model, texts)
    changed = await describe_models(visit.pool, visit.arena.name, {model: texts}, actor=visit.actor.name)
    return _saved(visit, changed)


@router.post("/details-file")
async def details_upload(visit: OnArena, file: Annotated[UploadFile, File()]) -> Response:
    """Say something about many models, by a CSV file: all of it, or nothing."""
    visit.on_refusal(_list)
    texts = parse_details_file(await file.read())
    changed = await describe_models(visit.pool, visit.arena.name, texts, actor=visit.actor.name)
    return _saved(visit, changed)


@router.get("/retire")
async def retire_page(visit: OnArena, model: Annotated[Plain, Query()]) -> HTMLResponse:
    """Confirm retiring a model."""
    await find_model(visit.pool, visit.arena.arena, model)
    return visit.page("retire.html", "models", model=model)


@router.post("/retire")
async def retire_form(visit: OnArena, model: Annotated[Plain, Form()]) -> Response:
    """Retire a model."""
    return await _set(visit, model, enabled=False)


@router.post("/enable")
async def enable_form(visit: OnArena, model: Annotated[Plain, Form()]) -> Response:
    """Enable a model."""
    return await _set(visit, model, enabled=True)


async def _list(visit: ArenaVisit, **said: Any) -> HTMLResponse:
    models = await list_models(visit.pool, visit.arena.arena)
    details = await read_model_details(visit.pool, visit.arena.arena)
    return visit.page(
        "models.html", "models", models=models, details=details, columns=("model", *DETAIL_FIELDS), **said
    )


async def _details_form(visit: ArenaVisit, model: str, texts: Mapping[str, str], **said: Any) -> HTMLResponse:
    return visit.page(
        "model_details.html",
        "models",
        model=model,
        texts=dict.fromkeys(DETAIL_FIELDS, "") | dict(texts),
        **said,
    )


def _saved(visit: ArenaVisit, changed: int) -> Response:
    board_page_cache_of(visit.request).details.pop(visit.arena.arena)
    return visit.done("described" if changed else "unchanged", "models")


async def _set(visit: ArenaVisit, model: str, *, enabled: bool) -> Response:
    actor = visit.actor.name
    position = await set_enabled(visit.pool, visit.arena.name, model, enabled=enabled, actor=actor)
    said = "unchanged" if not position else "enabled" if enabled else "retired"
    return visit.done(said, "models")
