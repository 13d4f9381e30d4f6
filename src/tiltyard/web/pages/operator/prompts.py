"""The prompts of an arena and the responses to them: found, looked at, hidden, shown again and taken down."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Form, Query, Request
from fastapi.responses import HTMLResponse, Response

from tiltyard.arena.content.arenas import Arena, list_models, read_prompt_filters
from tiltyard.arena.content.prompt_browser import PromptSearch, browse_prompts, list_prompt_responses
from tiltyard.arena.operators.arena_changes import hide, show_again, withdraw
from tiltyard.errors import Conflict, InputError
from tiltyard.web.access.access import registry_of
from tiltyard.web.pages.operator.operator_access import (
    FoundArena,
    actor_of,
    arena_page,
    operator_router,
    pool_of,
    redirect_with_notice,
)
from tiltyard.web.pages.operator.preview import preview_responses
from tiltyard.wire.records import Plain

router = operator_router("/arenas/{arena}/prompts")

_PAGE_ROWS = 50


@router.get("", response_class=HTMLResponse)
async def prompts_page(
    arena: FoundArena,
    request: Request,
    after: Annotated[int, Query(ge=-1, lt=2**31)] = -1,
    q: Annotated[Plain, Query()] = "",
    category: Annotated[Plain, Query()] = "",
    model: Annotated[Plain, Query()] = "",
    only: Annotated[Literal["", "flagged", "hidden"], Query()] = "",
) -> HTMLResponse:
    """A page of the prompts that match, ordered by number."""
    search = PromptSearch(q.strip(), category, model, flagged=only == "flagged", hidden=only == "hidden")
    page = await browse_prompts(pool_of(request), arena, search, after=after, limit=_PAGE_ROWS)
    categories, _ = await read_prompt_filters(pool_of(request), arena)
    return arena_page(
        request,
        arena,
        "prompts.html",
        "prompts",
        prompts=page.prompts,
        more=page.more,
        after=after,
        search=search,
        only=only,
        categories=categories,
        models=[one.name for one in await list_models(pool_of(request), arena.arena)],
        asked={
            "q": q.strip() or None,
            "category": category or None,
            "model": model or None,
            "only": only or None,
        },
    )


@router.get("/view", response_class=HTMLResponse)
async def prompt_page(arena: FoundArena, request: Request, prompt: Annotated[Plain, Query()]) -> HTMLResponse:
    """A prompt with all its responses, as voters see them."""
    return await _view(request, arena, prompt)


@router.post("/hide")
async def hide_form(
    arena: FoundArena,
    request: Request,
    prompt: Annotated[Plain, Form()],
    model: Annotated[Plain, Form()] = "",
) -> Response:
    """Hide a response, or all responses to a prompt. It can be undone, so nothing is asked before."""
    registry = registry_of(request)
    actor = actor_of(request).name
    try:
        await hide(registry.pool, registry.blobs, arena.name, prompt, model or None, actor=actor)
    except Conflict as error:
        return await _view(request, arena, prompt, trouble=str(error), status=409)
    return redirect_with_notice("hidden", "arenas", arena.name, "prompts", "view", query={"prompt": prompt})


@router.post("/show")
async def show_form(
    arena: FoundArena,
    request: Request,
    prompt: Annotated[Plain, Form()],
    model: Annotated[Plain, Form()] = "",
) -> Response:
    """Show hidden responses again."""
    try:
        await show_again(pool_of(request), arena.name, prompt, model or None, actor=actor_of(request).name)
    except Conflict as error:
        return await _view(request, arena, prompt, trouble=str(error), status=409)
    return redirect_with_notice("shown", "arenas", arena.name, "prompts", "view", query={"prompt": prompt})


@router.get("/withdraw", response_class=HTMLResponse)
async def withdraw_page(
    arena: FoundArena,
    request: Request,
    prompt: Annotated[Plain, Query()] = "",
    model: Annotated[Plain, Query()] = "",
) -> HTMLResponse:
    """Confirm a withdrawal."""
    return await _confirm(request, arena, prompt.strip(), model.strip())


@router.post("/withdraw")
async def withdraw_form(
    arena: FoundArena,
    request: Request,
    prompt: Annotated[Plain, Form()],
    model: Annotated[Plain, Form()] = "",
    reason: Annotated[str, Form()] = "",
) -> Response:
    """Withdraw a prompt or a response."""
    registry = registry_of(request)
    try:
        await withdraw(
            registry.pool,
            registry.blobs,
            arena.name,
            prompt,
            model or None,
            reason=reason,
            actor=actor_of(request).name,
        )
    except (InputError, Conflict) as error:
        status = 409 if isinstance(error, Conflict) else 422
        return await _confirm(request, arena, prompt, model, reason=reason, trouble=str(error), status=status)
    return redirect_with_notice("withdrawn", "arenas", arena.name, "prompts")


async def _view(request: Request, arena: Arena, prompt: str, **said: Any) -> HTMLResponse:
    listed = await list_prompt_responses(pool_of(request), arena, prompt)
    live = [one.model for one in listed if not one.hidden]
    hidden = [one.model for one in listed if one.hidden]
    return arena_page(
        request,
        arena,
        "prompt.html",
        "prompts",
        prompt=prompt,
        exhibit=await preview_responses(request, arena, prompt, live),
        hidden=(await preview_responses(request, arena, prompt, hidden)).responses,
        **said,
    )


async def _confirm(
    request: Request, arena: Arena, prompt: str, model: str, *, reason: str = "", **said: Any
) -> HTMLResponse:
    exhibit = await preview_responses(request, arena, prompt, [model] if model else [])
    return arena_page(
        request,
        arena,
        "withdraw.html",
        "prompts",
        prompt=prompt,
        model=model,
        exhibit=exhibit,
        reason=reason,
        **said,
    )
