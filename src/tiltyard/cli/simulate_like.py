"""``tiltyard simulate --like LOG``: a world drawn from a real log, how the log would go on, and a back-test."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import typer

from tiltyard.cli.read_progress import show_read_progress
from tiltyard.errors import BadOption

if TYPE_CHECKING:
    from tiltyard.core.battles import Table
    from tiltyard.simulation.fitted_log import ClusterProfile, LogProfile
    from tiltyard.simulation.log_forecast import Backtest, LogForecast
    from tiltyard.simulation.world_settings import WorldSettings


#: Above this many battles a person is told to wait.
_LONG_BATTLES = 20_000
#: The log is continued to these multiples of its length.
_CONTINUED_RATIOS = (2, 3)


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


def read_like(log: str, seed: int) -> LikeLog:
    """Read a log, a file of battles or the name of an arena, and forecast from it."""
    if Path(log).exists() or not _is_arena_name(log):
        return _like(_read_table(Path(log)), seed)
    with TemporaryDirectory(prefix="tiltyard-") as folder:
        path = Path(folder) / "battles.parquet"
        _export(log, path)
        return _like(_read_table(path), seed)


def _is_arena_name(text: str) -> bool:
    """Whether it looks like an arena's name and not like a path."""
    return not Path(text).suffix and Path(text).name == text


def _read_table(path: Path) -> Table:
    from tiltyard.files.battle_tables import count_table
    from tiltyard.runs.battle_rating import open_all

    sources = open_all([path])
    with show_read_progress([source.rows for source in sources]) as progress:
        return count_table(sources, progress=progress)


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
