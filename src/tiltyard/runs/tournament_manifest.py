"""A complete judged run, and its manifest: what the judges were asked, and everything that `verify` needs."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Annotated, Any, Literal, TypedDict, get_args, get_type_hints

from pydantic import AfterValidator, Field, TypeAdapter

from tiltyard.core.battles import Battle
from tiltyard.core.board.board_rows import parameters_of
from tiltyard.core.judging.judged_question import JudgedQuestion
from tiltyard.core.judging.match_design import MatchDesign
from tiltyard.core.judging.matches import MatchList, MissingDrops, Prompt
from tiltyard.core.judging.question import Rubric
from tiltyard.core.judging.reconciliation import build_match_battles
from tiltyard.core.ratings import BradleyTerry, RatingMethod
from tiltyard.core.ratings.elo import DecisiveElo
from tiltyard.errors import BadOption
from tiltyard.files import BattleSource
from tiltyard.files.answer import Answer
from tiltyard.runs.battle_rating import PRESETS, RateSettings, method_of, preset_parameters
from tiltyard.runs.manifest import ManifestDocument, ManifestInput, ManifestModel, Platform

#: The group of pooled dimensions, and the dimension of human battles without one.
OVERALL = "overall"

_FILE_NAME = re.compile(r"\w[\w .+-]{0,99}(?<![ .])")

#: Bounded, because the files are looked for one by one.
PartCount = Annotated[int, Field(ge=0, le=1_000_000)]


class AttemptRow(TypedDict):
    """A row of `attempts.parquet`. Amounts are decimal text; ``None`` means unknown.

    The columns without ``None`` are checked by `attempt_problem`.
    """

    attempt_id: str
    question_id: str | None
    request_key: str
    ask: int
    judge_model: str
    dimension: str | None
    mode: str
    batch_id: str | None
    state: str
    input_tokens: int | None
    output_tokens: int | None
    cache_write_tokens: int | None
    cache_read_tokens: int | None
    usd: str | None
    reserved_usd: str | None
    error: str | None
    worker: str | None
    started_at: str | None
    finished_at: str | None


#: Columns of `attempts.parquet` and their types.
ATTEMPT_COLUMNS: Mapping[str, type] = {
    name: next(iter(get_args(kind)), kind) for name, kind in get_type_hints(AttemptRow).items()
}


@dataclass(frozen=True, kw_only=True)
class JudgedRun:
    """All results of a tournament. The folder is a pure function of this value.

    ``judged`` and ``attempts`` are called when the folder is written, possibly several times, and
    stream, because a run may have millions of questions. So the value can be created when the run
    starts, with ``finished_at`` still ``None``, and completed with `dataclasses.replace`.
    """

    run_id: str
    mode: str
    config_path: str
    #: The resolved configuration; plain values only.
    config: Mapping[str, Any]
    bank_size: int
    #: The selected prompts, in bank order.
    prompts: Sequence[Prompt]
    #: Every response that was judged: prompts in bank order, then models by name.
    answers: Sequence[Answer]
    #: By dimension, in configured order.
    rubrics: Mapping[str, Rubric]
    matches: MatchList
    #: Dimension → all its questions, in canonical order.
    judged: Callable[[str], Iterator[JudgedQuestion]]
    #: Human battles, rated together with the judged ones.
    anchors: Sequence[BattleSource] = ()
    attempts: Callable[[], Iterator[AttemptRow]]
    #: The plan's estimate, plain values only; costs.json shows it next to the actual costs.
    estimate: Mapping[str, object] = field(default_factory=dict)
    prompt_cache_asked: bool = False
    #: Judgments that another script has paid for, by dimension: how many were used, and why others were not.
    paid_judgments: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    #: ISO 8601, UTC. ``finished_at`` is ``None`` until everything is judged.
    started_at: str
    finished_at: str | None = None
    #: The model under test and the name of the arena, if any.
    evaluated: str | None = None
    arena: str | None = None

    @property
    def dimensions(self) -> tuple[str, ...]:
        return tuple(self.rubrics)

    @cached_property
    def draft(self) -> TournamentManifest:
        """The manifest before anything is judged: no files, no ``finished_at``."""
        return _draft(self)

    def battles(self) -> Iterator[Battle]:
        """The judged battles by dimension, as far as their questions have verdicts."""
        tags, draft = {prompt.prompt_id: prompt for prompt in self.prompts}, self.draft
        for name in self.dimensions:
            matches = (match for match in self.matches.matches if match.dimension == name)
            judged = self.judged(name)
            for settled in build_match_battles(
                matches, judged, draft.judges, draft.quorum, tags, draft.design
            ):
                if settled.battle is not None:
                    yield settled.battle


def _check_dimensions(dimensions: tuple[str, ...]) -> None:
    """Check that there are dimensions, and that their names can name files."""
    if not dimensions:
        raise BadOption("no rubrics: a tournament needs at least one dimension")
    for name in dimensions:
        try:
            safe_dimension(name)
        except ValueError as error:
            raise BadOption(str(error)) from None


def _check_weights(
    dimensions: tuple[str, ...], weights: Mapping[str, float] | None, *, anchored: bool
) -> None:
    """Check that an overall rating has a weight for each dimension, or that there is only one dimension."""
    if weights is None:
        if anchored and len(dimensions) > 1:
            raise BadOption(
                f"anchors are rated with the judged battles of {len(dimensions)} dimensions, but the weights "
                "of these are not set; add `overall:` with a weight for each"
            )
        return
    if OVERALL in dimensions and len(dimensions) > 1:
        raise BadOption(
            f"a dimension has the reserved name {OVERALL!r} of the pooled rating; rename the dimension"
        )
    for name, weight in weights.items():
        if name not in dimensions:
            raise BadOption(f"overall.{name} is not a dimension; expected {', '.join(dimensions)}")
        if not 0.0 <= weight < float("inf"):
            raise BadOption(f"overall.{name} is {weight}; expected a weight of 0 or more")
    if not any(weight > 0.0 for weight in weights.values()):
        raise BadOption("overall: every weight is 0; give at least one dimension a weight")


def safe_dimension(name: str) -> str:
    """Check a dimension's name, which is also used as a file name."""
    if not _FILE_NAME.fullmatch(name):
        raise ValueError(
            f"dimension {name!r} cannot name a file; use letters, digits, spaces, '-', '_', '+' and '.'"
        )
    return name


