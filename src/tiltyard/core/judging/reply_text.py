"""Finds the part of a reply that contains the judge's verdict.

Models add text around the requested form: thoughts before it, a code fence around it, a
sentence next to it. All functions take time proportional to the length of the reply.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["find_json_objects", "split_last_line", "strip_thoughts"]

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


def split_last_line(text: str) -> tuple[list[str], str]:
    """The lines before the last one, and the last one, without code fences."""
    lines = text.splitlines()
    _drop_fences(lines)
    last = lines.pop() if lines else ""
    _drop_fences(lines)
    return lines, last


def _drop_fences(lines: list[str]) -> None:
    while lines and (not lines[-1].strip() or _FENCE_LINE.fullmatch(lines[-1])):
        lines.pop()
