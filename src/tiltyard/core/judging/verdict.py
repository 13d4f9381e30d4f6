"""Verdicts: a judge's answer to one question, and how it is parsed from a reply.

Models add text around the requested form: thoughts before it, a code fence around it, a
sentence next to it. Everything that looks for it takes time proportional to the length of the reply.
"""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

#: Version of this parser: raw replies are kept, so a new version can parse them again at no cost.
PARSER_VERSION = 3
#: All repeats are possessive, so that a megabyte of spaces is read only once. The second colon is full-width.
_EMPHASIS = r"[\s*_`]*+"
_OPENING = rf"\s*+#*+{_EMPHASIS}VERDICT{_EMPHASIS}[:：]"
_VERDICT_START = re.compile(_OPENING, re.IGNORECASE | re.ASCII)
#: Tags in which models write their thoughts before they answer.
_THOUGHT_TAGS = ("think", "thinking", "thought", "reasoning")
_ANY_TAG = "|".join(_THOUGHT_TAGS)
_OPENED = re.compile(rf"\s*+<({_ANY_TAG})>", re.IGNORECASE)
_CLOSED = {tag: re.compile(f"</{tag}>", re.IGNORECASE) for tag in _THOUGHT_TAGS}
#: Chat templates may open the block in the request: the reply then contains only its end, on a line of its own.
_CLOSED_ONLY = re.compile(rf"^[ \t]*+</(?:{_ANY_TAG})>[ \t\r]*+$", re.IGNORECASE | re.MULTILINE)
_OBJECT_START = re.compile(r'\{\s*+"')
_STRING_OR_BRACE = re.compile(r'[{}]|"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
#: A verdict contains no nested object; deeper nesting than this is not parsed.
_NESTING_LIMIT = 64
_FENCE_LINE = re.compile(r"\s*+(?:`{3,}+|~{3,}+)\w*+\s*+")


class VerdictForm(enum.StrEnum):
    """How the verdict is requested."""

    SCHEMA = "schema"
    TOOL = "tool"
    TEXT = "text"


class QuestionState(enum.StrEnum):
    """How a question ended. Only ``ok`` has a verdict."""

    OK = "ok"
    REFUSED = "refused"
    TRUNCATED = "truncated"
    UNPARSEABLE = "unparseable"
    PROVIDER_ERROR = "provider_error"
    EXPIRED = "expired"
    LOST = "lost"
    #: The budget did not cover it, or judging was skipped.
    UNASKED = "unasked"


class VerdictStep(enum.StrEnum):
    """Five steps from "the first is much better" to "the second is much better"."""

    FIRST_MUCH = "A>>B"
    FIRST = "A>B"
    EVEN = "A=B"
    SECOND = "B>A"
    SECOND_MUCH = "B>>A"


@dataclass(frozen=True, slots=True)
class Reply:
    """A provider's reply, reduced to what the parser needs."""

    text: str | None
    #: The input of the forced tool, if the verdict was given by tool.
    data: Mapping[str, object] | None = None
    #: ``end``, ``length`` (cut off), ``refusal``, or ``other``.
    stop: str = "end"
    #: The model that the provider says it served, if it says so.
    model: str | None = None

    @property
    def is_empty(self) -> bool:
        """Whether it says nothing, not even that it was cut off or refused."""
        return not (self.text or "").strip() and self.data is None and self.stop in {"end", "other"}


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict in terms of the slots: A is the response shown first."""

    step: VerdictStep
    both_bad: bool
    reasoning: str


@dataclass(frozen=True, slots=True)
class ParsedReply:
    """A parsed reply: a verdict if and only if the state is ``ok``, else the reason why there is none."""

    state: QuestionState
    verdict: Verdict | None = None
    problem: str | None = None


class _Unparseable(Exception):
    """The reason why a reply has no verdict, and the resulting state; never leaves this module."""

    def __init__(self, problem: str, state: QuestionState = QuestionState.UNPARSEABLE) -> None:
        super().__init__(problem)
        self.state = state


def read_reply(reply: Reply, form: VerdictForm) -> ParsedReply:
    """Parse a reply of one form; anything but a complete, well-formed verdict gets a state of its own.

    Code fences, sentences next to the verdict and leading thoughts are ignored. Ambiguity is not: a
    reply with two different verdicts has none. A truncated reply is never parsed, even if
    it contains a verdict, because the missing part may have retracted it.
    """
    if reply.stop == "refusal":
        return ParsedReply(QuestionState.REFUSED, problem="the judge refused to answer")
    if reply.stop == "length":
        return ParsedReply(QuestionState.TRUNCATED, problem="the reply was cut off; raise max_tokens")
    try:
        return ParsedReply(QuestionState.OK, _READERS[form](reply))
    except _Unparseable as error:
        return ParsedReply(error.state, problem=str(error))


def _from_schema(reply: Reply) -> Verdict:
    stated = [verdict for part in find_json_objects(_text(reply)) if (verdict := _stated(part)) is not None]
    if not stated:
        raise _Unparseable("the reply holds no JSON object with a verdict")
    if len({(verdict.step, verdict.both_bad) for verdict in stated}) > 1:
        raise _Unparseable("the reply holds JSON objects with different verdicts")
    return stated[-1]


def _stated(part: str) -> Verdict | None:
    """The verdict of a part that looks like a JSON object; ``None`` if it contains none."""
    if '"verdict"' not in part.lower():
        return None
    try:
        document = json.loads(part, object_pairs_hook=_distinct, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise _Unparseable("the reply holds a verdict in something that is not valid JSON") from None
    return _from_object(document)


def _from_tool(reply: Reply) -> Verdict:
    if not isinstance(reply.data, Mapping):
        raise _Unparseable("the judge did not call the tool")
    return _from_object(reply.data)


def _from_text(reply: Reply) -> Verdict:
    """The last line decides, and no earlier line may contradict it."""
    # The lines before the last one, and the last one, without code fences.
    lines = _text(reply).splitlines()
    _drop_fences(lines)
    last = lines.pop() if lines else ""
    _drop_fences(lines)
    verdict = _line_verdict(last)
    if verdict is None:
        raise _Unparseable("the last line is not 'VERDICT: ' and one of the five steps")
    for line in lines:
        if _VERDICT_START.match(line) and _line_verdict(line) != verdict:
            raise _Unparseable("an earlier line of the reply gives another verdict than the last")
    return Verdict(*verdict, "\n".join(lines).strip())


def has_verdict_line(text: str) -> bool:
    """Whether a line of the text begins as a verdict does, readable or not."""
    return any(_VERDICT_START.match(line) for line in text.splitlines())


def _line_verdict(line: str) -> tuple[VerdictStep, bool] | None:
    """Step and both_bad of a line that consists of a verdict only."""
    found = _VERDICT_LINE.fullmatch(line)
    return None if found is None else (_SPELLINGS[_spelling(found["step"])], found["both_bad"] is not None)


_READERS = {VerdictForm.SCHEMA: _from_schema, VerdictForm.TOOL: _from_tool, VerdictForm.TEXT: _from_text}
#: A bare letter names the winner; it does not mean "much better".
_SPELLINGS = {**{step.value: step for step in VerdictStep}, "A": VerdictStep.FIRST, "B": VerdictStep.SECOND}
_STEPS = "|".join(r" ?".join(map(re.escape, step)) for step in _SPELLINGS)
_VERDICT_LINE = re.compile(
    rf"{_OPENING}{_EMPHASIS}(?P<step>{_STEPS})(?:[*_`]*+\s++[*_`]*+(?P<both_bad>BOTH_BAD))?{_EMPHASIS}",
    re.ASCII | re.IGNORECASE,
)


def _text(reply: Reply) -> str:
    """The judge's answer without its thoughts."""
    whole = (reply.text or "").strip()
    if not whole:
        raise _Unparseable("the reply is empty")
    text = strip_thoughts(whole)
    if text is None:
        raise _Unparseable(
            "the reply ends inside the judge's thoughts; raise max_tokens", QuestionState.TRUNCATED
        )
    if not text:
        raise _Unparseable("the reply holds the judge's thoughts and nothing else")
    return text


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, object]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise _Unparseable("the reply says the same thing twice: a key of its JSON is repeated")
    return document


