"""The forms about the models of a live arena: add one, test one, pause one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from fastapi import Form, Query
from fastapi.responses import HTMLResponse, Response
from pydantic import BaseModel

from tiltyard.arena.content.arenas import find_model, require_live
from tiltyard.arena.live.entrant_pool import plan_trial, try_entrant
from tiltyard.arena.live.live_arena import NewEntrant, describe_entrant, pause_entrant, sync_entrants
from tiltyard.arena.live.live_records import StoredEntrant
from tiltyard.arena.live.live_store import list_entrants
from tiltyard.errors import BadOption, Conflict, InputError, OutOfBudget
from tiltyard.foundation.field_definitions import finite_number
from tiltyard.settings.model_endpoints import PROVIDERS
from tiltyard.web.pages.operator.live import dollars_text
from tiltyard.web.pages.operator.operator_access import ArenaVisit, OnArena, operator_router
from tiltyard.wire.records import Plain, Text

router = operator_router("/arenas/{arena}/live")

_SECRET_FIELDS = ("query_env", "headers_env", "api_key_env", "api_key_header")
#: What a model's section says of the place where it is served. No form names any of it: whoever could fill in an
#: address and the name of a variable could have the service send its secrets there.
_ENDPOINT_FIELDS = ("provider", "base_url", "path", "query", "headers", *_SECRET_FIELDS)

#: Where a new model may be served: the words for each place, and its part of the model's section.
Places = Mapping[str, tuple[str, Mapping[str, object]]]


class ModelForm(BaseModel):
    """What a form says of a new model; of one that the arena has, its name alone."""

    known: Plain = ""
    name: Plain = ""
    #: A provider, or the number of a model of this arena that is served at the same place.
    endpoint: Plain = ""
    model: Plain = ""
    system: Text = ""
    #: Dollars for a million tokens; empty for those of the price list.
    input: Plain = ""
    output: Plain = ""
    act: Literal["write", "review", "test", "add"] = "write"


@router.get("/model", response_class=HTMLResponse)
async def model_page(visit: OnArena, known: Annotated[Plain, Query()] = "") -> Response:
    """The form for a new model; of a known one, what its test costs."""
    return await _answer(visit, ModelForm(known=known, act="review" if known else "write"))


@router.post("/model")
async def model_form(visit: OnArena, form: Annotated[ModelForm, Form()]) -> Response:
    """Say what a test of a model costs, test it, or add it."""
    return await _answer(visit, form)


@router.post("/pause")
async def pause_form(
    visit: OnArena, model: Annotated[Plain, Form()], paused: Annotated[bool, Form()] = False
) -> Response:
    """Pause a model, or let it answer again."""
    actor = visit.actor.name
    changed = await pause_entrant(visit.pool, visit.arena.name, model, paused=paused, actor=actor)
    return visit.done("unchanged" if not changed else "paused" if paused else "resumed", "live")


async def _answer(visit: ArenaVisit, form: ModelForm) -> Response:
    require_live(visit.arena)
    if not visit.arena.settings.is_live:
        raise Conflict(f"the arena {visit.arena.name} compares stored responses; no model is asked")
    stored = await list_entrants(visit.pool, visit.arena.arena)
    places = _places(visit, stored)
    said: dict[str, Any] = {"reviewed": None}
    try:
        new = None if form.known or form.act == "write" else _described(form, places)
        if new is not None:
            said = await _review(visit, form, StoredEntrant(-1, new.name, new.version, dict(new.config)))
        elif form.known:
            number, _ = await find_model(visit.pool, visit.arena.arena, form.known)
            said = await _review(visit, form, next(one for one in stored if one.model == number))
        if new is not None and form.act == "add":
            arena, actor = visit.arena.name, visit.actor.name
            await sync_entrants(visit.pool, visit.registry.blobs, arena, [new], keep=True, actor=actor)
            return visit.done("model-added", "live")
    except (InputError, Conflict, OutOfBudget) as error:
        # The form is no file: its fields are named without a line.
        said = {"reviewed": None, "trouble": str(error).replace("form, line 1, ", ""), "status": 422}
    endpoints = {value: words for value, (words, _) in places.items()}
    return visit.page("live_model.html", "live", form=form, endpoints=endpoints, **said)


def _places(visit: ArenaVisit, stored: Sequence[StoredEntrant]) -> Places:
    """Where models of this arena are served and, for operators of the installation, whose keys these are, providers."""
    places: dict[str, tuple[str, Mapping[str, object]]] = {}
    if visit.actor.may("admin", role="operator"):
        for name, known in PROVIDERS.items():
            places[name] = (f"{name}, with the key in {known.key_variable}", {"provider": name})
    for one in stored:
        section = {name: one.config[name] for name in _ENDPOINT_FIELDS if name in one.config}
        if section and all(section != other for _, other in places.values()):
            places[str(one.model)] = (
                f"{section.get('base_url', section['provider'])}, like {one.name}",
                section,
            )
    return places


def _described(form: ModelForm, places: Places) -> NewEntrant:
    if form.endpoint not in places:
        raise BadOption("choose where the model is served", option="endpoint")
    section = {**places[form.endpoint][1], "name": form.name.strip(), "model": form.model.strip()}
    if form.system.strip():
        section["system"] = form.system.replace("\r\n", "\n").strip()
    if form.input or form.output:
        section["price"] = {"input": finite_number(form.input), "output": finite_number(form.output)}
    return describe_entrant(section)


async def _review(visit: ArenaVisit, form: ModelForm, stored: StoredEntrant) -> dict[str, Any]:
    """What a test costs at most and, if it is asked for, what it brought. Raises `BadConfig` if its key is missing."""
    entrant, trial = visit.registry.open_entrant(stored), None
    try:
        if form.act == "test":
            name, actor = form.known or form.name, visit.actor.name
            trial = await try_entrant(visit.pool, visit.arena, entrant, name=name, actor=actor)
    finally:
        await entrant.provider.aclose()
    _, plan = plan_trial(entrant, visit.arena.settings)
    return {"reviewed": stored, "trial": trial, "cost": plan.reserve, "dollars": dollars_text}
