"""The configuration of a tournament or a placement: a YAML file, validated, frozen and complete; and its rubrics."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from tiltyard.core.judging.match_design import BOTH_ORDERS, MatchDesign
from tiltyard.core.judging.matches import MissingDrops
from tiltyard.core.judging.question import (
    Rubric,
    parse_rubric,
)
from tiltyard.errors import BadConfig, UnreadableFile
from tiltyard.foundation.local_files import read_regular_text
from tiltyard.settings.config_section import (
    ConfigFile,
    ConfigSection,
    Count,
    FileName,
    Many,
    PathText,
    Positive,
    Text,
    default_if_empty,
    expand_user,
    one_of,
    repeated,
    resolve_path,
    section_error,
    validate_section,
)
from tiltyard.settings.model_endpoints import REPLAY, address_problem, key_variable
from tiltyard.settings.prices import (
    HALF_A_PRICE,
    PriceBook,
    PriceEntry,
    merged_prices,
    open_prices,
    request_fields,
    unpriced_models,
)
from tiltyard.settings.tournament_sections import (
    DEFAULT_MODES,
    MODEL_SETTINGS,
    ROUTE_SETTINGS,
    Budget,
    CachesSection,
    ChecksSection,
    EloSection,
    Entrant,
    GenerateSection,
    JudgeDefaults,
    JudgeSection,
    ModeJudge,
    ModeSettings,
    Prices,
    PromptBank,
    PromptSelection,
    RatingsSection,
    RubricFile,
    with_default_modes,
)
from tiltyard.settings.yaml_file import read_yaml

#: Dimensions with a built-in rubric.
SHIPPED = (
    "factuality",
    "calibration",
    "clinical_utility",
    "preference",
    "instruction_following",
    "groundedness",
    "code",
)


class TournamentConfig(ConfigFile):
    """The contents of a configuration file, with defaults for missing values."""

    tolerant = True
    #: At least two entrants.
    entrants: Annotated[tuple[Entrant, ...], Many, Field(min_length=2)]
    #: The bank of prompts.
    prompts: PromptBank
    #: An answers file or another tool's, or a list of them. Needed unless ``caches.responses_dir`` is set.
    answers: Annotated[tuple[PathText, ...], Many, default_if_empty(())] = ()
    #: What a missing response drops: the pairs that need it (``pair``), or all pairs of its ``prompt``.
    missing: Annotated[MissingDrops, one_of("pair", "prompt")] = "pair"
    #: The dimensions, each with its rubric; their order is the order of files and reports.
    rubrics: Annotated[Mapping[FileName, Annotated[RubricFile, default_if_empty({})]], Field(min_length=1)]
    #: What all judges have in common: judge.
    judge: Annotated[JudgeDefaults, default_if_empty({})] = JudgeDefaults()
    #: Which prompts and judges a run uses: modes.
    modes: Annotated[
        Mapping[FileName, ModeSettings], BeforeValidator(with_default_modes), Field(validate_default=True)
    ] = Field(default_factory=dict)
    #: Planted questions: checks.
    checks: Annotated[ChecksSection, default_if_empty({})] = ChecksSection()
    #: Parameters of Elo: elo.
    elo: Annotated[EloSection, default_if_empty({})] = EloSection()
    #: How battles are counted: ratings.
    ratings: Annotated[RatingsSection, default_if_empty({})] = RatingsSection()
    #: A weight above 0 for each dimension that counts in an overall rating. Without it there is no overall
    #: rating.
    overall: Annotated[Mapping[Text, Positive], Field(min_length=1)] | None = None
    #: A file of human battles, or a list, rated together with the judged ones as dimension ``overall``. With
    #: several dimensions, ``overall`` must give their weights.
    anchors: Annotated[tuple[PathText, ...], Many, default_if_empty(())] = ()
    #: Where responses and replies are kept: caches.
    caches: Annotated[CachesSection, default_if_empty({})] = CachesSection()
    #: The most that a run may spend, in dollars. If a price is unknown, a run with a budget does not start.
    budget_usd: Budget | None = None
    #: Your own prices: a table, or the path of a file.
    prices: Prices | None = None
    #: Questions in a shard, the unit of work for workers.
    shard_size: Count = 500

    @property
    def dimensions(self) -> tuple[str, ...]:
        return tuple(self.rubrics)

    def mode(self, name: str, judge_model: str | None = None) -> RunMode:
        """A mode with complete judges. ``judge_model`` replaces those that the file names."""
        settings = self.modes.get(name)
        if settings is None:
            raise BadConfig(f"{self.path}: unknown mode {name!r}; known: {', '.join(self.modes)}")
        judges = self._judges(name, settings, judge_model)
        quorum = settings.quorum if settings.quorum and judge_model is None else len(judges) // 2 + 1
        if quorum > len(judges):
            where = self.where("modes", name, "quorum")
            raise BadConfig(f"{where}: expected at most the number of judges, {len(judges)}, found {quorum}")
        return RunMode(
            name,
            judges,
            quorum,
            settings.prompts,
            settings.seed,
            settings.prewarm,
            settings.limit_pairs,
            settings.sample_pairs,
            self._design(name, settings),
        )

    def _design(self, name: str, mode: ModeSettings) -> MatchDesign:
        names = [one.entrant_id for one in self.entrants]
        baseline = mode.baseline or (names[0] if mode.design == "baseline" else None)
        if baseline not in (None, *names):
            where = self.where("modes", name, "baseline")
            raise BadConfig(f"{where}: {baseline!r} is not an entrant; expected one of {', '.join(names)}")
        return MatchDesign.of({**mode.model_dump(), "baseline": baseline}, mode.seed)

    def _judges(self, name: str, mode: ModeSettings, model: str | None) -> tuple[JudgeSettings, ...]:
        stated = mode.judges
        if not stated and (default := model or getattr(self.judge, f"{name}_model", None)):
            stated = (ModeJudge(model=default),)
        if model is not None:
            one = stated[0] if len(stated) == 1 else ModeJudge(model=model)
            own = one.model_dump(exclude_unset=True, exclude={"name", "family"})
            stated = (ModeJudge(**{**own, "model": model}),)
        if not stated:
            seed = f"judge.{name}_model or " if name in DEFAULT_MODES else ""
            raise BadConfig(f"{self.path}: mode {name} has no judge; set {seed}modes.{name}.judges")
        prices = open_prices(self.prices, self.folder)
        judges = tuple(self._complete(one, prices) for one in stated)
        where = self.where("modes", name, "judges")
        for judge in judges:
            problem = address_problem(judge.provider, judge.base_url)
            if problem is not None:
                raise BadConfig(f"{where}: judge {judge.name}: {problem}")
        twice = repeated(one.name for one in judges)
        if twice is not None:
            raise BadConfig(f"{where}: duplicate judge name {twice!r}; rename one of them")
        return judges

    def _complete(self, judge: ModeJudge, prices: PriceBook) -> JudgeSettings:
        """A judge's own settings over the defaults. Another provider's address and key are never inherited."""
        defaults = self.judge.model_dump(include=set(JudgeSection.model_fields))
        stated = judge.model_dump(exclude_unset=True)
        dropped: tuple[str, ...] = ()
        if stated.get("base_url", self.judge.base_url) != self.judge.base_url:
            dropped = ROUTE_SETTINGS
        if judge.provider != self.judge.provider and "provider" in stated:
            own = ("base_url", "api_key_env", "prompt_cache", "family", "options")
            dropped = (*own, *MODEL_SETTINGS, *ROUTE_SETTINGS)
        for field in dropped:
            defaults[field] = JudgeSection.model_fields[field].get_default(call_default_factory=True)
        whole = {**defaults, **stated, "name": judge.name or judge.model}
        whole["api_key_env"] = key_variable(whole["provider"], whole["api_key_env"], whole["base_url"])
        return complete_judge(whole, prices)

    @model_validator(mode="after")
    def _coherent(self) -> Self:
        for field, names in (
            ("entrants", [one.entrant_id for one in self.entrants]),
            ("rubrics", [name.lower() for name in self.rubrics]),
        ):
            twice = repeated(names)
            if twice is not None:
                raise section_error(f"duplicate {twice!r}", field)
        if "overall" in self.rubrics:
            raise section_error(
                "this name is reserved for the weighted rating of all dimensions; choose another",
                "rubrics",
                "overall",
            )
        for name in self.overall or ():
            if name not in self.rubrics:
                raise section_error(f"no such dimension; known: {', '.join(self.rubrics)}", "overall", name)
        for name in unpriced_models(self.prices) if isinstance(self.prices, Mapping) else ():
            raise section_error(HALF_A_PRICE, "prices", name)
        if not self.answers and self.caches.responses_dir is None:
            raise section_error("missing; name a file of answers, or caches.responses_dir", "answers")
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeSettings:
    """One judge with all its settings."""

    name: str
    model: str
    provider: str
    #: ``None`` means the provider's own address; for ``replay``, the file of recorded replies.
    base_url: str | None
    #: The environment variable with the key; ``None`` if no key is sent.
    api_key_env: str | None
    form: str
    max_tokens: int
    batch: bool
    prompt_cache: str
    concurrency: int
    requests_per_minute: float | None
    retries: int
    timeout_seconds: float
    family: str | None
    options: Mapping[str, Any]
    #: The reply form that a preflight found to work, where ``form`` is ``auto``.
    found_form: str | None = None
    path: str | None = None
    query: Mapping[str, str] = dataclasses.field(default_factory=dict)
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    #: The environment variables with further secrets, by query field and header.
    query_env: Mapping[str, str] = dataclasses.field(default_factory=dict)
    headers_env: Mapping[str, str] = dataclasses.field(default_factory=dict)
    api_key_header: str | None = None
    #: Whether the model sees images.
    images: bool = False

    @property
    def ttl(self) -> str | None:
        """The lifetime of the prompt cache; ``None`` if it is not used."""
        return None if self.prompt_cache == "off" else self.prompt_cache


def complete_judge(fields: Mapping[str, Any], prices: PriceBook) -> JudgeSettings:
    """Settings in which ``max_tokens`` may be missing, by what is known about the model.

    ``effort``, ``thinking`` and ``temperature`` become request fields among the ``options``.
    """
    traits = prices.traits(fields["provider"], fields["model"])
    options = request_fields(fields, traits, model=fields["model"], provider=fields["provider"])
    limit = fields["max_tokens"]
    if limit is None:
        limit = traits.default_limit(options)
    plain = {name: value for name, value in fields.items() if name not in MODEL_SETTINGS}
    return JudgeSettings(**{**plain, "options": options, "max_tokens": limit})


@dataclass(frozen=True, slots=True)
class RunMode:
    """What a run asks, and which judges."""

    name: str
    judges: tuple[JudgeSettings, ...]
    quorum: int
    prompts: PromptSelection
    seed: int
    prewarm: bool
    #: Judge only this many pairs of each dimension, from the start.
    limit_pairs: int | None = None
    #: Judge only this many pairs of each dimension, drawn by the seed and spread over prompts and models.
    sample_pairs: int | None = None
    design: MatchDesign = BOTH_ORDERS


def load_config(
    path: str | os.PathLike[str],
    overrides: Mapping[str, Any] | None = None,
    prices: Mapping[str, PriceEntry] | None = None,
) -> TournamentConfig:
    """Read a configuration. ``overrides`` (``elo.n_perms`` → value) take precedence over the file; ``None`` is ignored.

    ``prices`` take precedence over the file's own, and become part of the configuration.
    """
    config = TournamentConfig.load(Path(path), overrides)
    if not prices:
        return config
    return config.model_copy(update={"prices": merged_prices(config.prices, prices, config.folder)})


def resolve_config(config: TournamentConfig, mode: RunMode, beside: Path | None = None) -> dict[str, object]:
    """The configuration of one run with all defaults filled in: loading it again makes the same run.

    Paths stay as they were written, or are made relative to ``beside``, the folder that the
    result will be written to. It never contains a key, only the name of its variable.
    """
    document = config.model_dump(mode="json")
    # Settings that became options must not be read from the section `judge` again.
    judges = [{**dataclasses.asdict(judge), **dict.fromkeys(MODEL_SETTINGS)} for judge in mode.judges]
    if beside is not None:
        _move(document, judges, config.folder, beside)
    document["modes"] = {
        mode.name: {
            "judges": judges,
            "quorum": mode.quorum,
            "prompts": mode.prompts.model_dump(mode="json"),
            "seed": mode.seed,
            "prewarm": mode.prewarm,
            "limit_pairs": mode.limit_pairs,
            "sample_pairs": mode.sample_pairs,
            **dataclasses.asdict(mode.design),
        }
    }
    return document


def _move(document: dict[str, Any], judges: Iterable[dict[str, Any]], old: Path, new: Path) -> None:
    """Make the paths of a configuration, in the form of its file, relative to another folder."""

    def moved(path: str) -> str:
        if expand_user(path).is_absolute():
            return path
        return Path(os.path.relpath(resolve_path(old, path), new)).as_posix()

    document["prompts"]["bank_path"] = moved(document["prompts"]["bank_path"])
    for rubric in document["rubrics"].values():
        if rubric["path"] is not None:
            rubric["path"] = moved(rubric["path"])
    for field in ("answers", "anchors"):
        document[field] = [moved(path) for path in document[field]]
    generators = (one["generate"] for one in document["entrants"])
    _change_paths(document, (document["judge"], *judges, *generators), moved)


def _change_paths(
    document: dict[str, Any], served: Iterable[dict[str, Any] | None], change: Callable[[str], str]
) -> None:
    """Change the paths of caches, prices and recorded replies."""
    caches = document["caches"]
    caches.update({name: change(path) for name, path in caches.items() if path is not None})
    if isinstance(document["prices"], str):
        document["prices"] = change(document["prices"])
    for serving in served:
        if serving and serving["provider"] == REPLAY and serving["base_url"]:
            serving["base_url"] = change(serving["base_url"])


class PlacementConfig(ConfigSection):
    """The sections of a tournament's configuration that a placement uses; the rest is given as options."""

    judge: Annotated[JudgeDefaults, default_if_empty({})] = JudgeDefaults()
    generate: GenerateSection | None = None
    checks: Annotated[ChecksSection, default_if_empty({})] = ChecksSection()
    elo: Annotated[EloSection, default_if_empty({})] = EloSection()
    ratings: Annotated[RatingsSection, default_if_empty({})] = RatingsSection()
    caches: Annotated[CachesSection, default_if_empty({})] = CachesSection()
    prices: Prices | None = None
    shard_size: Count = 500


