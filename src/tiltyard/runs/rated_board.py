"""The result of `rate` in Python: a board that shows itself and can be exported."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Unpack, cast

from tiltyard.core.battles import Table
from tiltyard.core.board import RatedGroup, Row
from tiltyard.core.board.pairwise import pairwise_columns
from tiltyard.core.board.win_rates import BaselineWinRates
from tiltyard.core.ratings import BradleyTerry, Finding, Ratings
from tiltyard.core.ratings.comparison import Comparison, compare_models
from tiltyard.errors import BadOption, CannotRate, MissingExtra
from tiltyard.files.battle_source import BattleData, BattleSource, open_data
from tiltyard.files.battle_tables import count_steps
from tiltyard.files.read_options import READ_DEFAULTS, ReadDataOptions, ReadOptions
from tiltyard.foundation.option_names import require_flag, with_options
from tiltyard.report.board_charts import HEATMAP_MODELS, Picture, ratings_chart, win_rate_picture
from tiltyard.report.board_formats import (
    MAX_ROWS,
    board_fragment,
    boards_columns,
    boards_csv,
    boards_latex,
    boards_markdown,
    comparison_fragment,
    groups_fragment,
)
from tiltyard.report.escapes import plain_table
from tiltyard.report.methods_text import RunFacts, methods_text
from tiltyard.runs.battle_rating import (
    RateSettings,
    choose_by_format,
    chosen_battles,
    rate_files,
    rate_settings,
    rate_table,
)
from tiltyard.runs.rating_documents import ratings_json
from tiltyard.settings.rating_options import RATING_OPTIONS, RateOptions

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


class RateDataOptions(RateOptions, ReadDataOptions, total=False):
    """Options of `rate` for any data: how battles are rated, and how they are read."""

    #: Leave out battles that repeat an earlier one, and count them.
    drop_duplicates: bool


class _Frames:
    """Columns as frames of other libraries."""

    def to_columns(self) -> dict[str, list[Any]]:
        raise NotImplementedError

    def to_pandas(self) -> pd.DataFrame:
        """A DataFrame of pandas, with the columns of `to_columns`."""
        try:
            import pandas as pd
        except ImportError:
            raise MissingExtra("", "to_pandas()", package="pandas") from None
        return pd.DataFrame(self.to_columns())

    def to_polars(self) -> pl.DataFrame:
        """A DataFrame of polars, with the columns of `to_columns`."""
        try:
            import polars as pl
        except ImportError:
            raise MissingExtra("", "to_polars()", package="polars") from None
        return pl.DataFrame(self.to_columns())


@dataclass(frozen=True, repr=False, eq=False)
class BoardTable(_Frames):
    """Rows that follow from a board, by column. In a notebook it is a table; printed, a text."""

    columns: Mapping[str, list[Any]]
    #: What is not in it, in sentences.
    left_out: tuple[str, ...] = ()

    def to_columns(self) -> dict[str, list[Any]]:
        """Plain lists by column."""
        return dict(self.columns)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def __repr__(self) -> str:
        return f"<BoardTable, {len(self):,} rows: {', '.join(self.columns)}>"

    def __str__(self) -> str:
        return "\n".join([plain_table([[*self.columns], *self._cells(None)]), *self.left_out])

    def _repr_html_(self) -> str:
        more = len(self) - MAX_ROWS
        rest = [f"{more:,} more rows: to_pandas() has all."] if more > 0 else []
        return comparison_fragment((), [[*self.columns], *self._cells(MAX_ROWS)], [*rest, *self.left_out])

    def _cells(self, most: int | None) -> list[list[str]]:
        return [
            [_cell(value) for value in row] for row in islice(zip(*self.columns.values(), strict=True), most)
        ]


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) > 1.0 else f"{value:.3f}"
    if value is None or isinstance(value, bool):
        return "–" if value is None else "yes" if value else "no"
    return str(value.date()) if isinstance(value, datetime) else str(value)


class _Exports(_Frames):
    """Tables of boards in several forms."""

    @property
    def _exported(self) -> list[RatedGroup]:
        raise NotImplementedError

    def to_columns(self) -> dict[str, list[Any]]:
        """Plain lists by column, best model first; of groups with their names in the column ``by``."""
        return boards_columns(self._exported)

    def to_markdown(self) -> str:
        """A table in Markdown; of groups one for each."""
        return boards_markdown(self._exported)

    def to_latex(self) -> str:
        """A ``tabular`` in LaTeX, with the rules of booktabs; of groups one for each."""
        return boards_latex(self._exported)

    def to_csv(self) -> str:
        """All rows as CSV, unrounded; of groups with their names in the column ``by``."""
        return boards_csv(self._exported)


@dataclass(frozen=True, repr=False, eq=False)
class BoardGroups(_Exports, Mapping[str, "RatedBoard"]):
    """The boards of groups by name, each from its own battles. Exports hold all their rows, after those of ``Overall``."""

    boards: Mapping[str, RatedBoard]
    settings: RateSettings
    overall: RatedGroup

    def __getitem__(self, name: str) -> RatedBoard:
        if name not in self.boards:
            raise KeyError(f"no group is called {name!r}; there are {', '.join(self.boards) or 'none'}")
        return self.boards[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.boards)

    def __len__(self) -> int:
        return len(self.boards)

    def __repr__(self) -> str:
        return f"<BoardGroups by {' and '.join(self.settings.groupings)}: {', '.join(self.boards)}>"

    def __str__(self) -> str:
        return "\n\n".join(_text(board.rated) for board in self.boards.values())

    def _repr_html_(self) -> str:
        return groups_fragment([board.rated for board in self.boards.values()])

    @property
    def _exported(self) -> list[RatedGroup]:
        if not self.boards:
            raise BadOption("there are no groups; rate(…, by=…) makes them")
        return [self.overall, *(board.rated for board in self.boards.values())]

    def to_json(self) -> str:
        """The document that `tiltyard rate --by … --out` writes as `elo_ratings.json`."""
        return ratings_json(self._exported, self.settings)

    def methods(self) -> str:
        """How these ratings were made, as a paragraph for the methods section of a paper."""
        return _methods(self._exported, self.settings, " and ".join(self.settings.groupings))


@dataclass(frozen=True, repr=False, eq=False)
class RatedBoard(_Exports):
    """Ranked models with everything that made them. In a notebook it is a table; printed, a text.

    Its length is the number of models; iteration gives their rows, best first; ``board["model"]`` is one of them. With
    ``by`` everything is about all battles together, and ``groups`` has a board for each group.
    """

    #: The table of battles, the ratings, the ranks and the checks.
    rated: RatedGroup
    settings: RateSettings
    #: The boards of the groups, where ``by`` was given.
    groups: BoardGroups
    #: What was left out of the input, and what was changed in it, in sentences.
    left_out: tuple[str, ...] = ()
    #: The addresses of the files that were fetched; those of a dataset with its commit.
    fetched: tuple[str, ...] = ()
    #: Where the battles come from. Methods that need more than their counts read them again.
    sources: tuple[BattleSource, ...] = field(default=(), repr=False)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __getitem__(self, model: str) -> Row:
        found = next((row for row in self.rows if row.model == model), None)
        if found is None:
            raise KeyError(f"no model is called {model!r}")
        return found

    @property
    def rows(self) -> tuple[Row, ...]:
        """The models, best first."""
        return self.rated.board.rows

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What to know before trusting the numbers."""
        return self.rated.board.findings

    @property
    def ratings(self) -> Ratings:
        """What the method returned: arrays, covariances, extras."""
        return self.rated.ratings

    @property
    def table(self) -> Table:
        """The battles that were rated."""
        return self.rated.table

    @property
    def baseline(self) -> BaselineWinRates | None:
        """Win rates against one of the models, where ``baseline`` was given or the file names it."""
        return self.rated.board.baseline

    @property
    def n_battles(self) -> int:
        return self.rated.board.n_battles

    def parameters(self) -> dict[str, object]:
        """The method's parameters by name."""
        return self.rated.board.parameters()

    def compare(self, a: str, b: str) -> Comparison:
        """Whether the order of A and B is settled, as `tiltyard compare`, with the parameters of this board."""
        method = self.settings.method
        if not isinstance(method, BradleyTerry) or method.interval == "none":
            raise BadOption("compare needs Bradley–Terry ratings with intervals; rate the battles that way")
        return compare_models(self.table, a, b, method)

    @property
    def _exported(self) -> list[RatedGroup]:
        return [replace(self.rated, name=None)]

    def to_json(self) -> str:
        """The document that `tiltyard rate --out` writes as `elo_ratings.json`: method, parameters, rows, findings."""
        return ratings_json(self._exported, replace(self.settings, by=None))

    def methods(self) -> str:
        """How these ratings were made, as a paragraph for the methods section of a paper."""
        return _methods([self.rated], self.settings, None)

    def plot(self) -> Any:
        """Ratings with their intervals, as a chart of Altair. Needs the extra ``plots``."""
        rows = [row for row in self.rows if row.group == 0]
        if not rows:
            raise CannotRate("no model has a rating, so there is nothing to plot; look at the findings")
        return ratings_chart(rows)

    def pairwise(self) -> BoardTable:
        """Every two models that can be compared, the higher rated first: their direct battles, and the win rate by ratings.

        ``win_rate`` is the score of A against B that the ratings expect, a tie counting half, with the interval of this
        pair alone (``win_rate_low`` and ``win_rate_high``). ``settled`` says whether their order holds with those of all pairs at once.
        """
        return BoardTable(pairwise_columns(self.rated))

    def heatmap(self, top: int = HEATMAP_MODELS) -> Picture:
        """The win rates of `pairwise` between the first models, as a picture. Needs the extra ``plots``."""
        models = [row.model for row in self.rows if row.group == 0]
        if len(models) < 2 or top < 2:
            raise CannotRate("a heatmap needs two models that can be compared")
        return win_rate_picture(pairwise_columns(self.rated), models[:top])

    def over_time(self, step: str = "month", *, cumulative: bool = True) -> BoardTable:
        """Ratings by date, by the battles up to the end of each step, or ``cumulative=False``: of each step alone.

        ``step`` is ``day``, ``week`` (from Monday), ``month``, ``quarter`` or ``year``, and ``date`` its first day in
        UTC. Each date is rated as the board is, with ranks and intervals; steps without battles have no rows.
        """
        settings = replace(self.settings, by=None, baseline=None)
        tables = count_steps(self._sources("over_time"), step, style=settings.style, levels=settings.levels)
        timeless = tables.pop("", None)
        if not tables:
            raise CannotRate("no battle has a time; name its column with columns={'time': …}")
        boards: dict[str, dict[str, list[Any]]] = {}
        table: Table | None = None
        for day, counted in sorted(tables.items()):
            table = counted if table is None or not cumulative else table.merge(counted)
            boards[day] = rate_table(table, settings).board.to_columns()
        rows: dict[str, list[Any]] = {name: [] for columns in boards.values() for name in ("date", *columns)}
        for day, columns in boards.items():
            count = len(columns["model"])
            for name in rows:
                rows[name] += columns.get(name, [None] * count)
            rows["date"][-count:] = [datetime.fromisoformat(day)] * count
        without = 0 if timeless is None else timeless.n_battles
        return BoardTable(rows, (f"{without:,} battles without a time left out",) if without else ())

    def write(self, folder: str | os.PathLike[str], *, arena: str | None = None) -> Path:
        """Write the run folder of `tiltyard rate --out`, from the battles, which are read again; ``arena`` is its title."""
        from tiltyard.runs.run_folder import write_run

        settings = replace(self.settings.for_folder(), arena=arena)
        write_run(Path(folder), self._sources("write"), settings)
        return Path(folder)

    def publish(
        self,
        folder: str | os.PathLike[str],
        *,
        arena: str | None = None,
        title: str | None = None,
        url: str | None = None,
        add: bool = False,
    ) -> Path:
        """Write the site of `tiltyard publish`, of this run; ``add`` keeps the runs of an earlier site there."""
        from tiltyard.runs.site_folder import publish_site

        with TemporaryDirectory() as draft:
            run = self.write(Path(draft) / "board", arena=arena)
            publish_site([run], Path(folder), title=title, url=url, add=add)
        return Path(folder)

    def _sources(self, method: str) -> tuple[BattleSource, ...]:
        if not self.sources:
            raise BadOption(
                f"{method} needs the board of all battles; this is one of its groups. Rate it with where=…"
            )
        return self.sources

    def __repr__(self) -> str:
        name = "" if self.rated.name is None else f"{self.rated.name!r}, "
        first = next((f", highest {row.model!r}" for row in self.rows if row.rank == 1), "")
        groups = (
            f", by {' and '.join(self.settings.groupings)}: {len(self.groups)} groups" if self.groups else ""
        )
        return (
            f"<RatedBoard {name}{self.settings.method.name}, {self.n_battles:,} battles, "
            f"{len(self.rows)} models{first}{groups}>"
        )

    def __str__(self) -> str:
        groups = [str(self.groups)] if self.groups else []
        return "\n\n".join([_text(self.rated), *groups, *self.left_out])

    def _repr_html_(self) -> str:
        groups = self.groups._repr_html_() if self.groups else ""
        return board_fragment(self.rated, self.left_out) + groups


