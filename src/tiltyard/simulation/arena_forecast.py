"""Forecasts how many orders an arena settles, when it will be official, and which rule will delay that.

A forecast summarises simulated arenas, one for each seed. The options are the same on the command line and in Python.
"""

from __future__ import annotations

import math
import os
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from typing import Any, Literal, TypedDict, Unpack, cast

from tiltyard._version import __version__
from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.validity.publication import pairs_needed
from tiltyard.core.policy.validity.serving_fairness import is_mix_feasible
from tiltyard.errors import BadOption
from tiltyard.foundation.option_names import (
    option_name,
    refuse_unknown,
)
from tiltyard.report.forecast_report import simulation_markdown, simulation_sentence
from tiltyard.simulation.simulated_arena import (
    ARENA,
    MATCHMAKERS,
    EvaluationOutcome,
    SimulatedArenaResult,
    SimulationSettings,
)
from tiltyard.simulation.studies import Progress, lab_folder, median_figure, run_study
from tiltyard.simulation.worlds import WorldSettings

#: Tail probability of the shown range: it contains four worlds in five.
_TAIL_PROBABILITY = 0.1

#: Simulated worlds in a forecast.
DEFAULT_WORLD_COUNT = 16
#: Limit of models × prompts; beyond it a simulation takes too long.
_CELL_LIMIT = 2_000_000
#: Initial volatilities of Glicko-2: our default, and the paper's.
_VOLATILITY = {"settling": 0.003, "literal": 0.06}
#: Options that have no effect unless another one is given.
_NEEDS = {
    "rigged_rank": "riggers",
    "newcomers_after": "newcomers",
    "retired_after": "retired",
    "drift": "drifting",
    "voter_sd": "voters",
    "voter_pareto": "voters",
    "drift_after": "drifting",
    "drift_over": "drifting",
    "drifting": "drift",
    "newcomers": "newcomers_after",
    "retired": "retired_after",
}


@dataclass(frozen=True, slots=True)
class WorldRange:
    """The median over worlds, and the range of four in five of them. ``None``: never, or unknown."""

    median: float | None
    low: float | None
    high: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> WorldRange:
        """Summarise one value per world; use infinity for events that never happened."""
        if not values:
            return cls(None, None, None)
        ordered = sorted(values)
        outside = math.floor(_TAIL_PROBABILITY * len(ordered))
        figures = (median_figure(values).value, ordered[outside], ordered[len(ordered) - 1 - outside])
        return cls(*(value if math.isfinite(value) else None for value in figures))


@dataclass(frozen=True, slots=True)
class RuleForecast:
    """One rule of publication over all worlds."""

    name: str
    bar: float
    at_most: bool
    #: Votes from which it holds continuously until the board is official, or until the end.
    holds_from: WorldRange
    #: Worlds in which it holds at the end.
    holds_in: int
    #: Worlds in which it was (one of) the last rules to hold, or does not hold at the end.
    last_in: int
    #: Its final value, in worlds that did not become official.
    short: WorldRange


@dataclass(frozen=True, slots=True)
class ForecastPoint:
    """The state of all worlds after a number of votes."""

    votes: int
    #: Share of worlds that are official by then.
    official: float
    #: Values of the rules, by name.
    rules: dict[str, WorldRange]
    #: Share of the pairs among the true top that are in the correct order: published, and by Bradley–Terry.
    in_order: WorldRange
    in_order_fitted: WorldRange
    #: Share of all pairs of models whose order is settled.
    settled: WorldRange


