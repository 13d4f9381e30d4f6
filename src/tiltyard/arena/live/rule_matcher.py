"""Finds the phrases of moderation rules in texts, in time proportional to their length."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from tiltyard.arena.content.name_tokens import is_punctuation, normalise, tokenise
from tiltyard.settings.live_models import ModerationRule, ModerationRules

#: Characters of a text that are searched. The texts of a battle are shorter.
_MAX_SEARCHED_CHARACTERS = 1_000_000

TextKind = Literal["prompts", "answers"]


@dataclass(slots=True)
class _Node:
    """A place in the tree of phrases: what may follow, and the rules of the phrases that end here."""

    words: dict[str, _Node] = field(default_factory=dict)
    #: What a word must begin with, by its length.
    prefixes: dict[int, dict[str, _Node]] = field(default_factory=dict)
    rules: list[ModerationRule] = field(default_factory=list)


class RuleMatcher:
    """The rules of a file, indexed for searching."""

    def __init__(self, rules: ModerationRules) -> None:
        self._root = _Node()
        self._anywhere: list[tuple[str, ModerationRule]] = []
        self._order = {rule.name: number for number, rule in enumerate(rules.rules)}
        for rule in rules.rules:
            for phrase in rule.phrases:
                self._add(phrase, rule)

    def _add(self, phrase: str, rule: ModerationRule) -> None:
        if len(phrase) > 1 and phrase.startswith("*") and phrase.endswith("*"):
            self._anywhere.append((_joined(normalise(phrase[1:-1])), rule))
            return
        node = self._root
        for word in phrase.split():
            tokens = _words(normalise(word.removesuffix("*")))
            for number, token in enumerate(tokens, start=1):
                if word.endswith("*") and number == len(tokens):
                    node = node.prefixes.setdefault(len(token), {}).setdefault(token, _Node())
                else:
                    node = node.words.setdefault(token, _Node())
        if node is not self._root:
            node.rules.append(rule)

    def search(self, text: str, kind: TextKind) -> list[ModerationRule]:
        """The rules for this kind of text that it breaks, in the order of the file."""
        normalised = normalise(text[:_MAX_SEARCHED_CHARACTERS])
        found = {rule.name: rule for rule in self._found(normalised) if rule.texts in ("all", kind)}
        return sorted(found.values(), key=lambda rule: self._order[rule.name])

    def _found(self, normalised: str) -> Iterator[ModerationRule]:
        if self._anywhere:
            joined = _joined(normalised)
            yield from (rule for part, rule in self._anywhere if part in joined)
        tokens = _words(normalised)
        for start, token in enumerate(tokens):
            if token in self._root.words or self._root.prefixes:
                yield from self._from(self._root, tokens, start)

    def _from(self, node: _Node, tokens: list[str], place: int) -> Iterator[ModerationRule]:
        """The rules of the phrases that go on from a node at a place."""
        yield from node.rules
        if place < len(tokens):
            for following in _followed(node, tokens[place]):
                yield from self._from(following, tokens, place + 1)


def _followed(node: _Node, token: str) -> Iterator[_Node]:
    following = node.words.get(token)
    if following is not None:
        yield following
    for length, prefixes in node.prefixes.items():
        following = prefixes.get(token[:length])
        if following is not None:
            yield following


def _words(normalised: str) -> list[str]:
    return [token for token in tokenise(normalised) if not is_punctuation(token)]


def _joined(text: str) -> str:
    """The text with one space for each run of white space."""
    return " ".join(text.split())
