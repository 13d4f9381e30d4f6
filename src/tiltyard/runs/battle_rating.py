"""Rates the battles of files, in groups, and reads the options of `rate`, which are the same in Python."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from numbers import Integral, Real
from pathlib import Path
from typing import Any, cast

import numpy as np

from tiltyard.core.battles import BattleBatch, Table, TableBuilder
from tiltyard.core.battles.battle import JUDGMENT_WEIGHT
from tiltyard.core.board import RatedGroup, make_board
from tiltyard.core.board.board_rows import with_shrunk
from tiltyard.core.board.win_rates import (
    LENGTHS,
    BaselineChoice,
    BaselineRule,
    baseline_findings,
    baseline_win_rates,
    find_baseline,
)
from tiltyard.core.ratings import BradleyTerry, Elo, Glicko2, RatingMethod, Ratings
from tiltyard.core.ratings.fit_check import check_fit, predict_ahead
from tiltyard.core.ratings.level_test import LEVELS
from tiltyard.core.ratings.log_findings import log_findings, pairing_findings
from tiltyard.core.ratings.ranks import Flip, FlipUnit, rank_models, votes_to_flip
from tiltyard.core.ratings.result import RatingExtras
from tiltyard.errors import BadOption, CannotRate
from tiltyard.files import BattleSource
from tiltyard.files.battle_source import open_path, require_column
from tiltyard.files.battle_tables import (
    Progress,
    count_groups,
    count_table,
    level_column,
    style_columns,
    without_duplicates,
)
from tiltyard.files.conditions import parse_condition
from tiltyard.files.read_options import ReadOptions
from tiltyard.foundation.option_names import option_name, require_flag
from tiltyard.settings.rating_options import BRADLEY_TERRY, ELO, JUDGE_ARENA, RATING_OPTIONS, RateOptions

METHODS: dict[str, type[BradleyTerry | Elo | Glicko2]] = {
    "bradley-terry": BradleyTerry,
    "elo": Elo,
    "glicko-2": Glicko2,
}

#: What all battles together are called beside their groups.
OVERALL = "Overall"
#: The values of K that a report of Elo compares.
K_SWEEP = (4.0, 8.0, 16.0, 32.0, 64.0)
#: The largest number of battles for which a report compares values of K; larger runs skip it.
_SWEEP_BATTLES = 200_000
#: The largest number of battles for which a report leaves out whole prompts and voters; all are in memory at once.
_CLUSTER_FLIP_BATTLES = 2_000_000
#: The largest number of orders over which such a comparison takes the mean.
_SWEEP_ORDER_COUNT = 20

#: Formats that join the categories of a battle by +.
_JOINS_CATEGORIES = {"lmarena-100k", "lmarena-140k"}
#: Formats whose programs publish win rates against a baseline, and the rule of each.
_PUBLISHED: Mapping[str, BaselineRule] = {"arena-hard": "arena-hard", "alpaca-eval": "alpaca-eval"}

_MAX_ANCHOR_POINTS = 1e6
#: Names of the column of prompts.
_PROMPT_NAMES = ("prompt", "question_id", "prompt_id")
#: For each preset: its parameters of Bradley–Terry, and those that it adds where style is controlled for.
_LMARENA: dict[str, Any] = {"both_bad": "tie", "max_share": None, "base": 1000.0}
PRESETS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "lmarena": (_LMARENA, {"even_pairs": 50, "style_penalty": 1.0, "style_centred": True}),
    JUDGE_ARENA: (_LMARENA, {}),
}


@dataclass(frozen=True)
class RateSettings:
    """The settings of a rating run; together with the battles they determine every number."""

    method: RatingMethod = field(default_factory=BradleyTerry)
    #: The column, or the columns, whose values are rated separately.
    by: str | tuple[str, ...] | None = None
    #: A battle counts in every group that its value of ``by`` joins by ``+``; `choose_by_format` may decide it.
    overlapping: bool = False
    overlapping_by_format: bool = False
    style: tuple[str, ...] = ()
    #: The condition that the battles meet; `chosen_battles` applies it, and a run folder holds only these battles.
    where: str | None = None
    #: The number of bootstrap refits to write; 0 if no folder is written.
    n_bootstraps: int = 0
    #: The name of the arena, and the model under test, if any.
    arena: str | None = None
    model: str | None = None
    #: The model whose win rates the others have beside their ratings, and the rule by which battles count.
    baseline: BaselineChoice | None = None

    def for_folder(self) -> RateSettings:
        """The same with the bootstrap refits of Bradley–Terry that a run folder holds."""
        refitted = isinstance(self.method, BradleyTerry) and not self.style
        return replace(self, n_bootstraps=getattr(self.method, "n_bootstraps", 0) if refitted else 0)

    @property
    def groupings(self) -> tuple[str, ...]:
        """The columns of ``by``."""
        return (self.by,) if isinstance(self.by, str) else (self.by or ())

    @property
    def clusters(self) -> bool:
        """Whether the method uses prompts and voters."""
        wanted = getattr(self.method, "clusters", "battle") != "battle"
        return wanted and (getattr(self.method, "interval", "none") != "none" or bool(self.n_bootstraps))

    @property
    def levels(self) -> tuple[str, ...]:
        """The columns that may be coarser clusters: the chosen one, or those in which a test looks for them."""
        chosen = self.method.clusters if isinstance(self.method, BradleyTerry) and self.clusters else "prompt"
        return LEVELS if chosen == "auto" else () if chosen in ("prompt", "battle") else (chosen,)

    @property
    def names_matter(self) -> bool:
        """Whether prompts and voters matter even where they are not clusters.

        Bradley–Terry limits what each weighs; Elo's intervals say whose votes they are for.
        """
        if isinstance(self.method, BradleyTerry):
            return self.method.max_share is not None and self.method.max_share < 1.0
        return isinstance(self.method, Elo) and self.method.interval != "none"

    @property
    def log(self) -> bool:
        """Whether the method needs the individual battles, not only counts."""
        method = self.method
        if not isinstance(method, BradleyTerry):
            return True
        return self.clusters or bool(self.style) or method.even_pairs is not None

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
    method = settings.method
    ratings = _mean_of_refits(method(table))
    ranks = rank_models(ratings, level=getattr(method, "level", 0.95))
    fit, bootstrap = None, None
    flips: tuple[Flip, ...] = ()
    findings = pairing_findings(table, method.scoring()) if isinstance(method, BradleyTerry) else ()
    if isinstance(method, BradleyTerry) and not settings.style:
        if method.ties != "davidson" and method.prior_sd is None:
            weighted = _weighted(table, ratings)
            fit = check_fit(weighted, method.scoring())
            if checks:
                # Counted where every battle weighs the same: not where some weigh less.
                found = (votes_to_flip(weighted, method.scoring(), unit=unit) for unit in _flip_units(table))
                flips = tuple(flip for flip in found if flip is not None)
        if settings.n_bootstraps:
            drawn = replace(method, interval="bootstrap", n_bootstraps=settings.n_bootstraps)
            bootstrap = ratings if drawn == method else drawn(table)
    findings = (*log_findings(table), *findings, *(() if fit is None else fit.findings))
    board = make_board(ratings, ranks, findings=findings)
    rated = RatedGroup(name, table, ratings, ranks, board, fit, flips, bootstrap)
    return with_checks(rated) if checks else rated


def _flip_units(table: Table) -> tuple[FlipUnit, ...]:
    named: tuple[FlipUnit, ...] = ("prompt", "voter") if table.n_battles <= _CLUSTER_FLIP_BATTLES else ()
    return ("vote", *(unit for unit in named if unit in table.keyed))


def _mean_of_refits(ratings: Ratings) -> Ratings:
    """The same with each model's mean over its bootstrap refits as rating, which JudgeArena reports; others unchanged."""
    refits, interval = ratings.extras.get("replicates"), ratings.interval
    if refits is None or interval is None:
        return ratings
    fits = (~np.isnan(refits)).sum(axis=0)
    mean = np.where(fits > 0, np.nansum(refits, axis=0) / np.maximum(fits, 1), ratings.rating)
    shift = np.zeros(len(mean))
    anchor = getattr(ratings.method, "anchor", None)
    if anchor is not None:
        k = ratings.models.index(anchor)
        shift[ratings.group == ratings.group[k]] = ratings.rating[k] - mean[k]
    extras: RatingExtras = {**ratings.extras, "replicates": refits + shift, "estimate": ratings.rating}
    interval = replace(interval, low=interval.low + shift, high=interval.high + shift)
    return replace(ratings, rating=mean + shift, interval=interval, extras=extras)


