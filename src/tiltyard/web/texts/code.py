"""Code with its colours: known languages only, in a few classes of our own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, Generic, Keyword, Name, Number, String

from tiltyard.web.texts.controls import visible

if TYPE_CHECKING:
    from pygments.lexer import Lexer
    from pygments.token import _TokenType

__all__ = ["CODE_CLASSES", "LONGEST_CODE", "LONGEST_LINE", "LONGEST_WORK", "Brush"]

#: Characters of one text's code that are coloured, and seconds of work; what follows stays plain.
LONGEST_CODE = 20_000
LONGEST_WORK = 0.3
#: Nobody writes longer lines of code, and on these a lexer can lose itself in one place.
LONGEST_LINE = 1_000

#: The names that people write behind a fence. Languages apart from these are shown plain.
_NAMES = """
    bash c c# c++ clojure cpp cs csharp css dart diff docker dockerfile elixir erlang f# fsharp go golang
    graphql haskell hs html ini java javascript js json jsx julia kotlin latex lua make makefile
    nginx nix objc ocaml perl php pl powershell proto protobuf ps1 py python r rb ruby rs rust scala scss sh
    shell sql swift tex toml ts tsx typescript xml yaml yml zig zsh
"""
_LANGUAGES = frozenset(_NAMES.split())
#: From the special to the general: the first that holds names the class.
_KINDS: tuple[tuple[_TokenType, str], ...] = (
    (Comment, "code-comment"),
    (Keyword.Type, "code-type"),
    (Keyword, "code-keyword"),
    (Name.Function, "code-name"),
    (Name.Class, "code-type"),
    (Name.Decorator, "code-name"),
    (Name.Builtin, "code-type"),
    (Name.Tag, "code-keyword"),
    (Name.Attribute, "code-name"),
    (String, "code-string"),
    (Number, "code-number"),
    (Generic.Inserted, "code-added"),
    (Generic.Deleted, "code-removed"),
    (Generic.Heading, "code-keyword"),
    (Generic.Subheading, "code-keyword"),
)
_first = itemgetter(0)
CODE_CLASSES = frozenset(name for _, name in _KINDS)


@dataclass(slots=True)
class Brush:
    """What may still be spent on one text's code."""

    characters: int = LONGEST_CODE
    seconds: float = LONGEST_WORK

    def coloured(self, code: str, language: str) -> str:
        """Code as HTML. An unknown language, and what there is no more to spend on, gets no colours."""
        lexer = _lexer(language.lower())
        self.characters -= len(code)
        spent = self.characters < 0 or self.seconds < 0
        if lexer is None or spent or max(map(len, code.split("\n"))) > LONGEST_LINE:
            return visible(code)
        runs = [
            (name, "".join(each for _, each in run)) for name, run in groupby(self._read(code, lexer), _first)
        ]
        if "".join(piece for _, piece in runs) != code:
            return visible(code)
        return "".join(_span(name, piece) for name, piece in runs)

    def _read(self, code: str, lexer: Lexer) -> Iterator[tuple[str, str]]:
        """Classes and pieces; the rest in one piece once it takes too long: some lexers can be made to crawl."""
        start = time.thread_time()
        end = 0
        for place, kind, piece in lexer.get_tokens_unprocessed(code):
            end = place + len(piece)
            yield _class_of(kind), piece
            if time.thread_time() - start > self.seconds:
                break
        self.seconds -= time.thread_time() - start
        yield "", code[end:]


def _lexer(language: str) -> Lexer | None:
    return get_lexer_by_name(language) if language in _LANGUAGES else None


@cache
def _class_of(kind: _TokenType) -> str:
    return next((name for general, name in _KINDS if kind in general), "")


def _span(name: str, code: str) -> str:
    html = visible(code)
    return f'<span class="{name}">{html}</span>' if name else html
