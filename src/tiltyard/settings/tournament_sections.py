"""The sections of a tournament's configuration, each with its defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_serializer, model_validator

from tiltyard.core.judging.match_design import Design, Orders
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
from tiltyard.settings.rating_options import WriteAs

#: Settings of a model that become request fields.
MODEL_SETTINGS = ("effort", "thinking", "temperature")

#: Settings that belong to an address: another address never inherits them.
ROUTE_SETTINGS = ("path", "query", "query_env", "headers", "headers_env", "api_key_header")

_Form = Annotated[Literal["auto", "schema", "tool", "text"], one_of("auto", "schema", "tool", "text")]
_Cache = Annotated[Literal["off", "5m", "1h"], one_of("off", "5m", "1h")]


class _Serving(ConfigSection):
    """Where a model is served, and the limits of the calls to it."""

    #: ``anthropic``, ``openai`` (and every compatible server), or ``replay`` (recorded replies).
    provider: JudgeProviderName = "anthropic"
    #: URL, if not the provider's own; for ``replay``, the file of recorded replies.
    base_url: Text | None = None
    #: The path after ``base_url``, instead of ``/chat/completions`` (``openai``) or ``/v1/messages``
    #: (``anthropic``).
    path: UrlPath | None = None
    #: Fields that are added to every URL, such as ``api-version: "2024-10-21"``.
    query: Annotated[Mapping[Text, Text], default_if_empty({})] = Field(default_factory=dict)
    #: Headers that are added to every request. Names that look like keys are rejected.
    headers: Annotated[Mapping[HeaderName, HeaderValue], default_if_empty({})] = Field(default_factory=dict)
    #: The same as ``query`` with the names of variables, for keys.
    query_env: Annotated[Mapping[Text, Variable], default_if_empty({})] = Field(default_factory=dict)
    #: The same as ``headers`` with the names of variables, for keys.
    headers_env: Annotated[Mapping[HeaderName, Variable], default_if_empty({})] = Field(default_factory=dict)
    #: The variable that holds the key. At a provider's own URL the default is ``ANTHROPIC_API_KEY`` or
    #: ``OPENAI_API_KEY``; at another URL a key is sent only if this is set.
    api_key_env: Variable | None = None
    #: The header of the key, if not ``Authorization`` (``openai``) or ``x-api-key`` (``anthropic``). In
    #: ``Authorization`` the word ``Bearer`` goes before the key.
    api_key_header: HeaderName | None = None
    #: Longest reply, including thinking. Default: 16,384 for models that think or for which this is unknown,
    #: 4,096 for others, and no more than the model's own limit. If an endpoint allows less, its limit is used.
    max_tokens: Count | None = None
    #: Ask by batch, at the provider's batch price, within a day.
    batch: YesNo = False
    #: Maximum number of concurrent calls; fewer when the provider asks for it.
    concurrency: Count = 16
    #: A rate limit shared by all workers with the same key.
    requests_per_minute: Positive | None = None
    #: Retries of a call that failed temporarily.
    retries: NonNegative = 5
    #: How long to wait for a reply.
    timeout_seconds: Positive = 600.0
    #: How much the model thinks or writes, in its provider's words: ``low``, ``high``, … It becomes
    #: ``reasoning_effort`` or ``output_config.effort``.
    effort: Text | None = None
    #: ``true`` or ``false``: whether the model thinks before it answers; the request fields depend on the model.
    thinking: YesNo | None = None
    #: A number from 0 to 2; models that think often refuse it.
    temperature: Annotated[float, Field(ge=0, le=2), expecting("a number from 0 to 2")] | None = None
    #: Fields added to the request body unchanged, such as ``top_p``. Fields that Tiltyard sets itself are
    #: rejected. ``max_tokens_field`` (``openai`` only) names the field that holds the limit: ``max_tokens`` or
    #: ``max_completion_tokens``.
    options: Annotated[Mapping[str, Any], default_if_empty({})] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _routed(self) -> Self:
        for field, problem in route_problems(self.headers, self.headers_env, self.query, self.query_env):
            raise section_error(problem, field)
        return self


class GenerateSection(_Serving):
    """How an entrant's answers are generated, for `tiltyard generate`."""

    #: ``anthropic`` or ``openai``.
    provider: ProviderName
    #: The model's name at the provider.
    model: Name
    #: A system text.
    system: Text | None = None

    @model_validator(mode="after")
    def _addressed(self) -> Self:
        problem = address_problem(self.provider, self.base_url)
        if problem is not None:
            raise section_error(problem, "base_url")
        return self