def with_checks(rated: RatedGroup) -> RatedGroup:
    """Add what a report shows besides the ratings: predictive accuracy and, of Elo, the effect of K."""
    table, method = rated.table, rated.ratings.method
    if not table.has_log:
        return rated
    sweep = {}
    if isinstance(method, Elo) and table.n_battles <= _SWEEP_BATTLES:
        orders = min(method.n_permutations, _SWEEP_ORDER_COUNT)
        sweep = replace(method, n_permutations=orders, interval="none").sweep(table, K_SWEEP)
    scoring = method.scoring() if isinstance(method, BradleyTerry) else None
    return replace(rated, prediction=predict_ahead(_weighted(table, rated.ratings), scoring), sweep=sweep)


def _weighted(table: Table, ratings: Ratings) -> Table:
    """The table with the weights that the ratings are based on, so that checks speak of the same fit."""
    method = ratings.method
    limited = any(finding.name == "weight-limited" for finding in ratings.findings)
    return method.limited(table).table if limited and isinstance(method, BradleyTerry) else table


def open_all(files: Sequence[str | Path], options: ReadOptions | None = None) -> list[BattleSource]:
    """Open every file and detect its format before any is read."""
    if not files:
        raise BadOption("name at least one file of battles")
    places = [str(file) if "://" in str(file) else os.path.realpath(file) for file in files]
    if twice := next((file for k, file in enumerate(files) if places[k] in places[:k]), None):
        raise BadOption(f"{twice} is named twice; its battles would count twice")
    return [open_path(file, options or ReadOptions()) for file in files]


