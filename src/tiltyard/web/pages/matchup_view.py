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
    SaidText,
    StoredConversation,
    character_count,
    image_hashes,
    read_conversation,
    said_texts,
    unshown_files,
)
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.arena.voting.voting_queue import VotingQueue
from tiltyard.core.judging.conversation import AnswerContext, Message, shared_context
from tiltyard.errors import NotFound
from tiltyard.foundation.caches import BoundedCache
from tiltyard.web.access.access import context_of, registry_of
from tiltyard.web.pages.layout import localization_of
from tiltyard.web.pages.paths import asked
from tiltyard.web.texts import render_text
from tiltyard.web.texts.app_sandbox import PLAIN
from tiltyard.web.texts.control_characters import make_storable, mark_hidden_characters
from tiltyard.web.texts.markdown import MAX_SHOWN_CHARACTERS, is_right_to_left

#: Characters that are shown of what one side has beside its response, of what both share, and of a system prompt.
_SIDE_CHARACTERS = 60_000
_SHARED_CHARACTERS = 60_000
#: Steps of one turn that are shown.
_STEP_LIMIT = 200

#: Renders a text as HTML.
Render = Callable[[str], Markup]
#: The address of a side's image by its number.
ImageAddress = Callable[[int], str]
#: The addresses of images by their hash.
Links = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class MessageFiles:
    """The images of a message by their addresses, and why other files of it are not shown, each with how many."""

    images: tuple[str, ...] = ()
    unshown: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class TurnStep:
    """What was said or done in one step, as plain text."""

    #: As in `SaidText`.
    role: str
    tool: str | None
    text: Markup
    #: The text has a mark for each of them.
    files: MessageFiles = MessageFiles()


@dataclass(frozen=True, slots=True)
class ConversationTurn:
    """One turn of a side: what the user said, the steps, and the answer. The answer of the last turn is the response."""

    asked: Markup | None = None
    asked_files: MessageFiles = MessageFiles()
    steps: tuple[TurnStep, ...] = ()
    answer: Markup | None = None
    #: Steps that are not shown, because there are too many.
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class ConversationView:
    """What is shown beside a prompt and two responses."""

    system: TurnStep | None
    #: Whether the system prompts differ; then neither is shown.
    systems_differ: bool
    #: The messages before the prompt that both responses share.
    earlier: tuple[TurnStep, ...]
    #: The turns of both sides; both have as many.
    turns: tuple[tuple[ConversationTurn, ...], tuple[ConversationTurn, ...]]
    #: The files that came with the prompt, if they are not different for the two sides; else its turns have them.
    prompt_files: MessageFiles = MessageFiles()


def build_conversation_view(
    sides: Sequence[StoredConversation],
    addresses: Sequence[ImageAddress],
    *,
    language: str | None,
    say: Callable[[str], str],
) -> ConversationView | None:
    """The view of two stored responses, with the addresses of their images; ``None`` if both are only texts."""
    first, second = sides
    context = shared_context(first.context, second.context)
    if context is None:
        return None

    def render(text: str) -> Markup:
        return render_text(text, language=language, say=say)

    links = [_links(side, address) for side, address in zip(sides, addresses, strict=True)]
    shared = {**links[1], **links[0]}
    prompts = [_prompt_files(side.context, shared) for side in sides]
    same = len({one for one in prompts if one is not None}) <= 1
    own = [
        _turns(
            side.context,
            messages[: len(messages) - len(side.context.trace)],
            _Shown(render, links[k], prompt_files=not same),
        )
        for k, (side, messages) in enumerate(((first, context.first), (second, context.second)))
    ]
    most = max(map(len, own))
    # The responses stand in the last turn, so what is missing is missing before.
    turns = [(ConversationTurn(),) * (most - len(one)) + one for one in own]
    return ConversationView(
        system=None
        if context.system is None
        else _step(SaidText("system", context.system), _SHARED_CHARACTERS, {}),
        systems_differ=context.systems_differ,
        earlier=_steps(said_texts(context.earlier), _SHARED_CHARACTERS, shared),
        turns=(turns[0], turns[1]),
        prompt_files=(prompts[0] or prompts[1] or MessageFiles()) if same else MessageFiles(),
    )


