"""Forecasts how a log would go on: what its ratings, intervals and claims will be after more battles.

The battles so far are kept. Those to come are drawn: the same pairs as often as before, prompts and voters by how
active they were, scores from the fitted strengths with effects of prompts and voters of the size that the log shows.
Effects of prompts and voters already seen are drawn given their battles. The spread over many such futures is the
forecast. `backtest` makes a forecast from the first third of a log, and looks what followed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tiltyard.core.battles import CodedBattles, Table
from tiltyard.core.battles.cluster_keys import MISSING_KEY
from tiltyard.core.ratings import BradleyTerry, Ratings
from tiltyard.core.ratings.ranks import rank_models
from tiltyard.core.ratings.scoring import Scoring
from tiltyard.simulation.fitted_log import MIN_LOG_BATTLES, FittedLog, LogProfile

Floats = npt.NDArray[np.float64]

#: The range that is stated holds four futures in five.
_LOW_PROBABILITY, _HIGH_PROBABILITY = 0.1, 0.9
#: Futures drawn for a forecast.
FUTURE_COUNT = 40
_BACKTEST_SHARE = 1.0 / 3.0


@dataclass(frozen=True, slots=True, eq=False)
class LogForecast:
    """The futures of a log after ``battles`` in all, one row for each."""

    battles: int
    models: tuple[str, ...]
    rating: Floats
    #: Median half-width of the intervals, and the share of pairs whose order is claimed.
    half_width: Floats
    claimed: Floats

    def range_of(self, values: Floats) -> tuple[float, float]:
        """The range of four futures in five."""
        low, high = np.nanquantile(values, (_LOW_PROBABILITY, _HIGH_PROBABILITY))
        return float(low), float(high)


@dataclass(frozen=True, slots=True)
class BacktestFigure:
    """One figure: the range that was forecast, and what came."""

    name: str
    low: float
    high: float
    came: float

    @property
    def holds(self) -> bool:
        return self.low <= self.came <= self.high


@dataclass(frozen=True, slots=True)
class Backtest:
    """A forecast made at ``made_at`` battles, compared with the whole log."""

    made_at: int
    battles: int
    figures: tuple[BacktestFigure, ...]

    @property
    def held(self) -> int:
        return sum(figure.holds for figure in self.figures)


def current_figures(table: Table) -> tuple[float, float]:
    """Median half-width of the intervals, and the share of pairs whose order is claimed, as the log stands."""
    _, half, claimed = _figures(BradleyTerry()(table))
    return half, claimed


def profile_log(table: Table) -> LogProfile:
    """Describe a log."""
    return FittedLog(table).profile()


def forecast_log(
    table: Table,
    battles: int,
    *,
    futures: int = FUTURE_COUNT,
    seed: int = 0,
    method: BradleyTerry | None = None,
) -> LogForecast:
    """How the log would stand at ``battles`` in all, if it goes on as it was."""
    fitted, log = FittedLog(table), table.log()
    method = method or BradleyTerry()
    rows = []
    for k in range(futures):
        more = fitted.go_on(battles - len(log), np.random.default_rng([seed, k]))
        rows.append(_figures(method(Table.from_codes(table.models, _joined(log, more)))))
    rating, half, claimed = (np.array(column) for column in zip(*rows, strict=True))
    return LogForecast(battles, table.models, rating, half, claimed)


def backtest(table: Table, *, futures: int = FUTURE_COUNT, seed: int = 0) -> Backtest | None:
    """A forecast from the first third of the log, and what followed; ``None`` if a third is too short."""
    log = table.log()
    made_at = int(len(log) * _BACKTEST_SHARE)
    first = Table.from_codes(table.models, _slice(log, slice(0, made_at)))
    if (~np.isnan(Scoring().of(first.log()))).sum() < MIN_LOG_BATTLES:
        return None
    found = forecast_log(first, len(log), futures=futures, seed=seed)
    rating, half, claimed = _figures(BradleyTerry()(Table.from_codes(table.models, log)))
    figures = [
        BacktestFigure(name, *found.range_of(values), came)
        for name, values, came in (
            ("median half-width", found.half_width, half),
            ("share of pairs in a settled order", found.claimed, claimed),
        )
    ]
    for k, model in enumerate(table.models):
        if np.isfinite(rating[k]) and np.isfinite(found.rating[:, k]).mean() > 0.5:
            figures.append(
                BacktestFigure(f"rating of {model}", *found.range_of(found.rating[:, k]), float(rating[k]))
            )
    return Backtest(made_at, len(log), tuple(figures))


def _figures(ratings: Ratings) -> tuple[Floats, float, float]:
    ranks = rank_models(ratings)
    assert ranks is not None
    assert ratings.interval is not None
    half = (ratings.interval.high - ratings.interval.low) / 2.0
    m = len(ratings.models)
    known = half[np.isfinite(half)]
    middle = float(np.median(known)) if len(known) else np.nan
    return ratings.rating, middle, float(ranks.above.sum()) / max(m * (m - 1) / 2.0, 1.0)


def _joined(log: CodedBattles, more: CodedBattles) -> CodedBattles:
    def column(name: str) -> npt.NDArray[np.uint64] | None:
        before, after = getattr(log, name), getattr(more, name)
        if before is None:
            return None
        return np.concatenate([before, np.full(len(more), MISSING_KEY) if after is None else after])

    return CodedBattles(
        np.concatenate([log.a, more.a]),
        np.concatenate([log.b, more.b]),
        np.concatenate([log.kind, more.kind]),
        prompt=column("prompt"),
        voter=column("voter"),
        weight=None if log.weight is None else np.concatenate([log.weight, np.ones(len(more))]),
    )


def _slice(log: CodedBattles, rows: slice) -> CodedBattles:
    columns: Sequence[str] = ("prompt", "voter", "weight", "pref")
    kept = {name: None if getattr(log, name) is None else getattr(log, name)[rows] for name in columns}
    return CodedBattles(log.a[rows], log.b[rows], log.kind[rows], **kept)