def chosen_battles(
    sources: Sequence[BattleSource], settings: RateSettings, *, drop_duplicates: bool = False
) -> list[BattleSource]:
    """The sources with the battles and the columns that the settings ask for; unknown columns raise `BadOption`."""
    condition = None if settings.where is None else parse_condition(settings.where)
    for column in () if condition is None else condition.columns:
        require_column(sources, column, option_name("where"))
    for column in settings.groupings:
        _refuse_joined_columns(sources, column)
        require_column(sources, column, option_name("by", column))
    chosen = () if settings.levels is LEVELS else settings.levels
    for column in chosen:
        if not any(level_column(source, column) for source in sources):
            require_column(sources, column, option_name("cluster", column))
    found = [source.choosing(condition, (*settings.groupings, *chosen)) for source in sources]
    return without_duplicates(found) if drop_duplicates else found


def _refuse_joined_columns(sources: Sequence[BattleSource], name: str) -> None:
    """Refuse ``category,language`` where these are two columns; elsewhere a comma may be part of a name."""
    columns = [part.strip() for part in name.split(",")]
    held = [any(source.column_name(column) for source in sources) for column in (name, *columns)]
    if len(columns) > 1 and all(held[1:]) and not held[0]:
        raise BadOption(
            f"{option_name('by', name)}: the battles have no column of this name; name each of several columns: "
            f"{option_name('by', columns)}"
        )


