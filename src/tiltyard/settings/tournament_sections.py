"""The sections of a tournament's configuration, each with its defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_serializer, model_validator

from tiltyard.settings.config_section import (
    ConfigSection,
    Count,
    Many,
    Name,
    NonNegative,
    Number,
    PathText,
    Positive,
    Seed,
    Text,
    Variable,
    YesNo,
    default_if_empty,
    expecting,
    one_of,
    section_error,
)
from tiltyard.settings.model_endpoints import (
    HeaderName,
    HeaderValue,
    JudgeProviderName,
    ProviderName,
    UrlPath,
    address_problem,
    route_problems,
)
from tiltyard.settings.prices import PriceEntry, ReplyForm

#: Settings of a model that become request fields.
MODEL_SETTINGS = ("effort", "thinking", "temperature")

#: Settings that belong to an address: another address never inherits them.
ROUTE_SETTINGS = ("path", "query", "query_env", "headers", "headers_env", "api_key_header")

_Form = Annotated[Literal["auto", "schema", "tool", "text"], one_of("auto", "schema", "tool", "text")]
_Cache = Annotated[Literal["off", "5m", "1h"], one_of("off", "5m", "1h")]


class _Serving(ConfigSection):
    """Where a model is served, and the limits of the calls to it."""

    provider: JudgeProviderName = "anthropic"
    base_url: Text | None = None
    #: Replaces the path after ``base_url``: ``/chat/completions``, or ``/v1/messages``.
    path: UrlPath | None = None
    #: Added to every URL and every request. They are part of a cache key, because they may decide who answers.
    query: Annotated[Mapping[Text, Text], default_if_empty({})] = Field(default_factory=dict)
    headers: Annotated[Mapping[HeaderName, HeaderValue], default_if_empty({})] = Field(default_factory=dict)
    #: The same with the names of environment variables: for keys. Their values are never stored.
    query_env: Annotated[Mapping[Text, Variable], default_if_empty({})] = Field(default_factory=dict)
    headers_env: Annotated[Mapping[HeaderName, Variable], default_if_empty({})] = Field(default_factory=dict)
    api_key_env: Variable | None = None
    #: The header of the key, if not the provider's own; ``Authorization`` gets ``Bearer`` before the key.
    api_key_header: HeaderName | None = None
    #: By default depends on the model: more for those that think.
    max_tokens: Count | None = None
    batch: YesNo = False
    concurrency: Count = 16
    requests_per_minute: Positive | None = None
    retries: NonNegative = 5
    timeout_seconds: Positive = 600.0
    #: How much the model thinks or writes, in its provider's own words.
    effort: Text | None = None
    #: Whether the model thinks before it answers; by default its provider decides.
    thinking: YesNo | None = None
    temperature: Annotated[float, Field(ge=0, le=2), expecting("a number from 0 to 2")] | None = None
    options: Annotated[Mapping[str, Any], default_if_empty({})] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _routed(self) -> Self:
        for field, problem in route_problems(self.headers, self.headers_env, self.query, self.query_env):
            raise section_error(problem, field)
        return self


class GenerateSection(_Serving):
    """How an entrant's answers are generated, for `tiltyard generate`."""

    provider: ProviderName
    model: Name
    system: Text | None = None

    @model_validator(mode="after")
    def _addressed(self) -> Self:
        problem = address_problem(self.provider, self.base_url)
        if problem is not None:
            raise section_error(problem, "base_url")
        return self


class Entrant(ConfigSection):
    """One model of the tournament."""

    entrant_id: Name
    family: Name | None = None
    generate: GenerateSection | None = None


class JudgeSection(_Serving):
    form: _Form = "auto"
    #: Written by a run: the form that a preflight found to work, where ``form`` is ``auto``.
    found_form: ReplyForm | None = None
    prompt_cache: _Cache = "off"
    family: Name | None = None
    #: Whether the model sees images.
    images: YesNo = False


