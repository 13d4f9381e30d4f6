"""Detects self-references next to a name: "I am …", "as an assistant trained by …"."""

from __future__ import annotations

from typing import Any

from tiltyard.arena.content.name_tokens import COMMA, PhraseIndex, is_punctuation, is_unspaced
from tiltyard.settings.identity_words import SelfReference

#: Phrases before and after a name that are looked at, and names among them: so the time for each name is bounded.
_PHRASE_LIMIT = 16
_NAME_LIMIT = 3

# What a phrase can be, as bits.
(
    _OPENING_FLAG,
    _OPENING_WITH_NOUN_FLAG,
    _FILLER_FLAG,
    _NOUN_FLAG,
    _NEEDS_NOUN_FLAG,
    _CLOSING_FLAG,
    _SPEAKER_FLAG,
) = (1 << bit for bit in range(7))
_ROLE_FLAGS = {
    "openings": _OPENING_FLAG,
    "openings_with_noun": _OPENING_WITH_NOUN_FLAG,
    "fillers": _FILLER_FLAG,
    "nouns": _NOUN_FLAG,
    "fillers_with_noun": _FILLER_FLAG | _NEEDS_NOUN_FLAG,
    "closings": _CLOSING_FLAG,
    "speakers": _SPEAKER_FLAG,
}
_BETWEEN_FLAGS = _FILLER_FLAG | _NOUN_FLAG


class SelfReferences:
    """Examines the text before and after a name."""

    def __init__(self, phrases: SelfReference, names: PhraseIndex[Any]) -> None:
        self._phrases: PhraseIndex[int] = PhraseIndex()
        #: A maker may stand before its model: "I am Google's Gemini".
        self._names = names
        for field, role in _ROLE_FLAGS.items():
            for phrase in getattr(phrases, field):
                self._phrases.add(phrase, role | (self._phrases.exactly(phrase) or 0))

    def found(self, tokens: list[str], start: int, end: int, *, as_model: bool) -> bool:
        """Whether a response speaks of itself by the name between two places; ``as_model``: expressly as a model."""
        place, seen, names = start, _NEEDS_NOUN_FLAG if as_model else 0, 0
        for _ in range(_PHRASE_LIMIT):
            opening = self._role_before(tokens, place, _OPENING_FLAG | _OPENING_WITH_NOUN_FLAG)
            if opening and self._opens(opening, tokens, (place, start, end), seen):
                return True
            role, place = self._step_back(tokens, place)
            names += not role
            if place < 0 or names > _NAME_LIMIT:
                return False
            seen |= role
        return False

    def _opens(self, opening: int, tokens: list[str], places: tuple[int, int, int], seen: int) -> bool:
        """Whether an opening that ends at the first of these places is that of the name between the others."""
        place, start, end = places
        noun_after, after = self._look_on(tokens, end)
        noun = noun_after or seen & _NOUN_FLAG
        if opening & _OPENING_FLAG and (noun or not seen & _NEEDS_NOUN_FLAG):
            return place < start or self._may_follow(tokens, end)
        if not opening & _OPENING_WITH_NOUN_FLAG:
            return False
        speaks_on = place == start and self._has(tokens, after, _SPEAKER_FLAG)
        return bool(seen & _NOUN_FLAG or (speaks_on and (noun or not seen & _NEEDS_NOUN_FLAG)))

    def _step_back(self, tokens: list[str], place: int) -> tuple[int, int]:
        """Over one phrase that may stand between an opening and a name: what it is, 0 for a name, and where it begins."""
        if place > 0 and tokens[place - 1] == COMMA:
            return _FILLER_FLAG, place - 1
        for role, start in self._phrases.ending_at(tokens, place):
            if role & _BETWEEN_FLAGS:
                return role, start
        return 0, next((start for _, start in self._names.ending_at(tokens, place)), -1)

    def _look_on(self, tokens: list[str], place: int) -> tuple[bool, int]:
        """Whether what follows a name says that it is a model, and where that ends."""
        noun = False
        for _ in range(_PHRASE_LIMIT):
            if place < len(tokens) and tokens[place] == COMMA:
                return noun, place + 1
            step = next(
                (one for one in self._phrases.beginning_at(tokens, place) if one[0] & _BETWEEN_FLAGS), None
            )
            if step is None:
                break
            noun, place = noun or bool(step[0] & _NOUN_FLAG), step[1]
        return noun, place

    def _may_follow(self, tokens: list[str], end: int) -> bool:
        """Whether a name ends here, and is not part of something else: "I am Meta-aware"."""
        if end >= len(tokens):
            return True
        token = tokens[end]
        if is_punctuation(token) or token.isdigit() or is_unspaced(token):
            return True
        return self._has(tokens, end, _BETWEEN_FLAGS | _CLOSING_FLAG | _SPEAKER_FLAG)

    def _role_before(self, tokens: list[str], place: int, roles: int) -> int:
        return next((role for role, _ in self._phrases.ending_at(tokens, place) if role & roles), 0)

    def _has(self, tokens: list[str], place: int, roles: int) -> bool:
        return any(role & roles for role, _ in self._phrases.beginning_at(tokens, place))
