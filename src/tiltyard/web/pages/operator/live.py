"""The models of a live arena: who answers, how well, what it costs; forms to add, test and pause one; downloads."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal

from fastapi import Form, Query
from fastapi.responses import HTMLResponse, Response, StreamingResponse
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool

from tiltyard.arena.content.arenas import find_model, require_live
from tiltyard.arena.live.conversation_release import promote_prompts, write_conversations
from tiltyard.arena.live.entrant_pool import plan_trial, try_entrant
from tiltyard.arena.live.live_arena import NewEntrant, describe_entrant, pause_entrant, sync_entrants
from tiltyard.arena.live.live_records import StoredEntrant
from tiltyard.arena.live.live_store import OVERVIEW_DAYS, list_entrants, read_live_overview
from tiltyard.errors import BadOption, Conflict, InputError, OutOfBudget
from tiltyard.foundation.field_definitions import finite_number
from tiltyard.settings.model_endpoints import PROVIDERS
from tiltyard.web.access.access import keys_of
from tiltyard.web.pages.operator.operator_access import ArenaVisit, OnArena, OperatorVisit, operator_router
from tiltyard.web.routes.battles import export_slots_of
from tiltyard.wire.records import Plain, Text

router = operator_router("/arenas/{arena}")

_MICRODOLLARS_RATIO = 1_000_000


@router.get("/live")
async def live_page(visit: OnArena) -> HTMLResponse:
    """Entrants, failures and money."""
    settings, overview, budgets = visit.arena.settings, None, []
    if settings.is_live:
        overview = await read_live_overview(visit.pool, visit.arena.arena)
        budgets = [
            ("In total", overview.spending.total, settings.live_budget_dollars),
            ("Today (UTC)", overview.spending.day, settings.live_day_dollars),
        ]
    return visit.page(
        "live.html", "live", overview=overview, budgets=budgets, days=OVERVIEW_DAYS, dollars=dollars_text
    )


def dollars_text(microdollars: int) -> str:
    """Cents, and more decimals for what is less than one."""
    dollars = microdollars / _MICRODOLLARS_RATIO
    return f"${dollars:,.2f}" if dollars >= 0.01 or not microdollars else f"${dollars:.6f}"


_PIECE_BYTES = 1 << 20


@router.get("/conversations.parquet")
async def conversations_file(
    visit: OnArena, flagged: Annotated[bool, Query()] = False, exact: Annotated[bool, Query()] = False
) -> StreamingResponse:
    """Turns and votes of voters who agreed; with ``flagged``, also those in which private data was found.

    If ``exact``, with voters, times and positions; the audit log says so.
    """
    url, keys = visit.registry.url, keys_of(visit.request)
    actor = visit.actor.name if exact else None

    def write(path: Path) -> None:
        write_conversations(url, keys, visit.arena.name, path, with_flagged=flagged, exact_for=actor)

    return await _send(
        visit, write, f"{visit.arena.name}-conversations.parquet", "application/vnd.apache.parquet"
    )


@router.get("/prompts.jsonl")
async def prompts_file(visit: OnArena) -> StreamingResponse:
    """The distinct prompts, as a bank of prompts that tournaments read."""
    url = visit.registry.url
    return await _send(
        visit,
        lambda path: promote_prompts(url, visit.arena.name, path),
        f"{visit.arena.name}-prompts.jsonl",
        "application/x-ndjson",
    )


async def _send(
    visit: OperatorVisit, write: Callable[[Path], object], name: str, media_type: str
) -> StreamingResponse:
    """Write a file and send it. It has no name any more when it is sent, so that nothing is left of it."""

    def written() -> tuple[BinaryIO, int]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "file"
            write(path)
            return path.open("rb"), path.stat().st_size

    def pieces(file: BinaryIO) -> Iterator[bytes]:
        with file:
            while piece := file.read(_PIECE_BYTES):
                yield piece

    async with export_slots_of(visit.request).take():
        file, size = await run_in_threadpool(written)
    headers = {
        "Content-Disposition": f'attachment; filename="{name}"',
        "Content-Length": str(size),
        "Cache-Control": "no-store",
    }
    return StreamingResponse(pieces(file), media_type=media_type, headers=headers)


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


@router.get("/live/model")
async def model_page(visit: OnArena, known: Annotated[Plain, Query()] = "") -> Response:
    """The form for a new model; of a known one, what its test costs."""
    return await _answer(visit, ModelForm(known=known, act="review" if known else "write"))


@router.post("/live/model")
async def model_form(visit: OnArena, form: Annotated[ModelForm, Form()]) -> Response:
    """Say what a test of a model costs, test it, or add it."""
    return await _answer(visit, form)


@router.post("/live/pause")
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
