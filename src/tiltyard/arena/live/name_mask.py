"""Masks names of models, families and makers in what is shown, by the same rule on both sides.

What is masked does not depend on who answers: else the mask itself would tell. Text can be masked while it comes: what
has been shown once is never changed by what follows.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections.abc import Iterable, Iterator

from tiltyard.arena.content.name_mentions import load_family_names
from tiltyard.arena.content.name_tokens import PhraseIndex, normalise, phrase_tokens, token_starts, tokenise
from tiltyard.arena.live.identity_talk import EntrantNames

#: Stands for a name.
MASK = "[…]"
#: A sentence ends, or a paragraph: no name reaches over it.
_SENTENCE_END = re.compile(r"[.!?](?=\s)|[。！？]|\n[ \t]*\n")
#: A sentence that is longer is cut at its last white space.
_MAX_SENTENCE_CHARACTERS = 600


class NameMask:
    """The mask of an arena."""

    def __init__(self, entrants: Iterable[EntrantNames]) -> None:
        self._families = load_family_names()
        #: Names of the arena's models: whether each may be masked anywhere, or is a single word.
        self._names: PhraseIndex[bool] = PhraseIndex()
        for entrant in sorted(set(entrants), key=lambda one: (one.name, one.model)):
            for name in (entrant.name, entrant.model):
                self._names.add(name, len(phrase_tokens(name)) > 1)

    def mask(self, text: str, *, complete: bool = True) -> str:
        """The text with its names masked.

        While it is not complete, the last sentence is held back. The mask of a longer text begins with that of a shorter.
        """
        shown, start = [], 0
        for end in _sentence_ends(text):
            shown.append(self._masked(text[start:end]))
            start = end
        if complete:
            shown.append(self._masked(text[start:]))
        return "".join(shown)

    def _masked(self, sentence: str) -> str:
        normalised, places = _normalised_places(sentence)
        tokens = tokenise(normalised)
        found = sorted(self._found(tokens))
        if not found:
            return sentence
        starts, shown, at = token_starts(normalised), [], 0
        for first, last in found:
            start = places[starts[first]]
            end = places[starts[last - 1] + len(tokens[last - 1]) - 1] + 1
            if start >= at:
                shown += [sentence[at:start], MASK]
            at = max(at, end)
        return "".join((*shown, sentence[at:]))

    def _found(self, tokens: list[str]) -> Iterator[tuple[int, int]]:
        """Where names begin and end, as numbers of tokens. Numbers of versions belong to a name: "Qwen2.5"."""
        families, speaks = self._families, self._families.self_references.found
        said = list(families.index.within(tokens))
        # Where an answer speaks of itself, the maker is often named beside it.
        of_itself = any(speaks(tokens, start, end, as_model=not known.names) for known, start, end in said)
        for known, start, end in said:
            if of_itself or (known.names and not families.is_exception(tokens, start, end)):
                yield start, _with_digits(tokens, end)
        for anywhere, start, end in self._names.within(tokens):
            if anywhere or speaks(tokens, start, end, as_model=False):
                yield start, _with_digits(tokens, end)


def _with_digits(tokens: list[str], end: int) -> int:
    while end < len(tokens) and tokens[end].isdigit():
        end += 1
    return end


def _sentence_ends(text: str) -> Iterator[int]:
    """Where sentences end whose end is certain; a long one is cut at white space."""
    start = 0
    for match in _SENTENCE_END.finditer(text):
        for cut in _cuts(text, start, match.end()):
            yield cut
            start = cut
        yield match.end()
        start = match.end()
    yield from _cuts(text, start, len(text))


def _cuts(text: str, start: int, end: int) -> Iterator[int]:
    """Where a sentence that is too long is cut."""
    while end - start > _MAX_SENTENCE_CHARACTERS:
        limit = start + _MAX_SENTENCE_CHARACTERS
        space = max(text.rfind(" ", start, limit), text.rfind("\n", start, limit))
        start = space + 1 if space >= start else limit
        yield start


def _normalised_places(text: str) -> tuple[str, array[int]]:
    """A text normalised as a whole, and the place in the text of each of its characters."""
    normalised = normalise(text)
    if text.isascii():
        return normalised, array("I", range(len(text)))
    places = array("I")
    for place, character in enumerate(text):
        plain = unicodedata.normalize("NFKD", character.casefold()).casefold()
        places.extend(place for each in plain if each.isascii() or not _is_mark(each))
    if len(places) != len(normalised):
        # Not seen for any text: mask the whole sentence rather than show a part of a name.
        return normalised, array("I", [0] * (len(normalised) - 1) + [len(text) - 1])
    return normalised, places


def _is_mark(character: str) -> bool:
    return unicodedata.category(character) in ("Mn", "Me", "Cf")
