"""The result of `rate` in Python: a board that shows itself and can be exported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Unpack

from tiltyard.core.battles import Table
from tiltyard.core.board import RatedGroup, Row
from tiltyard.core.board.win_rates import BaselineWinRates
from tiltyard.core.ratings import BradleyTerry, Finding, Ratings
from tiltyard.core.ratings.comparison import Comparison, compare_models
from tiltyard.errors import BadOption, CannotRate, MissingExtra
from tiltyard.files.battle_source import BattleData, open_data
from tiltyard.files.read_options import ReadOptions
from tiltyard.report.board_charts import ratings_chart
from tiltyard.report.board_formats import boards_columns, boards_csv, boards_latex, boards_markdown
from tiltyard.report.methods_text import RunFacts, methods_text
from tiltyard.report.notebook_board import board_fragment, groups_fragment
from tiltyard.report.terminal import rated_text
from tiltyard.runs.battle_rating import (
    RateSettings,
    choose_baseline,
    chosen_battles,
    rate_whole_and_groups,
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


@dataclass(frozen=True, repr=False, eq=False)
class RatedBoard:
    """Ranked models with everything that made them. In a notebook it is a table; printed, a text."""

    #: The table of battles, the ratings, the ranks and the checks.
    rated: RatedGroup
    settings: RateSettings
    #: The boards of the groups, where ``by`` was given.
    by: Mapping[str, RatedBoard] = field(default_factory=dict)
    #: What was left out of the input, in sentences.
    left_out: tuple[str, ...] = ()
    #: The addresses of the files that were fetched; those of a dataset with its commit.
    fetched: tuple[str, ...] = ()

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
        """What exports hold, as those of the command: the groups, or without groups one board, which needs no name."""
        return [board.rated for board in self.by.values()] or [replace(self.rated, name=None)]

    def to_columns(self) -> dict[str, list[Any]]:
        """Plain lists by column, best model first; with ``by`` the rows of all groups, named in the column ``by``."""
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
        """A table in Markdown; with ``by`` one for each group."""
        return boards_markdown(self._exported)

    def to_latex(self) -> str:
        """A ``tabular`` in LaTeX, with the rules of booktabs; with ``by`` one for each group."""
        return boards_latex(self._exported)

    def to_csv(self) -> str:
        """All rows as CSV, unrounded; with ``by`` those of all groups."""
        return boards_csv(self._exported)

    def to_json(self) -> str:
        """The document that `tiltyard rate --out` writes as `elo_ratings.json`: method, parameters, rows, findings."""
        settings = self.settings if self.by else replace(self.settings, by=None)
        return ratings_json(self._exported, settings)

    def methods(self) -> str:
        """How these ratings were made, as a paragraph for the methods section of a paper."""
        groups = [board.rated for board in self.by.values()] or [self.rated]
        settings = self.settings
        facts = RunFacts(
            by=" and ".join(settings.groupings) or None if self.by else None,
            overlapping=settings.overlapping,
            style=settings.style,
            where=settings.where,
        )
        return methods_text(groups, facts)

    def plot(self) -> Any:
        """Ratings with their intervals, as a chart of Altair. Needs the extra ``plots``."""
        rows = [row for row in self.rows if row.group == 0]
        if not rows:
            raise CannotRate("no model has a rating, so there is nothing to plot; look at the findings")
        return ratings_chart(rows)

    def __repr__(self) -> str:
        name = "" if self.rated.name is None else f"{self.rated.name!r}, "
        first = next((f", highest {row.model!r}" for row in self.rows if row.rank == 1), "")
        groups = f", by {' and '.join(self.settings.groupings)}: {len(self.by)} groups" if self.by else ""
        return (
            f"<RatedBoard {name}{self.settings.method.name}, {self.n_battles:,} battles, "
            f"{len(self.rows)} models{first}{groups}>"
        )

    def __str__(self) -> str:
        shown = [board.rated for board in self.by.values()] or [self.rated]
        return "\n\n".join([*(rated_text(rated) for rated in shown), *self.left_out])

    def _repr_html_(self) -> str:
        groups = groups_fragment([board.rated for board in self.by.values()])
        return board_fragment(self.rated, self.left_out) + groups


def rate(data: BattleData, **options: Unpack[RateDataOptions]) -> RatedBoard:
    """Rate the models of some battles, with confidence intervals: `tiltyard rate` in Python.

    ``data`` is a frame of pandas, polars, DuckDB or Arrow (any object with ``__arrow_c_stream__``), a list of rows,
    a mapping of columns, a path, a pattern of paths, an address (``hf://`` or ``https://``), or a list of paths. The options have the names of the command
    line, ``columns`` and ``outcomes`` are mappings. With ``by`` all battles are rated together, and each group separately in
    ``.by``.
    """
    reading = ReadOptions(
        options.pop("format", None),
        options.pop("columns", None),
        options.pop("outcomes", None),
        options.pop("skip_invalid", False),
        options.get("baseline"),
    )
    settings = rate_settings(options)
    sources = chosen_battles(open_data(data, reading), settings)
    settings = choose_baseline(settings, sources)
    rated, groups = rate_whole_and_groups(sources, settings)
    by = {group.name or "": RatedBoard(group, settings) for group in groups}
    fetched = tuple(file.name for source in sources for file in source.fetched)
    return RatedBoard(
        rated,
        settings,
        by,
        tuple(f"{source.path}: {n} left out: {reason}" for source in sources for reason, n in source.notes),
        fetched,
    )
