"""A complete judged run: the value from which a tournament's folder is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypedDict, get_args, get_type_hints

from tiltyard.core.battles import Battle
from tiltyard.core.judging.judged_question import JudgedQuestion
from tiltyard.core.judging.matches import MatchList, MissingDrops, Prompt
from tiltyard.core.judging.question import Rubric
from tiltyard.core.judging.reconciliation import build_match_battles
from tiltyard.errors import BadOption
from tiltyard.files import BattleSource
from tiltyard.files.answer import Answer

#: The group of pooled dimensions, and the dimension of human battles without one.
OVERALL = "overall"


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
    config: Mapping[str, object]
    #: Judges by name in configured order, each with its model and family.
    judges: tuple[str, ...]
    judge_models: tuple[str, ...]
    judge_families: Mapping[str, str | None] = field(default_factory=dict)
    #: Entrants in configured order.
    entrants: tuple[str, ...]
    families: Mapping[str, str | None] = field(default_factory=dict)
    bank_size: int
    pilot_seed: int
    limit_pairs: int | None = None
    sample_pairs: int | None = None
    #: The selected prompts, in bank order.
    prompts: Sequence[Prompt]
    #: Every response that was judged: prompts in bank order, then models by name.
    answers: Sequence[Answer]
    #: By dimension, in configured order.
    rubrics: Mapping[str, Rubric]
    matches: MatchList
    #: Dimension → all its questions, in canonical order.
    judged: Callable[[str], Iterator[JudgedQuestion]]
    quorum: int
    #: Human battles, rated together with the judged ones.
    anchors: Sequence[BattleSource] = ()
    #: The configured weights of the dimensions in the overall rating.
    overall: Mapping[str, float] | None = None
    n_perms: int = 500
    shuffle_seed: int = 0
    #: ``None``: 1400 of Elo, 1500 of Bradley–Terry.
    initial_rating: float | None = None
    default_k: float = 16.0
    k_sweep: tuple[float, ...] = (1.0, 4.0, 8.0, 16.0, 32.0)
    lean: float = 0.75
    inconsistent: float | None = 0.5
    #: ``None``: as ``write_as`` does.
    both_bad: str | None = None
    #: What prompts that depend on each other have in common: ``category`` or ``language``. ``None``: a test decides.
    cluster: str | None = None
    write_as: str = "tiltyard"
    n_bootstraps: int = 100
    seed: int = 0
    attempts: Callable[[], Iterator[AttemptRow]]
    #: The plan's estimate, plain values only; costs.json shows it next to the actual costs.
    estimate: Mapping[str, object] = field(default_factory=dict)
    prompt_cache_asked: bool = False
    missing_drops: MissingDrops = "pair"
    #: Judgments that another script has paid for, by dimension: how many were used, and why others were not.
    paid_judgments: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    #: ISO 8601, UTC. ``finished_at`` is ``None`` until everything is judged.
    started_at: str
    finished_at: str | None = None
    #: The model under test and the name of the arena, if any.
    evaluated: str | None = None
    arena: str | None = None

    def __post_init__(self) -> None:
        if len(self.judges) != len(self.judge_models):
            raise BadOption(f"{len(self.judges)} judges, but {len(self.judge_models)} models of judges")
        if not self.rubrics:
            raise BadOption("no rubrics: a tournament needs at least one dimension")
        if self.n_bootstraps == 1 or self.n_bootstraps < 0 or self.n_perms < 1:
            raise BadOption("n_bootstraps must be 0, or 2 or more; n_perms 1 or more")
        if not all(k > 0.0 for k in self.k_sweep):
            raise BadOption("every K of the sweep must be above 0")
        _check_weights(tuple(self.rubrics), self.overall, anchored=bool(self.anchors))

    @property
    def dimensions(self) -> tuple[str, ...]:
        return tuple(self.rubrics)

    def battles(self) -> Iterator[Battle]:
        """The judged battles by dimension, as far as their questions have verdicts."""
        tags = {prompt.prompt_id: prompt for prompt in self.prompts}
        for name in self.dimensions:
            matches = (match for match in self.matches.matches if match.dimension == name)
            for settled in build_match_battles(matches, self.judged(name), self.judges, self.quorum, tags):
                if settled.battle is not None:
                    yield settled.battle

    @property
    def weights(self) -> dict[str, float]:
        """The weight of each dimension in the overall rating; empty if there is none."""
        if self.overall is not None:
            return {name: float(self.overall[name]) for name in self.rubrics if name in self.overall}
        return dict.fromkeys(self.rubrics, 1.0) if self.anchors else {}


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
