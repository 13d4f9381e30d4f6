"""Studies of placements: does the interval of a model that only a judge has seen hold the truth?

One study runs one world: people vote on all its models; then each model in turn is left out of the human battles and
placed by a judge, whose view of every model is off by a bias of its own. Differences between the placed model and the
others are compared with the truth by people.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from tiltyard.core.battles import CodedBattles, Table
from tiltyard.core.battles.cluster_keys import hash_texts
from tiltyard.core.ratings import BradleyTerry, Ratings
from tiltyard.core.ratings.judge_placement import JudgePlacement, place_by_judge
from tiltyard.core.ratings.variance import critical_value
from tiltyard.simulation.studies import Study
from tiltyard.simulation.worlds import World, WorldSettings, draw_world_of

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SimulatedJudge:
    """How a judge differs from people, in logits."""

    #: The standard deviation of its bias by model.
    bias_sd: float = 0.0
    #: How much it favours the placed model beside that.
    favour: float = 0.0
    #: The standard deviation of its own effects of model × prompt, beside those of people.
    effect_sd: float = 0.0
    #: Its differences of strength, relative to people's.
    decisiveness: float = 1.0
    #: Its share of ties; ``None``: as people.
    ties: float | None = None


@dataclass(frozen=True, slots=True)
class PlacementSettings:
    """A world of people, a judge, and how many battles both decide."""

    world: WorldSettings = field(default_factory=WorldSettings)
    judge: SimulatedJudge = field(default_factory=SimulatedJudge)
    #: Human votes that are left when one model is left out, about.
    votes: int = 5000
    #: Judged battles of the placed model, and between the others.
    judged: int = 300
    judged_between: int = 0
    #: Opponents that it meets; ``None``: all.
    opponents: int | None = None
    #: Whether each judged battle has a prompt of its own.
    own_prompts: bool = False


@dataclass(frozen=True, slots=True)
class PlacementResult:
    """One world: means over its models, each left out in turn."""

    #: Share of the differences whose interval holds the truth, of those that have one; the share that has none.
    covered: float
    refused: float
    #: The same if the judge's battles are pooled with people's, as in version 0.1.
    pooled_covered: float
    #: The share covered of the best and of the worst model's differences, each placed as the new one.
    best_covered: float | None
    worst_covered: float | None
    #: Median half-width of a difference, and of the pooled one, and root mean square error, in points.
    half_width: float
    pooled_half_width: float
    error: float
    #: Estimated standard deviation of the bias, in points; ``None`` if it was not estimated.
    bias_sd: float | None
    #: Share of the placements with the true place outside the range, and the mean number of places in a range.
    false_range: float | None
    places: float | None
    #: Share of the models without a rating, and of those that are labelled "judge only".
    unplaced: float
    judge_only: float


@dataclass(frozen=True, slots=True, eq=False)
class _Placed:
    """One placement against the truth."""

    found: JudgePlacement
    wrong: Floats
    half: Floats
    inside: npt.NDArray[np.bool_]
    pooled_wrong: Floats
    pooled_half: Floats
    true_rank: int


def study_placement(settings: PlacementSettings, seed: int) -> PlacementResult:
    """Leave out each model of one world in turn, and place it."""
    rng = np.random.default_rng([seed, 0])
    world = draw_world_of(settings.world, rng)
    m = len(world.models)
    log = world.codes(round(settings.votes * m / (m - 2)), rng)
    bias = rng.normal(0.0, 1.0, m) * settings.judge.bias_sd
    own_effects = rng.normal(0.0, 1.0, world.effect.shape) * settings.judge.effect_sd
    judge = replace(
        world,
        strength=settings.judge.decisiveness * world.strength + bias,
        effect=world.effect + own_effects,
        position_bias=0.0,
        both_bad=0.0,
        ties=world.ties if settings.judge.ties is None else settings.judge.ties,
        crowd=None,
    )
    truth = world.truth()
    made = [_place(settings, judge, log, truth, new, rng) for new in range(m)]
    return _summarised([one for one in made if one is not None], m)


def _place(
    settings: PlacementSettings,
    judge: World,
    log: CodedBattles,
    truth: Floats,
    new: int,
    rng: np.random.Generator,
) -> _Placed | None:
    human = Table.from_codes(judge.models, _rows(log, (log.a != new) & (log.b != new)))
    favoured = judge.strength.copy()
    favoured[new] += settings.judge.favour
    judged = _judged(settings, replace(judge, strength=favoured), new, rng)
    ratings = BradleyTerry()(human)
    found = place_by_judge(ratings, judged, judge.models[new])
    if np.isnan(found.rating):
        return None
    others = np.delete(np.arange(len(truth)), new)
    gap = truth[new] - truth[others]
    pooled = BradleyTerry()(human.merge(judged))
    return _Placed(
        found,
        found.difference[others] - gap,
        (found.difference_high[others] - found.difference_low[others]) / 2.0,
        (found.difference_low[others] <= gap) & (gap <= found.difference_high[others]),
        pooled.rating[new] - pooled.rating[others] - gap,
        _pooled_half(pooled, new)[others],
        1 + int((truth[others] > truth[new]).sum()),
    )


def _judged(settings: PlacementSettings, judge: World, new: int, rng: np.random.Generator) -> Table:
    others = np.delete(np.arange(len(judge.models)), new)
    chosen = rng.permutation(others)[: settings.opponents]
    met = np.resize(rng.permutation(chosen), settings.judged)
    prompts = (
        rng.permutation(judge.effect.shape[1])[: settings.judged]
        if settings.own_prompts
        else judge.draw_prompts(settings.judged, rng)
    )
    first = rng.integers(0, len(others), settings.judged_between)
    second = (first + rng.integers(1, len(others), settings.judged_between)) % len(others)
    a = np.concatenate([np.full(settings.judged, new), others[first]])
    b = np.concatenate([met, others[second]])
    prompt = np.concatenate([prompts, judge.draw_prompts(settings.judged_between, rng)])
    keys = hash_texts([f"prompt-{k}" for k in range(judge.effect.shape[1])])
    codes = CodedBattles(
        a.astype(np.uint16), b.astype(np.uint16), judge.kinds(a, b, prompt, rng), prompt=keys[prompt]
    )
    return Table.from_codes(judge.models, codes)


def _rows(log: CodedBattles, chosen: npt.NDArray[np.bool_]) -> CodedBattles:
    prompt = None if log.prompt is None else log.prompt[chosen]
    voter = None if log.voter is None else log.voter[chosen]
    return CodedBattles(log.a[chosen], log.b[chosen], log.kind[chosen], prompt=prompt, voter=voter)


def _pooled_half(pooled: Ratings, new: int) -> Floats:
    assert pooled.uncertainty is not None
    half = critical_value(0.95, pooled.uncertainty.difference_dof()[new])
    return np.asarray(half * np.sqrt(pooled.uncertainty.differences()[new]))


def _summarised(made: list[_Placed], models: int) -> PlacementResult:
    found = [one.found for one in made]
    biases = [one.bias_sd for one in found if one.bias_sd is not None]
    ranged = [
        (one.true_rank, one.found.rank_low, one.found.rank_high)
        for one in made
        if one.found.rank_low is not None and one.found.rank_high is not None
    ]
    return PlacementResult(
        covered=_covered(made) or 0.0,
        best_covered=_covered([one for one in made if one.true_rank == 1]),
        worst_covered=_covered([one for one in made if one.true_rank == models]),
        pooled_covered=_share_inside([(one.pooled_wrong, one.pooled_half) for one in made]),
        refused=float(np.mean([np.isnan(one.half).mean() for one in made])),
        half_width=float(np.nanmedian([one.half for one in made])),
        pooled_half_width=float(np.nanmedian([one.pooled_half for one in made])),
        error=float(np.sqrt(np.nanmean([np.nanmean(one.wrong**2) for one in made]))),
        bias_sd=float(np.median(biases)) if biases else None,
        false_range=float(np.mean([not low <= true <= high for true, low, high in ranged]))
        if ranged
        else None,
        places=float(np.mean([high - low + 1 for _, low, high in ranged])) if ranged else None,
        unplaced=1.0 - len(made) / models,
        judge_only=float(np.mean([one.label == "judge only" for one in found])),
    )


def _covered(made: list[_Placed]) -> float | None:
    """The share of the differences that have an interval; ``None`` if no model was placed."""
    given = [one.inside[~np.isnan(one.half)] for one in made]
    return float(np.concatenate(given).mean()) if given else None


def _share_inside(errors: list[tuple[Floats, Floats]]) -> float:
    wrong, half = (np.concatenate(parts) for parts in zip(*errors, strict=True))
    given = ~np.isnan(half)
    return float(np.mean(np.abs(wrong[given]) <= half[given]))


PLACEMENT: Study[PlacementSettings, PlacementResult] = Study(
    "placement",
    3,
    study_placement,
    PlacementResult,
    depends=(
        "tiltyard.core.ratings",
        "tiltyard.core.battles",
        "lab.placement_studies",
        "tiltyard.simulation.worlds",
    ),
)