def _text(rated: RatedGroup) -> str:
    # Costs a tenth of a second to import, and only who prints needs it.
    from tiltyard.report.terminal import rated_text

    return rated_text(rated)


def _methods(groups: list[RatedGroup], settings: RateSettings, by: str | None) -> str:
    facts = RunFacts(by=by, overlapping=settings.overlapping, style=settings.style, where=settings.where)
    return methods_text(groups, facts)


def rate(data: BattleData, **options: Unpack[RateDataOptions]) -> RatedBoard:
    """Rate the models of some battles, with confidence intervals: `tiltyard rate` in Python.

    ``data`` is a frame of pandas, polars, DuckDB or Arrow (any object with ``__arrow_c_stream__``), a list of rows,
    a mapping of columns, a path, a pattern of paths, an address (``hf://`` or ``https://``), or a list of paths. The options have the names of the command
    line, ``columns`` and ``outcomes`` are mappings. With ``by`` all battles are rated together, and each group separately
    in ``.groups``.
    """
    given: dict[str, Any] = dict(options)
    stated = {name: given.pop(name) for name in READ_DEFAULTS if name in given}
    reading = ReadOptions(**stated, baseline=given.get("baseline"))
    drop_duplicates = given.pop("drop_duplicates", False)
    require_flag("drop_duplicates", drop_duplicates)
    settings = rate_settings(cast("RateOptions", given))
    sources = chosen_battles(open_data(data, reading), settings, drop_duplicates=drop_duplicates)
    settings = choose_by_format(settings, sources)
    whole, *groups = rate_files(sources, settings)
    none = BoardGroups({}, settings, whole)
    boards = {group.name or "": RatedBoard(group, settings, none) for group in groups}
    fetched = tuple(file.name for source in sources for file in source.fetched)
    return RatedBoard(
        replace(whole, name=None),
        settings,
        BoardGroups(boards, settings, whole),
        tuple(remark for source in sources for remark in source.remarks),
        fetched,
        tuple(sources),
    )


_DEFAULTS = {name: option.said.default for name, option in RATING_OPTIONS.items()}
_DEFAULTS |= {**READ_DEFAULTS, "drop_duplicates": False}
with_options(rate, dict.fromkeys(_DEFAULTS, inspect.Parameter.empty), _DEFAULTS, evaluated=False)