def load_placement(path: Path | None) -> PlacementConfig:
    """Read the file, or return the defaults if there is none."""
    return PlacementConfig() if path is None else validate_section(PlacementConfig, read_yaml(path), {})


def with_absolute_paths(document: dict[str, Any], old: Path) -> dict[str, Any]:
    """Make the paths of a placement's document absolute, because it will be written to another folder."""
    served = (document["judge"], document["generate"])
    _change_paths(document, served, lambda path: str(resolve_path(old, path).resolve()))
    return document


def load_rubric(config: TournamentConfig, dimension: str) -> Rubric:
    """The rubric of a dimension: the configured file, or the built-in one."""
    stated = config.rubrics[dimension]
    if stated.path is not None:
        rubric = read_rubric(dimension, config.at(stated.path), config.where("rubrics", dimension, "path"))
    elif dimension in SHIPPED:
        rubric = shipped_rubric(dimension)
    else:
        raise BadConfig(
            f"{config.where('rubrics', dimension)}: no built-in rubric has this name; "
            f"give a path, or choose one of {', '.join(SHIPPED)}"
        )
    return dataclasses.replace(rubric, needs_gold=stated.needs == "gold")


def shipped_rubric(dimension: str) -> Rubric:
    """A built-in rubric."""
    text = files("tiltyard.settings").joinpath("rubrics", f"{dimension}.txt").read_text(encoding="utf-8")
    return parse_rubric(dimension, text, f"{dimension}.txt")


def read_rubric(name: str, path: Path, where: str) -> Rubric:
    """A rubric of the user's own. ``where`` names the setting that names the file."""
    try:
        text = read_regular_text(path)
    except FileNotFoundError:
        raise BadConfig(
            f"{where}: file not found: {path}; check the path, or name one of {', '.join(SHIPPED)}"
        ) from None
    except UnicodeDecodeError:
        raise UnreadableFile(f"{path}: not UTF-8 text; save the file as UTF-8") from None
    except (OSError, ValueError) as error:
        problem = error.strerror if isinstance(error, OSError) else error
        raise UnreadableFile(f"{path}: cannot be read: {problem}") from None
    return parse_rubric(name, text, str(path))
