"""The prompts of an arena, and what is taken down."""

from __future__ import annotations

from typing import Annotated

from fastapi import Form, Query, Request
from fastapi.responses import HTMLResponse, Response

from tiltyard.arena.content.arenas import Arena
from tiltyard.arena.content.catalog import read_prompts
from tiltyard.arena.operators.arena_changes import withdraw
from tiltyard.errors import Conflict, InputError
from tiltyard.web.access import registry_of
from tiltyard.web.pages.operator.operator_access import (
    actor_of,
    arena_of,
    arena_page,
    operator_router,
    pool_of,
    redirect_with_notice,
)
from tiltyard.web.pages.operator.response_preview import preview_responses
from tiltyard.web.reader_access import Plain

__all__ = ["router"]

router = operator_router("/arenas/{arena}/prompts")

_PAGE_ROWS = 50


@router.get("", response_class=HTMLResponse)
async def prompts_page(
    arena: str, request: Request, after: Annotated[int, Query(ge=-1, lt=2**31)] = -1
) -> HTMLResponse:
    """A page of prompts, ordered by number."""
    found = await arena_of(request, arena)
    prompts = await read_prompts(pool_of(request), found, after=after, limit=_PAGE_ROWS + 1)
    more = prompts[_PAGE_ROWS - 1].prompt if len(prompts) > _PAGE_ROWS else None
    return arena_page(
        request, found, "prompts.html", "prompts", prompts=prompts[:_PAGE_ROWS], more=more, after=after
    )


@router.get("/withdraw", response_class=HTMLResponse)
async def withdraw_page(
    arena: str,
    request: Request,
    prompt: Annotated[Plain, Query()] = "",
    model: Annotated[Plain, Query()] = "",
) -> HTMLResponse:
    """Confirm a withdrawal."""
    found = await arena_of(request, arena)
    return await _confirm(request, found, prompt.strip(), model.strip())


@router.post("/withdraw")
async def withdraw_form(
    arena: str,
    request: Request,
    prompt: Annotated[Plain, Form()],
    model: Annotated[Plain, Form()] = "",
    reason: Annotated[str, Form()] = "",
) -> Response:
    """Withdraw a prompt or a response."""
    registry, found = registry_of(request), await arena_of(request, arena)
    try:
        await withdraw(
            registry.pool,
            registry.blobs,
            arena,
            prompt,
            model or None,
            reason=reason,
            actor=actor_of(request).name,
        )
    except (InputError, Conflict) as error:
        status = 409 if isinstance(error, Conflict) else 422
        return await _confirm(request, found, prompt, model, reason=reason, trouble=str(error), status=status)
    return redirect_with_notice("withdrawn", "arenas", arena, "prompts")


async def _confirm(
    request: Request,
    arena: Arena,
    prompt: str,
    model: str,
    *,
    reason: str = "",
    trouble: str | None = None,
    status: int = 200,
) -> HTMLResponse:
    exhibit = await preview_responses(request, arena, prompt, [model] if model else [])
    return arena_page(
        request,
        arena,
        "withdraw.html",
        "prompts",
        status=status,
        prompt=prompt,
        model=model,
        exhibit=exhibit,
        reason=reason,
        trouble=trouble,
    )
