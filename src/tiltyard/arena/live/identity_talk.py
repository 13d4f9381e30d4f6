"""Finds talk about who answers: prompts that ask which model it is, and answers that name themselves."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from tiltyard.arena.content.name_mentions import MentionFinder, load_family_names
from tiltyard.arena.content.name_tokens import PhraseIndex, is_punctuation, normalise, phrase_tokens, tokenise
from tiltyard.settings.identity_words import load_identity_questions

#: Where a turn talks of identity: the prompt asks for it, or the left or the right answer gives it.
IdentityTalkPlace = Literal["prompt", "a", "b"]

#: Characters of a text that are searched.
_MAX_SEARCHED_CHARACTERS = 200_000
#: Nouns that may stand where a phrase has a gap.
_GAP_WORDS = 5
#: Words between "are you" and a name: "are you the famous ChatGPT".
_BEFORE_NAME_WORDS = 3
#: The mark of a gap in a phrase.
_GAP = "…"


@dataclass(frozen=True, slots=True)
class EntrantNames:
    """What an entrant is called on the board, and what its endpoint calls its model."""

    name: str
    model: str


class _Questions:
    """The phrases that ask for an identity, indexed for searching."""

    def __init__(self) -> None:
        phrases = load_identity_questions()
        self.nouns = {token for noun in phrases.nouns for token in phrase_tokens(noun)}
        self.closings = {token for closing in phrases.closings for token in phrase_tokens(closing)}
        #: The tails that may follow each head; ``None`` for a phrase without a gap.
        self.heads: PhraseIndex[list[tuple[str, ...] | None]] = PhraseIndex()
        self.final: PhraseIndex[str] = PhraseIndex()
        self.before_names: PhraseIndex[str] = PhraseIndex()
        for phrase in phrases.phrases:
            head, gap, tail = phrase.partition(_GAP)
            tails = self.heads.exactly(head) or []
            self.heads.add(head, [*tails, phrase_tokens(tail) if gap else None])
        for phrase in phrases.final_phrases:
            self.final.add(phrase, phrase)
        for phrase in phrases.before_names:
            self.before_names.add(phrase, phrase)

    def asked(self, tokens: list[str]) -> bool:
        """Whether a phrase asks for an identity by itself."""
        for tails, _, end in self.heads.within(tokens):
            if any(tail is None or self._goes_on(tokens, end, tail) for tail in tails):
                return True
        return any(self._ends(tokens, end) for _, _, end in self.final.within(tokens))

    def _goes_on(self, tokens: list[str], place: int, tail: tuple[str, ...]) -> bool:
        """Whether nouns, and then this tail, stand at a place."""
        for _ in range(_GAP_WORDS):
            if place >= len(tokens) or tokens[place] not in self.nouns:
                return False
            place += 1
            if tuple(tokens[place : place + len(tail)]) == tail:
                return True
        return False

    def _ends(self, tokens: list[str], place: int) -> bool:
        """Whether a sentence ends at a place, apart from words that only close it."""
        while place < len(tokens) and tokens[place] in self.closings:
            place += 1
            if tokens[place - 1] in {"and", "or"}:
                return True
        return place >= len(tokens) or is_punctuation(tokens[place])


@functools.cache
def _questions() -> _Questions:
    return _Questions()


class IdentityTalk:
    """Searches the texts of an arena's live battles, in time proportional to their length."""

    def __init__(self, entrants: Iterable[EntrantNames]) -> None:
        known = sorted(set(entrants), key=lambda one: (one.name, one.model))
        self._families = load_family_names()
        self._finders = {one.name: _finder(one) for one in known}
        #: Names of the arena's models; a single word may be an ordinary one.
        self.names: PhraseIndex[str] = PhraseIndex()
        for entrant in known:
            for name in (entrant.name, entrant.model):
                self.names.add(name, name)

    def places(
        self, prompt: str, answers: tuple[str, str], models: tuple[str, str]
    ) -> tuple[IdentityTalkPlace, ...]:
        """Where a turn talks of identity. ``models``: the names of the entrants on the left and on the right."""
        found: list[IdentityTalkPlace] = ["prompt"] if self.asks(prompt) else []
        sides: Sequence[Literal["a", "b"]] = ("a", "b")
        found += [
            side
            for side, text, model in zip(sides, answers, models, strict=True)
            if self.names_itself(text, model)
        ]
        return tuple(found)

    def asks(self, prompt: str) -> bool:
        """Whether a prompt asks which model answers it, or who made it."""
        tokens = tokenise(normalise(prompt[:_MAX_SEARCHED_CHARACTERS]))
        questions = _questions()
        return questions.asked(tokens) or any(
            self._name_follows(tokens, end) for _, _, end in questions.before_names.within(tokens)
        )

    def names_itself(self, answer: str, model: str) -> bool:
        """Whether an answer says its model, its family or its maker, or calls itself by any such name."""
        finder = self._finders.get(model) or _finder(EntrantNames(model, model))
        text = answer[:_MAX_SEARCHED_CHARACTERS]
        if finder.find(text, model) is not None:
            return True
        tokens = tokenise(normalise(text))
        speaks = self._families.self_references.found
        return any(speaks(tokens, start, end, as_model=False) for _, start, end in self.names.within(tokens))

    def _name_follows(self, tokens: list[str], place: int) -> bool:
        """Whether a name of a model, a family or a maker follows, perhaps after a few words of the same sentence."""
        for start in range(place, min(place + _BEFORE_NAME_WORDS, len(tokens))):
            if is_punctuation(tokens[start]):
                return False
            for index in (self._families.index, self.names):
                if next(index.beginning_at(tokens, start), None) is not None:
                    return start == place or tokens[start - 1] in _questions().nouns
        return False


def _finder(entrant: EntrantNames) -> MentionFinder:
    """Searches for what identifies one entrant. A name of one word counts only where an answer speaks of itself."""
    names = [name for name in (entrant.name, entrant.model) if len(phrase_tokens(name)) > 1]
    own = [entrant.name] if entrant.name in names else []
    return MentionFinder(
        own, {entrant.name: frozenset({entrant.model} & {*names} or _families_of(entrant.model))}
    )


def _families_of(model: str) -> set[str]:
    """The keys of the families that a model's identifier names."""
    return load_family_names().of(model)
