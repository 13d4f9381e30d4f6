"""The models of a live arena, where they are served and with which parameters; and how their texts are moderated."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from tiltyard.errors import BadConfig
from tiltyard.settings.config_section import (
    ConfigFile,
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
    repeated,
    section_error,
    validate_section,
)
from tiltyard.settings.model_endpoints import (
    PROVIDERS,
    HeaderName,
    HeaderValue,
    UrlPath,
    address_problem,
    key_variable,
    route_problems,
)
from tiltyard.settings.prices import Dollars, Price, PriceBook, PriceEntry, open_prices, request_fields
from tiltyard.settings.tournament_sections import GenerateSection, Prices
from tiltyard.settings.yaml_file import read_yaml

_PHRASE_LIMIT = 10_000
_MAX_PHRASE_CHARACTERS = 200
_MAX_PHRASE_WORDS = 20

Phrase = Annotated[
    str,
    Field(min_length=1, max_length=_MAX_PHRASE_CHARACTERS),
    expecting(f"words on one line, at most {_MAX_PHRASE_CHARACTERS} characters (put a number in quotes)"),
]
#: Changes when the same settings are sent as another request.
_SCHEME_VERSION = 1
#: Settings of other calls, and why they have no effect here.
_UNUSED = {
    "batch": "answers are streamed, and batches cannot be",
    "retries": "an answer that failed is asked for at most once more, whatever the model",
    "timeout_seconds": "timeouts are settings of the arena, the same for all its models",
}
#: Settings of an entrant that are computed from more than one of the file.
_COMPUTED_SETTINGS = frozenset({"api_key_env", "max_tokens", "options", "price"})


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
        twice = repeated(rule.name for rule in self.rules)
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


class LivePrice(ConfigSection):
    """What a model costs, in dollars per million tokens. A price of 0 is one that is stated."""

    #: Tokens of the prompt.
    input: Dollars
    #: Tokens of the answer, with its thinking.
    output: Dollars
    cache_write_5m: Dollars | None = None
    cache_write_1h: Dollars | None = None
    cache_read: Dollars | None = None


class LiveModel(GenerateSection):
    """One model of a live arena, as written."""

    #: Its name on the board, told after the vote.
    name: Name
    #: ``true`` for a local server whose chat template writes ``<think>`` itself, so that an answer begins with
    #: thinking and only ``</think>`` ends it.
    thinking_open: YesNo = False
    #: Its price; without it that of the price list at this address. If neither is known, the price is unknown,
    #: which is not 0: nothing with a budget is started.
    price: LivePrice | None = None
    #: Who made it; this and what follows is told with the name.
    maker: Name | None = None
    #: Its family.
    family: Name | None = None
    #: Its licence.
    licence: Name | None = None
    #: An address that begins with ``http://`` or ``https://``.
    link: (
        Annotated[
            str,
            Field(pattern=r"^https?://[^\s/\x00-\x1f\x7f][^\s\x00-\x1f\x7f]*$", max_length=500),
            expecting("an address that begins with http:// or https://"),
        ]
        | None
    ) = None
    #: ``true`` or ``false``.
    open_weights: YesNo | None = None

    @model_validator(mode="after")
    def _used(self) -> Self:
        unused = next((field for field in _UNUSED if field in self.model_fields_set), None)
        if unused is not None:
            raise section_error(f"not used by live models: {_UNUSED[unused]}; remove it", unused)
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveEntrant:
    """One model of a live arena with all its settings: what answers under its name."""

    name: str
    provider: str
    model: str
    #: ``None`` means the provider's own address.
    base_url: str | None
    path: str | None
    query: Mapping[str, str]
    headers: Mapping[str, str]
    #: The environment variables of secrets, by query field and header.
    query_env: Mapping[str, str]
    headers_env: Mapping[str, str]
    #: The environment variable with the key; ``None`` if no key is sent.
    api_key_env: str | None
    api_key_header: str | None
    system: str | None
    #: The longest answer, with its thinking.
    max_tokens: int
    #: Fields of every request: parameters, effort and thinking as the provider spells them.
    options: Mapping[str, Any]
    #: Whether its text begins with thinking that only a closing tag ends.
    thinking_open: bool
    concurrency: int
    requests_per_minute: float | None
    #: ``None`` if it is unknown; never 0 unless the file says so.
    price: Price | None
    maker: str | None
    family: str | None
    licence: str | None
    link: str | None
    open_weights: bool | None

    @property
    def version(self) -> str:
        """A hash of everything that decides what it answers. Its name, keys, price and details are no part of it."""
        decisive = {
            "scheme": _SCHEME_VERSION,
            "provider": self.provider,
            "base_url": (self.base_url or PROVIDERS[self.provider].base_url).rstrip("/"),
            "path": self.path,
            "query": dict(self.query),
            "headers": {name.lower(): value for name, value in self.headers.items()},
            "model": self.model,
            "system": self.system,
            "max_tokens": self.max_tokens,
            "options": dict(self.options),
            **({"thinking_open": True} if self.thinking_open else {}),
        }
        text = json.dumps(decisive, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


class LiveModels(ConfigFile):
    """The contents of a file of live models."""

    #: At least two models.
    models: Annotated[tuple[LiveModel, ...], Many, Field(min_length=2)]
    #: Your own prices, as for a tournament.
    prices: Prices | None = None
    #: How prompts and answers are checked: see moderation. Without it they are not.
    moderation: ModerationSection | None = None

    @classmethod
    def of_one(cls, section: Mapping[str, Any]) -> Self:
        """A file of one model, which stands there twice: a file has two models at least."""
        other = "b" if section["name"].casefold() == "a" else "a"
        return cls.model_validate({"models": [section, {**section, "name": other}]})

    def entrants(self) -> tuple[LiveEntrant, ...]:
        """The models, with all defaults filled in. Raises `BadConfig` for what a model is known not to accept."""
        prices = open_prices(self.prices, self.folder)
        return tuple(self._complete(number, model, prices) for number, model in enumerate(self.models))

    def _complete(self, number: int, model: LiveModel, prices: PriceBook) -> LiveEntrant:
        traits = prices.traits(model.provider, model.model)
        stated = model.model_dump(include={"options", "effort", "thinking", "temperature"})
        try:
            options = request_fields(stated, traits, model=model.model, provider=model.provider)
        except BadConfig as error:
            raise BadConfig(f"{self.where('models', number)}: {error}") from None
        if model.price is not None:
            prices = replace(prices, own={model.model: PriceEntry(**model.price.model_dump())})
        names = {field.name for field in fields(LiveEntrant)} - _COMPUTED_SETTINGS
        return LiveEntrant(
            **{name: getattr(model, name) for name in names},
            api_key_env=key_variable(model.provider, model.api_key_env, model.base_url),
            max_tokens=model.max_tokens or traits.default_limit(options),
            options=options,
            price=prices.price(model.provider, model.model, model.base_url),
        )

    @model_validator(mode="after")
    def _coherent(self) -> Self:
        counts = Counter(model.name.casefold() for model in self.models)
        for number, model in enumerate(self.models):
            if counts[model.name.casefold()] > 1:
                raise section_error(
                    f"duplicate {model.name!r}; names must differ by more than case", "models", number, "name"
                )
        return self
