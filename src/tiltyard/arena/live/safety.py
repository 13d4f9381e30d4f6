"""Moderation of live battles: prompts, and both answers alike, each with the whole conversation before it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from tiltyard.arena.live.rule_matcher import RuleMatcher, TextKind
from tiltyard.errors import MissingExtra, ProviderFault
from tiltyard.judges.providers.provider import ChatGuard, ChatTurn
from tiltyard.settings.environment import Environment
from tiltyard.settings.live_models import ModerationSection, load_live_models

#: Environment variable with the path of the models file whose section ``moderation`` holds for all live arenas.
MODERATION_VARIABLE = "TILTYARD_MODERATION"

_LOG = logging.getLogger(__name__)

#: Who refused a text, or did not answer: the file of rules, the moderation endpoint or the guard model.
SafetySource = Literal["rules", "endpoint", "guard"]


class TurnTexts(Protocol):
    """A turn of a battle: its prompt and both answers. A `LiveTurn` is one."""

    @property
    def prompt(self) -> str: ...
    @property
    def a(self) -> str: ...
    @property
    def b(self) -> str: ...


@dataclass(frozen=True, slots=True)
class SafetyVerdict:
    """Whether a text may be sent on or shown."""

    allowed: bool
    #: The rule or the categories that it broke; for the operator, never for a voter.
    rule: str | None = None
    source: SafetySource | None = None
    #: Whether a check did not answer. ``allowed`` then follows the setting ``fail``.
    unavailable: bool = False
    #: Names of rules that only flag, to be kept with the turn.
    flags: tuple[str, ...] = ()


_ALLOWED = SafetyVerdict(allowed=True)
#: Kept with a turn that was accepted although a check did not answer.
_UNCHECKED = "unchecked"


class Safety:
    """The moderation of one models file. Without a section everything is allowed."""

    def __init__(
        self,
        section: ModerationSection | None = None,
        matcher: RuleMatcher | None = None,
        guards: Sequence[tuple[SafetySource, ChatGuard]] = (),
    ) -> None:
        self._section = section or ModerationSection()
        self._matcher = matcher
        self._guards = tuple(guards)

    @property
    def active(self) -> bool:
        """Whether anything is checked."""
        return self._matcher is not None or bool(self._guards)

    @property
    def holds_answers(self) -> bool:
        """Whether answers may be shown only after `check_answers` has allowed them."""
        return self.active and self._section.hold_answers

    async def check_prompt(self, history: Sequence[TurnTexts], text: str) -> SafetyVerdict:
        """Check a prompt before it is sent to the models. ``history``: the turns before it."""
        verdict = self._by_rules("prompts", text)
        if not verdict.allowed or not self._guards:
            return verdict
        asked = [ChatTurn("user", text)]
        talks = [[*_messages(history, side), *asked] for side in ((0, 1) if history else (0,))]
        return await self._by_guards(talks, verdict.flags)

    async def check_answers(self, history: Sequence[TurnTexts], a: str, b: str) -> SafetyVerdict:
        """Check both answers alike. ``history``: the turns, the last of which has the prompt that was answered."""
        verdict = self._by_rules("answers", a, b)
        if not verdict.allowed or not self._guards:
            return verdict
        talks = []
        for side, answer in enumerate((a, b)):
            asked = [ChatTurn("user", history[-1].prompt)] if history else []
            talks.append([*_messages(history[:-1], side), *asked, ChatTurn("assistant", answer)])
        return await self._by_guards(talks, verdict.flags)

    async def close(self) -> None:
        """Close all connections."""
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
            return SafetyVerdict(False, refused, "rules", flags=flags)
        return SafetyVerdict(True, flags=flags)

    async def _by_guards(self, talks: Sequence[Sequence[ChatTurn]], flags: tuple[str, ...]) -> SafetyVerdict:
        """Ask all guards about all conversations at once; a refusal takes precedence over a guard that is silent."""
        asked = (self._ask(source, guard, talk) for source, guard in self._guards for talk in talks)
        verdicts = await asyncio.gather(*asked)
        refused = next((one for one in verdicts if not one.allowed and not one.unavailable), None)
        silent = next((one for one in verdicts if one.unavailable), None)
        if refused is not None:
            return SafetyVerdict(False, refused.rule, refused.source, flags=flags)
        if silent is None:
            return SafetyVerdict(True, flags=flags)
        kept = (*flags, _UNCHECKED) if silent.allowed else flags
        return SafetyVerdict(silent.allowed, None, silent.source, unavailable=True, flags=kept)

    async def _ask(self, source: SafetySource, guard: ChatGuard, talk: Sequence[ChatTurn]) -> SafetyVerdict:
        try:
            async with asyncio.timeout(self._section.timeout_seconds):
                harm = await guard.harm(talk)
        except (ProviderFault, TimeoutError) as error:
            opened = self._section.fail == "open"
            _LOG.warning(
                "A text of a live battle could not be checked and is %s (moderation.fail is %s): %s: %s",
                "accepted" if opened else "refused",
                self._section.fail,
                source,
                str(error) or f"no answer within {self._section.timeout_seconds:g} seconds",
            )
            return SafetyVerdict(opened, None, source, unavailable=True)
        if harm is None:
            return _ALLOWED
        rule = ", ".join(harm) or source
        _LOG.info("The %s refused a text of a live battle: %s.", source, rule)
        return SafetyVerdict(False, rule, source)


def open_configured_safety(environment: Environment) -> Safety | None:
    """The moderation of the models file that the environment names; ``None`` if it names none, or has no such section.

    Raises `BadConfig` if it cannot be read: a server that should moderate does not start without.
    """
    path = environment.variables.get(MODERATION_VARIABLE)
    if not path:
        return None
    models = load_live_models(Path(path))
    if models.moderation is None:
        return None
    return open_safety(models.moderation, models.path.parent, environment)


def open_safety(section: ModerationSection | None, folder: Path, environment: Environment) -> Safety:
    """The moderation that a models file describes; ``folder`` is where that file is. Nothing is sent yet."""
    if section is None:
        return Safety()
    matcher = RuleMatcher(section.read_rules(folder)) if section.rules is not None else None
    guards: list[tuple[SafetySource, ChatGuard]] = []
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


def _messages(history: Sequence[TurnTexts], side: int) -> list[ChatTurn]:
    """The conversation with one of the two models."""
    return [
        message
        for turn in history
        for message in (ChatTurn("user", turn.prompt), ChatTurn("assistant", (turn.a, turn.b)[side]))
    ]