class Entrant(ConfigSection):
    """One model of the tournament."""

    #: The model's name, as in the answers.
    entrant_id: Name
    #: Who made it; used to detect judges that prefer their own family.
    family: Name | None = None
    #: How it answers, for ``tiltyard generate``: generate.
    generate: GenerateSection | None = None


class JudgeSection(_Serving):
    #: How the verdict is requested: ``schema``, ``tool``, ``text``, or ``auto``: the strictest form in which the
    #: judge gives a verdict, found by a preflight.
    form: _Form = "auto"
    #: Written by a run: the form that the preflight found, where it is not the first choice.
    found_form: ReplyForm | None = None
    #: ``off``, ``5m`` or ``1h``: mark the rubric's part of each request for the provider's prompt cache. If a
    #: provider caches automatically, this has no effect.
    prompt_cache: _Cache = "off"
    #: Who made the judge; used to detect preference for its own family.
    family: Name | None = None
    #: Whether the model sees images. Only then is it asked about conversations with images; otherwise they are an
    #: error.
    images: YesNo = False


class JudgeDefaults(JudgeSection):
    #: The judge of mode ``pilot``.
    pilot_model: Name | None = None
    #: The judge of mode ``headline``.
    headline_model: Name | None = None
    synonyms = {  # noqa: RUF012
        "use_batch_api": {True: {"batch": True}, False: {"batch": False}},
        "use_prompt_caching": {True: {"prompt_cache": "1h"}, False: {"prompt_cache": "off"}},
        "position_swap": {
            True: {},
            False: "set it to true, or leave it out; orders: random of a mode asks in one order, drawn for each pair",
        },
    }


class ModeJudge(JudgeSection):
    """A judge of a mode: its settings take precedence over the section ``judge``."""

    #: The model's name at the provider.
    model: Name
    #: Its name in files and reports; the model's name by default.
    name: Name | None = None


#: Judges, each with its settings or just by the name of its model.
Judges = tuple[
    Annotated[ModeJudge, BeforeValidator(lambda one: {"model": one} if isinstance(one, str) else one)], ...
]


class PromptSelection(ConfigSection):
    """The prompts to use from the bank: all, a total number, a number from each source, or those that are named."""

    #: Number of prompts, shared among the sources in proportion; a smaller bank is used completely.
    n: Count | None = None
    #: Number of prompts of each source, such as ``{general: 8, medical: 24}``; more than exist is an error.
    sizes: Annotated[Mapping[Text, Count], Field(min_length=1)] | None = None
    #: These prompts, by their ``prompt_id``.
    ids: Annotated[tuple[Text, ...], Many, Field(min_length=1)] | None = None

    @property
    def all(self) -> bool:
        return self.n is None and self.sizes is None and self.ids is None

    @model_validator(mode="before")
    @classmethod
    def _spelled(cls, value: Any) -> Any:
        if value == "all":
            return {}
        if isinstance(value, dict) and len(value) == 1:
            return value
        raise section_error("expected all, n: a number, sizes: a number for each source, or ids: a list")

    @model_serializer
    def _written(self) -> Any:
        if self.ids is not None:
            return {"ids": list(self.ids)}
        return "all" if self.all else {"n": self.n} if self.n else {"sizes": dict(self.sizes or {})}


class ModeSettings(ConfigSection):
    #: A model's name, or fields of a judge, or a list of such. Without it, ``judge.pilot_model`` or
    #: ``judge.headline_model``.
    judges: Annotated[Judges, Many, default_if_empty(())] = ()
    #: How many judges of a panel must have a result for a battle; by default more than half.
    quorum: Count | None = None
    #: ``all``, or which.
    prompts: PromptSelection = Field(default_factory=lambda: PromptSelection.model_validate("all"))
    #: Seed of the subset and of the sample.
    seed: Seed = 0
    #: Fill the prompt cache first, with one call without output for each judge and rubric. Only with
    #: ``prompt_cache``, and only if the provider supports it.
    prewarm: YesNo = False
    #: Judge only the first N pairs of each dimension.
    limit_pairs: Count | None = None
    #: Judge only N pairs of each dimension, spread over prompts and pairs of models, drawn by ``seed``. A larger
    #: sample contains every smaller one.
    sample_pairs: Count | None = None
    #: Which of the pairs are judged: ``all``; those of the ``baseline``; ``sparse``: each answer against two others; or
    #: ``adaptive``: where the order is open, round by round, until it is settled.
    design: Annotated[Design, one_of(*get_args(Design))] = "all"
    #: The entrant that all others meet, with ``design: baseline``. Default: the first.
    baseline: Name | None = None
    #: Whether judges see a pair in ``both`` orders, or in one that is drawn at ``random``, which halves the calls.
    orders: Annotated[Orders, one_of(*get_args(Orders))] = "both"
    #: The share of pairs that is judged in both orders all the same, with ``orders: random``: it shows what a slot is worth.
    audit: Annotated[float, Field(ge=0, le=1), expecting("a share from 0 to 1")] = 0.1


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
    #: File of prompts: JSON Lines, JSON, CSV or Parquet; or a log of Inspect, lm-evaluation-harness, promptfoo or
    #: arena-hard, whose samples are the prompts.
    bank_path: PathText


