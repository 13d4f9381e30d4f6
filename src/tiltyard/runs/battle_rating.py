"""Rates the battles of files, in groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tiltyard.core.battles import Table
from tiltyard.core.board import RatedGroup, make_board
from tiltyard.core.ratings import BradleyTerry, Elo, Glicko2, RatingMethod
from tiltyard.core.ratings.fit_check import check_fit, predict_ahead
from tiltyard.core.ratings.flips import votes_to_flip
from tiltyard.core.ratings.ranks import rank_models
from tiltyard.errors import BadOption, CannotRate
from tiltyard.files import BattleSource, open_battles
from tiltyard.files.battle_tables import Progress, count_by_group, count_table

__all__ = ["K_SWEEP", "METHODS", "RateSettings", "method_of", "open_all", "rate_files", "rate_table"]

METHODS: dict[str, type[BradleyTerry | Elo | Glicko2]] = {
    "bradley-terry": BradleyTerry,
    "elo": Elo,
    "glicko-2": Glicko2,
}

#: The values of K that a report compares.
K_SWEEP = (4.0, 8.0, 16.0, 32.0, 64.0)
#: The largest number of battles for which a report compares values of K; larger runs skip this illustration.
_SWEEP_BATTLES = 200_000


@dataclass(frozen=True)
class RateSettings:
    """The settings of a rating run; together with the battles they determine every number."""

    method: RatingMethod = field(default_factory=BradleyTerry)
    by: str | None = None
    style: tuple[str, ...] = ()
    #: The number of bootstrap refits to write; 0 if no folder is written.
    n_bootstraps: int = 0
    #: The name of the arena, and the model under test, if any.
    arena: str | None = None
    model: str | None = None

    @property
    def clusters(self) -> bool:
        """Whether the method uses prompts and voters."""
        wanted = getattr(self.method, "clusters", "battle") != "battle"
        return wanted and (getattr(self.method, "interval", "none") != "none" or bool(self.n_bootstraps))

    @property
    def log(self) -> bool:
        """Whether the method needs the individual battles, not only counts."""
        return self.clusters or bool(self.style) or not isinstance(self.method, BradleyTerry)

    @property
    def draws(self) -> bool:
        """Whether battles are resampled; weighted ones are resampled individually."""
        return bool(self.n_bootstraps) or getattr(self.method, "interval", None) == "bootstrap"


def method_of(name: str, parameters: Mapping[str, Any]) -> RatingMethod:
    """The method of this name, with these parameters."""
    if name not in METHODS:
        raise BadOption(f"method is {name!r}; expected one of {', '.join(METHODS)}")
    try:
        return METHODS[name](**parameters)
    except TypeError as error:
        raise BadOption(f"{name}: {error}") from None


def rate_table(
    table: Table, settings: RateSettings, *, name: str | None = None, checks: bool = False
) -> RatedGroup:
    """Rate one table. ``checks`` adds what is shown only in a report."""
    ratings = settings.method(table)
    method = settings.method
    ranks = rank_models(ratings, level=getattr(method, "level", 0.95))
    fit, flip, bootstrap = None, None, None
    if isinstance(method, BradleyTerry) and not settings.style:
        if method.ties != "davidson" and method.prior_sd is None:
            fit = check_fit(table, method.scoring())
            # Counted where every battle weighs the same: not where some weigh less.
            if not any(finding.name == "weight-limited" for finding in ratings.findings):
                flip = votes_to_flip(table, method.scoring())
        if settings.n_bootstraps:
            bootstrap = replace(method, interval="bootstrap", n_bootstraps=settings.n_bootstraps)(table)
    board = make_board(ratings, ranks, findings=() if fit is None else fit.findings)
    rated = RatedGroup(name, table, ratings, ranks, board, fit, flip, bootstrap)
    return _with_checks(rated) if checks else rated


def _with_checks(rated: RatedGroup) -> RatedGroup:
    """Add what a report shows besides the ratings: predictive accuracy and the effect of K."""
    table = rated.table
    if not table.has_log:
        return rated
    sweep = (
        Elo(n_permutations=20, interval="none").sweep(table, K_SWEEP)
        if table.n_battles <= _SWEEP_BATTLES
        else {}
    )
    return replace(rated, prediction=predict_ahead(table), sweep=sweep)


def open_all(
    files: Sequence[str | Path], *, format: str | None = None, columns: Mapping[str, str] | None = None
) -> list[BattleSource]:
    """Open every file and detect its format before any is read."""
    if not files:
        raise BadOption("name at least one file of battles")
    return [open_battles(file, format=format, columns=columns) for file in files]


def rate_files(
    sources: Sequence[BattleSource],
    settings: RateSettings,
    *,
    checks: bool = False,
    progress: Progress | None = None,
) -> list[RatedGroup]:
    """Rate opened files: one group, or one per value of ``settings.by``."""
    if settings.by is None:
        weighted = any({"weight", "pref"} & set(source.stored) for source in sources)
        log = settings.log or (settings.draws and weighted)
        table = count_table(
            sources, clusters=settings.clusters, style=settings.style, log=log, progress=progress
        )
        _refuse_empty([table], sources)
        return [rate_table(table, settings, checks=checks)]
    tables = count_by_group(sources, settings.by, style=settings.style, progress=progress)
    _refuse_empty(list(tables.values()), sources)
    return [rate_table(table, settings, name=name, checks=checks) for name, table in tables.items()]


def _refuse_empty(tables: Sequence[Table], sources: Sequence[BattleSource]) -> None:
    if not any(table.n_battles for table in tables):
        raise CannotRate(f"no battles in {', '.join(source.path for source in sources)}")
