"""Verdicts: what one judge said of one question, and how it is read from a reply."""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

__all__ = ["PARSER", "Form", "Reading", "Reply", "State", "Step", "Verdict", "read_reply"]

#: Version of this parser: replies are kept raw, so a new version reads them again for nothing.
PARSER = 1


class Form(enum.StrEnum):
    """How the verdict is asked for."""

    SCHEMA = "schema"
    TOOL = "tool"
    TEXT = "text"


class State(enum.StrEnum):
    """How an attempt ended. Only ``ok`` has a verdict."""

    OK = "ok"
    REFUSED = "refused"
    TRUNCATED = "truncated"
    UNPARSEABLE = "unparseable"
    PROVIDER_ERROR = "provider_error"
    EXPIRED = "expired"
    LOST = "lost"
    #: The budget did not cover it, or judging was skipped.
    UNASKED = "unasked"


class Step(enum.StrEnum):
    """Five steps from "the first is much better" to "the second is much better"."""

    FIRST_MUCH = "A>>B"
    FIRST = "A>B"
    EVEN = "A=B"
    SECOND = "B>A"
    SECOND_MUCH = "B>>A"


@dataclass(frozen=True, slots=True)
class Reply:
    """What a provider answered, reduced to what a parser needs."""

    text: str | None
    #: The input of the forced tool, where the verdict came by tool.
    data: Mapping[str, Any] | None = None
    #: ``end``, ``length`` (cut off), ``refusal``, or ``other``.
    stop: str = "end"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was said, in terms of the slots: A is the response shown first."""

    step: Step
    both_bad: bool
    reasoning: str


@dataclass(frozen=True, slots=True)
class Reading:
    """A reply, read: a verdict exactly where the state is ``ok``, else why there is none."""

    state: State
    verdict: Verdict | None = None
    problem: str | None = None


class _Unparseable(Exception):
    """Why a reply holds no verdict; never leaves this module."""


def read_reply(reply: Reply, form: Form) -> Reading:
    """Read a reply of one form; anything but a whole, well-formed verdict is its own state.

    A reply that was cut off is never read, even where a verdict can be seen in it: what was cut
    may have taken it back.
    """
    if reply.stop == "refusal":
        return Reading(State.REFUSED, problem="the judge refused to answer")
    if reply.stop == "length":
        return Reading(State.TRUNCATED, problem="the reply was cut off; raise max_tokens")
    try:
        return Reading(State.OK, _READERS[form](reply))
    except _Unparseable as error:
        return Reading(State.UNPARSEABLE, problem=str(error))


def _from_schema(reply: Reply) -> Verdict:
    text = _text(reply)
    fenced = _FENCE.fullmatch(text)
    try:
        document = json.loads(
            fenced[1] if fenced else text, object_pairs_hook=_distinct, parse_constant=_no_constant
        )
    except (ValueError, RecursionError):
        raise _Unparseable("the reply is not one JSON document") from None
    if not isinstance(document, dict):
        raise _Unparseable("the reply is JSON, but not an object")
    return _from_object(document)


def _from_tool(reply: Reply) -> Verdict:
    if not isinstance(reply.data, Mapping):
        raise _Unparseable("the judge did not call the tool")
    return _from_object(reply.data)


def _from_text(reply: Reply) -> Verdict:
    """The last line decides, and no line before it may say otherwise."""
    lines = _text(reply).splitlines()
    last = _VERDICT_LINE.fullmatch(lines[-1])
    if last is None:
        raise _Unparseable("the last line is not 'VERDICT: ' and one of the five steps")
    for line in lines[:-1]:
        if _VERDICT_START.match(line):
            other = _VERDICT_LINE.fullmatch(line)
            if other is None or other.groups() != last.groups():
                raise _Unparseable("an earlier line of the reply gives another verdict than the last")
    reasoning = "\n".join(lines[:-1]).strip()
    return Verdict(Step(last["step"]), last["both_bad"] is not None, reasoning)


_READERS = {Form.SCHEMA: _from_schema, Form.TOOL: _from_tool, Form.TEXT: _from_text}

_FENCE = re.compile(r"```json[^\S\n]*\n(.*)```", re.DOTALL | re.IGNORECASE)
_STEPS = "|".join(re.escape(step) for step in Step)
#: Possessive throughout: a megabyte of spaces is read once.
_BOLD = r"\s*+(?:\*\*)?+\s*+"
_OPENING = rf"{_BOLD}VERDICT{_BOLD}:"
_VERDICT_START = re.compile(_OPENING, re.IGNORECASE | re.ASCII)
_VERDICT_LINE = re.compile(
    rf"(?i:{_OPENING}){_BOLD}(?P<step>{_STEPS})(?:\s++(?P<both_bad>BOTH_BAD))?{_BOLD}", re.ASCII
)


def _text(reply: Reply) -> str:
    text = (reply.text or "").strip()
    if not text:
        raise _Unparseable("the reply is empty")
    return text


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise _Unparseable("the reply says the same thing twice: a key of its JSON is repeated")
    return document


def _no_constant(name: str) -> NoReturn:
    raise _Unparseable(f"the reply holds {name}, which is not JSON")


def _from_object(document: Mapping[str, Any]) -> Verdict:
    if set(document) != {"reasoning", "verdict", "both_bad"}:
        raise _Unparseable("expected reasoning, verdict and both_bad, all of them and nothing else")
    reasoning, step, both_bad = document["reasoning"], document["verdict"], document["both_bad"]
    if not isinstance(reasoning, str):
        raise _Unparseable("reasoning is not text")
    if not isinstance(step, str) or step not in _BY_TEXT:
        raise _Unparseable(f"verdict is none of {', '.join(Step)}")
    if not isinstance(both_bad, bool):
        raise _Unparseable("both_bad is neither true nor false")
    return Verdict(_BY_TEXT[step], both_bad, reasoning)


_BY_TEXT = {step.value: step for step in Step}
