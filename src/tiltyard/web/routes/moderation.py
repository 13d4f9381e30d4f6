"""API routes for moderation: exclusions, the audit log, complaints, and responses."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import Response

from tiltyard.arena.content.arenas import find_arena, find_kept_response
from tiltyard.arena.content.stored_conversations import conversation_image
from tiltyard.arena.operators import moderation
from tiltyard.arena.operators.exclusions import VoteSelection, exclude, find_sessions_by_pseudonym, restore
from tiltyard.arena.operators.invitations import find_invited_sessions
from tiltyard.errors import BadOption
from tiltyard.web.access.access import context_of, keys_of, registry_of
from tiltyard.web.access.actors import Actor
from tiltyard.web.access.route_access import ArenaName, ScopeCheck, source_number
from tiltyard.web.edge.problem_details import Documented
from tiltyard.wire.moderation import (
    AuditPage,
    ComplaintList,
    ComplaintSettled,
    Excluded,
    ExcludeRequest,
    ExclusionList,
    Restored,
)
from tiltyard.wire.records import Plain

router = APIRouter(prefix="/api/v1/arenas/{arena}", tags=["operators"])

Admin = Annotated[Actor, Depends(ScopeCheck("admin"))]
Number = Annotated[int, Path(ge=0, lt=2**63)]
Limit = Annotated[int, Query(ge=1, le=1000)]

_ADMIN = [Depends(ScopeCheck("admin"))]
_BYTES: Documented = {200: {"content": {"*/*": {}}, "description": "Its bytes."}}
#: A response is downloaded, and can do nothing if it is opened.
DOWNLOAD_HEADERS = {
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "Content-Disposition": "attachment",
}


@router.get("/exclusions", dependencies=_ADMIN)
async def exclusions(arena: ArenaName, request: Request) -> ExclusionList:
    """All exclusions, and whether they were restored."""
    return ExclusionList(await moderation.read_exclusions(registry_of(request).pool, arena))


@router.post("/exclusions", status_code=201)
async def exclude_votes(arena: ArenaName, body: ExcludeRequest, request: Request, actor: Admin) -> Excluded:
    """Exclude the votes that match all given criteria from the ratings. They stay in the log."""
    pool = registry_of(request).pool
    sessions, ids = body.sessions, context_of(request).matchup_ids
    if (body.voters is None) != (body.release is None):
        raise BadOption("voters are pseudonyms of an export; give voters and release together")
    if sum(one is not None for one in (sessions, body.voters, body.invitation)) > 1:
        raise BadOption("give only one of sessions, voters with a release, and an invitation")
    if body.invitation is not None:
        sessions = await find_invited_sessions(pool, arena, body.invitation)
    if body.voters is not None and body.release is not None:
        sessions = await find_sessions_by_pseudonym(pool, keys_of(request), arena, body.release, body.voters)
    selection = VoteSelection(
        sessions=sessions,
        matchups=None if body.matchups is None else [ids.parse(one) for one in body.matchups],
        since=body.since,
        until=body.until,
        source=None if body.source is None else source_number(body.source),
    )
    return await exclude(pool, arena, selection, body.reason, actor=actor.name)


@router.post("/exclusions/{exclusion}/restore")
async def restore_votes(arena: ArenaName, exclusion: Number, request: Request, actor: Admin) -> Restored:
    """Restore the votes of an exclusion."""
    position = await restore(registry_of(request).pool, arena, exclusion, actor=actor.name)
    return Restored(exclusion=exclusion, position=position)


@router.get("/audit", dependencies=_ADMIN)
async def audit_entries(
    arena: ArenaName,
    request: Request,
    before: Annotated[int | None, Query(ge=0, lt=2**63)] = None,
    limit: Limit = 100,
) -> AuditPage:
    """The audit log, newest first."""
    pool = registry_of(request).pool
    found = await find_arena(pool, arena)
    return AuditPage(await moderation.read_audit_entries(pool, found, before=before, limit=limit))


@router.get("/complaints", dependencies=_ADMIN)
async def complaints(
    arena: ArenaName,
    request: Request,
    after: Annotated[int, Query(ge=0, lt=2**63)] = 0,
    limit: Limit = 100,
    settled: Annotated[bool, Query(description="Whether to include settled complaints.")] = False,
) -> ComplaintList:
    """Complaints of voters about matchups, oldest first."""
    pool = registry_of(request).pool
    found = await moderation.read_complaints(pool, arena, after=after, limit=limit, settled=settled)
    return ComplaintList(found)


@router.post("/complaints/{complaint}/settle")
async def settle(arena: ArenaName, complaint: Number, request: Request, actor: Admin) -> ComplaintSettled:
    """Mark a complaint as settled."""
    await moderation.settle(registry_of(request).pool, arena, complaint, actor=actor.name)
    return ComplaintSettled(complaint=complaint)


@router.get("/responses", response_class=Response, responses=_BYTES, dependencies=_ADMIN)
async def response(
    arena: ArenaName,
    request: Request,
    model: Annotated[Plain, Query(description="The model's name.")],
    prompt: Annotated[Plain, Query(description="The prompt's name.")],
    image: Annotated[
        int | None,
        Query(description="The number of an image of the response's messages, from 0.", ge=0, lt=1_000),
    ] = None,
) -> Response:
    """The bytes of a response that was not withdrawn, for review; a hidden one too. Or of an image of its messages."""
    registry = registry_of(request)
    content = await registry.blobs.read_kept(await find_kept_response(registry.pool, arena, model, prompt))
    if image is not None:
        content = await asyncio.to_thread(conversation_image, content, image)
    return Response(content.data, media_type=content.media_type, headers=DOWNLOAD_HEADERS)
