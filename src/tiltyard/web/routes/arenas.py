"""Which arenas there are."""

from __future__ import annotations

from fastapi import APIRouter, Request

from tiltyard.arena.content.arenas import list_arenas, read_filters
from tiltyard.postgres.connection_pool import connect_from_pool
from tiltyard.web.access import CurrentActor, registry_of
from tiltyard.web.arena_schemas import ArenaOut, ArenasOut
from tiltyard.web.problem_details import document_problems
from tiltyard.web.reader_access import ReadableArena, may_read
from tiltyard.web.serializers import serialize_arena

__all__ = ["router"]

router = APIRouter(prefix="/api/v1/arenas", tags=["readers"])


@router.get("", summary="All arenas", responses=document_problems(401, 503))
async def arenas(request: Request, actor: CurrentActor) -> ArenasOut:
    """Open arenas, and closed ones that whoever asks has a right to."""
    async with connect_from_pool(registry_of(request).pool) as connection:
        found = await list_arenas(connection)
    return ArenasOut(arenas=[serialize_arena(arena) for arena in found if may_read(actor, arena)])


@router.get("/{arena}", summary="An arena", responses=document_problems(401, 404, 503))
async def arena(arena: ReadableArena, request: Request) -> ArenaOut:
    """What an arena is called and how it is run."""
    async with connect_from_pool(registry_of(request).pool) as connection:
        categories, languages = await read_filters(connection, arena.arena)
    return serialize_arena(arena).model_copy(update={"categories": categories, "languages": languages})
