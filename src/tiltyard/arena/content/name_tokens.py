"""Text as tokens in which names are looked for, whatever their case, width, accents or disguise.

A token is a run of letters, a run of digits, one character of a script that is written without spaces, or a comma or the
end of a sentence. So a name is found as whole words where there are words, and anywhere where there are none. Letters
and digits are apart: ``Qwen2.5`` is ``qwen``, ``2``, ``5``.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")
Tokens = tuple[str, ...]

COMMA = ","
#: Han, kana and Hangul (which normalises to its letters).
_WITHOUT_SPACES = "\u1100-\u11ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_TOKEN = re.compile(
    rf"[a-z]+|[0-9]+|[{_WITHOUT_SPACES}]|[^\W\d_a-z{_WITHOUT_SPACES}]+|[,、]|\.(?=\s|$)|[!?。;]|\n[ \t]*\n"
)
_UNSPACED = re.compile(f"[{_WITHOUT_SPACES}]")
_WORD = re.compile(r"[^\W_]+")
_LATIN = re.compile("[a-z]")
#: Greek and Cyrillic.
_OTHER_LETTERS = re.compile("[\u0370-\u052fıɑɡ]")
#: Letters that look like Latin ones. They stand for these in words that have Latin letters too.
_LOOKALIKES = str.maketrans(
    dict(zip("авеіјкмнорстухѕԁһӏ", "abeijkmhopctyxsdhl", strict=True))
    | dict(zip("αεικνορτυχγıɑɡ", "aeikvoptuxyiag", strict=True))
)


def normalise(text: str) -> str:
    """The text in small letters, without accents, hidden characters and lookalike letters."""
    folded = text.casefold()
    if folded.isascii():
        return folded
    plain = unicodedata.normalize("NFKD", folded).casefold()
    plain = plain.translate(dict.fromkeys(map(ord, filter(_is_hidden, set(plain)))))
    if _OTHER_LETTERS.search(plain) and _LATIN.search(plain):
        plain = _WORD.sub(_without_lookalikes, plain)
    return plain


def tokenise(normalised: str) -> list[str]:
    """The tokens of a normalised text, in their order."""
    return _TOKEN.findall(normalised)


def token_starts(normalised: str) -> array[int]:
    """Where each token of a normalised text starts."""
    return array("I", (match.start() for match in _TOKEN.finditer(normalised)))


def is_punctuation(token: str) -> bool:
    """Whether a token is a comma or the end of a sentence."""
    return not token[0].isalnum()


def is_unspaced(token: str) -> bool:
    """Whether a token belongs to a script that is written without spaces."""
    return _UNSPACED.match(token) is not None


class PhraseIndex(Generic[T]):
    """Values by phrases of tokens, with fast lookup of the phrases that start or end at a token."""

    def __init__(self) -> None:
        self._values: dict[Tokens, T] = {}
        #: Lengths of the phrases that begin, and that end, with a token; longest first.
        self._beginning: dict[str, list[int]] = {}
        self._ending: dict[str, list[int]] = {}

    def __contains__(self, token: str) -> bool:
        """Whether a phrase begins with this token."""
        return token in self._beginning

    def any_in(self, tokens: set[str]) -> bool:
        """Whether a phrase begins with one of these tokens."""
        return not tokens.isdisjoint(self._beginning)

    def add(self, phrase: str, value: T) -> None:
        """Add a phrase with its value; a phrase without letters or digits is never found."""
        tokens = phrase_tokens(phrase)
        if not tokens:
            return
        self._values[tokens] = value
        for lengths in (self._beginning.setdefault(tokens[0], []), self._ending.setdefault(tokens[-1], [])):
            if len(tokens) not in lengths:
                lengths.append(len(tokens))
                lengths.sort(reverse=True)

    def exactly(self, phrase: str) -> T | None:
        """The value of exactly this phrase, or ``None``."""
        return self._values.get(phrase_tokens(phrase))

    def beginning_at(self, tokens: list[str], start: int) -> Iterator[tuple[T, int]]:
        """Values of the phrases that begin at a place, and where each ends; the longest first."""
        if 0 <= start < len(tokens):
            for length in self._beginning.get(tokens[start], ()):
                value = self._values.get(tuple(tokens[start : start + length]))
                if value is not None:
                    yield value, start + length

    def ending_at(self, tokens: list[str], end: int) -> Iterator[tuple[T, int]]:
        """Values of the phrases that end before a place, and where each begins; the longest first."""
        if end > 0:
            for length in self._ending.get(tokens[end - 1], ()):
                value = self._values.get(tuple(tokens[max(end - length, 0) : end]))
                if value is not None:
                    yield value, end - length

    def within(self, tokens: list[str]) -> Iterator[tuple[T, int, int]]:
        """Every value with the places where its phrase begins and ends, from first to last."""
        for start, token in enumerate(tokens):
            if token in self._beginning:
                for value, end in self.beginning_at(tokens, start):
                    yield value, start, end


def phrase_tokens(phrase: str) -> Tokens:
    """A phrase as tokens, without punctuation at its ends."""
    tokens = tokenise(normalise(phrase))
    while tokens and is_punctuation(tokens[-1]):
        tokens.pop()
    while tokens and is_punctuation(tokens[0]):
        del tokens[0]
    return tuple(tokens)


def _is_hidden(character: str) -> bool:
    """Accents, and whatever has no width."""
    return not character.isascii() and unicodedata.category(character) in ("Mn", "Me", "Cf")


def _without_lookalikes(word: re.Match[str]) -> str:
    text = word[0]
    return text.translate(_LOOKALIKES) if _LATIN.search(text) else text
