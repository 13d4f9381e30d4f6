"""The text of an answer while it arrives in pieces."""

from __future__ import annotations

import unicodedata
from typing import Protocol

#: Control characters that no text has: they are dropped. A database cannot store the first of them.
_DROPPED = {code: None for code in (*range(32), 127) if chr(code) not in "\t\n\r"}
_JOINER = "\u200d"
#: A longer sequence of joined characters is cut anywhere.
_JOINED_LIMIT = 16
_MARKS = frozenset({"Mn", "Me", "Mc"})
#: With one of these a sentence may end; a text that has none is masked after so many characters.
_ENDS = frozenset(".!?。！？\n")
_UNMASKED_CHARACTERS = 1_200


class StreamText:
    """Collects pieces, up to a limit. Two halves of a character may come in two pieces."""

    def __init__(self, limit: int) -> None:
        self.text = ""
        self._limit = limit
        self._half = ""

    @property
    def written(self) -> str:
        """What has come: all of it may be shown."""
        return self.text

    @property
    def is_full(self) -> bool:
        """Whether the limit is reached: everything beyond it is dropped."""
        return len(self.text) >= self._limit

    def add(self, piece: str) -> None:
        """Append a piece."""
        if self._half:
            piece, self._half = self._half + piece, ""
        if not piece.isascii() or not piece.isprintable():
            if "\ud800" <= piece[-1:] <= "\udbff":
                piece, self._half = piece[:-1], piece[-1]
            piece = _valid(piece).translate(_DROPPED)
        self.text += piece[: max(self._limit - len(self.text), 0)]

    def close(self) -> None:
        """No further piece comes: half a character is none."""
        if self._half:
            self._half = ""
            self.add("\ufffd")


class TextMask(Protocol):
    """Masks names. The mask of a longer text begins with that of a shorter one, unless that was complete."""

    def __call__(self, text: str, *, complete: bool) -> str: ...


class MaskedText:
    """The same with a mask: `text` is what may be shown of it, `written` what has come."""

    def __init__(self, limit: int, mask: TextMask) -> None:
        self.text = ""
        self._written = StreamText(limit)
        self._mask = mask

    @property
    def written(self) -> str:
        """What has come, without a mask."""
        return self._written.text

    @property
    def is_full(self) -> bool:
        """Whether the limit is reached."""
        return self._written.is_full

    def add(self, piece: str) -> None:
        """Append a piece. What may be shown grows with each sentence, which is when it is masked again."""
        before = self._written.text[-1:]
        self._written.add(piece)
        if not _ENDS.isdisjoint(before + piece) or len(self.written) - len(self.text) > _UNMASKED_CHARACTERS:
            self.text = self._mask(self.written, complete=False)

    def close(self) -> None:
        """No further piece comes."""
        self._written.close()
        self.text = self._mask(self.written, complete=True)


def whole_character_length(text: str, length: int) -> int:
    """At most ``length``, so that what a reader calls one character is not cut: no accent, no joined emoji."""
    longest = min(length, len(text))
    for shorter in range(longest, max(longest - _JOINED_LIMIT, -1), -1):
        if shorter in {0, len(text)} or not _joins(text, shorter):
            return shorter
    return longest


def _joins(text: str, index: int) -> bool:
    """Whether the character at an index belongs to the one before it."""
    following = text[index]
    if following < "\u0300":
        return False
    return (
        following == _JOINER
        or text[index - 1] == _JOINER
        or unicodedata.category(following) in _MARKS
        or "\U0001f3fb" <= following <= "\U0001f3ff"
    )


def _valid(piece: str) -> str:
    """Pairs of surrogates as one character, and single ones as replacement characters."""
    try:
        piece.encode()
    except UnicodeEncodeError:
        return piece.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return piece
