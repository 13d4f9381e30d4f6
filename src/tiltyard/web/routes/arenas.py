"""Which arenas there are."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import APIRouter, Request

from tiltyard.arena.content.arenas import Arena, read_arenas, read_prompt_filters
from tiltyard.web.access.access import registry_of
from tiltyard.web.access.actors import Actor
from tiltyard.web.access.route_access import CurrentActor, ReadableArena, may_read
from tiltyard.web.edge.problem_details import document_problems
from tiltyard.wire.arenas import ArenaInfo, ArenaList

router = APIRouter(prefix="/api/v1/arenas", tags=["readers"])


@router.get("", summary="All arenas", responses=document_problems(401, 503))
async def arenas(request: Request, actor: CurrentActor) -> ArenaList:
    """Open arenas, and closed and private ones that the client may read."""
    found = await read_arenas(registry_of(request).pool)
    return ArenaList(
        [
            serialize_arena(arena, budgets=_sees_budgets(actor, arena.name))
            for arena in found
            if await may_read(request, actor, arena)
        ]
    )


@router.get("/{arena}", summary="An arena", responses=document_problems(401, 403, 404, 503))
async def arena(arena: ReadableArena, request: Request, actor: CurrentActor) -> ArenaInfo:
    """An arena's title and settings, and the categories and languages of its prompts.

    Budgets of live arenas are told to operators only.
    """
    categories, languages = await read_prompt_filters(registry_of(request).pool, arena)
    return serialize_arena(arena, categories, languages, budgets=_sees_budgets(actor, arena.name))


def _sees_budgets(actor: Actor | None, arena: str) -> bool:
    return actor is not None and actor.may("admin", arena)


def serialize_arena(
    arena: Arena,
    categories: Sequence[str] | None = None,
    languages: Sequence[str] | None = None,
    *,
    budgets: bool = False,
) -> ArenaInfo:
    """An arena for the API, without its number; with ``budgets``, for its operators."""
    return ArenaInfo(
        arena=arena.name,
        title=arena.title,
        created_at=arena.created_at,
        settings=arena.settings.to_dict() if budgets else arena.settings.shown_to_voters(),
        categories=None if categories is None else tuple(categories),
        languages=None if languages is None else tuple(languages),
    )
