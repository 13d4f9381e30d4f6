"""The rows of the ranking policy's table of bars, each computed from runs.

Rows share runs: one set of arenas of 20 models is used for exposure, lanes, order and publication. The other
matchmakers run on the same worlds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType

from lab.bars import BarThreshold, PolicyBar, StudyRuns, make_bar
from lab.claim_studies import COVERED, RD, CoveredSettings, RdSettings
from tiltyard.core.policy.state.policy import Fairness, Lane, Policy
from tiltyard.simulation.simulated_arena import (
    ARENA,
    FIRST_PLACE_SPAN_VOTES,
    MATCHMAKERS,
    SimulatedArenaResult,
    SimulationSettings,
    first_changes,
)
from tiltyard.simulation.studies import (
    BoundedFigure,
    MeanFigure,
    median_figure,
    paired_difference,
    summarise,
)
from tiltyard.simulation.worlds import WorldSettings

OTHERS = tuple(name for name in MATCHMAKERS if name != "policy")

#: Seeds that a row needs for a verdict.
MIN_SEEDS = 24
MIN_RD_SEEDS = 8
MIN_PAIRED_SEEDS = 100
MIN_COVERAGE_WORLDS = 200

#: Votes of an arena by its number of models: under the policy, scoped, and under the others, who
#: need longer to become official.
_STRICT_VOTES = {8: 10_000, 20: 10_000, 40: 10_000, 100: 10_000}
_SCOPED_VOTES = {40: 10_000, 100: 50_000}
_OTHER_MATCHMAKER_VOTES = {8: 10_000, 20: 25_000, 40: 25_000, 100: 50_000}


def _arena(
    runs: StudyRuns,
    models: int,
    matchmaker: str = "policy",
    fairness: Fairness = "strict",
    *,
    votes: int | None = None,
) -> SimulationSettings:
    """The shared arena with this number of models."""
    by_models = (
        _OTHER_MATCHMAKER_VOTES
        if matchmaker != "policy"
        else _STRICT_VOTES
        if fairness == "strict"
        else _SCOPED_VOTES
    )
    return SimulationSettings(
        world=WorldSettings(models=models),
        policy=Policy(fairness=fairness if matchmaker == "policy" else "strict"),
        matchmaker=matchmaker,
        votes=runs.size.capped(votes or by_models[models]),
    )


def _decides(runs: StudyRuns, n: int, needed: int = MIN_SEEDS) -> bool:
    return runs.size.votes is None and n >= needed


def _known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _summary(values: Sequence[float | None]) -> MeanFigure | None:
    known = _known(values)
    return summarise(known) if known else None


def _mean(values: Sequence[float | None]) -> float | None:
    known = _known(values)
    return sum(known) / len(known) if known else None


def _median(values: Sequence[int | None]) -> BoundedFigure:
    """The median of times; events that never happened count as infinite."""
    return median_figure([math.inf if value is None else value for value in values])


def _middle(values: Sequence[int | None]) -> float | None:
    middle = _median(values).value
    return middle if math.isfinite(middle) else None


def _in_order_at(votes: int, result: SimulatedArenaResult) -> float | None:
    return next((moment.in_order for moment in result.moments if moment.votes == votes), None)


def exposures_outside(models: int, runs: StudyRuns) -> PolicyBar:
    """Exposures must always be within tolerance."""
    size = runs.size

    def share(matchmaker: str) -> float | None:
        results = runs(ARENA, _arena(runs, models, matchmaker), size.beside(matchmaker))
        watched = sum(result.watched for result in results)
        return sum(result.outside for result in results) / watched if watched else None

    ours = runs(ARENA, _arena(runs, models), size.seeds)
    shares = [result.outside / result.watched for result in ours if result.watched]
    return make_bar(
        f"fairness-{models}",
        f"windows with any model outside tolerance, {models} models (share)",
        _summary(shares),
        asked=BarThreshold(most=0.0),
        decides=_decides(runs, len(shares)) or any(shares),
        beside={name: share(name) for name in OTHERS},
    )


def contender_share(models: int, least: float, runs: StudyRuns) -> PolicyBar:
    """Fairness must leave the contender lane its share."""
    results = runs(ARENA, _arena(runs, models), runs.size.seeds)
    return make_bar(
        f"contender-{models}",
        f"realised share of the contender lane, strict, {models} models",
        summarise([result.lanes[Lane.CONTENDER] for result in results]),
        asked=BarThreshold(least=least),
        decides=_decides(runs, len(results)),
    )


def in_order_gain(runs: StudyRuns) -> PolicyBar:
    """With the same number of votes, the top must be ordered better than by v1, world by world."""
    size = runs.size
    at = partial(_in_order_at, size.capped(10_000))

    def shares(name: str) -> list[float | None]:
        if name in ("policy", "v1"):
            results = runs(ARENA, _arena(runs, 20, name, votes=10_000), size.paired)
        else:
            results = runs(ARENA, _arena(runs, 20, name), size.beside(name))
        return [at(result) for result in results]

    found = {name: shares(name) for name in MATCHMAKERS}
    both = [
        (ours, theirs)
        for ours, theirs in zip(found["policy"], found["v1"], strict=True)
        if ours is not None and theirs is not None
    ]
    gain = paired_difference([ours for ours, _ in both], [theirs for _, theirs in both]) if both else None
    return make_bar(
        "in-order-20",
        "true top-10 pairs in order, 20 models, 10k votes: gain over v1",
        gain,
        asked=BarThreshold(least=0.0, words="above 0 with its whole interval"),
        reached=gain is not None and gain.interval()[0] > 0.0,
        decides=_decides(runs, len(both), MIN_PAIRED_SEEDS),
        beside={name: _mean(values) for name, values in found.items()},
    )


def in_order(models: int, votes: int, least: float, runs: StudyRuns) -> PolicyBar:
    """Larger arenas must order their top correctly too."""
    at = partial(_in_order_at, runs.size.capped(votes))
    ours = _known([at(one) for one in runs(ARENA, _arena(runs, models, fairness="scoped"), runs.size.seeds)])
    return make_bar(
        f"in-order-{models}",
        f"true top-10 pairs in order, {models} models, scoped, {votes // 1000}k votes",
        _summary(ours),
        asked=BarThreshold(least=least),
        decides=_decides(runs, len(ours)),
        beside={
            name: _mean([at(one) for one in runs(ARENA, _arena(runs, models, name), runs.size.beside(name))])
            for name in OTHERS
        },
    )


def votes_to_official(models: int, fairness: Fairness, most: int, runs: StudyRuns) -> PolicyBar:
    """An arena must become official soon."""
    n = runs.size.seeds
    ours = runs(ARENA, _arena(runs, models, fairness=fairness), n)
    return make_bar(
        f"official-{models}" + ("-scoped" if fairness == "scoped" else ""),
        f"votes until officially stable, {models} models, {fairness} (median)",
        _median([result.official_at for result in ours]),
        asked=BarThreshold(most=most),
        decides=_decides(runs, n),
        beside={
            name: _middle(
                [one.official_at for one in runs(ARENA, _arena(runs, models, name), runs.size.beside(name))]
            )
            for name in OTHERS
        },
    )


def _special(runs: StudyRuns, settings: SimulationSettings) -> dict[str, list[SimulatedArenaResult]]:
    """Arenas with special settings, by matchmaker."""
    settings, size = replace(settings, votes=runs.size.capped(settings.votes)), runs.size
    return {name: runs(ARENA, replace(settings, matchmaker=name), size.beside(name)) for name in MATCHMAKERS}


def dead_prompts(runs: StudyRuns) -> PolicyBar:
    """Prompts that no model can answer must not take most of the votes."""
    found = _special(runs, SimulationSettings(world=WorldSettings(dead=0.05), votes=10_000))
    shares = {name: [one.dead_share for one in results] for name, results in found.items()}
    return make_bar(
        "dead-prompts",
        "share of votes on 5 % dead prompts, 20 models",
        _summary(shares["policy"]),
        asked=BarThreshold(most=0.07),
        decides=_decides(runs, runs.size.seeds),
        beside={name: _mean(shares[name]) for name in OTHERS},
    )


def newcomer(runs: StudyRuns) -> PolicyBar:
    """A newcomer must be served more often than others at first, but not much more."""
    after = runs.size.capped(7_500) * 2 // 3
    world = WorldSettings(newcomers=1, newcomers_after=after)
    found = _special(runs, SimulationSettings(world=world, votes=after + 250))
    shares = {name: [one.newcomer_share for one in results] for name, results in found.items()}
    return make_bar(
        "newcomer",
        "newcomer's share of its first 200 matchups, 20 models",
        _summary(shares["policy"]),
        asked=BarThreshold(most=0.15),
        decides=_decides(runs, len(_known(shares["policy"]))),
        beside={name: _mean(shares[name]) for name in OTHERS},
    )


def first_place(runs: StudyRuns) -> PolicyBar:
    """The first place must not change at every evaluation."""
    until = runs.size.capped(FIRST_PLACE_SPAN_VOTES[1])
    since = until * FIRST_PLACE_SPAN_VOTES[0] // FIRST_PLACE_SPAN_VOTES[1]
    size = runs.size

    def changes(settings: SimulationSettings, n: int) -> list[float | None]:
        return [first_changes(one.moments, since, until) for one in runs(ARENA, settings, n)]

    ours = _arena(runs, 20, votes=FIRST_PLACE_SPAN_VOTES[1])
    beside = {name: _mean(changes(_arena(runs, 20, name), size.others)) for name in OTHERS}
    beside["policy at 0.06"] = _mean(changes(replace(ours, volatility=0.06), size.others))
    return make_bar(
        "first-place",
        "first place changes per 250-vote step at 20–25k votes, 20 models (share)",
        _summary(changes(ours, size.seeds)),
        asked=BarThreshold(most=0.10),
        decides=_decides(runs, size.seeds),
        beside=beside,
    )


def intervals(runs: StudyRuns) -> PolicyBar:
    """An interval must cover as often as it says."""
    worlds = runs(COVERED, CoveredSettings(), runs.size.worlds)
    return make_bar(
        "intervals",
        "coverage of the prompt-clustered interval on the prompt population",
        summarise([world.by_prompt for world in worlds]),
        asked=BarThreshold(least=0.92, most=0.97),
        decides=_decides(runs, len(worlds), MIN_COVERAGE_WORLDS),
        beside={"battle level": _mean([world.by_battle for world in worlds])},
    )


def glicko2_rd(runs: StudyRuns) -> PolicyBar:
    """With the paper's volatility, RD stops falling, which is why our default differs."""
    n = runs.size.rds

    def rds(volatility: float) -> list[float]:
        return [one.rd for one in runs(RD, RdSettings(volatility), n)]

    return make_bar(
        "glicko-2",
        "Glicko-2 at volatility 0.06: RD of equal models after 200 votes each",
        summarise(rds(0.06)),
        asked=BarThreshold(least=59.5, most=61.5),
        decides=n >= MIN_RD_SEEDS,
        beside={"at 0.003": _mean(rds(0.003))},
    )


