"""How the texts of live battles are moderated: a file of rules, a moderation endpoint and a guard model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from tiltyard.settings.config_section import (
    ConfigSection,
    Count,
    Many,
    Name,
    PathText,
    Positive,
    Text,
    Variable,
    YesNo,
    default_if_empty,
    expecting,
    one_of,
    section_error,
    validate_section,
)
from tiltyard.settings.endpoint_routes import HeaderName, HeaderValue, UrlPath, route_problems
from tiltyard.settings.tournament_sections import address_problem
from tiltyard.settings.yaml_file import read_yaml

__all__ = [
    "CheckEndpointSection",
    "GuardSection",
    "ModerationEndpointSection",
    "ModerationRule",
    "ModerationRules",
    "ModerationSection",
    "load_moderation_rules",
]

_PHRASE_LIMIT = 10_000
_MAX_PHRASE_CHARACTERS = 200
_MAX_PHRASE_WORDS = 20

Phrase = Annotated[
    str,
    Field(min_length=1, max_length=_MAX_PHRASE_CHARACTERS),
    expecting(f"words on one line, at most {_MAX_PHRASE_CHARACTERS} characters (put a number in quotes)"),
]


class ModerationRule(ConfigSection):
    """Words and phrases, and what happens to a text that contains one."""

    #: Its name, which must be unique. Voters never see it.
    name: Name
    #: ``refuse``: the text is not accepted. ``flag``: the name is kept with the turn.
    action: Annotated[Literal["refuse", "flag"], one_of("refuse", "flag")] = "refuse"
    #: Words and phrases.
    phrases: Annotated[tuple[Phrase, ...], Many, Field(min_length=1)]
    #: ``all``, ``prompts`` or ``answers``.
    texts: Annotated[Literal["all", "prompts", "answers"], one_of("all", "prompts", "answers")] = "all"

    @model_validator(mode="after")
    def _searchable(self) -> Self:
        for number, phrase in enumerate(self.phrases):
            problem = _phrase_problem(phrase)
            if problem is not None:
                raise section_error(f"{phrase!r} {problem}", "phrases", number)
        return self


class ModerationRules(ConfigSection):
    """The file of rules."""

    rules: Annotated[tuple[ModerationRule, ...], Field(strict=False)]

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        names = Counter(rule.name for rule in self.rules)
        twice = next((name for name, times in names.items() if times > 1), None)
        if twice is not None:
            raise section_error(f"duplicate rule {twice!r}; rename one of them", "rules")
        count = sum(len(rule.phrases) for rule in self.rules)
        if count > _PHRASE_LIMIT:
            raise section_error(f"{count:,} phrases; the limit is {_PHRASE_LIMIT:,}", "rules")
        return self


class CheckEndpointSection(ConfigSection):
    """Where a check is served, in OpenAI's style."""

    #: The model's name there.
    model: Name
    #: URL, if not OpenAI's own.
    base_url: Text | None = None
    #: The path after ``base_url``.
    path: UrlPath
    query: Annotated[Mapping[Text, Text], default_if_empty({})] = Field(default_factory=dict)
    headers: Annotated[Mapping[HeaderName, HeaderValue], default_if_empty({})] = Field(default_factory=dict)
    query_env: Annotated[Mapping[Text, Variable], default_if_empty({})] = Field(default_factory=dict)
    headers_env: Annotated[Mapping[HeaderName, Variable], default_if_empty({})] = Field(default_factory=dict)
    api_key_env: Variable | None = None
    api_key_header: HeaderName | None = None

    @property
    def provider(self) -> str:
        """The protocol that it speaks."""
        return "openai"

    @model_validator(mode="after")
    def _addressed(self) -> Self:
        problem = address_problem("openai", self.base_url)
        if problem is not None:
            raise section_error(problem, "base_url")
        for field, trouble in route_problems(self.headers, self.headers_env, self.query, self.query_env):
            raise section_error(trouble, field)
        return self


class ModerationEndpointSection(CheckEndpointSection):
    """An endpoint that says whether texts are harmful: ``POST /moderations``."""

    #: The model's name there.
    model: Name = "omni-moderation-latest"
    #: The path after ``base_url``.
    path: UrlPath = "/moderations"
    #: The categories that refuse a text; none: whatever is flagged.
    categories: Annotated[tuple[Text, ...], Many, default_if_empty(())] = ()


class GuardSection(CheckEndpointSection):
    """A guard model behind OpenAI's chat protocol, which answers ``safe`` or ``unsafe`` and perhaps categories."""

    #: The path after ``base_url``.
    path: UrlPath = "/chat/completions"
    #: Sent before the conversation, for models whose chat template has no instruction of its own.
    system: Text | None = None
    #: First words of an answer that mean that nothing is wrong.
    safe: Annotated[tuple[Text, ...], Many, Field(min_length=1)] = ("safe",)
    #: First words that mean that something is.
    unsafe: Annotated[tuple[Text, ...], Many, Field(min_length=1)] = ("unsafe",)
    #: The longest answer.
    max_tokens: Count = 64


class ModerationSection(ConfigSection):
    """The section ``moderation`` of a models file."""

    #: A file of rules, relative to this one.
    rules: PathText | None = None
    #: A moderation endpoint.
    endpoint: ModerationEndpointSection | None = None
    #: A guard model.
    guard: GuardSection | None = None
    #: If a check does not answer in time: ``closed`` refuses the text, ``open`` accepts it and flags the turn as
    #: ``unchecked``. Both are logged.
    fail: Annotated[Literal["closed", "open"], one_of("closed", "open")] = "closed"
    #: How long each check may take; all run at once.
    timeout_seconds: Positive = 5.0
    #: Show answers only after they have been checked.
    hold_answers: YesNo = False

    def read_rules(self, folder: Path) -> ModerationRules:
        """The rules of the file that is named, or none."""
        if self.rules is None:
            return ModerationRules(rules=())
        return load_moderation_rules(folder / Path(self.rules).expanduser())


def load_moderation_rules(path: Path) -> ModerationRules:
    """Read a file of rules; raises `BadConfig` if it is invalid."""
    return validate_section(ModerationRules, read_yaml(path), {})


def _phrase_problem(phrase: str) -> str | None:
    words = phrase.split()
    if len(words) > _MAX_PHRASE_WORDS:
        return f"has {len(words)} words; the limit is {_MAX_PHRASE_WORDS}"
    if not any(character.isalnum() for character in phrase):
        return "has neither letters nor digits"
    anywhere = len(phrase) > 1 and phrase.startswith("*") and phrase.endswith("*")
    if anywhere:
        return "has '*' inside; write it at both ends only" if "*" in phrase[1:-1] else None
    if any("*" in word[:-1] or word == "*" for word in words):
        return "has '*' elsewhere than at the end of a word; for a part of a word write *part*"
    return None
