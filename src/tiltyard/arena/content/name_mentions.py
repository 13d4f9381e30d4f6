"""Finds responses that name models, families or makers, so that their voters are not blind. They are not rejected.

A response is reported if it contains the name of a model of the arena or of its own family or maker, or if it claims to
be of another family, which misleads voters. Names that are also ordinary words count only where a response speaks of
itself.

Text as tokens in which names are looked for, whatever their case, width, accents or disguise.

A token is a run of letters, a run of digits, one character of a script that is written without spaces, or a comma or the
end of a sentence. So a name is found as whole words where there are words, and anywhere where there are none. Letters
and digits are apart: ``Qwen2.5`` is ``qwen``, ``2``, ``5``.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from array import array
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

from tiltyard.arena.content.answer_rows import CheckedAnswer
from tiltyard.settings.identity_words import SelfReference, load_families

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
_HIDDEN = ("Mn", "Me", "Cf")
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
    # Accents, and whatever has no width.
    beyond = (one for one in set(plain) if not one.isascii())
    plain = plain.translate({ord(one): None for one in beyond if unicodedata.category(one) in _HIDDEN})
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


def _without_lookalikes(word: re.Match[str]) -> str:
    text = word[0]
    return text.translate(_LOOKALIKES) if _LATIN.search(text) else text


#: Mentions that are listed; the others are only counted.
SHOWN_MENTION_LIMIT = 20
#: Shorter names are ignored: they are words in too many languages.
_MIN_NAME_CHARACTERS = 3
#: Characters of a response that are searched.
_MAX_SEARCHED_CHARACTERS = 1_000_000
#: Tokens by which an exception may start before the name in it: "Jean-Claude".
_EXCEPTION_LEAD_TOKENS = 3
_SEARCHED_KINDS = ("text", "app")
_MENTION_MESSAGES = {
    "own": "says {name!r}, the name of its model",
    "other": "says {name!r}, the name of another model",
    "family": "says {name!r}, a name of its family or maker",
    "claim": "calls itself a model of {name!r}, which is not its family or maker",
}


@dataclass(frozen=True, slots=True)
class Mention:
    """A response that contains a name: of its own model, another model, its family or maker, or one that it claims."""

    where: str
    name: str
    about: Literal["own", "other", "family", "claim"]

    def __str__(self) -> str:
        return f"{self.where}: {_MENTION_MESSAGES[self.about].format(name=self.name)}: voters will read it"


@dataclass(slots=True)
class FamilyName:
    """A name, the families that have it as a name, and those that have it as an ordinary word."""

    text: str
    names: set[str] = field(default_factory=set)
    words: set[str] = field(default_factory=set)


class FamilyNames:
    """The table of model families, indexed for searching."""

    def __init__(self) -> None:
        table = load_families()
        self.index: PhraseIndex[FamilyName] = PhraseIndex()
        self.exceptions: PhraseIndex[str] = PhraseIndex()
        self._keys: PhraseIndex[set[str]] = PhraseIndex()
        for key, family in table.families.items():
            for names, distinct in ((family.names, True), (family.words, False)):
                for name in names:
                    known = self.index.exactly(name) or FamilyName(name)
                    (known.names if distinct else known.words).add(key)
                    self.index.add(name, known)
            for phrase in family.exceptions:
                self.exceptions.add(phrase, phrase)
            self._keys.add(key, {key} | (self._keys.exactly(key) or set()))
        self.self_references = SelfReferences(table.self_reference, self.index)

    def of(self, name: str) -> set[str]:
        """The families whose names occur in a model's name, or in its stated family or maker."""
        tokens = list(phrase_tokens(name))
        found = {key for known, _, _ in self.index.within(tokens) for key in known.names | known.words}
        return found | {key for keys, _, _ in self._keys.within(tokens) for key in keys}

    def is_exception(self, tokens: list[str], start: int, end: int) -> bool:
        """Whether a name is part of a phrase in which it means something else."""
        return any(
            place >= end
            for before in range(_EXCEPTION_LEAD_TOKENS + 1)
            for _, place in self.exceptions.beginning_at(tokens, start - before)
        )


@functools.cache
def load_family_names() -> FamilyNames:
    """The built-in table, indexed once."""
    return FamilyNames()


@dataclass(frozen=True, slots=True)
class _OwnNames:
    families: frozenset[str]
    #: Stated names that are not in the table.
    stated: PhraseIndex[str]


