"""Expert panels of an arena: open one, see progress, agreement and disagreements, adjudicate, close, download."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Form, Path
from fastapi.responses import HTMLResponse, Response
from pydantic import BaseModel

from tiltyard.arena.content.prompt_browser import read_prompt_words
from tiltyard.arena.operators.panel_records import (
    PanelRecord,
    adjudicate,
    agreement_rows,
    find_disagreements,
    panel_board,
    panel_file,
    panel_progress,
    read_panel,
)
from tiltyard.arena.operators.panels import PanelTerms, close_panel, list_panels, open_panel
from tiltyard.core.judging.diagnostics.rater_agreement import RaterValue
from tiltyard.errors import BadOption, NotFound
from tiltyard.foundation.field_definitions import whole_number
from tiltyard.web.pages import paths
from tiltyard.web.pages.operator.operator_access import ArenaVisit, OnArena, operator_router, typed_number

router = operator_router("/arenas/{arena}/panels")

Number = Annotated[int, Path(ge=1, lt=2**63)]
Text = Annotated[str, Form()]
_TYPES = {"csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet"}


class PanelForm(BaseModel):
    """What a form says of a new panel."""

    name: str = ""
    raters: str = ""
    overlap: str = "2"
    categories: str = ""
    pairs: str = ""


@router.get("")
async def panels_page(visit: OnArena) -> HTMLResponse:
    """All panels, and the form that opens another."""
    return await _list_page(visit)


@router.post("")
async def open_form(visit: OnArena, form: Annotated[PanelForm, Form()]) -> HTMLResponse:
    """Open a panel. The links of its raters are shown on this page only."""
    visit.on_refusal(_list_page, given=form)
    settings = visit.registry.settings
    terms = PanelTerms(
        form.name.strip(),
        _lines(form.raters),
        typed_number("overlap", form.overlap, 0),
        categories=_lines(form.categories),
        pairs_per_prompt=typed_number("pairs", form.pairs, 0) if form.pairs.strip() else None,
    )
    opened = await open_panel(
        visit.pool, visit.arena.name, terms, shard=settings.shard, actor=visit.actor.name
    )
    await visit.apply_settings()
    address = settings.address().rstrip("/")
    links = [
        (rater.name, address + paths.join(code))
        for rater, code in zip(opened.raters, opened.codes, strict=True)
    ]
    return await _list_page(visit, links=links, opened=opened.panel)


@router.get("/{panel}")
async def panel_page(visit: OnArena, panel: Number) -> HTMLResponse:
    """Progress, agreement, disagreements and, of a closed panel, the board."""
    return await _panel_page(visit, await _record(visit, panel))


@router.post("/{panel}/adjudicate")
async def adjudicate_form(
    visit: OnArena, panel: Number, item: Text = "", verdict: Text = "", note: Text = ""
) -> Response:
    """Record what a senior rater says of an item."""
    record = await _record(visit, panel)
    visit.on_refusal(_panel_page, record)
    chosen = whole_number(verdict)
    if chosen not in set(RaterValue):
        raise BadOption("choose which response is better, a tie or both bad")
    await adjudicate(
        visit.pool,
        visit.arena.name,
        record.panel.name,
        typed_number("item", item, 0),
        RaterValue(chosen),
        note.strip(),
        actor=visit.actor.name,
    )
    return visit.done("adjudicated", "panels", panel)


@router.post("/{panel}/close")
async def close_form(visit: OnArena, panel: Number) -> Response:
    """Close a panel for good."""
    record = await _record(visit, panel)
    await close_panel(visit.pool, visit.arena.name, record.panel.name, actor=visit.actor.name)
    await visit.apply_settings()
    return visit.done("panel-closed", "panels", panel)


@router.get("/{panel}/table.{form}")
async def table_file(visit: OnArena, panel: Number, form: Literal["csv", "parquet"]) -> Response:
    """One row for each task, with the names of the raters."""
    record = await _record(visit, panel)
    headers = {
        "Content-Disposition": f'attachment; filename="{visit.arena.name}-panel-{panel}.{form}"',
        "Cache-Control": "no-store",
    }
    return Response(panel_file(record, form), media_type=_TYPES[form], headers=headers)


async def _record(visit: ArenaVisit, panel: int) -> PanelRecord:
    known = await list_panels(visit.pool, visit.arena.name)
    name = next((one.name for one in known if one.panel == panel), None)
    if name is None:
        raise NotFound(f"no panel {panel}; see the list of panels")
    return await read_panel(visit.pool, visit.arena.name, name)


async def _list_page(visit: ArenaVisit, **values: Any) -> HTMLResponse:
    shown = {
        "panels": (await list_panels(visit.pool, visit.arena.name))[::-1],
        "given": PanelForm(),
        "links": None,
        "opened": None,
    }
    return visit.page("panels.html", "panels", **(shown | values))


async def _panel_page(visit: ArenaVisit, record: PanelRecord, **values: Any) -> HTMLResponse:
    agreement = agreement_rows(record)
    disagreements = find_disagreements(record)
    prompts = [item.prompt for item, _ in disagreements]
    figures = [figure for row in agreement for figure in (row.found.alpha, row.found.share)]
    return visit.page(
        "panel.html",
        "panels",
        panel=record.panel,
        names={one.rater: one.name for one in record.raters},
        progress=panel_progress(record),
        agreement=agreement,
        unbounded=any(figure.value is not None and figure.low is None for figure in figures),
        disagreements=disagreements,
        prompt_words=await read_prompt_words(visit.pool, visit.arena, prompts),
        board=panel_board(record),
        **values,
    )


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.splitlines() if line.strip())