class JudgeDefaults(JudgeSection):
    pilot_model: Name | None = None
    headline_model: Name | None = None


class ModeJudge(JudgeSection):
    """A judge of a mode: its settings take precedence over the section ``judge``."""

    model: Name
    name: Name | None = None


#: Judges, each with its settings or just by the name of its model.
Judges = tuple[
    Annotated[ModeJudge, BeforeValidator(lambda one: {"model": one} if isinstance(one, str) else one)], ...
]


class PromptSelection(ConfigSection):
    """The prompts to use from the bank: all, a total number, or a number from each source."""

    n: Count | None = None
    sizes: Annotated[Mapping[Text, Count], Field(min_length=1)] | None = None

    @property
    def all(self) -> bool:
        return self.n is None and self.sizes is None

    @model_validator(mode="before")
    @classmethod
    def _spelled(cls, value: Any) -> Any:
        if value == "all":
            return {}
        if isinstance(value, dict) and len(value) == 1:
            return value
        raise section_error("expected all, or n: a number, or sizes: a number for each source")

    @model_serializer
    def _written(self) -> Any:
        return "all" if self.all else {"n": self.n} if self.n else {"sizes": dict(self.sizes or {})}


class ModeSettings(ConfigSection):
    judges: Annotated[Judges, Many, default_if_empty(())] = ()
    quorum: Count | None = None
    prompts: PromptSelection = Field(default_factory=lambda: PromptSelection.model_validate("all"))
    seed: Seed = 0
    prewarm: YesNo = False
    limit_pairs: Count | None = None
    #: Judge only this many pairs of each dimension, spread over prompts and models.
    sample_pairs: Count | None = None


DEFAULT_MODES: Mapping[str, Mapping[str, Any]] = {
    "pilot": {"prompts": {"n": 50}},
    "headline": {"prewarm": True},
}


def with_default_modes(value: Any) -> Any:
    """Add the two default modes to those of the file; a mode may be present but empty."""
    if not isinstance(value, dict | None):
        return value
    stated = {name: {} if mode is None else mode for name, mode in (value or {}).items()}
    both = {name: stated.get(name, {}) for name in (*DEFAULT_MODES, *stated)}
    return {
        name: {**DEFAULT_MODES.get(name, {}), **mode} if isinstance(mode, dict) else mode
        for name, mode in both.items()
    }


class PromptBank(ConfigSection):
    bank_path: PathText


class RubricFile(ConfigSection):
    path: PathText | None = None


class ChecksSection(ConfigSection):
    """The number of control questions for each judge and dimension; 0 means none."""

    identical: NonNegative = 2
    truncated: NonNegative = 2
    garbage: NonNegative = 2
    repeats: NonNegative = 4


class EloSection(ConfigSection):
    n_perms: Count = 100
    shuffle_seed: Seed = 0
    initial_rating: Annotated[float, expecting("a number")] = 1500.0
    default_k: Number = 16
    k_factor_sweep: Annotated[tuple[Number, ...], Many, Field(min_length=1)] = (4, 8, 16, 32)


class RatingsSection(ConfigSection):
    lean: Annotated[float, Field(ge=0.5, le=1), expecting("a number from 0.5 to 1")] = 0.75
    #: Half a win for each, or left out. Any other value would favour the model that sorts first by name.
    inconsistent: Annotated[Literal["half", "drop"], one_of("half", "drop")] = "half"
    n_bootstraps: NonNegative = 100
    seed: Seed = 0


class CachesSection(ConfigSection):
    responses_dir: PathText | None = None
    judgments_dir: PathText | None = None


Budget = Annotated[float, Field(ge=0, le=1e9), expecting("dollars: a number, 0 or more")]
Prices = Annotated[
    Annotated[PathText, Tag("<file>")] | Annotated[Mapping[Name, PriceEntry], Tag("<table>")],
    Discriminator(lambda value: "<file>" if isinstance(value, str) else "<table>"),
]
