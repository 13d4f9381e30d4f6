"""``tiltyard simulate``: forecast when an arena's board will be official."""

from __future__ import annotations

import os
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiltyard.cli.simulate_like import read_like, world_like
from tiltyard.cli.simulation_output import document_json, prepare_folder, simulation_progress, write_files
from tiltyard.errors import BadOption

if TYPE_CHECKING:
    from tiltyard.simulate.simulated_arena import SimulationSettings
    from tiltyard.simulate.world_settings import WorldSettings

__all__ = ["simulate"]


class Fairness(StrEnum):
    STRICT = "strict"
    SCOPED = "scoped"


class Matchmaker(StrEnum):
    POLICY = "policy"
    V1 = "v1"
    UNIFORM = "uniform"
    NEAREST = "nearest"
    THOMPSON = "thompson"


class RaterName(StrEnum):
    SETTLING = "settling"
    LITERAL = "literal"


#: Initial volatilities of Glicko-2: our default, and the paper's.
_VOLATILITY = {RaterName.SETTLING: 0.003, RaterName.LITERAL: 0.06}
#: Simulated worlds in a forecast.
_WORLD_COUNT = 16
#: Limit of models × prompts; beyond it a simulation takes too long.
_CELL_LIMIT = 2_000_000
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


def _share(help: str) -> Any:
    return typer.Option(min=0.0, max=1.0, help=help)


def _count(help: str) -> Any:
    return typer.Option(min=0, max=10_000_000, help=help)


def simulate(
    context: typer.Context,
    models: Annotated[int, typer.Option(min=2, max=1000, help="Number of models.")] = 20,
    prompts: Annotated[int, typer.Option(min=1, max=100_000, help="Number of prompts.")] = 100,
    votes_per_day: Annotated[int, typer.Option(min=1, max=10_000_000, help="Expected votes per day.")] = 500,
    votes: Annotated[
        int | None, typer.Option(min=1, max=1_000_000, help="Number of votes to simulate.")
    ] = None,
    seeds: Annotated[
        int, typer.Option(min=1, max=100_000, help="Number of worlds to simulate.")
    ] = _WORLD_COUNT,
    seed: Annotated[int, typer.Option(min=0, max=2**31, help="Seed of the first world.")] = 0,
    processes: Annotated[
        int | None, typer.Option(min=0, max=256, help="Worker processes; 0: use only this process.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write numbers, tables and charts to this folder.")] = None,
    fairness: Annotated[Fairness, typer.Option(help="Which exposures are balanced.")] = Fairness.STRICT,
    matchmaker: Annotated[Matchmaker, typer.Option(help="How matchups are chosen.")] = Matchmaker.POLICY,
    compare: Annotated[
        bool, typer.Option("--compare", help="Compare all matchmakers on the same worlds.")
    ] = False,
    rater: Annotated[
        RaterName, typer.Option(help="Volatility of Glicko-2: 0.003, or the paper's 0.06.")
    ] = RaterName.SETTLING,
    strength_sd: Annotated[
        float, typer.Option(min=0, max=10_000, help="Spread of strengths, in points.")
    ] = 200.0,
    even_top: Annotated[
        bool, typer.Option("--even-top", help="Do not place the best models closer together.")
    ] = False,
    effect_sd: Annotated[
        float, typer.Option(min=0, max=10, help="Spread of model × prompt effects, in logits.")
    ] = 0.5,
    ties: Annotated[float, _share("Share of ties.")] = 0.16,
    both_bad: Annotated[float, _share("Share of votes that call both bad.")] = 0.07,
    lazy: Annotated[float, _share("Share of voters who vote at random.")] = 0.05,
    position_bias: Annotated[
        float, typer.Option(min=-10, max=10, help="Advantage of the left side, in logits.")
    ] = 0.1,
    dead: Annotated[float, _share("Share of prompts that nobody can answer.")] = 0.0,
    riggers: Annotated[float, _share("Share of votes cast to push one model up.")] = 0.0,
    rigged_rank: Annotated[int, typer.Option(min=1, help="True rank of the model they push.")] = 2,
    newcomers: Annotated[int, _count("Models added later.")] = 0,
    newcomers_after: Annotated[int, _count("Votes after which they are added.")] = 0,
    retired: Annotated[int, _count("Models retired later.")] = 0,
    retired_after: Annotated[int, _count("Votes after which they are retired.")] = 0,
    drifting: Annotated[int, _count("Models whose strength changes.")] = 0,
    drift: Annotated[
        float, typer.Option(min=-10_000, max=10_000, help="Change of their strength, in points.")
    ] = 0.0,
    drift_after: Annotated[int, _count("Votes after which the change begins.")] = 0,
    drift_over: Annotated[int, _count("Votes over which it changes; 0: at once.")] = 0,
    skips: Annotated[float, _share("Share of matchups that voters skip.")] = 0.0,
    expiries: Annotated[float, _share("Share of matchups that expire.")] = 0.0,
    sessions: Annotated[int, _count("Number of voter sessions; 0: do not track them.")] = 0,
    voters: Annotated[int, _count("Number of voters with tastes; 0: none returns.")] = 0,
    voter_sd: Annotated[
        float, typer.Option(min=0, max=10, help="Spread of model × voter effects, in logits.")
    ] = 0.5,
    voter_pareto: Annotated[
        float, typer.Option(min=0, max=100, help="Pareto exponent of votes per voter; 0: even.")
    ] = 0.0,
    like: Annotated[
        str | None, typer.Option(metavar="LOG", help="Draw the world from a battle file or an arena's log.")
    ] = None,
) -> None:
    """Forecast when an arena's board will be official."""
    from tiltyard.report.terminal import Terminal
    from tiltyard.simulate.world_settings import WorldSettings

    given = _given(context)
    _refuse_unused(given)
    if "fairness" in given and matchmaker is not Matchmaker.POLICY and not compare:
        raise BadOption(f"--fairness has no effect with --matchmaker {matchmaker}; remove one of them")
    _refuse_size(models, prompts)
    cores = os.cpu_count() or 1 if processes is None else processes
    world = WorldSettings(
        models=models,
        prompts=prompts,
        strength_sd=strength_sd,
        close_top=not even_top,
        effect_sd=effect_sd,
        ties=ties,
        both_bad=both_bad,
        lazy=lazy,
        position_bias=position_bias,
        dead=dead,
        riggers=riggers,
        rigged_rank=min(rigged_rank, models) if riggers == 0.0 else rigged_rank,
        newcomers=newcomers,
        newcomers_after=newcomers_after,
        retired=retired,
        retired_after=retired_after,
        drifting=drifting,
        drift=drift,
        drift_after=drift_after,
        drift_over=drift_over,
        voters=voters,
        voter_sd=voter_sd,
        voter_pareto=voter_pareto,
    )
    log = None
    if like is not None:
        log = read_like(like, seed)
        world = world_like(log.profile, world, given)
        _refuse_size(world.models, world.prompts)
        console = Terminal()
        for line in log.lines():
            console.print(line)
    settings = _settings(
        world,
        fairness=fairness.value,
        matchmaker=matchmaker.value,
        votes=votes,
        volatility=_VOLATILITY[rater],
        skips=skips,
        expiries=expiries,
        sessions=sessions,
    )
    worlds = range(seed, seed + seeds)
    _forecast(settings, worlds, votes_per_day, compare, "fairness" not in given, cores, out)
    if out is not None and log is not None:
        write_files(out, {"log_forecast.json": document_json(log.to_dict())})