def rate_files(
    sources: Sequence[BattleSource],
    settings: RateSettings,
    *,
    checks: bool = False,
    progress: Progress | None = None,
) -> list[RatedGroup]:
    """Rate opened files: all battles together, and after them each group of ``settings.by`` separately."""
    clusters, log = _needed(sources, settings)
    if settings.by is None:
        style, levels = settings.style, settings.levels
        table = count_table(
            sources, clusters=clusters, style=style, levels=levels, log=log, progress=progress
        )
        tables = {}
    else:
        # The files are read once.
        builder = TableBuilder(keep_log=log, covariates=tuple(style_columns(sources, settings.style)))
        tables = count_named(
            sources,
            settings,
            progress=progress,
            each=lambda batch: builder.add(batch if clusters else replace(batch, prompt=None, voter=None)),
        )
        table = builder.table()
    if not table.n_battles:
        condition = "" if settings.where is None else f" for which {settings.where}"
        raise CannotRate(f"no battles in {', '.join(source.path for source in sources)}{condition}")
    name = None if settings.by is None else OVERALL if OVERALL not in tables else "All battles"
    whole = rate_table(table, settings, name=name, checks=checks)
    rated = [rate_table(table, settings, name=name, checks=checks) for name, table in tables.items()]
    together = _with_win_rates([whole], sources, replace(settings, by=None))
    return together + (_with_win_rates(_moved(rated, settings), sources, settings) if rated else [])


def _moved(groups: list[RatedGroup], settings: RateSettings) -> list[RatedGroup]:
    """Add ratings moved towards those of all groups, where each battle is in one group; measured for Bradley–Terry only."""
    apart = len(settings.groupings) == 1 and not settings.overlapping
    return with_shrunk(groups) if apart and isinstance(settings.method, BradleyTerry) else groups


def choose_by_format(settings: RateSettings, sources: Sequence[BattleSource]) -> RateSettings:
    """Add what the files' format says: whether categories overlap, and the rule of a baseline of its own.

    Files of other formats must not be among them.
    """
    if settings.overlapping_by_format:
        joined = (
            "category" in settings.groupings and {source.format for source in sources} <= _JOINS_CATEGORIES
        )
        settings = replace(settings, overlapping=joined)
    rules = {_PUBLISHED.get(source.format, "battles") for source in sources}
    rule = rules.pop() if len(rules) == 1 else "battles"
    model = None if settings.baseline is None else settings.baseline.model
    if model is None and rule == "battles":
        return settings
    return replace(settings, baseline=BaselineChoice(model, rule))


def baseline_columns(sources: Sequence[BattleSource], settings: RateSettings) -> tuple[str, ...]:
    """The columns that win rates use beside those of the ratings, if all files have them."""
    if settings.baseline is None:
        return ()
    weight = (JUDGMENT_WEIGHT,) if settings.baseline.rule == "arena-hard" else ()
    return tuple(
        name
        for names in (weight, LENGTHS)
        for name in names
        if all(set(names) <= set(source.columns) for source in sources)
    )


def _with_win_rates(
    groups: list[RatedGroup], sources: Sequence[BattleSource], settings: RateSettings
) -> list[RatedGroup]:
    """Add win rates against the baseline, which are counted in a reading of their own: ratings need no lengths."""
    if settings.baseline is None:
        return groups
    columns = baseline_columns(sources, settings)
    named: dict[str | None, Table] = {}
    if settings.by is None:
        named[groups[0].name] = count_table(sources, style=columns)
    else:
        named.update(count_named(sources, replace(settings, style=columns)).items())
    _refuse_unknown_baseline(settings.baseline.model, list(named.values()))
    rated = []
    for group in groups:
        table, board = named[group.name], group.board
        choice = settings.baseline
        baseline = find_baseline(table, choice)
        rates = (
            None if baseline is None else baseline_win_rates(table, baseline, choice.rule, settings.method)
        )
        findings = (*board.findings, *baseline_findings(table, settings.baseline))
        rated.append(replace(group, board=replace(board, baseline=rates, findings=findings)))
    return rated