def _no_constant(name: str) -> NoReturn:
    raise _Unparseable(f"the reply holds {name}, which is not JSON")


def _from_object(document: Mapping[str, object]) -> Verdict:
    """Other fields are passed over, unless they hold another verdict; without ``both_bad`` nothing was called bad."""
    fields = {name.lower(): value for name, value in document.items()}
    if len(fields) < len(document):
        raise _Unparseable("the reply says the same thing twice: keys of its JSON differ only in case")
    reasoning, said, both_bad = (
        fields.get("reasoning", ""),
        fields.get("verdict"),
        fields.get("both_bad", False),
    )
    if not isinstance(reasoning, str):
        raise _Unparseable("reasoning is not text")
    step = _SPELLINGS.get(_spelling(said)) if isinstance(said, str) else None
    if step is None:
        raise _Unparseable(f"verdict is none of {', '.join(VerdictStep)}")
    if not isinstance(both_bad, bool):
        raise _Unparseable("both_bad is neither true nor false")
    stated = {_spelling(value) for value in fields.values() if isinstance(value, str)} & set(VerdictStep)
    if stated - {step}:
        raise _Unparseable("another field of the reply holds another verdict")
    return Verdict(step, both_bad, reasoning)


def _spelling(text: str) -> str:
    return "".join(text.split()).upper()


def strip_thoughts(text: str) -> str | None:
    """``text`` without the thought blocks at its beginning; ``None`` if such a block is not closed."""
    position = 0
    while opened := _OPENED.match(text, position):
        closed = _CLOSED[opened[1].lower()].search(text, opened.end())
        if closed is None:
            return None
        position = closed.end()
    if position == 0 and (closed := _CLOSED_ONLY.search(text)):
        position = closed.end()
    return text[position:].strip()


def find_json_objects(text: str) -> Iterator[str]:
    """Every outermost part of ``text`` that looks like a JSON object.

    Braces inside strings are ignored. An object that is never closed extends to the end.
    """
    position = 0
    while start := _OBJECT_START.search(text, position):
        position = _end_of_object(text, start.start())
        yield text[start.start() : position]


def _end_of_object(text: str, start: int) -> int:
    depth = 0
    for token in _STRING_OR_BRACE.finditer(text, start):
        depth += {"{": 1, "}": -1}.get(token[0], 0)
        if depth == 0:
            return token.end()
        if depth > _NESTING_LIMIT:
            break
    return len(text)


def _drop_fences(lines: list[str]) -> None:
    while lines and (not lines[-1].strip() or _FENCE_LINE.fullmatch(lines[-1])):
        lines.pop()
