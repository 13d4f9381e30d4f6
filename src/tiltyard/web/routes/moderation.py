"""What operators watch over: excluded votes, the audit, complaints, and responses themselves."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import Response

from tiltyard.arena.content.arenas import find_arena, find_model, find_prompt, find_response
from tiltyard.arena.operators.arena_changes import exclude, find_sessions_by_pseudonym, restore
from tiltyard.arena.operators.audit_and_complaints import list_complaints, read_audit, settle_complaint
from tiltyard.arena.operators.exclusions import VoteSelection, list_exclusions
from tiltyard.arena.voting.matchup_ids import parse_matchup_id
from tiltyard.errors import BadOption, NotFound
from tiltyard.postgres.connection_pool import connect_from_pool
from tiltyard.web.access import Actor, keys_of, registry_of, require_scope
from tiltyard.web.arena_schemas import (
    AuditEntryOut,
    AuditOut,
    ComplaintOut,
    ComplaintsOut,
    ExcludedOut,
    ExcludeIn,
    ExclusionOut,
    ExclusionsOut,
    RestoredOut,
    SettledOut,
)
from tiltyard.web.problem_details import document_problems
from tiltyard.web.reader_access import ArenaName, Plain, source_number

__all__ = ["router"]

router = APIRouter(prefix="/api/v1/arenas/{arena}", tags=["operators"])

Admin = Annotated[Actor, Depends(require_scope("admin"))]
Number = Annotated[int, Path(ge=0, lt=2**63)]
Limit = Annotated[int, Query(ge=1, le=1000)]

_ADMIN = [Depends(require_scope("admin"))]
_REFUSALS = document_problems(401, 403, 404, 422, 503)
_BYTES: dict[int | str, dict[str, Any]] = {200: {"content": {"*/*": {}}, "description": "Its bytes."}}
#: Whatever a response is, on its own page it can do nothing.
_DOWNLOAD_HEADERS = {
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "Content-Disposition": "attachment",
}


@router.get("/exclusions", summary="Exclusions", responses=_REFUSALS, dependencies=_ADMIN)
async def exclusions(arena: ArenaName, request: Request) -> ExclusionsOut:
    """Votes that were excluded, and whether they were restored."""
    async with connect_from_pool(registry_of(request).pool) as connection:
        found = await list_exclusions(connection, (await find_arena(connection, arena)).arena)
    return ExclusionsOut(exclusions=[ExclusionOut(**asdict(one)) for one in found])


@router.post("/exclusions", status_code=201, summary="Exclude votes", responses=_REFUSALS)
async def exclude_votes(arena: ArenaName, body: ExcludeIn, request: Request, actor: Admin) -> ExcludedOut:
    """Leave votes out of the ratings: those that fit everything that is said. They stay in the log."""
    pool = registry_of(request).pool
    sessions = body.sessions
    if (body.voters is None) != (body.release is None):
        raise BadOption("voters are named by an export; give voters and its release together")
    if body.voters is not None and body.release is not None:
        if sessions is not None:
            raise BadOption("name sessions, or voters and a release; not both")
        sessions = await find_sessions_by_pseudonym(pool, keys_of(request), arena, body.release, body.voters)
    selection = VoteSelection(
        sessions=sessions,
        matchups=None if body.matchups is None else [parse_matchup_id(one) for one in body.matchups],
        since=body.since,
        until=body.until,
        source=None if body.source is None else source_number(body.source),
    )
    made = await exclude(pool, arena, selection, body.reason, actor=actor.name)
    return ExcludedOut(**asdict(made))


@router.post(
    "/exclusions/{exclusion}/restore",
    summary="Restore votes",
    responses=document_problems(401, 403, 404, 409, 422, 503),
)
async def restore_votes(arena: ArenaName, exclusion: Number, request: Request, actor: Admin) -> RestoredOut:
    """Let the votes of an exclusion count again."""
    position = await restore(registry_of(request).pool, arena, exclusion, actor=actor.name)
    return RestoredOut(exclusion=exclusion, position=position)


@router.get("/audit", summary="The audit", responses=_REFUSALS, dependencies=_ADMIN)
async def audit_entries(
    arena: ArenaName,
    request: Request,
    before: Annotated[int | None, Query(ge=0, lt=2**63)] = None,
    limit: Limit = 100,
) -> AuditOut:
    """Who changed what, newest first."""
    async with connect_from_pool(registry_of(request).pool) as connection:
        number = (await find_arena(connection, arena)).arena
        found = await read_audit(connection, number, before=before, limit=limit)
    return AuditOut(entries=[AuditEntryOut(**asdict(one)) for one in found])


@router.get("/complaints", summary="Complaints", responses=_REFUSALS, dependencies=_ADMIN)
async def complaints(
    arena: ArenaName,
    request: Request,
    after: Annotated[int, Query(ge=0, lt=2**63)] = 0,
    limit: Limit = 100,
    settled: Annotated[bool, Query(description="Also those that were looked at.")] = False,
) -> ComplaintsOut:
    """What voters said is wrong with a matchup, oldest first."""
    async with connect_from_pool(registry_of(request).pool) as connection:
        number = (await find_arena(connection, arena)).arena
        found = await list_complaints(connection, number, after=after, limit=limit, settled=settled)
    return ComplaintsOut(complaints=[ComplaintOut(**asdict(one)) for one in found])


@router.post("/complaints/{complaint}/settle", summary="Settle a complaint", responses=_REFUSALS)
async def settle(arena: ArenaName, complaint: Number, request: Request, actor: Admin) -> SettledOut:
    """A complaint was looked at."""
    async with connect_from_pool(registry_of(request).pool) as connection:
        await settle_complaint(
            connection, (await find_arena(connection, arena)).arena, complaint, actor=actor.name
        )
    return SettledOut(complaint=complaint)


@router.get(
    "/responses",
    response_class=Response,
    summary="A response",
    responses=_REFUSALS | _BYTES,
    dependencies=_ADMIN,
)
async def response(
    arena: ArenaName,
    request: Request,
    model: Annotated[Plain, Query(description="Whose.")],
    prompt: Annotated[Plain, Query(description="To which prompt.")],
) -> Response:
    """The bytes of a live response, for whoever must decide about it."""
    house = registry_of(request)
    async with connect_from_pool(house.pool) as connection:
        number = (await find_arena(connection, arena)).arena
        by, _ = await find_model(connection, number, model)
        to, _ = await find_prompt(connection, number, prompt)
        found = await find_response(connection, number, by, to)
    if found is None:
        raise NotFound("this model has no live response to this prompt")
    content = await house.contents.read(found)
    return Response(content.data, media_type=content.media_type, headers=_DOWNLOAD_HEADERS)
