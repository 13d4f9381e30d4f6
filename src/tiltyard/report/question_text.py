"""A question exactly as it would be sent to a judge, as text for a terminal."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tiltyard.core.judging.question import ChatPrompt, Question
from tiltyard.report.terminal_escape import escape_controls

_INDENT = "    "
#: Longer values of a request, such as images, are shown by their beginning.
_LONG_CHARACTERS, _BEGINNING_CHARACTERS = 2_000, 60


@dataclass(frozen=True, slots=True)
class SentQuestion:
    """A question with its request. ``body`` is the JSON document that the provider gets."""

    question: Question
    prompt: ChatPrompt
    provider: str
    address: str
    body: Mapping[str, Any]


def question_lines(sent: SentQuestion, number: int) -> Iterator[str]:
    """Who is asked what and how: system and user text, and the rest of the request. All text is escaped."""
    question, prompt = sent.question, sent.prompt
    purpose = "" if question.purpose == "match" else f", {question.purpose} check"
    yield escape_controls(
        f"Question {number}: {question.judge}, {question.dimension}, prompt {question.prompt_id}{purpose}; "
        f"A is {question.first}, B is {question.second}"
    )
    yield escape_controls(f"To {sent.provider} at {sent.address or 'no address'}; reply form {prompt.form}")
    yield ""
    for title, text in (("System", prompt.system), ("User", prompt.user)):
        yield f"{title} ({len(text):,} characters)"
        yield from (f"{_INDENT}{escape_controls(line)}" for line in text.split("\n"))
        yield ""
    yield "Request, with these texts left out"
    named = {prompt.system: "(system text above)", prompt.user: "(user text above)"}
    document = json.dumps(_without(sent.body, named), indent=2)
    yield from (f"{_INDENT}{line}" for line in document.split("\n"))
    yield ""


def _without(value: Any, named: Mapping[str, str]) -> Any:
    """A JSON value in which the given texts are replaced by their names, and images are cut."""
    if isinstance(value, str):
        cut = f"{value[:_BEGINNING_CHARACTERS]}… ({len(value):,} characters)"
        return named.get(value, value if len(value) <= _LONG_CHARACTERS else cut)
    if isinstance(value, Mapping):
        return {key: _without(inner, named) for key, inner in value.items()}
    if isinstance(value, Sequence):
        return [_without(inner, named) for inner in value]
    return value