Dimension = Annotated[str, AfterValidator(safe_dimension)]


class RubricEntry(ManifestModel):
    """A rubric's version, and the hash of its text."""

    version: str
    sha256: str
    #: Whether prompts without a gold answer are left out.
    needs: Literal["gold"] | None = None


class ReportDataEntry(ManifestModel):
    """The files beside the report: how many of each kind, and whether charts are among them."""

    index: PartCount
    texts: PartCount
    verdicts: PartCount
    charts: bool


class TournamentManifest(ManifestDocument):
    """Everything needed to recompute the folder's numbers, and a hash of every file in it."""

    kind: Literal["tournament"] = "tournament"
    manifest_schema: Literal[1] = 1
    run_id: str
    mode: str
    config_path: str
    #: The judge's model, if there is only one judge.
    judge_model: str | None
    entrants: list[str]
    bank_size: int
    selected_prompt_count: int
    n_perms: int
    shuffle_seed: int
    pilot_seed: int
    started_at: str
    #: ``None`` until everything is written.
    finished_at: str | None
    #: The resolved configuration, the same as ``config.yaml``.
    config: dict[str, Any]
    judges: list[str]
    judge_models: list[str]
    judge_families: dict[str, str | None]
    families: dict[str, str | None]
    quorum: int
    limit_pairs: int | None
    sample_pairs: int | None
    rubrics: dict[Dimension, RubricEntry]
    #: Hash of the prompts that have answers, every field, in bank order.
    prompt_set: str
    #: Selected prompts without any answer.
    unanswered: list[str]
    #: Pairs that lack a response.
    dropped: int
    #: Prompts left unanswered, by entrant.
    missing: dict[str, int]
    anchors: list[ManifestInput]
    anchor_battles: int
    #: Weights of the dimensions in ``overall``.
    overall: dict[str, float]
    bradley_terry: dict[str, object]
    #: Elo's first rating.
    initial_rating: float
    default_k: float
    k_sweep: list[float]
    n_bootstraps: int
    arena: str | None
    model: str | None
    evaluated: list[str]
    #: What the plan expected.
    estimate: dict[str, object]
    prompt_cache_asked: bool
    #: What a missing response drops: the pairs that need it, or all pairs of its prompt.
    missing_drops: MissingDrops = "pair"
    #: Judgments that another script has paid for: how many are ``used``, and how many not because they are ``stale``
    #: (of other texts), ``other`` (of other questions) or ``replaced`` (by a later line).
    paid_judgments: dict[Dimension, dict[str, int]] = Field(default_factory=dict)
    platform: Platform
    report_data: ReportDataEntry
    #: Every file except the manifest and its hash, with its SHA-256.
    files: dict[str, str]

    @property
    def dimensions(self) -> tuple[str, ...]:
        return tuple(self.rubrics)

    @property
    def design(self) -> MatchDesign:
        return MatchDesign.of(self.config["modes"][self.mode], self.pilot_seed)

    def settings(self) -> RateSettings:
        """How the battles of each dimension are rated by Bradley–Terry."""
        self.elo_method()
        return RateSettings(
            method=_checked("bradley-terry", self.bradley_terry),
            by="dimension",
            n_bootstraps=self.n_bootstraps,
            arena=self.arena,
            model=self.model,
        )

    def elo_method(self) -> DecisiveElo:
        """How decisive matches are rated by Elo."""
        return DecisiveElo(
            self.default_k, self.initial_rating, self.n_perms, self.shuffle_seed, tuple(self.k_sweep)
        )

    def contradiction(self) -> str | None:
        """Two fields of this manifest that contradict each other, if any."""
        one = self.judge_models[0] if len(self.judge_models) == 1 else None
        pairs: dict[str, tuple[object, object]] = {
            "judge_model and judge_models": (self.judge_model, one),
            "judges and judge_models": (len(self.judges), len(self.judge_models)),
            "two judges of one name": (len(self.judges), len(set(self.judges))),
            "two entrants of one name": (len(self.entrants), len(set(self.entrants))),
            "overall and rubrics": (set(self.overall) - set(self.rubrics), set()),
            "anchors and anchor_battles": (bool(self.anchor_battles) and not self.anchors, False),
            "missing and entrants": (set(self.missing) - set(self.entrants), set()),
        }
        return next((f"{name} disagree" for name, (a, b) in pairs.items() if a != b), None)