def planted_first(runs: StudyRuns) -> PolicyBar:
    """A model that starts far too low must reach its place."""
    settings = SimulationSettings(world=WorldSettings(models=40), votes=5_000, planted=400.0)
    found = {
        name: [one.planted_top3_at for one in results] for name, results in _special(runs, settings).items()
    }
    return make_bar(
        "planted",
        "votes until the true first, planted 400 points too low, is in the top 3, 40 models (median)",
        _median(found["policy"]),
        asked=BarThreshold(most=1250),
        decides=_decides(runs, runs.size.seeds),
        beside={name: _middle(found[name]) for name in OTHERS},
    )


#: Rows by name, in the order of the table.
ROWS: Mapping[str, Callable[[StudyRuns], PolicyBar]] = MappingProxyType(
    {
        **{f"fairness-{models}": partial(exposures_outside, models) for models in (8, 20, 40, 100)},
        "contender-20": partial(contender_share, 20, 0.27),
        "contender-40": partial(contender_share, 40, 0.18),
        "contender-100": partial(contender_share, 100, 0.07),
        "in-order-20": in_order_gain,
        "in-order-40": partial(in_order, 40, 10_000, 0.90),
        "in-order-100": partial(in_order, 100, 50_000, 0.92),
        "official-20": partial(votes_to_official, 20, "strict", 3_800),
        "official-40": partial(votes_to_official, 40, "strict", 6_800),
        "official-40-scoped": partial(votes_to_official, 40, "scoped", 4_800),
        "dead-prompts": dead_prompts,
        "newcomer": newcomer,
        "first-place": first_place,
        "intervals": intervals,
        "glicko-2": glicko2_rd,
        "planted": planted_first,
    }
)
