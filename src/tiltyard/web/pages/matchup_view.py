"""The view of a matchup for its voter: the rendered prompt and both responses, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from fastapi import Request
from markupsafe import Markup

from tiltyard.arena.content.arenas import read_prompt_language
from tiltyard.arena.content.blob_store import ResponseContent
from tiltyard.arena.content.stored_conversations import (
    CONVERSATION,
    StoredConversation,
    character_count,
    read_conversation,
)
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.arena.voting.voting_queue import VotingQueue
from tiltyard.core.judging.conversation import AnswerContext
from tiltyard.errors import NotFound
from tiltyard.foundation.caches import BoundedCache
from tiltyard.web.access.access import context_of, registry_of
from tiltyard.web.pages.conversation_view import (
    ConversationTurn,
    ConversationView,
    ImageAddress,
    build_conversation_view,
)
from tiltyard.web.pages.layout import localization_of
from tiltyard.web.pages.paths import asked
from tiltyard.web.texts import render_text
from tiltyard.web.texts.app_sandbox import PLAIN
from tiltyard.web.texts.renderer import MAX_SHOWN_CHARACTERS
from tiltyard.web.texts.text_direction import is_right_to_left

#: A prompt with more characters or lines is collapsed.
_LONG_PROMPT_CHARACTERS, _LONG_PROMPT_LINES = 700, 10
#: Characters that are shown of a collapsed prompt.
_EXCERPT_CHARACTERS = 280
#: Size of the cache of HTML, in characters; and of the cache of languages, in prompts.
_CACHE_CHARACTERS = 32_000_000
_CACHED_LANGUAGE_LIMIT = 10_000


@dataclass(frozen=True, slots=True)
class MatchupSide:
    """One response. A text is included as HTML; everything else is loaded from ``url``."""

    letter: str
    kind: str
    url: str
    text: Markup | None
    #: Whether the text is truncated.
    cut: bool
    #: The turns of a conversation; the text is the answer of the last one.
    turns: tuple[ConversationTurn, ...] = ()


@dataclass(frozen=True, slots=True)
class MatchupView:
    """The content of a matchup's page. Both sides have the same form."""

    matchup: str
    prompt: Markup
    #: The start of a prompt that is collapsed because it is long.
    excerpt: str | None
    #: The language of the prompt, and therefore of both responses; ``None`` if unknown.
    language: str | None
    sides: tuple[MatchupSide, MatchupSide]
    expires_at: datetime
    #: What both sides share beside the prompt, if they are more than texts.
    conversation: ConversationView | None = None
    #: Proves that the texts were sent, for the vote on them; ``None`` where that is not checked.
    receipt: str | None = None

    @property
    def direction(self) -> str:
        """The text direction: ``rtl``, or ``auto`` to let the browser decide for each text."""
        return "rtl" if is_right_to_left(self.language) else "auto"


async def build_matchup_view(
    request: Request,
    queue: VotingQueue,
    voter: Voter,
    matchup: UUID,
    prompt: int,
    responses: tuple[int, int],
    expires_at: datetime,
) -> MatchupView:
    """Read and render the prompt and both responses; always both, so that neither is faster."""
    registry = registry_of(request)
    try:
        text = await registry.prompt_text(queue.arena, prompt)
        kinds = await context_of(request).response_kinds.kinds(*responses)
        both = await asyncio.gather(*(registry.blobs.read(one) for one in responses))
    except NotFound:
        raise NotFound("this matchup was withdrawn; request another one") from None
    render_cache = render_cache_of(request)
    language = await render_cache.language(queue, prompt, request)
    html = await render_cache.rendered(request, (("prompt", queue.arena, prompt), text), language)
    conversation = None
    shown = context_of(request).matchup_ids.format(matchup)
    if any(one.media_type == CONVERSATION for one in both):
        addresses = [image_address(f"/m/{shown}/{letter}") for letter in "ab"]
        say = localization_of(request).texts.gettext
        conversation, both = await asyncio.to_thread(
            divide_conversations, both, addresses, language=language, say=say
        )
    sides = await render_cache.sides(request, responses, both, kinds, language)
    receipt = None
    if queue.checks_shown and any(text is not None for text in sides):
        # What is not a text comes by an address of its own, and is noted then.
        a, b = (
            None if text is None else character_count(content)
            for text, content in zip(sides, both, strict=True)
        )
        receipt = context_of(request).receipts.write(voter.session, matchup, await queue.now(), a, b)
    turns = ((), ()) if conversation is None else conversation.turns
    return MatchupView(
        matchup=shown,
        prompt=html,
        excerpt=excerpt_of(text),
        language=language,
        sides=(
            MatchupSide("a", kinds[0], f"/m/{shown}/a", sides[0], _is_cut(both[0], kinds[0]), turns[0]),
            MatchupSide("b", kinds[1], f"/m/{shown}/b", sides[1], _is_cut(both[1], kinds[1]), turns[1]),
        ),
        expires_at=expires_at,
        conversation=conversation,
        receipt=receipt,
    )


