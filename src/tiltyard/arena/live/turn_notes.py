"""What is noted about a turn of a live battle: language, identity talk, private data, and rules that only flag.

Masks names of models, families and makers in what is shown, by the same rule on both sides.

What is masked does not depend on who answers: else the mask itself would tell. Text can be masked while it comes: what
has been shown once is never changed by what follows.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import re
import unicodedata
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypedDict

from tiltyard.arena.content.name_mentions import (
    MentionFinder,
    PhraseIndex,
    is_punctuation,
    is_unspaced,
    load_family_names,
    normalise,
    phrase_tokens,
    token_starts,
    tokenise,
)
from tiltyard.arena.live.live_records import StoredEntrant
from tiltyard.core.live.private_data import find_private_data
from tiltyard.core.live.prompt_texts import detect_language
from tiltyard.settings.identity_words import load_identity_questions


class TurnFlags(TypedDict, total=False):
    """The flags of a turn, as they are stored. What was not found is not there."""

    #: The language of the prompt: an ISO 639-1 code, or ``unknown``.
    language: str
    #: Where the turn talks about who answers: ``prompt``, ``a``, ``b``.
    identity: list[str]
    #: Kinds of private data in the prompt or the answers.
    private: list[str]
    #: Names of moderation rules that only flag, and ``unchecked``.
    rules: list[str]


def names_of(entrants: Iterable[StoredEntrant]) -> list[EntrantNames]:
    """What these entrants are called."""
    return [EntrantNames(one.name, str(one.config.get("model", one.name))) for one in entrants]


def note_turn(
    entrants: Sequence[StoredEntrant], prompt: str, answers: tuple[str, str], models: tuple[int, int]
) -> TurnFlags:
    """The flags of a turn that ended, between two of these entrants, given by their numbers."""
    known = {one.model: one.name for one in entrants}
    left, right = (known.get(model, "") for model in models)
    noted: TurnFlags = {"language": detect_language(prompt)}
    if identity := IdentityTalk(names_of(entrants)).places(prompt, answers, (left, right)):
        noted["identity"] = list(identity)
    if private := find_private_data("\n".join((prompt, *answers))):
        noted["private"] = list(private)
    return noted


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
#: An answer of so few tokens, with the name of who gives it, says who that is.
_SHORT_ANSWER_TOKENS = 8
#: The shortest name that is found in a code, and the fewest letters that are read as a word that is spelled out.
_LEAST_CODED_CHARACTERS = 4
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{6,}")


def coded_readings(text: str) -> list[str]:
    """What a text says backwards, in base64, and letter by letter."""
    found = [text[::-1]]
    for run in _BASE64.findall(text):
        with contextlib.suppress(ValueError):
            padded = run.replace("-", "+").replace("_", "/") + "=" * (-len(run) % 4)
            found.append(base64.b64decode(padded).decode())
    letters = ["", ""]
    for token in tokenise(normalise(text)):
        if len(token) == 1 and token.isalnum() and not is_unspaced(token):
            letters[-1] += token
        elif not is_punctuation(token) and letters[-1]:
            letters.append("")
    spelled = [one for one in letters if len(one) >= _LEAST_CODED_CHARACTERS]
    return [*found, *spelled, *(one[::-1] for one in spelled)]


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
        self._own = {one.name: (one.name, one.model) for one in known}
        #: Names of the arena's models; a single word may be an ordinary one.
        self.names: PhraseIndex[str] = PhraseIndex()
        for entrant in known:
            for name in (entrant.name, entrant.model):
                self.names.add(name, name)

    def places(
        self, prompt: str, answers: tuple[str, str], models: tuple[str, str]
    ) -> tuple[IdentityTalkPlace, ...]:
        """Where a turn talks of identity. ``models``: the names of the entrants on the left and on the right."""
        talks: dict[IdentityTalkPlace, bool] = {
            "prompt": self.asks(prompt),
            "a": self.names_itself(answers[0], models[0]),
            "b": self.names_itself(answers[1], models[1]),
        }
        return tuple(place for place, is_found in talks.items() if is_found)

    def asks(self, prompt: str) -> bool:
        """Whether a prompt asks which model answers it, or who made it: plainly, or in a code that is read."""
        text, questions = prompt[:_MAX_SEARCHED_CHARACTERS], _questions()
        return any(self._asks(questions, tokenise(normalise(one))) for one in (text, *coded_readings(text)))

    def _asks(self, questions: _Questions, tokens: list[str]) -> bool:
        return questions.asked(tokens) or any(
            self._name_follows(tokens, end) for _, _, end in questions.before_names.within(tokens)
        )

    def names_itself(self, answer: str, model: str) -> bool:
        """Whether an answer says its model, its family or its maker, calls itself by any such name, or says one in code.

        A few words with its own name are taken for an answer to a question that was not understood.
        """
        finder = self._finders.get(model) or _finder(EntrantNames(model, model))
        text = answer[:_MAX_SEARCHED_CHARACTERS]
        if finder.find(text, model) is not None:
            return True
        tokens = tokenise(normalise(text))
        speaks = self._families.self_references.found
        is_short = len(tokens) <= _SHORT_ANSWER_TOKENS
        for name, start, end in self.names.within(tokens):
            if speaks(tokens, start, end, as_model=False) or (is_short and name in self._own.get(model, ())):
                return True
        return any(self._names_anybody(tokenise(normalise(one))) for one in coded_readings(text))

    def _names_anybody(self, tokens: list[str]) -> bool:
        """Whether a name of a model, a family or a maker stands anywhere: nobody writes one in code by chance."""
        return any(
            sum(map(len, tokens[start:end])) >= _LEAST_CODED_CHARACTERS
            for index in (self._families.index, self.names)
            for _, start, end in index.within(tokens)
        )

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
    families = load_family_names().of(entrant.model)
    return MentionFinder(own, {entrant.name: frozenset({entrant.model} & {*names} or families)})


#: Stands for a name.
MASK = "[…]"
#: A sentence ends, or a paragraph: no name reaches over it.
_SENTENCE_END = re.compile(r"[.!?](?=\s)|[。！？]|\n[ \t]*\n")
#: A sentence that is longer is cut at its last white space.
_MAX_SENTENCE_CHARACTERS = 600


class NameMask:
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
        kept = (each.isascii() or unicodedata.category(each) not in ("Mn", "Me", "Cf") for each in plain)
        places.extend(place for is_kept in kept if is_kept)
    if len(places) != len(normalised):
        # Not seen for any text: mask the whole sentence rather than show a part of a name.
        return normalised, array("I", [0] * (len(normalised) - 1) + [len(text) - 1])
    return normalised, places
