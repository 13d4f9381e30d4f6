"""``tiltyard simulate``: forecast when an arena's board will be official."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from tiltyard.cli.simulate_like import read_like, world_like
from tiltyard.cli.simulation_output import document_json, prepare_folder, simulation_progress, write_files

if TYPE_CHECKING:
    from tiltyard.simulation.arena_simulation import SimulateOptions
    from tiltyard.simulation.simulated_arena import SimulationSettings


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
    seeds: Annotated[int, typer.Option(min=1, max=100_000, help="Number of worlds to simulate.")] = 16,
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
    from tiltyard.simulation.arena_simulation import forecast, forecast_settings, stated_world

    given = _given(context)
    options = cast("SimulateOptions", given)
    world, log = stated_world(options), None
    if like is not None:
        log = read_like(like, seed)
        world = world_like(log.profile, world, given)
        console = Terminal()
        for line in log.lines():
            console.print(line)
    settings = forecast_settings(world, options)
    prepare_folder(out)
    with simulation_progress() as on_progress:
        document = forecast(settings, options, partial(on_progress, "worlds")).to_dict()
    _show(document)
    if out is not None:
        _write(out, settings, document)
        if log is not None:
            write_files(out, {"log_forecast.json": document_json(log.to_dict())})


def _given(context: typer.Context) -> dict[str, object]:
    """The options given on the command line; enumerations as plain text."""
    given = {}
    for name, value in context.params.items():
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE" and name not in ("out", "like"):
            given[name] = value.value if isinstance(value, StrEnum) else value
    return given


def _show(document: Mapping[str, Any]) -> None:
    from tiltyard.report.simulation import simulation_tables
    from tiltyard.report.terminal import Terminal

    Terminal().print(simulation_tables(document))


def _write(out: Path, settings: SimulationSettings, document: Mapping[str, Any]) -> None:
    from tiltyard.report.simulation import simulation_markdown, simulation_page, simulation_svgs

    files = {"simulation.md": simulation_markdown(document), "simulation.html": simulation_page(document)}
    if settings.matchmaker == "policy":
        files |= _validity_files(settings, document["seed"], document["votes_per_day"])
    write_files(out, {"simulation.json": document_json(document), **files, **simulation_svgs(document)})


def _validity_files(settings: SimulationSettings, seed: int, votes_per_day: int) -> dict[str, str]:
    """The validity report of the first world, as its operator would see it."""
    from tiltyard.core.policy.state.rating_fold import RaterSettings
    from tiltyard.core.policy.validity.report import validity_report
    from tiltyard.core.ratings.glicko2 import Glicko2
    from tiltyard.report.validity import validity_markdown, validity_page
    from tiltyard.simulation.simulated_arena import arena_log

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