class MentionFinder:
    """Searches responses for names, in time proportional to their length.

    ``stated`` has the stated families and makers of each model.
    """

    def __init__(self, names: Iterable[str], stated: Mapping[str, AbstractSet[str]] | None = None) -> None:
        self._models: PhraseIndex[list[str]] = PhraseIndex()
        for name in sorted(set(names)):
            if len(name) >= _MIN_NAME_CHARACTERS:
                self._models.add(name, [*(self._models.exactly(name) or ()), name])
        self._stated = stated or {}
        self._families = load_family_names()
        self._known: dict[str, _OwnNames] = {}
        self.first: list[Mention] = []
        self.count = 0

    def watching(self, answers: Iterable[CheckedAnswer]) -> Iterator[CheckedAnswer]:
        """Pass the answers through, and search each of them."""
        for answer in answers:
            self.look(answer)
            yield answer

    def look(self, answer: CheckedAnswer) -> None:
        """Count a response that mentions a name; the first ones are stored."""
        if answer.kind not in _SEARCHED_KINDS:
            return
        found = self.find(answer.shown_text(_MAX_SEARCHED_CHARACTERS), answer.model, answer.where)
        if found is not None:
            self.count += 1
            if len(self.first) < SHOWN_MENTION_LIMIT:
                self.first.append(found)

    def find(self, shown: str, model: str, where: str = "") -> Mention | None:
        """The most important mention: its own model, its family, another model, or a family that it claims."""
        text = normalise(shown[:_MAX_SEARCHED_CHARACTERS])
        tokens = tokenise(text)
        present = set(tokens)
        said = self._said(text, tokens) if self._models.any_in(present) else set()
        if model in said:
            return Mention(where, model, "own")
        own, claim = self._own(model), None
        for name, about in self._family_names(tokens, present, own):
            if about == "family":
                return Mention(where, name, "family")
            claim = claim or name
        if said:
            return Mention(where, min(said, key=lambda name: (-len(name), name)), "other")
        return None if claim is None else Mention(where, claim, "claim")

    def _said(self, text: str, tokens: list[str]) -> set[str]:
        candidates = [
            (name, start, end) for names, start, end in self._models.within(tokens) for name in names
        ]
        if not candidates:
            return set()
        starts = token_starts(text)
        return {
            name
            for name, start, end in candidates
            if _is_spelled(name, text, starts[start], starts[end - 1] + len(tokens[end - 1]))
        }

    def _own(self, model: str) -> _OwnNames:
        found = self._known.get(model)
        if found is None:
            families, stated = self._families.of(model), PhraseIndex[str]()
            for name in sorted(self._stated.get(model, ())):
                families |= self._families.of(name)
                if self._families.index.exactly(name) is None and len(name) >= _MIN_NAME_CHARACTERS:
                    stated.add(name, name)
            found = self._known[model] = _OwnNames(frozenset(families), stated)
        return found

    def _family_names(
        self, tokens: list[str], present: set[str], own: _OwnNames
    ) -> Iterator[tuple[str, Literal["family", "claim"]]]:
        """Names that identify the response's family, and names of other families that it claims."""
        if own.stated.any_in(present):
            for name, _, _ in own.stated.within(tokens):
                yield name, "family"
        if not self._families.index.any_in(present):
            return
        speaks_of_itself = self._families.self_references.found
        for known, start, end in self._families.index.within(tokens):
            if known.names & own.families and not self._families.is_exception(tokens, start, end):
                yield known.text, "family"
            elif (known.names | known.words) & own.families:
                if speaks_of_itself(tokens, start, end, as_model=False):
                    yield known.text, "family"
            elif speaks_of_itself(tokens, start, end, as_model=not known.names):
                yield known.text, "claim"


def _is_spelled(name: str, text: str, start: int, end: int) -> bool:
    """Whether the text between two places is exactly this name, with punctuation, and ends at word boundaries."""
    return (
        text[start:end] in normalise(name)
        and not _is_inside_word(text[start - 1 : start], text[start])
        and not _is_inside_word(text[end - 1], text[end : end + 1])
    )


def _is_inside_word(left: str, right: str) -> bool:
    words = all(one.isalnum() or one == "_" for one in (left, right)) and bool(left and right)
    return words and not is_unspaced(left) and not is_unspaced(right)


#: Phrases before and after a name that are looked at, and names among them: so the time for each name is bounded.
_PHRASE_LIMIT = 16
_NAME_LIMIT = 3

# What a phrase can be, as bits.
_OPENING_FLAG, _OPENING_WITH_NOUN_FLAG, _CLOSING_FLAG, _SPEAKER_FLAG = 1, 2, 4, 8
_FILLER_FLAG, _NOUN_FLAG, _NEEDS_NOUN_FLAG = 16, 32, 64
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
        for name, role in _ROLE_FLAGS.items():
            for phrase in getattr(phrases, name):
                self._phrases.add(phrase, role | (self._phrases.exactly(phrase) or 0))

    def found(self, tokens: list[str], start: int, end: int, *, as_model: bool) -> bool:
        """Whether a response speaks of itself by the name between two places; ``as_model``: expressly as a model."""
        place, seen, names = start, _NEEDS_NOUN_FLAG if as_model else 0, 0
        for _ in range(_PHRASE_LIMIT):
            before = (role for role, _ in self._phrases.ending_at(tokens, place))
            opening = next((role for role in before if role & (_OPENING_FLAG | _OPENING_WITH_NOUN_FLAG)), 0)
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

    def _has(self, tokens: list[str], place: int, roles: int) -> bool:
        return any(role & roles for role, _ in self._phrases.beginning_at(tokens, place))
