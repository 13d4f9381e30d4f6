"""Syntax highlighting of known languages, with a few CSS classes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tiltyard.web.texts.control_characters import mark_hidden_characters
from tiltyard.web.texts.syntax import LANGUAGES, Syntax

#: Characters of code that are highlighted in one text; later blocks stay plain.
MAX_HIGHLIGHTED_CHARACTERS = 20_000
#: Classes by the groups of a syntax.
_CLASSES = {
    group: f"code-{group}"
    for group in ("added", "comment", "keyword", "name", "number", "removed", "string", "type")
}
CODE_CLASSES = frozenset(_CLASSES.values())


@dataclass(slots=True)
class CodeHighlighter:
    """Highlights the code of one text, within a limit."""

    characters: int = MAX_HIGHLIGHTED_CHARACTERS

    def highlight_code(self, code: str, language: str) -> str:
        """Code as HTML; plain if the language is unknown or the limit is used up."""
        syntax = LANGUAGES.get(language.lower())
        self.characters -= len(code)
        if syntax is None or self.characters < 0:
            return mark_hidden_characters(code)
        return "".join(_span(group, piece) for group, piece in _pieces(code, syntax))


def _pieces(code: str, syntax: Syntax) -> Iterator[tuple[str, str]]:
    """Split the code into pieces, each with its group or ``None``."""
    end = 0
    for found in syntax.pattern.finditer(code):
        group = _word_group(found, syntax) if found.lastgroup == "word" else found.lastgroup
        if group:
            yield "", code[end : found.start()]
            yield group, found[0]
            end = found.end()
    yield "", code[end:]


def _word_group(found: re.Match[str], syntax: Syntax) -> str:
    word = found[0].lower() if syntax.any_case else found[0]
    if word in syntax.keywords:
        return "keyword"
    if word in syntax.types:
        return "type"
    return "name" if found.string.startswith("(", found.end()) else ""


def _span(group: str, code: str) -> str:
    html = mark_hidden_characters(code)
    return f'<span class="{_CLASSES[group]}">{html}</span>' if group else html
