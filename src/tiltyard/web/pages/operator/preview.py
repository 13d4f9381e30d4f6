"""What a voter would see: the welcome page and a matchup. Nothing is served, so nothing is logged."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

from fastapi import Query
from fastapi.responses import HTMLResponse
from markupsafe import Markup

from tiltyard.arena.content.arenas import read_prompt_responses
from tiltyard.arena.content.blob_store import ResponseContent
from tiltyard.arena.operators.stages import AnsweredPrompt, PreviewedResponse, find_answered_prompt
from tiltyard.errors import NotFound
from tiltyard.web.pages import paths
from tiltyard.web.pages.matchup_view import MatchupSide, MatchupView, divide_conversations, image_address
from tiltyard.web.pages.model_responses import ResponsePreview, preview_content
from tiltyard.web.pages.operator.operator_access import ArenaVisit, OnArena, OperatorVisit, operator_router
from tiltyard.web.pages.voter_texts import read_voter_texts
from tiltyard.web.texts import render_text
from tiltyard.web.texts.app_sandbox import PLAIN

router = operator_router("/arenas/{arena}/preview")


@router.get("", response_class=HTMLResponse)
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