def build_single_turn(stored: StoredConversation, address: ImageAddress) -> ConversationTurn | None:
    """Everything beside one response as steps; ``None`` if it is only a text."""
    context = stored.context
    if context == AnswerContext():
        return None
    system = [] if context.system is None else [SaidText("system", context.system)]
    texts = [*system, *said_texts((*context.messages, *context.trace))]
    steps = _steps(texts, _SIDE_CHARACTERS, _links(stored, address))
    return ConversationTurn(steps=steps, left_out=len(texts) - len(steps))


@dataclass(frozen=True, slots=True)
class _Shown:
    """How texts and images of one side are shown."""

    render: Render
    links: Links
    #: Whether the files of the prompt stand in the last turn.
    prompt_files: bool


def _links(side: StoredConversation, address: ImageAddress) -> Links:
    return {sha256: address(number) for number, sha256 in enumerate(side.images)}


def _files(message: Message, links: Links) -> MessageFiles:
    return MessageFiles(_addresses(image_hashes(message), links), unshown_files(message))


def _addresses(hashes: Sequence[str], links: Links) -> tuple[str, ...]:
    return tuple(links[sha256] for sha256 in hashes if sha256 in links)


def _prompt_files(context: AnswerContext, links: Links) -> MessageFiles | None:
    """The files of the prompt; ``None`` if a response was stored without messages."""
    if not context.messages or context.messages[-1].role != "user":
        return None
    return _files(context.messages[-1], links)


def _turns(context: AnswerContext, earlier: Sequence[Message], shown: _Shown) -> tuple[ConversationTurn, ...]:
    """The turns of one side. ``earlier`` has those of its messages before the prompt that the other side lacks."""
    parts: list[list[Message]] = []
    for one in earlier:
        if one.role == "user" or not parts:
            parts.append([])
        parts[-1].append(one)
    left, found = _SIDE_CHARACTERS, []
    for part in parts:
        found.append(_turn(part, shown, left))
        left = max(0, left - sum(len(said.text) for said in said_texts(part)))
    texts = said_texts(context.trace)
    steps = _steps(texts, left, shown.links)
    files = (_prompt_files(context, shown.links) if shown.prompt_files else None) or MessageFiles()
    # Where a side has turns or files of its own, the prompt stands once more before the last one.
    again = (parts or files != MessageFiles()) and context.messages[-1].role == "user"
    asked = shown.render(context.messages[-1].text) if again else None
    found.append(ConversationTurn(asked, files, steps, left_out=len(texts) - len(steps)))
    return tuple(found)


def _turn(messages: list[Message], shown: _Shown, left: int) -> ConversationTurn:
    """An earlier turn: its answer is the last text of the assistant; everything before it are steps."""
    asked = messages[0] if messages[0].role == "user" else None
    rest = messages if asked is None else messages[1:]
    answer = rest[-1] if rest and rest[-1].role == "assistant" and rest[-1].only_text else None
    texts = said_texts(rest if answer is None else rest[:-1])
    steps = _steps(texts, left, shown.links)
    return ConversationTurn(
        asked=None if asked is None else shown.render(asked.text[:left]),
        asked_files=MessageFiles() if asked is None else _files(asked, shown.links),
        steps=steps,
        answer=None if answer is None else shown.render(answer.text[:left]),
        left_out=len(texts) - len(steps),
    )


def _steps(texts: Sequence[SaidText], left: int, links: Links) -> tuple[TurnStep, ...]:
    found = []
    for said in texts[:_STEP_LIMIT]:
        if left <= 0:
            break
        found.append(_step(said, left, links))
        left -= len(said.text)
    return tuple(found)


def _step(said: SaidText, most: int, links: Links) -> TurnStep:
    cut = make_storable(said.text[:most]) + ("…" if len(said.text) > most else "")
    shown = Markup(mark_hidden_characters(cut))  # noqa: S704 - escaped
    return TurnStep(said.role, said.tool, shown, MessageFiles(_addresses(said.images, links), said.unshown))


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
    if queue.settings.checks_shown and any(text is not None for text in sides):
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
    return context_of(request).shared(RenderCache, RenderCache)
