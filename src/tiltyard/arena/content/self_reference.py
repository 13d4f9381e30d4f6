"""Whether a response speaks of itself where it says a name: "I am …", "as an assistant trained by …"."""

from __future__ import annotations

from typing import Any

from tiltyard.arena.content.name_tokens import COMMA, PhraseIndex, is_punctuation, is_unspaced
from tiltyard.settings.model_families import SelfReference

__all__ = ["SelfReferences"]

#: Phrases before and after a name that are looked at, and names among them: so the time for each name is bounded.
_MOST_PHRASES = 16
_MOST_NAMES = 3

# What a phrase can be, as bits.
_OPENING, _OPENING_WITH_NOUN, _FILLER, _NOUN, _NEEDS_NOUN, _CLOSING, _SPEAKER = (1 << bit for bit in range(7))
_ROLES = {
    "openings": _OPENING,
    "openings_with_noun": _OPENING_WITH_NOUN,
    "fillers": _FILLER,
    "nouns": _NOUN,
    "fillers_with_noun": _FILLER | _NEEDS_NOUN,
    "closings": _CLOSING,
    "speakers": _SPEAKER,
}
_BETWEEN = _FILLER | _NOUN


class SelfReferences:
    """Looks at what stands before and after a name."""

    def __init__(self, phrases: SelfReference, names: PhraseIndex[Any]) -> None:
        self._phrases: PhraseIndex[int] = PhraseIndex()
        #: A maker may stand before its model: "I am Google's Gemini".
        self._names = names
        for field, role in _ROLES.items():
            for phrase in getattr(phrases, field):
                self._phrases.add(phrase, role | (self._phrases.exactly(phrase) or 0))

    def found(self, tokens: list[str], start: int, end: int, *, as_model: bool) -> bool:
        """Whether a response speaks of itself by the name between two places; ``as_model``: expressly as a model."""
        place, seen, names = start, _NEEDS_NOUN if as_model else 0, 0
        for _ in range(_MOST_PHRASES):
            opening = self._role_before(tokens, place, _OPENING | _OPENING_WITH_NOUN)
            if opening and self._opens(opening, tokens, (place, start, end), seen):
                return True
            role, place = self._step_back(tokens, place)
            names += not role
            if place < 0 or names > _MOST_NAMES:
                return False
            seen |= role
        return False

    def _opens(self, opening: int, tokens: list[str], places: tuple[int, int, int], seen: int) -> bool:
        """Whether an opening that ends at the first of these places is that of the name between the others."""
        place, start, end = places
        noun_after, after = self._look_on(tokens, end)
        noun = noun_after or seen & _NOUN
        if opening & _OPENING and (noun or not seen & _NEEDS_NOUN):
            return place < start or self._may_follow(tokens, end)
        if not opening & _OPENING_WITH_NOUN:
            return False
        speaks_on = place == start and self._has(tokens, after, _SPEAKER)
        return bool(seen & _NOUN or (speaks_on and (noun or not seen & _NEEDS_NOUN)))

    def _step_back(self, tokens: list[str], place: int) -> tuple[int, int]:
        """Over one phrase that may stand between an opening and a name: what it is, 0 for a name, and where it begins."""
        if place > 0 and tokens[place - 1] == COMMA:
            return _FILLER, place - 1
        for role, start in self._phrases.ending_at(tokens, place):
            if role & _BETWEEN:
                return role, start
        return 0, next((start for _, start in self._names.ending_at(tokens, place)), -1)

    def _look_on(self, tokens: list[str], place: int) -> tuple[bool, int]:
        """Whether what follows a name says that it is a model, and where that ends."""
        noun = False
        for _ in range(_MOST_PHRASES):
            if place < len(tokens) and tokens[place] == COMMA:
                return noun, place + 1
            step = next((one for one in self._phrases.beginning_at(tokens, place) if one[0] & _BETWEEN), None)
            if step is None:
                break
            noun, place = noun or bool(step[0] & _NOUN), step[1]
        return noun, place

    def _may_follow(self, tokens: list[str], end: int) -> bool:
        """Whether a name ends here, and is not part of something else: "I am Meta-aware"."""
        if end >= len(tokens):
            return True
        token = tokens[end]
        if is_punctuation(token) or token.isdigit() or is_unspaced(token):
            return True
        return self._has(tokens, end, _BETWEEN | _CLOSING | _SPEAKER)

    def _role_before(self, tokens: list[str], place: int, roles: int) -> int:
        return next((role for role, _ in self._phrases.ending_at(tokens, place) if role & roles), 0)

    def _has(self, tokens: list[str], place: int, roles: int) -> bool:
        return any(role & roles for role, _ in self._phrases.beginning_at(tokens, place))