class RenderCache:
    """Caches rendered texts, and languages of prompts."""

    def __init__(self) -> None:
        # A text that would drive out much of the rest is not kept.
        self._texts: BoundedCache[tuple[object, ...], Markup] = BoundedCache(
            _CACHE_CHARACTERS, heaviest=_CACHE_CHARACTERS // 4
        )
        self._languages: BoundedCache[tuple[int, int], tuple[str | None]] = BoundedCache(
            _CACHED_LANGUAGE_LIMIT
        )

    async def language(self, queue: VotingQueue, prompt: int, request: Request) -> str | None:
        """The language of a prompt; ``None`` if unknown."""
        key = (queue.arena, prompt)
        found = self._languages.get(key)
        if found is None:
            language = await read_prompt_language(registry_of(request).pool, queue.arena, prompt)
            found = self._languages.put(key, (language,))
        return found[0]

    async def rendered(
        self, request: Request, known: tuple[tuple[object, ...], str], language: str | None
    ) -> Markup:
        """A text as HTML, cached."""
        say = localization_of(request)
        key = (*known[0], language, say.language)
        found = self._texts.get(key)
        if found is None:
            found = await asyncio.to_thread(render_text, known[1], language=language, say=say.texts.gettext)
            self._texts.put(key, found, len(found))
        return found

    async def sides(
        self,
        request: Request,
        responses: tuple[int, int],
        contents: list[ResponseContent],
        kinds: list[str],
        language: str | None,
    ) -> list[Markup | None]:
        """Both responses as HTML if they are texts; either both from the cache, or both rendered now."""
        say = localization_of(request)
        keys = [("response", one, language, say.language) for one in responses]
        texts = [
            data.decode("utf-8", "replace") if kind == "text" else None
            for (_, data), kind in zip(contents, kinds, strict=True)
        ]
        kept = [self._texts.get(key) for key in keys]
        if any(text is not None and one is None for text, one in zip(texts, kept, strict=True)):
            kept = list(
                await asyncio.to_thread(
                    lambda: [
                        None if text is None else render_text(text, language=language, say=say.texts.gettext)
                        for text in texts
                    ]
                )
            )
        for key, one in zip(keys, kept, strict=True):
            if one is not None:
                self._texts.put(key, one, len(one))
        return [None if text is None else one for text, one in zip(texts, kept, strict=True)]


def image_address(url: str, query: Mapping[str, str] | None = None) -> ImageAddress:
    """The addresses of the images of a response's messages, below the address of the response."""
    return lambda number: asked(url, {**(query or {}), "image": str(number)})


def divide_conversations(
    both: Sequence[ResponseContent],
    addresses: Sequence[ImageAddress],
    *,
    language: str | None,
    say: Callable[[str], str] = str,
) -> tuple[ConversationView | None, list[ResponseContent]]:
    """The conversations around two responses, and the responses alone."""
    stored = [
        read_conversation(one)
        if one.media_type in (PLAIN, CONVERSATION)
        else StoredConversation(AnswerContext(), "")
        for one in both
    ]
    alone = [
        ResponseContent(PLAIN, said.response.encode()) if one.media_type == CONVERSATION else one
        for one, said in zip(both, stored, strict=True)
    ]
    return build_conversation_view(stored, addresses, language=language, say=say), alone


def _is_cut(content: ResponseContent, kind: str) -> bool:
    data = content[1]
    return (
        kind == "text"
        and len(data) > MAX_SHOWN_CHARACTERS
        and len(data.decode("utf-8", "replace")) > MAX_SHOWN_CHARACTERS
    )


def excerpt_of(text: str) -> str | None:
    """The start of a prompt that is collapsed because it is long; ``None`` if it is not."""
    if len(text) <= _LONG_PROMPT_CHARACTERS and text.count("\n") < _LONG_PROMPT_LINES:
        return None
    return " ".join(text[: 4 * _EXCERPT_CHARACTERS].split())[:_EXCERPT_CHARACTERS]


def render_cache_of(request: Request) -> RenderCache:
    """The render cache of this process."""
    return context_of(request).shared(RenderCache, RenderCache)
