"""Operator pages for moderation: complaints, remarks, the audit log, exports and weekly reports."""

from __future__ import annotations

import json
from typing import Annotated

from fastapi import Query
from fastapi.responses import HTMLResponse, Response

from tiltyard.arena.boards.weekly_reports import list_reports
from tiltyard.arena.content.prompt_browser import read_prompt_words
from tiltyard.arena.operators.moderation import (
    list_audit_actions,
    read_audit_entries,
    read_complaints,
    read_voter_names,
    settle,
)
from tiltyard.arena.operators.voters import read_remarks
from tiltyard.errors import NotFound
from tiltyard.web.pages.operator.operator_access import OnArena, OnEither, operator_router
from tiltyard.web.pages.operator.prompts import preview_responses
from tiltyard.web.pages.operator.voters import OUTCOMES, Session
from tiltyard.wire.records import Plain

router = operator_router()

_PAGE_ROWS = 50
#: Longer details are collapsed.
_BRIEF_CHARACTERS = 400


@router.get("/arenas/{arena}/complaints")
async def complaints_page(
    visit: OnArena,
    after: Annotated[int, Query(ge=0, lt=2**63)] = 0,
    settled: Annotated[bool, Query()] = False,
) -> HTMLResponse:
    """Problems that voters reported with matchups, oldest first."""
    complaints = await read_complaints(
        visit.pool, visit.arena.name, after=after, limit=_PAGE_ROWS + 1, settled=settled
    )
    more = complaints[_PAGE_ROWS - 1].complaint if len(complaints) > _PAGE_ROWS else None
    return visit.page(
        "complaints.html",
        "complaints",
        complaints=complaints[:_PAGE_ROWS],
        prompt_words=await read_prompt_words(visit.pool, visit.arena, [one.prompt for one in complaints]),
        more=more,
        settled=settled,
    )


@router.get("/arenas/{arena}/complaints/{complaint}")
async def complaint_page(visit: OnArena, complaint: Session) -> HTMLResponse:
    """One complaint, with the prompt and both responses as they are now."""
    complaints = await read_complaints(
        visit.pool, visit.arena.name, after=complaint - 1, limit=1, settled=True
    )
    if not complaints or complaints[0].complaint != complaint:
        raise NotFound(f"this arena has no complaint {complaint}; see the list of complaints")
    one, exhibit = complaints[0], None
    if one.prompt and one.model_a and one.model_b:
        exhibit = await preview_responses(visit, one.prompt, (one.model_a, one.model_b))
    return visit.page("complaint.html", "complaints", complaint=one, exhibit=exhibit)


@router.post("/arenas/{arena}/complaints/{complaint}/settle")
async def settle_form(visit: OnArena, complaint: Session) -> Response:
    """Mark a complaint as settled."""
    await settle(visit.pool, visit.arena.name, complaint, actor=visit.actor.name)
    return visit.done("settled", "complaints")


@router.get("/arenas/{arena}/remarks")
async def remarks_page(visit: OnArena, page: Annotated[int, Query(ge=0, lt=10**6)] = 0) -> HTMLResponse:
    """Remarks of voters, newest first."""
    offset = page * _PAGE_ROWS
    remarks = await read_remarks(visit.pool, visit.arena.arena, limit=_PAGE_ROWS + 1, offset=offset)
    return visit.page(
        "remarks.html",
        "remarks",
        remarks=remarks[:_PAGE_ROWS],
        prompt_words=await read_prompt_words(visit.pool, visit.arena, [one.prompt for one in remarks]),
        more=len(remarks) > _PAGE_ROWS,
        page=page,
        outcomes=OUTCOMES,
        voter_names=await read_voter_names(visit.pool, [one.session for one in remarks]),
    )


@router.get("/audit")
@router.get("/arenas/{arena}/audit")
async def audit_page(
    visit: OnEither,
    before: Annotated[int | None, Query(ge=0, lt=2**63)] = None,
    action: Annotated[Plain, Query()] = "",
) -> HTMLResponse:
    """The audit log of an arena, or of the server with its sign-ins and tokens, newest first."""
    entries = await read_audit_entries(
        visit.pool, visit.place, action=action or None, before=before, limit=_PAGE_ROWS + 1
    )
    actions = await list_audit_actions(visit.pool, visit.place)
    shown = []
    for one in entries[:_PAGE_ROWS]:
        detail = [
            (name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
            for name, value in one.detail.items()
        ]
        short = sum(len(name) + len(value) for name, value in detail) <= _BRIEF_CHARACTERS
        shown.append((one, detail, short))
    more = entries[_PAGE_ROWS - 1].entry if len(entries) > _PAGE_ROWS else None
    return visit.page("audit.html", "audit", action=action, actions=actions, entries=shown, more=more)


@router.get("/arenas/{arena}/exports")
async def exports_page(visit: OnArena) -> HTMLResponse:
    """Exports of battles, and the weekly reports."""
    reports = await list_reports(visit.pool, visit.arena.arena)
    return visit.page("exports.html", "exports", reports=reports)
