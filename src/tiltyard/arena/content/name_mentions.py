"""Finds responses that name models, families or makers, so that their voters are not blind. They are not rejected.

A response is reported if it contains the name of a model of the arena or of its own family or maker, or if it claims to
be of another family, which misleads voters. Names that are also ordinary words count only where a response speaks of
itself.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Literal

from tiltyard.arena.content.answer_rows import CheckedAnswer
from tiltyard.arena.content.name_tokens import (
    PhraseIndex,
    is_unspaced,
    normalise,
    phrase_tokens,
    token_starts,
    tokenise,
)
from tiltyard.arena.content.self_reference import SelfReferences
from tiltyard.settings.identity_words import load_families

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

    @property
    def own(self) -> bool:
        """Whether the response names its actual author."""
        return self.about in ("own", "family")

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
    """What identifies a model, apart from its name."""

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
        found = self._found(answer) if answer.kind in _SEARCHED_KINDS else None
        if found is None:
            return
        self.count += 1
        if len(self.first) < SHOWN_MENTION_LIMIT:
            self.first.append(found)

    def _found(self, answer: CheckedAnswer) -> Mention | None:
        text = answer.shown_text(_MAX_SEARCHED_CHARACTERS)
        return self.find(text, answer.model, answer.where)

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
        """The models whose exact names occur in a text as whole words."""
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
    """Whether two adjacent characters belong to one word."""
    words = all(one.isalnum() or one == "_" for one in (left, right)) and bool(left and right)
    return words and not is_unspaced(left) and not is_unspaced(right)
