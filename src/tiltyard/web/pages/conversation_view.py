"""Conversations for their voter: what both responses share once, and the turns of each side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from tiltyard.arena.content.stored_conversations import (
    SaidText,
    StoredConversation,
    image_hashes,
    said_texts,
    unshown_files,
)
from tiltyard.core.judging.conversation import AnswerContext, Message, shared_context
from tiltyard.web.texts import render_text
from tiltyard.web.texts.control_characters import make_storable, mark_hidden_characters

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
    shown = Markup(mark_hidden_characters(cut))  # noqa: S704 - escaped  # nosec B704
    return TurnStep(said.role, said.tool, shown, MessageFiles(_addresses(said.images, links), said.unshown))
