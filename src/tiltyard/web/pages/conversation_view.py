"""Conversations for their voter: what both responses share once, and the turns of each side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from tiltyard.arena.content.stored_conversations import SaidText, StoredConversation, count_files, said_texts
from tiltyard.core.judging.conversation import Message
from tiltyard.core.judging.question_context import AnswerContext, shared_context
from tiltyard.web.texts import render_text
from tiltyard.web.texts.control_characters import make_storable, mark_hidden_characters

__all__ = ["ConversationTurn", "ConversationView", "TurnStep", "build_conversation_view"]

#: Characters that are shown of what one side has beside its response, of what both share, and of a system prompt.
_SIDE_CHARACTERS = 60_000
_SHARED_CHARACTERS = 60_000
#: Steps of one turn that are shown.
_STEP_LIMIT = 200

#: Renders a text as HTML.
Render = Callable[[str], Markup]


@dataclass(frozen=True, slots=True)
class TurnStep:
    """What was said or done in one step, as plain text."""

    #: As in `SaidText`.
    role: str
    tool: str | None
    text: Markup
    #: Images and other files that are not shown; the text has a mark for each.
    files: int = 0


@dataclass(frozen=True, slots=True)
class ConversationTurn:
    """One turn of a side: what the user said, the steps, and the answer. The answer of the last turn is the response."""

    asked: Markup | None = None
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
    #: Images and other files that came with the prompt, and are not shown.
    prompt_files: int = 0


def build_conversation_view(
    sides: Sequence[StoredConversation], *, language: str | None, say: Callable[[str], str]
) -> ConversationView | None:
    """The view of two stored responses; ``None`` if both are only texts."""
    first, second = sides
    context = shared_context(first.context, second.context)
    if context is None:
        return None

    def render(text: str) -> Markup:
        return render_text(text, language=language, say=say)

    own = [
        _turns(side.context, messages[: len(messages) - len(side.context.trace)], render)
        for side, messages in ((first, context.first), (second, context.second))
    ]
    most = max(map(len, own))
    # The responses stand in the last turn, so what is missing is missing before.
    turns = [(ConversationTurn(),) * (most - len(one)) + one for one in own]
    return ConversationView(
        system=None
        if context.system is None
        else _step(SaidText("system", context.system), _SHARED_CHARACTERS),
        systems_differ=context.systems_differ,
        earlier=_steps(said_texts(context.earlier), _SHARED_CHARACTERS),
        turns=(turns[0], turns[1]),
        prompt_files=max(count_files(side.context.messages[-1:]) for side in sides),
    )


def _turns(
    context: AnswerContext, earlier: Sequence[Message], render: Render
) -> tuple[ConversationTurn, ...]:
    """The turns of one side. ``earlier`` has those of its messages before the prompt that the other side lacks."""
    parts: list[list[Message]] = []
    for one in earlier:
        if one.role == "user" or not parts:
            parts.append([])
        parts[-1].append(one)
    left, found = _SIDE_CHARACTERS, []
    for part in parts:
        found.append(_turn(part, render, left))
        left = max(0, left - sum(len(said.text) for said in said_texts(part)))
    texts = said_texts(context.trace)
    steps = _steps(texts, left)
    # Where a side has turns of its own, the prompt stands once more before the last one.
    asked = render(context.messages[-1].text) if parts and context.messages[-1].role == "user" else None
    found.append(ConversationTurn(asked, steps, left_out=len(texts) - len(steps)))
    return tuple(found)


def _turn(messages: list[Message], render: Render, left: int) -> ConversationTurn:
    """An earlier turn: its answer is the last text of the assistant; everything before it are steps."""
    asked = messages[0] if messages[0].role == "user" else None
    rest = messages if asked is None else messages[1:]
    answer = rest[-1] if rest and rest[-1].role == "assistant" and rest[-1].only_text else None
    texts = said_texts(rest if answer is None else rest[:-1])
    steps = _steps(texts, left)
    return ConversationTurn(
        asked=None if asked is None else render(asked.text[:left]),
        steps=steps,
        answer=None if answer is None else render(answer.text[:left]),
        left_out=len(texts) - len(steps),
    )


def _steps(texts: Sequence[SaidText], left: int) -> tuple[TurnStep, ...]:
    found = []
    for said in texts[:_STEP_LIMIT]:
        if left <= 0:
            break
        found.append(_step(said, left))
        left -= len(said.text)
    return tuple(found)


def _step(said: SaidText, most: int) -> TurnStep:
    cut = make_storable(said.text[:most]) + ("…" if len(said.text) > most else "")
    shown = Markup(mark_hidden_characters(cut))  # noqa: S704 - escaped  # nosec B704
    return TurnStep(said.role, said.tool, shown, said.files)
