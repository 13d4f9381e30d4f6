"""``tiltyard simulate``: forecast how many orders an arena settles, and when its board is official."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from tiltyard.cli.options import READING, given_options, read_options, with_reading_options
from tiltyard.cli.progress import show_read_progress, simulation_progress
from tiltyard.cli.rate import print_notes
from tiltyard.errors import BadOption
from tiltyard.report.escapes import escape_controls

if TYPE_CHECKING:
    from tiltyard.core.battles import Table
    from tiltyard.core.policy.validity.report import ValidityReport
    from tiltyard.files.read_options import ReadOptions
    from tiltyard.simulation.arena_forecast import SimulateOptions
    from tiltyard.simulation.log_forecast import Backtest, ClusterProfile, LogForecast, LogProfile
    from tiltyard.simulation.simulated_arena import SimulationSettings
    from tiltyard.simulation.worlds import WorldSettings

#: Above this many battles a person is told to wait.
_LONG_BATTLES = 20_000
#: The log is continued to these multiples of its length.
_CONTINUED_RATIOS = (2, 3)


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


@with_reading_options
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
    **_reading: Any,
) -> None:
    """Forecast what an arena settles, and when it is official."""
    from tiltyard.report.forecast_report import simulation_tables
    from tiltyard.report.terminal import Terminal
    from tiltyard.simulation.arena_forecast import forecast, forecast_settings, stated_world

    console = Terminal()
    given = {name: value for name, value in given_options(context).items() if name not in ("out", "like")}
    reading = {name: given.pop(name) for name in READING if name in given}
    if reading and like is None:
        raise BadOption(f"--{next(iter(reading)).replace('_', '-')} has no effect without --like; remove it")
    options = cast("SimulateOptions", given)
    world, log = stated_world(options), None
    if like is not None:
        log = read_like(like, seed, read_options(reading))
        world = world_like(log.profile, world, given)
        for line in log.lines():
            console.print(line)
    settings = forecast_settings(world, options)
    prepare_folder(out)
    with simulation_progress() as on_progress:
        document = forecast(settings, options, partial(on_progress, "worlds")).to_dict()
    console.print(simulation_tables(document))
    if out is not None:
        _write(out, settings, document)
        if log is not None:
            write_files(out, {"log_forecast.json": document_json(log.to_dict())})


def _write(out: Path, settings: SimulationSettings, document: Mapping[str, Any]) -> None:
    from tiltyard.report.forecast_report import simulation_markdown, simulation_page

    files = {"simulation.md": simulation_markdown(document), "simulation.html": simulation_page(document)}
    if settings.matchmaker == "policy":
        report = _validity_report(settings, document["seed"], document["votes_per_day"])
        files["validity.json"] = document_json(report.to_dict())
    write_files(out, {"simulation.json": document_json(document), **files})


def _validity_report(settings: SimulationSettings, seed: int, votes_per_day: int) -> ValidityReport:
    """The validity report of the first world, as the API gives it to an operator."""
    from tiltyard.core.policy.state.rating_fold import RaterSettings
    from tiltyard.core.policy.validity.report import validity_report
    from tiltyard.core.ratings.glicko2 import Glicko2
    from tiltyard.simulation.simulated_arena import arena_log

    log = arena_log(settings, seed, votes_per_day=votes_per_day)
    glicko2 = Glicko2(kernel="plain", initial_volatility=settings.volatility)
    return validity_report(
        log.events,
        log.models,
        log.prompts,
        settings.policy,
        rater=RaterSettings(glicko2),
        given_up=log.given_up,
    )


def prepare_folder(out: Path | None) -> None:
    """Create the folder before the work starts, so that a wrong path fails early."""
    if out is None:
        return
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadOption(f"cannot write to {out}: {error.strerror or error}; name another folder") from None


def write_files(out: Path, files: Mapping[str, str]) -> None:
    from tiltyard.foundation.local_files import atomic_write

    for name, text in files.items():
        with atomic_write(str(out / name)) as file:
            file.write(text.encode())
    typer.echo(f"Written to {escape_controls(str(out))}: {', '.join(files)}", err=True)


def document_json(document: Mapping[str, object]) -> str:
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


@dataclass(frozen=True, slots=True)
class LikeLog:
    """What a log says of its world, what it would say after more battles, and how well that was foretold at a third."""

    profile: LogProfile
    now: tuple[float, float]
    forecasts: tuple[LogForecast, ...]
    #: ``None`` if a third of the log is too short to forecast from.
    backtest: Backtest | None

    def lines(self) -> Iterator[str]:
        """What the terminal shows."""
        profile = self.profile
        yield f"{profile.models} models, {profile.battles:,} battles; ties {profile.ties:.0%}, both bad {profile.both_bad:.0%}."
        for name, clusters in (("prompts", profile.prompts), ("voters", profile.voters)):
            yield _clusters_line(name, clusters)
        yield ""
        yield f"{'battles':>12}  {'median half-width':>17}  {'pairs in a settled order':>24}"
        yield f"{profile.battles:>12,}  {self.now[0]:>17.0f}  {self.now[1]:>24.0%}"
        for found in self.forecasts:
            half, claimed = found.range_of(found.half_width), found.range_of(found.claimed)
            shown = (f"{half[0]:.0f} to {half[1]:.0f}", f"{claimed[0]:.0%} to {claimed[1]:.0%}")
            yield f"{found.battles:>12,}  {shown[0]:>17}  {shown[1]:>24}"
        yield "Ranges hold four futures in five, if battles go on as they did."
        tested = self.backtest
        yield (
            "Back-test: none; a third of the log is too short to forecast from."
            if tested is None
            else f"Back-test: of {len(tested.figures)} ranges forecast after {tested.made_at:,} battles, {tested.held} hold "
            f"what came at {tested.battles:,}; four in five should."
        )
        yield ""

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "profile": asdict(self.profile),
            "forecasts": [
                {
                    "battles": found.battles,
                    "half_width": found.range_of(found.half_width),
                    "claimed": found.range_of(found.claimed),
                }
                for found in self.forecasts
            ],
            "backtest": None
            if self.backtest is None
            else asdict(self.backtest) | {"held": self.backtest.held},
        }


def read_like(log: str, seed: int, options: ReadOptions | None = None) -> LikeLog:
    """Read a log, a file of battles or the name of an arena, and forecast from it."""
    # A text that looks like a path is no arena's name.
    if Path(log).exists() or Path(log).suffix or Path(log).name != log:
        return _like(_read_table(Path(log), options), seed)
    with TemporaryDirectory(prefix="tiltyard-") as folder:
        path = Path(folder) / "battles.parquet"
        _export(log, path)
        return _like(_read_table(path), seed)


def _read_table(path: Path, options: ReadOptions | None = None) -> Table:
    from tiltyard.files.battle_tables import count_table
    from tiltyard.runs.battle_rating import open_all

    sources = open_all([path], options)
    with show_read_progress([source.rows for source in sources]) as progress:
        table = count_table(sources, progress=progress)
    print_notes(sources)
    return table


def _export(arena: str, path: Path) -> None:
    """Write the final votes of an arena, under pseudonyms that are used only here."""
    import asyncio
    import secrets

    from tiltyard.arena.content.arenas import find_arena
    from tiltyard.arena.log.battle_export import export_battles, open_export
    from tiltyard.arena.secret_keys import SecretKeys
    from tiltyard.postgres.connections import connect_async
    from tiltyard.postgres.embedded_server import open_database
    from tiltyard.settings.environment import read_environment

    async def number(url: str) -> int:
        async with await connect_async(url) as connection:
            return (await find_arena(connection, arena)).arena

    environment = read_environment()
    if environment.database_url is None and not (environment.home / "postgres").exists():
        raise BadOption(
            f"there is no file {arena}, and no database in {environment.home} that could have such an arena"
        )
    with open_database(environment) as url:
        export = open_export(url, asyncio.run(number(url)))
        keys = SecretKeys([secrets.token_urlsafe(32)])
        with path.open("wb") as out:
            out.writelines(export_battles(url, keys, export, "parquet"))


def _like(table: Table, seed: int) -> LikeLog:
    from tiltyard.simulation.log_forecast import backtest, current_figures, forecast_log, profile_log

    n = len(table.log())
    if n > _LONG_BATTLES:
        typer.echo(f"Forecasting from {n:,} battles; this takes minutes.", err=True)
    forecasts = tuple(forecast_log(table, times * n, seed=seed) for times in _CONTINUED_RATIOS)
    return LikeLog(profile_log(table), current_figures(table), forecasts, backtest(table, seed=seed))


def world_like(profile: LogProfile, world: WorldSettings, given: Collection[str]) -> WorldSettings:
    """The settings of a world like the log's, but for those that were ``given``.

    Ties make ratings, and the effects seen in them, smaller than in the world.
    """
    decided = max(1.0 - profile.ties, 0.1)
    prompts, voters = profile.prompts, profile.voters
    taken: dict[str, Any] = {
        "models": profile.models,
        "ties": profile.ties,
        "both_bad": profile.both_bad,
        "strength_sd": profile.strength_sd / decided,
        "close_top": False,
    }
    if prompts is not None:
        taken |= {
            "prompts": prompts.activity.size or prompts.activity.seen,
            "effect_sd": prompts.effect_sd / decided,
        }
    if voters is not None:
        taken |= {
            "voters": voters.activity.size or voters.activity.seen,
            "voter_sd": voters.effect_sd / decided,
        }
    stated = set(given) | ({"close_top"} if "even_top" in given else set())
    return replace(world, **{name: value for name, value in taken.items() if name not in stated})


def _clusters_line(name: str, clusters: ClusterProfile | None) -> str:
    if clusters is None:
        return (
            f"The battles name no {name}." if name == "voters" else f"Not every battle names its {name[:-1]}."
        )
    size = clusters.activity.size
    more = "more keep coming" if size is None else f"about {size:,} in all"
    return (
        f"{clusters.activity.seen:,} {name} ({more}), the largest with {clusters.largest_share:.0%} of the battles; "
        f"models differ between {name} by {clusters.effect_sd:.2f} logits."
    )
