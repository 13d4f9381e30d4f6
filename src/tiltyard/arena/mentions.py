"""Responses that name models: their voters are not blind. Nothing is refused for it; operators are told."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tiltyard.arena.answering import Incoming

__all__ = ["SHOWN_MENTIONS", "Lookout", "Mention"]

#: Mentions that are told; the others are counted.
SHOWN_MENTIONS = 20
#: Shorter names are words of too many languages.
_SHORTEST = 3
#: Characters of a response that are looked at.
_LOOKED_AT = 1_000_000
_WORD = re.compile(r"\w+")
_READ = ("text", "app")


@dataclass(frozen=True, slots=True)
class Mention:
    """A response that says the name of a model, its own or another."""

    where: str
    name: str
    own: bool

    def __str__(self) -> str:
        whose = "its model" if self.own else "another model"
        return f"{self.where}: says {self.name!r}, the name of {whose}: voters will read it"


class Lookout:
    """Looks for names of models in responses, as whole words in any case."""

    def __init__(self, names: Iterable[str]) -> None:
        #: Names by the longest word in them: most texts have none of these words, and are done with.
        self._names: dict[str, list[str]] = defaultdict(list)
        for name in sorted(set(names), key=len, reverse=True):
            words = _WORD.findall(name.casefold())
            if len(name) >= _SHORTEST and words:
                self._names[max(words, key=len)].append(name)
        self.first: list[Mention] = []
        self.count = 0

    def watching(self, answers: Iterable[Incoming]) -> Iterator[Incoming]:
        """The same answers, looked at on their way."""
        for answer in answers:
            self.look(answer)
            yield answer

    def look(self, answer: Incoming) -> None:
        """Count a response that says a name; the first of them are kept."""
        name = self._said(answer) if answer.kind in _READ else None
        if name is None:
            return
        self.count += 1
        if len(self.first) < SHOWN_MENTIONS:
            self.first.append(Mention(answer.where, name, name == answer.model))

    def _said(self, answer: Incoming) -> str | None:
        """Its own model's name, or else the longest of the others that it says."""
        text = answer.data[: 4 * _LOOKED_AT].decode("utf-8", "ignore")[:_LOOKED_AT].casefold()
        words = self._names.keys() & set(_WORD.findall(text))
        said = [name for word in words for name in self._names[word]]
        for name in sorted(said, key=lambda name: (name != answer.model, -len(name), name)):
            if re.search(rf"(?<!\w){re.escape(name.casefold())}(?!\w)", text):
                return name
        return None