class RubricFile(ConfigSection):
    #: Your own rubric; can be left out for shipped ones: see Rubrics.
    path: PathText | None = None
    #: ``gold``: leave prompts without a gold answer out of this dimension.
    needs: Annotated[Literal["gold"], one_of("gold")] | None = None
    synonyms = {"expects_gold_answer": {True: {"needs": "gold"}, False: {}}}  # noqa: RUF012


class ChecksSection(ConfigSection):
    """The number of control questions for each judge and dimension; 0 means none."""

    #: The same response twice: neither is better.
    identical: NonNegative = 2
    #: A response and a copy truncated to two fifths.
    truncated: NonNegative = 2
    #: A response and a copy with its words shuffled.
    garbage: NonNegative = 2
    #: Questions asked a second time, to see whether the judge agrees with itself.
    repeats: NonNegative = 4
    #: Spoilt answers of all kinds together, the truncated and shuffled ones above among them.
    planted: NonNegative = 16


class EloSection(ConfigSection):
    #: Number of shuffled orders.
    n_perms: Count = 500
    #: Seed of the orders.
    shuffle_seed: Seed = 0
    #: First rating of every model, and the mean of Bradley–Terry's ratings. Default: 1400 and 1500.
    initial_rating: Annotated[float, expecting("a number")] | None = None
    #: K of the main ratings.
    default_k: Number = 16
    #: K of the ratings that show how much K matters.
    k_factor_sweep: Annotated[tuple[Number, ...], Many, Field(min_length=1)] = (1, 4, 8, 16, 32)


class RatingsSection(ConfigSection):
    #: How much a lean counts for its winner, 0.5–1.
    lean: Annotated[float, Field(ge=0.5, le=1), expecting("a number from 0.5 to 1")] = 0.75
    #: How an inconsistent result counts: ``half`` a win for each, or not at all (``drop``).
    inconsistent: Annotated[Literal["half", "drop"], one_of("half", "drop")] = "half"
    #: How the outcome both_bad of human battles counts: not at all (``drop``), or as a ``tie``. Default: ``drop``, with
    #: ``write_as: judgearena`` ``tie``.
    both_bad: Annotated[Literal["drop", "tie"], one_of("drop", "tie")] | None = None
    #: What prompts that depend on each other have in common: their ``category`` or ``language`` in the bank; or ``prompt``:
    #: nothing. Default: a test decides, and a finding says it.
    cluster: (
        Annotated[Literal["prompt", "category", "language"], one_of("prompt", "category", "language")] | None
    ) = None
    #: How battles and ratings are written: ``judgearena`` spells both_bad as `tie (bothbad)`, and centres ratings at
    #: 1000, with no limit to what a prompt or voter weighs.
    write_as: Annotated[WriteAs, one_of("tiltyard", "judgearena")] = "tiltyard"
    #: Number of refits; 0 means none.
    n_bootstraps: NonNegative = 100
    #: Seed of bootstraps and rank ranges.
    seed: Seed = 0


class CachesSection(ConfigSection):
    #: Folder of ``responses_<entrant>.jsonl`` (slashes in a name are spelled ``%2F``), with ``entrant_id``,
    #: ``prompt_id`` and ``response_text``; read in addition to ``answers``, written by ``tiltyard generate``.
    responses_dir: PathText | None = None
    #: Folder of the ledger; ``TILTYARD_HOME`` by default. Not used with ``DATABASE_URL``. With ``--skip-judging``,
    #: ``judgments_<dimension>.jsonl`` in it are read.
    judgments_dir: PathText | None = None


Budget = Annotated[float, Field(ge=0, le=1e9), expecting("dollars: a number, 0 or more")]
Prices = Annotated[
    Annotated[PathText, Tag("<file>")] | Annotated[Mapping[Name, PriceEntry], Tag("<table>")],
    Discriminator(lambda value: "<file>" if isinstance(value, str) else "<table>"),
]