@dataclass(frozen=True, slots=True)
class Forecast:
    """The forecast for one matchmaker and one kind of fairness."""

    matchmaker: str
    fairness: str
    worlds: int
    official_in: int
    #: Votes until the board is official.
    official: WorldRange
    rules: tuple[RuleForecast, ...]
    looks: tuple[ForecastPoint, ...]
    #: The same shares when the board becomes official, or at the end.
    in_order: WorldRange
    in_order_fitted: WorldRange
    #: Mean shares of the lanes: configured, drawn, served. Only the policy's matchmaker has lanes.
    lane_weights: tuple[float, ...]
    nominal: tuple[float, ...]
    realised: tuple[float, ...]
    #: Largest deviation of exposures from their targets, by world with a full window.
    deviations: tuple[float, ...]
    tolerance: float
    mix_feasible: bool
    #: By world, in order of seeds: votes until official, and the share of pairs in correct order then.
    official_by_world: tuple[int | None, ...]
    in_order_by_world: tuple[float | None, ...]
    #: Share of all pairs of models whose order is settled at the end.
    settled: WorldRange


@dataclass(frozen=True, slots=True, repr=False)
class Simulation:
    """Forecasts on the same worlds: first the requested one, then those to compare it with."""

    made_by: str
    votes_per_day: int
    #: The first seed; the others follow it.
    seed: int
    settings: SimulationSettings
    forecasts: tuple[Forecast, ...]

    def to_dict(self) -> dict[str, object]:
        """Plain values for JSON."""
        return asdict(self)

    def to_markdown(self) -> str:
        """What the forecast says, with its tables."""
        return simulation_markdown(self.to_dict())

    def __repr__(self) -> str:
        return f"<Simulation: {simulation_sentence(self.to_dict())}>"

    def _repr_markdown_(self) -> str:
        return self.to_markdown()


def default_votes(models: int, prompts: int) -> int:
    """Default number of votes: four for each model and prompt, within limits."""
    return min(max(4 * models * prompts, 5_000), 50_000)


def mix_feasible(policy: Policy, models: int) -> bool:
    """Whether the contender lane can get its share while all exposures stay within tolerance."""
    strict = replace(policy, fairness="strict")
    return is_mix_feasible(strict, models)


def _report_progress(on_progress: Progress, number: int, of: int, done: int, total: int) -> None:
    on_progress(number * total + done, of * total)


def summarise_worlds(results: Sequence[SimulatedArenaResult], settings: SimulationSettings) -> Forecast:
    """Summarise worlds that were simulated with the same settings."""
    untils = [_until(result) for result in results]
    ends = [until[-1] for until in untils if until]
    lanes = results if settings.matchmaker == "policy" else ()
    return Forecast(
        matchmaker=settings.matchmaker,
        fairness=settings.policy.fairness,
        worlds=len(results),
        official_in=sum(result.official_at is not None for result in results),
        official=WorldRange.of([_votes(result.official_at) for result in results]),
        rules=_rules(results, settings),
        looks=_looks(results, settings.policy.evaluated_every),
        in_order=WorldRange.of([end.in_order_published for end in ends]),
        in_order_fitted=WorldRange.of([end.in_order for end in ends if end.in_order is not None]),
        lane_weights=settings.policy.lane_weights,
        nominal=_mean_shares([result.nominal for result in lanes]),
        realised=_mean_shares([result.lanes for result in lanes]),
        deviations=tuple(result.largest_deviation for result in results if result.watched),
        tolerance=settings.policy.tolerance,
        mix_feasible=mix_feasible(settings.policy, settings.world.models),
        official_by_world=tuple(result.official_at for result in results),
        in_order_by_world=tuple(until[-1].in_order_published if until else None for until in untils),
        settled=WorldRange.of([result.moments[-1].settled for result in results if result.moments]),
    )


def _votes(official_at: int | None) -> float:
    return math.inf if official_at is None else official_at


def _until(result: SimulatedArenaResult) -> tuple[EvaluationOutcome, ...]:
    """Evaluations up to the one that made the board official, or all."""
    return tuple(moment for moment in result.moments if moment.votes <= _votes(result.official_at))