def _refuse_unknown_baseline(baseline: str | None, tables: Sequence[Table]) -> None:
    names = sorted({name for table in tables for name in table.models})
    if baseline is None or baseline in names:
        return
    near = get_close_matches(baseline, names, n=5, cutoff=0.4)
    hint = f"did you mean {' or '.join(near)}?" if near else f"the models are {', '.join(names[:20])}"
    raise BadOption(f"baseline {baseline!r}: no battle names it; {hint}")


def _needed(sources: Sequence[BattleSource], settings: RateSettings) -> tuple[bool, bool]:
    """Whether a table of all battles needs prompts and voters, and whether it needs the single battles."""
    weighted = any({"weight", "pref"} & set(source.stored) for source in sources)
    named = any({"question_id", "voter"} & set(source.columns) for source in sources)
    clusters = settings.clusters or (settings.names_matter and named)
    return clusters, settings.log or clusters or (settings.draws and weighted)


def count_named(
    sources: Sequence[BattleSource],
    settings: RateSettings,
    *,
    progress: Progress | None = None,
    each: Callable[[BattleBatch], None] | None = None,
) -> dict[str, Table]:
    """The tables of all groups; if there are several columns, a group is called ``column=value``."""
    counted = count_groups(
        sources,
        settings.groupings,
        overlapping=settings.overlapping,
        style=settings.style,
        levels=settings.levels,
        progress=progress,
        each=each,
    )
    if len(counted) == 1:
        return next(iter(counted.values()))
    tables: dict[str, Table] = {}
    for by, groups in counted.items():
        for value, table in groups.items():
            name = f"{by}={value}"
            if name in tables:
                raise BadOption(f"{option_name('by')}: two groups would be called {name}; rename a column")
            tables[name] = table
    return tables


def rate_settings(options: RateOptions) -> RateSettings:
    """The settings that these options mean."""
    _refuse_unknown(options)
    _refuse_values(options)
    method, styles = options.get("method", BRADLEY_TERRY), _style_names(options.get("style"))
    by, preset = _groupings(options.get("by")), options.get("preset")
    where = options.get("where")
    if where is not None:
        parse_condition(where)
    overlapping = options.get("overlapping", preset == "lmarena")
    if overlapping and by is None and "overlapping" in options:
        raise BadOption(f"{option_name('overlapping')} has no effect without {option_name('by')}")
    model = options.get("baseline")
    settings = RateSettings(
        by=by,
        overlapping=overlapping,
        overlapping_by_format="overlapping" not in options and preset is None,
        style=styles,
        where=where,
        baseline=(None if model is None else BaselineChoice(model)),
    )
    if not isinstance(method, str):
        return replace(settings, method=_own_method(method, options, bool(styles)))
    if method not in METHODS:
        raise BadOption(f"method is {method!r}; expected one of {', '.join(METHODS)}, or a method")
    for name in options:
        takers = RATING_OPTIONS[name].said.methods
        if takers and method not in takers:
            raise BadOption(
                f"{option_name(name)} has no effect with {method}; use it with {' or '.join(takers)}"
            )
    parameters: dict[str, object] = {}
    if preset is not None:
        parameters |= preset_parameters(preset, style=bool(styles))
    parameters |= {name: value for name, value in options.items() if RATING_OPTIONS[name].said.is_parameter}
    if method != "glicko-2":
        parameters |= _interval_fields(method, options)
    if method == BRADLEY_TERRY:
        parameters |= {"style": bool(styles), **_anchor_fields(options.get("anchor"), option_name("anchor"))}
    return replace(settings, method=method_of(str(method), parameters))