def _given(context: typer.Context) -> set[str]:
    """Names of the options given on the command line."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return {name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"}


def _refuse_unused(given: set[str]) -> None:
    """Reject an option that would have no effect."""
    for name, needed in _NEEDS.items():
        if name in given and needed not in given:
            raise BadOption(f"{_option(name)} has no effect without {_option(needed)}; give both, or neither")


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _refuse_size(models: int, prompts: int) -> None:
    if models * prompts > _CELL_LIMIT:
        raise BadOption(
            f"{models:,} models on {prompts:,} prompts are too many to simulate: the product may be at most "
            f"{_CELL_LIMIT:,}. Use fewer prompts: the votes until official grow about in proportion"
        )


def _settings(
    world: WorldSettings, *, fairness: Any, votes: int | None, **options: Any
) -> SimulationSettings:
    from tiltyard.core.policy.state.policy import Policy
    from tiltyard.simulate.arena_forecast import default_votes
    from tiltyard.simulate.simulated_arena import SimulationSettings

    policy = Policy(fairness=fairness)
    least = policy.evaluated_every * policy.evaluations
    if votes is not None and votes < least:
        raise BadOption(
            f"--votes is {votes}; no board can be official before {least}: {policy.evaluations} evaluations, "
            f"one every {policy.evaluated_every} votes. Use a larger number"
        )
    bound = votes or default_votes(world.models, world.prompts)
    return SimulationSettings(world=world, policy=policy, votes=bound, until_official=True, **options)


def _forecast(
    settings: SimulationSettings,
    seeds: range,
    votes_per_day: int,
    compare: bool,
    both: bool,
    cores: int,
    out: Path | None,
) -> None:
    from tiltyard.report.simulation import (
        simulation_markdown,
        simulation_page,
        simulation_svgs,
        simulation_tables,
    )
    from tiltyard.report.terminal import Terminal
    from tiltyard.simulate.arena_forecast import ForecastsBeside, make_simulation, mix_feasible
    from tiltyard.simulate.result_cache import lab_folder

    mixed = settings.matchmaker == "policy" and not mix_feasible(settings.policy, settings.world.models)
    prepare_folder(out)
    with simulation_progress() as on_progress:
        document = make_simulation(
            settings,
            seeds,
            votes_per_day,
            ForecastsBeside(matchmakers=compare, other_fairness=both and mixed),
            folder=lab_folder(),
            processes=cores,
            on_progress=partial(on_progress, "worlds"),
        ).to_dict()
    Terminal().print(simulation_tables(document))
    if out is not None:
        files = {"simulation.md": simulation_markdown(document), "simulation.html": simulation_page(document)}
        lanes = settings.matchmaker == "policy"
        report = _validity_files(settings, seeds[0], votes_per_day) if lanes else {}
        write_files(
            out, {"simulation.json": document_json(document), **files, **report, **simulation_svgs(document)}
        )


def _validity_files(settings: SimulationSettings, seed: int, votes_per_day: int) -> dict[str, str]:
    """The validity report of the first world, as its operator would see it."""
    from tiltyard.core.policy.state.rating_fold import RaterSettings
    from tiltyard.core.policy.validity.report import validity_report
    from tiltyard.core.ratings.glicko2 import Glicko2
    from tiltyard.report.validity import validity_markdown, validity_page
    from tiltyard.simulate.simulated_log import arena_log

    log = arena_log(settings, seed, votes_per_day=votes_per_day)
    glicko2 = Glicko2(kernel="plain", initial_volatility=settings.volatility)
    report = validity_report(
        log.events,
        log.models,
        log.prompts,
        settings.policy,
        rater=RaterSettings(glicko2),
        given_up=log.given_up,
    )
    title = f"Validity report of simulated world {seed}"
    return {
        "validity.md": validity_markdown(report, title=title),
        "validity.html": validity_page(report, title=title),
    }
