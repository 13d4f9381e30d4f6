"""Moderation of live battles: prompts, and both answers alike, each with the whole conversation before it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tiltyard.arena.content.name_mentions import is_punctuation, normalise, tokenise
from tiltyard.arena.live.live_records import LiveTurn
from tiltyard.errors import MissingExtra, ProviderFault
from tiltyard.judges.providers.provider import ChatTurn
from tiltyard.settings.environment import Environment
from tiltyard.settings.live_models import LiveModels, ModerationRule, ModerationRules, ModerationSection

if TYPE_CHECKING:
    from tiltyard.judges.providers.moderation_calls import GuardModel, ModerationEndpoint

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


#: Environment variable with the path of the models file whose section ``moderation`` holds for all live arenas.
MODERATION_VARIABLE = "TILTYARD_MODERATION"

_LOG = logging.getLogger(__name__)

#: Who is asked about conversations: the moderation endpoint or the guard model.
SafetySource = Literal["endpoint", "guard"]


@dataclass(frozen=True, slots=True)
class SafetyVerdict:
    """Whether a text may be sent on or shown."""

    allowed: bool
    #: Names of rules that only flag, to be kept with the turn.
    flags: tuple[str, ...] = ()


_ALLOWED = SafetyVerdict(allowed=True)
#: Kept with a turn that was accepted although a check did not answer.
_UNCHECKED = "unchecked"


class Safety:
    """The moderation of one models file."""

    def __init__(
        self,
        section: ModerationSection,
        matcher: RuleMatcher | None = None,
        guards: Sequence[tuple[SafetySource, GuardModel | ModerationEndpoint]] = (),
    ) -> None:
        self._section = section
        self._matcher = matcher
        self._guards = tuple(guards)

    @property
    def holds_answers(self) -> bool:
        """Whether answers may be shown only after `check_answers` has allowed them."""
        return self._section.hold_answers and (self._matcher is not None or bool(self._guards))

    async def check_prompt(self, history: Sequence[LiveTurn], text: str) -> SafetyVerdict:
        """Check a prompt before it is sent to the models. ``history``: the turns before it."""
        verdict = self._by_rules("prompts", text)
        if not verdict.allowed or not self._guards:
            return verdict
        asked = [ChatTurn("user", text)]
        talks = [[*_messages(history, side), *asked] for side in ((0, 1) if history else (0,))]
        return await self._by_guards(talks, verdict.flags)

    async def check_answers(self, history: Sequence[LiveTurn], a: str, b: str) -> SafetyVerdict:
        """Check both answers alike. ``history``: the turns, the last of which has the prompt that was answered."""
        verdict = self._by_rules("answers", a, b)
        if not verdict.allowed or not self._guards:
            return verdict
        asked = ChatTurn("user", history[-1].prompt)
        talks = [
            [*_messages(history[:-1], side), asked, ChatTurn("assistant", answer)]
            for side, answer in enumerate((a, b))
        ]
        return await self._by_guards(talks, verdict.flags)

    async def close(self) -> None:
        for _, guard in self._guards:
            await guard.close()

    def _by_rules(self, kind: TextKind, *texts: str) -> SafetyVerdict:
        if self._matcher is None:
            return _ALLOWED
        broken = [rule for text in texts for rule in self._matcher.search(text, kind)]
        refused = next((rule.name for rule in broken if rule.action == "refuse"), None)
        flags = tuple(dict.fromkeys(rule.name for rule in broken if rule.action == "flag"))
        if refused is not None:
            _LOG.info("The rule %r refused one of the %s.", refused, kind)
        return SafetyVerdict(refused is None, flags)

    async def _by_guards(self, talks: Sequence[Sequence[ChatTurn]], flags: tuple[str, ...]) -> SafetyVerdict:
        """Ask all guards about all conversations at once; a refusal takes precedence over a guard that is silent."""
        asked = (self._ask(source, guard, talk) for source, guard in self._guards for talk in talks)
        allowed = await asyncio.gather(*asked)
        if False in allowed:
            return SafetyVerdict(False, flags)
        if None not in allowed:
            return SafetyVerdict(True, flags)
        opened = self._section.fail == "open"
        return SafetyVerdict(opened, (*flags, _UNCHECKED) if opened else flags)

    async def _ask(
        self, source: SafetySource, guard: GuardModel | ModerationEndpoint, talk: Sequence[ChatTurn]
    ) -> bool | None:
        """Whether a guard allows a conversation; ``None`` if it does not answer."""
        try:
            async with asyncio.timeout(self._section.timeout_seconds):
                harm = await guard.harm(talk)
        except (ProviderFault, TimeoutError) as error:
            _LOG.warning(
                "A text of a live battle could not be checked and is %s (moderation.fail is %s): %s: %s",
                "accepted" if self._section.fail == "open" else "refused",
                self._section.fail,
                source,
                str(error) or f"no answer within {self._section.timeout_seconds:g} seconds",
            )
            return None
        if harm is not None:
            _LOG.info("The %s refused a text of a live battle: %s.", source, ", ".join(harm) or source)
        return harm is None


def open_configured_safety(environment: Environment) -> Safety | None:
    """The moderation of the models file that the environment names; ``None`` if it names none, or has no such section.

    Raises `BadConfig` if it cannot be read: a server that should moderate does not start without.
    """
    path = environment.variables.get(MODERATION_VARIABLE)
    if not path:
        return None
    models = LiveModels.load(Path(path))
    if models.moderation is None:
        return None
    return open_safety(models.moderation, models.path.parent, environment)


def open_safety(section: ModerationSection, folder: Path, environment: Environment) -> Safety:
    """The moderation that a models file describes; ``folder`` is where that file is. Nothing is sent yet."""
    matcher = RuleMatcher(section.read_rules(folder)) if section.rules is not None else None
    guards: list[tuple[SafetySource, GuardModel | ModerationEndpoint]] = []
    if section.endpoint is not None or section.guard is not None:
        try:
            from tiltyard.judges.providers.moderation_calls import GuardModel, ModerationEndpoint
        except ModuleNotFoundError as error:
            if error.name not in {"aiohttp", "truststore", "yarl"}:
                raise
            raise MissingExtra("judges", "asking a moderation endpoint") from None
        seconds = section.timeout_seconds
        if section.endpoint is not None:
            guards.append(("endpoint", ModerationEndpoint(section.endpoint, environment, seconds)))
        if section.guard is not None:
            guards.append(("guard", GuardModel(section.guard, environment, seconds)))
    return Safety(section, matcher, guards)


def _messages(history: Sequence[LiveTurn], side: int) -> list[ChatTurn]:
    return [
        message
        for turn in history
        for message in (ChatTurn("user", turn.prompt), ChatTurn("assistant", (turn.a, turn.b)[side]))
    ]