def _checked(name: str, parameters: Mapping[str, object]) -> RatingMethod:
    """A method with these parameters, each validated by its type."""
    method = method_of(name, parameters)
    _adapter(type(method)).validate_python(dict(parameters))
    return method


@cache
def _adapter(method: type[RatingMethod]) -> TypeAdapter[RatingMethod]:
    return TypeAdapter(method)


def configured_fields(config: Mapping[str, Any], mode: str) -> dict[str, Any]:
    """The fields of a manifest that follow from a resolved configuration, by name."""
    stated, entrants, elo = config["modes"][mode], config["entrants"], config["elo"]
    judges, weights = stated["judges"], config["overall"]
    if weights is None:
        weights = dict.fromkeys(config["rubrics"], 1.0) if config["anchors"] else {}
    return {
        "judge_model": judges[0]["model"] if len(judges) == 1 else None,
        "entrants": [one["entrant_id"] for one in entrants],
        "families": {one["entrant_id"]: one["family"] for one in entrants},
        "judges": [one["name"] for one in judges],
        "judge_models": [one["model"] for one in judges],
        "judge_families": {one["name"]: one["family"] for one in judges},
        "quorum": stated["quorum"],
        "pilot_seed": stated["seed"],
        "limit_pairs": stated["limit_pairs"],
        "sample_pairs": stated["sample_pairs"],
        "missing_drops": config["missing"],
        "n_perms": elo["n_perms"],
        "shuffle_seed": elo["shuffle_seed"],
        "k_sweep": list(elo["k_factor_sweep"]),
        "default_k": elo["default_k"],
        "initial_rating": DecisiveElo().start if elo["initial_rating"] is None else elo["initial_rating"],
        "n_bootstraps": config["ratings"]["n_bootstraps"],
        "bradley_terry": parameters_of(_bradley_terry(config["ratings"], elo["initial_rating"])),
        "overall": {name: float(weight) for name, weight in weights.items()},
    }