def _rules(results: Sequence[SimulatedArenaResult], settings: SimulationSettings) -> tuple[RuleForecast, ...]:
    # The threshold of each rule, and whether it is a maximum.
    top = min(settings.policy.published_top, max(len(result.order) for result in results))
    bars = {
        "top-rd": (settings.policy.published_rd, True),
        "top-pairs": (pairs_needed(top, settings.policy.published_pairs), False),
        "top-coverage": (settings.policy.published_coverage, False),
    }
    begun = [{name: _held_from(result, name) for name in bars} for result in results]
    last = Counter(name for world in begun for name, votes in world.items() if votes == max(world.values()))
    unfinished = [
        _values(result.moments[-1]) for result in results if result.moments and result.official_at is None
    ]
    return tuple(
        RuleForecast(
            name,
            bar,
            at_most,
            WorldRange.of([world[name] for world in begun]),
            sum(math.isfinite(world[name]) for world in begun),
            last[name],
            WorldRange.of([values[name] for values in unfinished if name in values]),
        )
        for name, (bar, at_most) in bars.items()
    )


def _held_from(result: SimulatedArenaResult, name: str) -> float:
    """Votes from which a rule held continuously; infinity if it does not hold at the end."""
    since = math.inf
    for moment in reversed(_until(result)):
        if not any(rule == name and holds for rule, _, holds in moment.rules):
            break
        since = moment.votes
    return since


def _values(moment: EvaluationOutcome) -> dict[str, float]:
    return {name: value for name, value, _ in moment.rules if value is not None}


def _looks(results: Sequence[SimulatedArenaResult], every: int) -> tuple[ForecastPoint, ...]:
    """One point for each evaluation of the longest world."""
    longest = max((result.moments[-1].votes for result in results if result.moments), default=0)
    looks = []
    evaluated = [(result.moments, [moment.votes for moment in result.moments]) for result in results]
    for votes in range(every, longest + 1, every):
        past = [(moments, bisect_right(at, votes)) for moments, at in evaluated]
        now = [moments[count - 1] for moments, count in past if count]
        values = [_values(moment) for moment in now]
        names = sorted({name for world in values for name in world})
        official = sum(_votes(result.official_at) <= votes for result in results)
        looks.append(
            ForecastPoint(
                votes,
                official / len(results),
                {name: WorldRange.of([world[name] for world in values if name in world]) for name in names},
                WorldRange.of([moment.in_order_published for moment in now]),
                WorldRange.of([moment.in_order for moment in now if moment.in_order is not None]),
                WorldRange.of([moment.settled for moment in now]),
            )
        )
    return tuple(looks)


def _mean_shares(shares: Sequence[tuple[float, ...]]) -> tuple[float, ...]:
    return tuple(sum(lane) / len(shares) for lane in zip(*shares, strict=True))


class SimulateOptions(TypedDict, total=False):
    """Options of `simulate`; those left out have the defaults of the command line."""

    models: int
    prompts: int
    votes_per_day: int
    #: The number of votes to simulate.
    votes: int | None
    #: The number of worlds, and the seed of the first.
    seeds: int
    seed: int
    #: Worker processes; 0 uses only this one, None all cores.
    processes: int | None
    #: Which exposures are balanced.
    fairness: Literal["strict", "scoped"]
    #: ``policy``, ``v1``, ``uniform``, ``nearest`` or ``thompson``.
    matchmaker: str
    #: Compare all matchmakers on the same worlds.
    compare: bool
    #: Volatility of Glicko-2: ``settling`` (0.003), or the paper's (``literal``, 0.06).
    rater: Literal["settling", "literal"]
    #: Do not place the best models closer together.
    even_top: bool
    #: Spread of strengths in points, and of model × prompt effects in logits.
    strength_sd: float
    effect_sd: float
    #: Shares of votes.
    ties: float
    both_bad: float
    #: Share of voters who vote at random.
    lazy: float
    #: Advantage of the left side, in logits.
    position_bias: float
    #: Share of prompts that nobody can answer.
    dead: float
    #: Share of votes cast to push one model up, and its true rank.
    riggers: float
    rigged_rank: int
    newcomers: int
    newcomers_after: int
    retired: int
    retired_after: int
    drifting: int
    drift: float
    drift_after: int
    drift_over: int
    #: Shares of matchups.
    skips: float
    expiries: float
    #: Voter sessions; 0 does not track them.
    sessions: int
    #: Voters with tastes; 0: none returns.
    voters: int
    voter_sd: float
    voter_pareto: float