def _interval_fields(method: str, options: RateOptions) -> dict[str, object]:
    """What is spelled differently as a parameter."""
    wanted = options.get("intervals", "prompts")
    choices = RATING_OPTIONS["intervals"].said.choices
    if wanted not in choices:
        raise BadOption(f"intervals is {wanted!r}; expected one of {', '.join(choices)}")
    parameters: dict[str, object] = {"clusters": "battle" if wanted == "battles" else "auto"}
    cluster = options.get("cluster")
    if cluster is not None:
        if wanted != "prompts":
            raise BadOption(f"{option_name('cluster')} has no effect with {option_name('intervals', wanted)}")
        if not cluster or cluster in ("auto", "battle"):
            raise BadOption(f"{option_name('cluster', cluster)}: expected prompt, or the name of a column")
        parameters["clusters"] = "prompt" if cluster in _PROMPT_NAMES else cluster
    resampled = method == ELO or options.get("bootstrap", False)
    parameters["interval"] = "none" if wanted == "none" else "bootstrap" if resampled else "sandwich"
    if "scale" in options:
        parameters["spread" if method == ELO else "scale"] = options["scale"]
    if "n_perms" in options:
        parameters["n_permutations"] = options["n_perms"]
    return parameters


def _refuse_unknown(options: RateOptions) -> None:
    for name in options:
        if name not in RATING_OPTIONS:
            raise BadOption(
                f"rate has no option {name!r}; it has {', '.join(RATING_OPTIONS)}, columns, outcomes, skip_invalid, "
                "rename, drop_duplicates and format"
            )


def _refuse_values(options: RateOptions) -> None:
    """Refuse numbers out of their ranges, and what is no number or neither true nor false."""
    for name, value in options.items():
        option = RATING_OPTIONS[name]
        if option.kind is bool:
            require_flag(name, value)
        elif option.kind is not str and not (value is None and option.optional):
            low, high = option.said.bounds
            kind, noun = (Integral, "whole number") if option.kind is int else (Real, "number")
            if isinstance(value, bool) or not isinstance(value, kind) or not low <= float(value) <= high:
                range_text = f"{low:g} or more" if high == math.inf else f"from {low:g} to {high:g}"
                raise BadOption(f"{name} is {value!r}; expected a {noun}, {range_text}")


def _own_method(method: object, options: RateOptions, style: bool) -> RatingMethod:
    """A method that the caller made: its parameters are its own."""
    made = not isinstance(method, type) and dataclasses.is_dataclass(method) and hasattr(method, "name")
    if not made:
        raise BadOption(f"method is {method!r}; expected a name or a method, such as BradleyTerry(level=0.9)")
    for name in options:
        if name not in ("method", "by", "overlapping", "style", "where", "baseline"):
            raise BadOption(f"{name} has no effect with a method of your own; set it there: {method!r}")
    if style and isinstance(method, BradleyTerry):
        return replace(method, style=True)
    return cast("RatingMethod", method)


def _groupings(by: str | Sequence[str] | None) -> str | tuple[str, ...] | None:
    listed = by if isinstance(by, list | tuple) else () if by is None else (by,)
    names = tuple(dict.fromkeys(listed))
    if not all(isinstance(name, str) and name for name in names):
        raise BadOption(f"{option_name('by')} is {by!r}; expected the name of a column, or a list of names")
    return names if len(names) > 1 else names[0] if names else None


def _style_names(style: str | Sequence[str] | None) -> tuple[str, ...]:
    names = style.split(",") if isinstance(style, str) else (style or ())
    return tuple(name.strip() for name in names if name.strip())


def _anchor_fields(text: str | None, option: str) -> dict[str, object]:
    if text is None:
        return {}
    name, equals, rating = text.rpartition("=")
    if not equals:
        return {"anchor": text}
    try:
        anchor_rating = float(rating)
    except ValueError:
        return {"anchor": text}
    if not -_MAX_ANCHOR_POINTS <= anchor_rating <= _MAX_ANCHOR_POINTS:
        raise BadOption(f"{option} {text}: the rating must lie between -1e6 and 1e6")
    return {"anchor": name, "anchor_rating": anchor_rating}


def preset_parameters(name: str, *, style: bool) -> dict[str, Any]:
    """The parameters of Bradley–Terry that a preset sets."""
    if name not in PRESETS:
        raise BadOption(f"preset is {name!r}; expected {', '.join(PRESETS)}")
    plain, styled = PRESETS[name]
    return plain | styled if style else dict(plain)
