"""The result of `rate` in Python: a board that shows itself and can be exported."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Unpack

from tiltyard.core.battles import Table
from tiltyard.core.board import RatedGroup, Row
from tiltyard.core.board.win_rates import BaselineWinRates
from tiltyard.core.ratings import BradleyTerry, Finding, Ratings
from tiltyard.core.ratings.comparison import Comparison, compare_models
from tiltyard.errors import BadOption, CannotRate, MissingExtra
from tiltyard.files.battle_source import BattleData, open_data
from tiltyard.files.read_options import ReadOptions
from tiltyard.foundation.option_names import require_flag
from tiltyard.report.board_charts import ratings_chart
from tiltyard.report.board_formats import boards_columns, boards_csv, boards_latex, boards_markdown
from tiltyard.report.methods_text import RunFacts, methods_text
from tiltyard.report.notebook_board import board_fragment, groups_fragment
from tiltyard.report.terminal import rated_text
from tiltyard.runs.battle_rating import (
    RateSettings,
    choose_by_format,
    chosen_battles,
    rate_files,
)
from tiltyard.runs.rate_options import rate_settings
from tiltyard.runs.rating_documents import ratings_json
from tiltyard.settings.rating_options import RateOptions

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


class RateDataOptions(RateOptions, total=False):
    """Options of `rate` for any data: how battles are rated, and how they are read."""

    #: Which header holds which field: ``{"model_a": "left", "winner": "who"}``.
    columns: Mapping[str, str] | None
    #: The format of the files, where it must not be detected.
    format: str | None
    #: What words of the winner column mean: ``{"left": "a", "right": "b"}``.
    outcomes: Mapping[Any, str] | None
    #: Leave out rows that are no battles, and count them.
    skip_invalid: bool
    #: What models are called instead: ``{"GPT-4": "gpt-4"}``; of names alone each stands for all that are spelled alike.
    rename: Mapping[str, str] | Sequence[str] | None
    #: Leave out battles that repeat an earlier one, and count them.
    drop_duplicates: bool


class _Exports:
    """Tables of boards in several forms."""

    @property
    def _exported(self) -> list[RatedGroup]:
        raise NotImplementedError

    def to_columns(self) -> dict[str, list[Any]]:
        """Plain lists by column, best model first; of groups with their names in the column ``by``."""
        return boards_columns(self._exported)

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
        return "\n\n".join(rated_text(board.rated) for board in self.boards.values())

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
        return "\n\n".join([rated_text(self.rated), *groups, *self.left_out])

    def _repr_html_(self) -> str:
        groups = self.groups._repr_html_() if self.groups else ""
        return board_fragment(self.rated, self.left_out) + groups


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
    reading = ReadOptions(
        options.pop("format", None),
        options.pop("columns", None),
        options.pop("outcomes", None),
        options.pop("skip_invalid", False),
        options.get("baseline"),
        options.pop("rename", None),
    )
    drop_duplicates = options.pop("drop_duplicates", False)
    require_flag("drop_duplicates", drop_duplicates)
    settings = rate_settings(options)
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
    )