def simulate(**options: Unpack[SimulateOptions]) -> Simulation:
    """Forecast how many orders an arena settles, and when it is official: `tiltyard simulate` in Python.

    Finished worlds are kept, so that the same call again, or one with more ``seeds``, goes on from there.
    """
    refuse_unknown("simulate", options, SimulateOptions)
    return forecast(forecast_settings(stated_world(options), options), options)


def stated_world(options: SimulateOptions) -> WorldSettings:
    """The world that the options describe; those that would have no effect are refused."""
    for name, needed in _NEEDS.items():
        if name in options and needed not in options:
            raise BadOption(
                f"{option_name(name)} has no effect without {option_name(needed)}; give both, or neither"
            )
    names = {one.name for one in fields(WorldSettings)}
    values: dict[str, Any] = {name: value for name, value in options.items() if name in names}
    if options.get("even_top"):
        values["close_top"] = False
    return WorldSettings(**values)


def forecast_settings(world: WorldSettings, options: SimulateOptions) -> SimulationSettings:
    """The settings of a simulation of this world."""
    if world.models * world.prompts > _CELL_LIMIT:
        raise BadOption(
            f"{world.models:,} models on {world.prompts:,} prompts are too many to simulate: the product may be at "
            f"most {_CELL_LIMIT:,}. Use fewer prompts: the votes until official grow about in proportion"
        )
    matchmaker = options.get("matchmaker", "policy")
    if "fairness" in options and matchmaker != "policy" and not options.get("compare"):
        raise BadOption(
            f"{option_name('fairness')} has no effect with {option_name('matchmaker', matchmaker)}; "
            "remove one of them"
        )
    rater = options.get("rater", "settling")
    if rater not in _VOLATILITY:
        raise BadOption(f"rater is {rater!r}; expected one of {', '.join(_VOLATILITY)}")
    policy = Policy(fairness=options.get("fairness", "strict"))
    least, votes = policy.evaluated_every * policy.evaluations, options.get("votes")
    if votes is not None and votes < least:
        raise BadOption(
            f"{option_name('votes')} is {votes}; no board can be official before {least}: {policy.evaluations} "
            f"evaluations, one every {policy.evaluated_every} votes. Use a larger number"
        )
    given = {name: value for name, value in options.items() if name in ("skips", "expiries", "sessions")}
    return SimulationSettings(
        world=world,
        policy=policy,
        votes=votes or default_votes(world.models, world.prompts),
        matchmaker=matchmaker,
        volatility=_VOLATILITY[rater],
        **cast("Mapping[str, Any]", given),
    )


def forecast(
    settings: SimulationSettings,
    options: SimulateOptions,
    on_progress: Progress = lambda _done, _total: None,
) -> Simulation:
    """Simulate the worlds that the options ask for, and the same worlds for the forecasts beside."""
    first, processes = options.get("seed", 0), options.get("processes")
    seeds = range(first, first + options.get("seeds", DEFAULT_WORLD_COUNT))
    if not seeds:
        raise BadOption("no seeds; a forecast needs at least one world")
    asked = [settings]
    mixed = settings.matchmaker == "policy" and not mix_feasible(settings.policy, settings.world.models)
    if mixed and "fairness" not in options:
        asked.append(replace(settings, policy=replace(settings.policy, fairness="scoped")))
    if options.get("compare"):
        asked += [replace(settings, matchmaker=name) for name in MATCHMAKERS if name != settings.matchmaker]
    processes = os.cpu_count() or 1 if processes is None else processes
    forecasts = []
    for number, wanted in enumerate(asked):
        report = partial(_report_progress, on_progress, number, len(asked))
        results = run_study(
            ARENA, wanted, seeds, folder=lab_folder(), processes=processes, on_progress=report
        )
        forecasts.append(summarise_worlds(results, wanted))
    return Simulation(__version__, options.get("votes_per_day", 500), first, settings, tuple(forecasts))
