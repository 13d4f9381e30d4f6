"""Measures the style of an answer's text: length, and Markdown headers, lists and bold."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tiltyard.files.canonical_columns import STYLE

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_HEADER = re.compile(r"^ {0,3}#{1,6}[ \t]+\S", re.MULTILINE)
_LIST = re.compile(r"^[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+\S", re.MULTILINE)
_BOLD = re.compile(r"\*\*(?=[^\s*])[^\n*]*(?:\*[^\n*]+)*\*\*|(?<!\w)__(?=[^\s_])[^\n_]*(?:_[^\n_]+)*__(?!\w)")


@dataclass(frozen=True)
class TextStyle:
    """The number of characters, and of Markdown marks outside code fences."""

    length: int
    headers: int
    lists: int
    bold: int


def measure_style(text: str) -> TextStyle:
    """Measure one answer."""
    # The lines outside code fences; an unclosed fence extends to the end.
    kept: list[str] = []
    fence = ""
    for line in text.split("\n"):
        found = _FENCE.match(line)
        if not fence and not found:
            kept.append(line)
        elif not fence and found:
            fence = found[1]
        elif found and found[1].startswith(fence) and not line[found.end() :].strip():
            fence = ""
    prose = "\n".join(kept)
    return TextStyle(
        length=len(text),
        headers=len(_HEADER.findall(prose)),
        lists=len(_LIST.findall(prose)),
        bold=len(_BOLD.findall(prose)),
    )


def style_row(text_a: str, text_b: str) -> dict[str, float]:
    """The style columns of a battle of two answers."""
    sides = {"a": measure_style(text_a), "b": measure_style(text_b)}
    return {name: float(getattr(sides[name[-1]], name[:-2])) for name in STYLE}
