"""A simulated arena from options: the same words on the command line and in Python."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Literal, TypedDict, Unpack, cast

from tiltyard.core.policy.state.policy import Policy
from tiltyard.errors import BadOption
from tiltyard.foundation.option_names import option_name, refuse_unknown
from tiltyard.simulation.arena_forecast import (
    ForecastsBeside,
    Simulation,
    default_votes,
    make_simulation,
    mix_feasible,
)
from tiltyard.simulation.result_cache import lab_folder
from tiltyard.simulation.simulated_arena import SimulationSettings
from tiltyard.simulation.studies import Progress
from tiltyard.simulation.world_settings import WorldSettings

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
    """Forecast when an arena's board will be official: `tiltyard simulate` in Python.

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
        until_official=True,
        matchmaker=matchmaker,
        volatility=_VOLATILITY[rater],
        **cast("Mapping[str, Any]", given),
    )


def forecast(
    settings: SimulationSettings,
    options: SimulateOptions,
    on_progress: Progress = lambda _done, _total: None,
) -> Simulation:
    """Simulate the worlds that the options ask for."""
    processes = options.get("processes")
    mixed = settings.matchmaker == "policy" and not mix_feasible(settings.policy, settings.world.models)
    seed = options.get("seed", 0)
    return make_simulation(
        settings,
        range(seed, seed + options.get("seeds", DEFAULT_WORLD_COUNT)),
        options.get("votes_per_day", 500),
        ForecastsBeside(
            matchmakers=options.get("compare", False), other_fairness=mixed and "fairness" not in options
        ),
        folder=lab_folder(),
        processes=os.cpu_count() or 1 if processes is None else processes,
        on_progress=on_progress,
    )
