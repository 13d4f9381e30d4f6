"""``python -m lab.backtests``: forecasts made at a third of a log, compared with what followed, in logs of several shapes.

Finished logs are kept: an interrupted run is resumed, and more logs extend it.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from tiltyard._version import __version__
from tiltyard.errors import CannotRate
from tiltyard.simulation.log_forecast import backtest
from tiltyard.simulation.studies import Study, lab_folder, run_study, summarise
from tiltyard.simulation.worlds import WorldSettings, draw_world_of, hostile_world


@dataclass(frozen=True, slots=True)
class BacktestSettings:
    """A kind of world, and the length of its log."""

    world: WorldSettings = field(default_factory=WorldSettings)
    battles: int = 3000


@dataclass(frozen=True, slots=True)
class BacktestCounts:
    """Of one log: ranges that held and their number, for final ratings; and whether those of two other figures held."""

    ratings_held: int
    ratings: int
    half_width_held: bool
    claimed_held: bool

    @property
    def share(self) -> float:
        return (self.ratings_held + self.half_width_held + self.claimed_held) / (self.ratings + 2)


def count_backtest(settings: BacktestSettings, seed: int) -> BacktestCounts:
    """Draw a log, forecast it from its first third, and count the ranges that hold what came."""
    rng = np.random.default_rng([seed, 0])
    table = draw_world_of(settings.world, rng).table(settings.battles, rng)
    found = backtest(table, seed=seed)
    if found is None:
        raise CannotRate(f"{settings.battles} battles are too few for a back-test")
    half, claimed, *ratings = found.figures
    return BacktestCounts(sum(one.holds for one in ratings), len(ratings), half.holds, claimed.holds)


BACKTESTS: Study[BacktestSettings, BacktestCounts] = Study(
    "backtests",
    1,
    count_backtest,
    BacktestCounts,
    depends=("tiltyard.core", "tiltyard.simulation", "lab.backtests"),
)

_KIND = WorldSettings(10, 100, close_top=False, lazy=0.0)
#: Logs of different shape.
SHAPES: dict[str, BacktestSettings] = {
    "10 models, 100 even prompts": BacktestSettings(_KIND),
    "12 models, uneven prompts, 200 heavy voters": BacktestSettings(
        hostile_world("uneven+heavy-voters", WorldSettings(12, 100, close_top=False, lazy=0.0)), 4000
    ),
    "20 models, 30 prompts, 20 voters with tastes": BacktestSettings(
        hostile_world("voters", WorldSettings(20, 30, close_top=False, lazy=0.0)), 4000
    ),
    "8 models, 3,000 prompts of hardly a battle each": BacktestSettings(
        WorldSettings(8, 3000, close_top=False, lazy=0.05, ties=0.3), 3000
    ),
}


def backtests_page(results: Mapping[str, Sequence[BacktestCounts]], logs: int) -> str:
    """The table as Markdown."""
    lines = [
        "# Forecasts of logs, back-tested",
        "",
        (
            f"{datetime.now(UTC):%Y-%m-%d}, Tiltyard {__version__}, by `python -m lab.backtests --logs {logs}`. {logs} "
            "logs of each shape, from worlds that the forecast does not know. A forecast is made from the first third "
            "of a log for the whole: the rating of every model, the median half-width of the intervals, and the share "
            "of pairs in a settled order. Its ranges should hold what came in four of five cases. In brackets: "
            "standard error over logs."
        ),
        "",
        "| log | all ranges | ratings | median half-width | settled pairs |",
        "|---|--:|--:|--:|--:|",
    ]
    for name, found in results.items():
        every, rated = (
            summarise([one.share for one in found]),
            [one.ratings_held / one.ratings for one in found],
        )
        half, claimed = (
            sum(getattr(one, field) for one in found) for field in ("half_width_held", "claimed_held")
        )
        cells = (f"{every.mean:.2f} ({every.error:.2f})", f"{np.mean(rated):.2f}", f"{half} of {len(found)}")
        lines.append(f"| {name} | {' | '.join(cells)} | {claimed} of {len(found)} |")
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=40, help="logs of each shape")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, help="a Markdown file")
    options = parser.parse_args()
    results = {
        name: run_study(
            BACKTESTS, settings, range(options.logs), folder=lab_folder(), processes=options.processes
        )
        for name, settings in SHAPES.items()
    }
    page = backtests_page(results, options.logs)
    sys.stdout.write(page)
    if options.out:
        options.out.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