def _draft(run: JudgedRun) -> TournamentManifest:
    _check_dimensions(run.dimensions)
    _check_weights(run.dimensions, run.config["overall"], anchored=bool(run.anchors))
    if run.config["ratings"]["n_bootstraps"] == 1:
        raise BadOption("n_bootstraps must be 0, or 2 or more")
    config = json.loads(json.dumps(dict(run.config), allow_nan=False))
    answered = {answer.prompt_id for answer in run.answers}
    asked = [prompt for prompt in run.prompts if prompt.prompt_id in answered]
    return TournamentManifest(
        **configured_fields(config, run.mode),
        run_id=run.run_id,
        mode=run.mode,
        config_path=run.config_path,
        bank_size=run.bank_size,
        selected_prompt_count=len(run.prompts),
        started_at=run.started_at,
        finished_at=None,
        config=config,
        rubrics={
            name: RubricEntry(
                version=rubric.version, sha256=rubric.sha256, needs="gold" if rubric.needs_gold else None
            )
            for name, rubric in run.rubrics.items()
        },
        prompt_set=prompt_set_hash(asked),
        unanswered=[prompt.prompt_id for prompt in run.prompts if prompt.prompt_id not in answered],
        dropped=run.matches.dropped,
        missing=dict(run.matches.missing),
        anchors=[one for source in run.anchors for one in ManifestInput.of(source)],
        anchor_battles=0,
        arena=run.arena,
        model=run.evaluated,
        evaluated=[],
        estimate=json.loads(json.dumps(dict(run.estimate), allow_nan=False)),
        prompt_cache_asked=run.prompt_cache_asked,
        paid_judgments={name: dict(counts) for name, counts in run.paid_judgments.items()},
        platform=Platform.here(),
        report_data=ReportDataEntry(index=0, texts=0, verdicts=0, charts=False),
        files={},
    )


def _bradley_terry(ratings: Mapping[str, Any], initial_rating: float | None) -> BradleyTerry:
    """The method by which a tournament's battles are rated, by the section ``ratings`` of its configuration."""
    mean = BradleyTerry().base if initial_rating is None else float(initial_rating)
    counting: dict[str, Any] = {"base": mean}
    if ratings["write_as"] in PRESETS:
        counting |= preset_parameters(ratings["write_as"], style=False)
    if ratings["cluster"] is not None:
        counting["clusters"] = ratings["cluster"]
    if ratings["both_bad"] is not None:
        counting["both_bad"] = ratings["both_bad"]
    return BradleyTerry(
        lean=float(ratings["lean"]),
        inconsistent={"half": 0.5, "drop": None}[ratings["inconsistent"]],
        seed=ratings["seed"],
        n_bootstraps=max(ratings["n_bootstraps"], 2),
        anchor_rating=mean,
        **counting,
    )


def prompt_of(answer: Answer) -> Prompt:
    """The prompt that is part of an answer."""
    return Prompt(
        prompt_id=answer.prompt_id,
        text=answer.prompt,
        source=answer.source or "",
        category=answer.category,
        language=answer.language,
        gold=answer.gold,
        expected_behavior=answer.expected_behavior,
    )


def prompt_set_hash(prompts: Iterable[Prompt]) -> str:
    """Identity of a set of prompts: every field of each, in bank order."""
    digest = hashlib.sha256()
    for one in prompts:
        fields: Sequence[str | None] = (
            *(one.prompt_id, one.text, one.source, one.category),
            *(one.language, one.gold, one.expected_behavior),
        )
        digest.update(json.dumps(fields).encode() + b"\n")
    return digest.hexdigest()
