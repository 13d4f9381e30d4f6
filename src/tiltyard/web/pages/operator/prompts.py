"""The prompts of an arena and the responses to them: found, looked at, hidden, shown again and taken down."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Form, Query
from fastapi.responses import HTMLResponse, Response

from tiltyard.arena.content.arenas import list_models, read_prompt_filters
from tiltyard.arena.content.prompt_browser import PromptSearch, browse_prompts, list_prompt_responses
from tiltyard.arena.operators.arena_changes import hide, show_again, withdraw
from tiltyard.errors import Conflict, InputError
from tiltyard.web.pages.operator.operator_access import ArenaVisit, OnArena, operator_router, trouble_of
from tiltyard.web.pages.operator.preview import preview_responses
from tiltyard.wire.records import Plain

router = operator_router("/arenas/{arena}/prompts")

_PAGE_ROWS = 50


@router.get("", response_class=HTMLResponse)
async def prompts_page(
    visit: OnArena,
    after: Annotated[int, Query(ge=-1, lt=2**31)] = -1,
    q: Annotated[Plain, Query()] = "",
    category: Annotated[Plain, Query()] = "",
    model: Annotated[Plain, Query()] = "",
    only: Annotated[Literal["", "flagged", "hidden"], Query()] = "",
) -> HTMLResponse:
    """A page of the prompts that match, ordered by number."""
    search = PromptSearch(q.strip(), category, model, flagged=only == "flagged", hidden=only == "hidden")
    page = await browse_prompts(visit.pool, visit.arena, search, after=after, limit=_PAGE_ROWS)
    categories, _ = await read_prompt_filters(visit.pool, visit.arena)
    return visit.page(
        "prompts.html",
        "prompts",
        prompts=page.prompts,
        more=page.more,
        after=after,
        search=search,
        only=only,
        categories=categories,
        models=[one.name for one in await list_models(visit.pool, visit.arena.arena)],
        asked={
            "q": q.strip() or None,
            "category": category or None,
            "model": model or None,
            "only": only or None,
        },
    )


@router.get("/view", response_class=HTMLResponse)
async def prompt_page(visit: OnArena, prompt: Annotated[Plain, Query()]) -> HTMLResponse:
    """A prompt with all its responses, as voters see them."""
    return await _view(visit, prompt)


@router.post("/hide")
async def hide_form(
    visit: OnArena, prompt: Annotated[Plain, Form()], model: Annotated[Plain, Form()] = ""
) -> Response:
    """Hide a response, or all responses to a prompt. It can be undone, so nothing is asked before."""
    registry = visit.registry
    actor = visit.actor.name
    try:
        await hide(registry.pool, registry.blobs, visit.arena.name, prompt, model or None, actor=actor)
    except Conflict as error:
        return await _view(visit, prompt, trouble=str(error), status=409)
    return visit.done("hidden", "prompts", "view", query={"prompt": prompt})


@router.post("/show")
async def show_form(
    visit: OnArena, prompt: Annotated[Plain, Form()], model: Annotated[Plain, Form()] = ""
) -> Response:
    """Show hidden responses again."""
    try:
        await show_again(visit.pool, visit.arena.name, prompt, model or None, actor=visit.actor.name)
    except Conflict as error:
        return await _view(visit, prompt, trouble=str(error), status=409)
    return visit.done("shown", "prompts", "view", query={"prompt": prompt})


@router.get("/withdraw", response_class=HTMLResponse)
async def withdraw_page(
    visit: OnArena, prompt: Annotated[Plain, Query()] = "", model: Annotated[Plain, Query()] = ""
) -> HTMLResponse:
    """Confirm a withdrawal."""
    return await _confirm(visit, prompt.strip(), model.strip())


@router.post("/withdraw")
async def withdraw_form(
    visit: OnArena,
    prompt: Annotated[Plain, Form()],
    model: Annotated[Plain, Form()] = "",
    reason: Annotated[str, Form()] = "",
) -> Response:
    """Withdraw a prompt or a response."""
    registry = visit.registry
    try:
        await withdraw(
            registry.pool,
            registry.blobs,
            visit.arena.name,
            prompt,
            model or None,
            reason=reason,
            actor=visit.actor.name,
        )
    except (InputError, Conflict) as error:
        return await _confirm(visit, prompt, model, reason=reason, **trouble_of(error))
    return visit.done("withdrawn", "prompts")


async def _view(visit: ArenaVisit, prompt: str, **said: Any) -> HTMLResponse:
    listed = await list_prompt_responses(visit.pool, visit.arena, prompt)
    live = [one.model for one in listed if not one.hidden]
    hidden = [one.model for one in listed if one.hidden]
    return visit.page(
        "prompt.html",
        "prompts",
        prompt=prompt,
        exhibit=await preview_responses(visit, prompt, live),
        hidden=(await preview_responses(visit, prompt, hidden)).responses,
        **said,
    )


async def _confirm(
    visit: ArenaVisit, prompt: str, model: str, *, reason: str = "", **said: Any
) -> HTMLResponse:
    exhibit = await preview_responses(visit, prompt, [model] if model else [])
    return visit.page(
        "withdraw.html", "prompts", prompt=prompt, model=model, exhibit=exhibit, reason=reason, **said
    )
