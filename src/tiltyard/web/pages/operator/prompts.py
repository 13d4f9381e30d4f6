"""The prompts of an arena and the responses to them: found, looked at, hidden, shown again and taken down.

And what a voter would see: the welcome page and a matchup. Nothing is served, so nothing is logged.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from fastapi import Form, Query
from fastapi.responses import HTMLResponse, Response
from markupsafe import Markup

from tiltyard.arena.content.arenas import list_models, read_prompt_filters, read_prompt_responses
from tiltyard.arena.content.blob_store import ResponseContent
from tiltyard.arena.content.prompt_browser import PromptSearch, browse_prompts, list_prompt_responses
from tiltyard.arena.operators.arena_changes import hide, show_again, withdraw
from tiltyard.arena.operators.stages import AnsweredPrompt, PreviewedResponse, find_answered_prompt
from tiltyard.errors import NotFound
from tiltyard.web.pages import paths
from tiltyard.web.pages.matchup_view import MatchupSide, MatchupView, divide_conversations, image_address
from tiltyard.web.pages.model import ResponsePreview, preview_content
from tiltyard.web.pages.operator.operator_access import (
    ArenaVisit,
    OnArena,
    OperatorVisit,
    operator_router,
)
from tiltyard.web.pages.voter_texts import read_voter_texts
from tiltyard.web.texts import render_text
from tiltyard.web.texts.app_sandbox import PLAIN
from tiltyard.wire.records import Plain

router = operator_router("/arenas/{arena}")

_PAGE_ROWS = 50


@router.get("/prompts")
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


@router.get("/prompts/view")
async def prompt_page(visit: OnArena, prompt: Annotated[Plain, Query()]) -> HTMLResponse:
    """A prompt with all its responses, as voters see them."""
    return await _view(visit, prompt)


@router.post("/prompts/hide")
async def hide_form(
    visit: OnArena, prompt: Annotated[Plain, Form()], model: Annotated[Plain, Form()] = ""
) -> Response:
    """Hide a response, or all responses to a prompt. It can be undone, so nothing is asked before."""
    visit.on_refusal(_view, prompt)
    blobs, actor = visit.registry.blobs, visit.actor.name
    await hide(visit.pool, blobs, visit.arena.name, prompt, model or None, actor=actor)
    return visit.done("hidden", "prompts", "view", query={"prompt": prompt})


@router.post("/prompts/show")
async def show_form(
    visit: OnArena, prompt: Annotated[Plain, Form()], model: Annotated[Plain, Form()] = ""
) -> Response:
    """Show hidden responses again."""
    visit.on_refusal(_view, prompt)
    await show_again(visit.pool, visit.arena.name, prompt, model or None, actor=visit.actor.name)
    return visit.done("shown", "prompts", "view", query={"prompt": prompt})


@router.get("/prompts/withdraw")
async def withdraw_page(
    visit: OnArena, prompt: Annotated[Plain, Query()] = "", model: Annotated[Plain, Query()] = ""
) -> HTMLResponse:
    """Confirm a withdrawal."""
    return await _confirm(visit, prompt.strip(), model.strip())


@router.post("/prompts/withdraw")
async def withdraw_form(
    visit: OnArena,
    prompt: Annotated[Plain, Form()],
    model: Annotated[Plain, Form()] = "",
    reason: Annotated[str, Form()] = "",
) -> Response:
    """Withdraw a prompt or a response."""
    visit.on_refusal(_confirm, prompt, model, reason=reason)
    blobs, actor = visit.registry.blobs, visit.actor.name
    await withdraw(visit.pool, blobs, visit.arena.name, prompt, model or None, reason=reason, actor=actor)
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


@router.get("/preview")
async def preview_page(visit: OnArena, prompt: Annotated[int, Query(ge=0, lt=2**31)] = 0) -> HTMLResponse:
    """A prompt with two responses chosen at random, as voters see them. A live arena has none before it is asked."""
    asked = (
        None if visit.arena.settings.is_live else await find_answered_prompt(visit.pool, visit.arena, prompt)
    )
    scene, pair = (None, ()) if asked is None else await _scene(visit, asked)
    return visit.page(
        "preview.html",
        "preview",
        scene=scene,
        asked=asked,
        pair=pair,
        first=prompt,
        texts=await read_voter_texts(visit.request, visit.arena),
    )


async def _scene(
    visit: ArenaVisit, asked: AnsweredPrompt
) -> tuple[MatchupView, tuple[PreviewedResponse, ...]]:
    pair = tuple(secrets.SystemRandom().sample(asked.responses, 2))
    url = f"/api/v1/arenas/{visit.arena.name}/responses"
    queries = [{"model": one.model, "prompt": asked.name} for one in pair]
    conversation, alone = await asyncio.to_thread(
        divide_conversations,
        [await _content(visit, one) for one in pair],
        [image_address(url, query) for query in queries],
        language=asked.language,
    )
    turns = ((), ()) if conversation is None else conversation.turns
    a, b = [
        MatchupSide(
            letter,
            one.kind,
            paths.asked(url, query),
            await _rendered(content.data.decode("utf-8", "replace"), asked.language)
            if one.kind == "text"
            else None,
            cut=False,
            turns=own,
        )
        for letter, one, query, content, own in zip("ab", pair, queries, alone, turns, strict=True)
    ]
    text = await _rendered(asked.text, asked.language)
    now = datetime.now(UTC)
    return MatchupView("preview", text, None, asked.language, (a, b), now, conversation), pair


async def _content(visit: OperatorVisit, one: PreviewedResponse) -> ResponseContent:
    """A response; empty if it is not a text, or was withdrawn just now."""
    nothing = ResponseContent(PLAIN, b"")
    if one.kind != "text":
        return nothing
    try:
        return await visit.registry.blobs.read(one.response)
    except NotFound:
        return nothing


async def _rendered(text: str, language: str | None) -> Markup:
    return await asyncio.to_thread(render_text, text, language=language)


@dataclass(frozen=True, slots=True)
class PromptPreview:
    """A prompt, which is ``None`` if it is withdrawn, and responses to it."""

    prompt: Markup | None
    responses: tuple[ResponsePreview, ...]


async def preview_responses(visit: ArenaVisit, prompt: str, models: Collection[str]) -> PromptPreview:
    """Read a prompt and the responses of these models: live ones, or else hidden ones."""
    text, numbers = await read_prompt_responses(visit.pool, visit.arena, prompt, models)
    shown = None if text is None else await asyncio.to_thread(render_text, text)
    pairs = zip(models, numbers, strict=True)
    return PromptPreview(
        shown, tuple([await _response(visit, prompt, model, number) for model, number in pairs])
    )


async def _response(visit: ArenaVisit, prompt: str, model: str, response: int | None) -> ResponsePreview:
    try:
        content = None if response is None else await visit.registry.blobs.read_kept(response)
    except NotFound:
        content = None
    if content is None:
        return ResponsePreview(model)
    return await preview_content(content, f"/api/v1/arenas/{visit.arena.name}/responses", model, prompt)
