"""The query of a board page. The URL contains the whole state of the page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Annotated, Literal

from fastapi import Depends, Query

from tiltyard.arena.boards.filtered_boards import VoteSubset
from tiltyard.arena.log.event_log import SOURCES
from tiltyard.core.board.document import LaneFilter, LeftOutVotes
from tiltyard.report.arena_charts import CHARTS
from tiltyard.web.pages.paths import asked
from tiltyard.wire.records import Plain

#: The hash of a published board; without it, the newest one.
Snap = Annotated[str | None, Query(pattern=r"^[0-9a-f]{64}$")]

Source = Literal["human", "llm-judge", "both"]
Sort = Literal[
    "rank", "model", "rating", "confidence", "coverage", "consistency", "spread", "score", "record", "votes"
]
Chart = Literal["ratings", "win-rates", "battle-counts", "history"]
assert Chart.__args__ == CHARTS  # type: ignore[attr-defined]

#: Columns that are sorted in ascending order by default.
_ASCENDING_SORTS = frozenset({"rank", "model", "spread"})


@dataclass(frozen=True, slots=True)
class BoardQuery:
    """The selected votes, rows, order and chart."""

    source: Source = "human"
    category: str = ""
    language: str = ""
    #: The only dimension of votes in an arena.
    dimension: Literal["overall"] = "overall"
    excluded: LeftOutVotes = "left-out"
    #: All votes, or those on pairs that were chosen at random.
    lane: LaneFilter = "all"
    retired: Literal["show", "hide"] = "show"
    q: str = ""
    sort: Sort = "rank"
    order: Literal["", "asc", "desc"] = ""
    chart: Chart = "ratings"

    @property
    def rising(self) -> bool:
        """Whether the order is ascending."""
        return self.order == "asc" if self.order else self.sort in _ASCENDING_SORTS

    def part(self, source: int | None = None) -> VoteSubset:
        """The selected votes; for both sources, those of people unless ``source`` is given."""
        if source is None:
            source = 0 if self.source == "both" else SOURCES.index(self.source)
        prompts = (self.category or None, self.language or None)
        return VoteSubset(source, *prompts, self.excluded, self.lane)

    def changed(self, **changes: str) -> BoardQuery:
        """A copy with some values changed."""
        return replace(self, **changes)  # type: ignore[arg-type]

    def sorted_by(self, column: str) -> BoardQuery:
        """A copy sorted by this column; in reverse order if it is already sorted by it."""
        if column != self.sort:
            return self.changed(sort=column, order="")
        return self.changed(order="desc" if self.rising else "asc")

    def values(self) -> dict[str, str]:
        """The values that differ from the defaults."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: value for name, value in values.items() if value != _DEFAULTS[name]}

    def address(self, path: str, **changes: str) -> str:
        """A path with this query, some values changed."""
        return asked(path, self.changed(**changes).values() if changes else self.values())

    @property
    def chosen_votes(self) -> Mapping[str, str]:
        """Which votes are counted, as far as it differs from the whole board of a source."""
        return self.only("category", "language", "excluded", "lane")

    def only(self, *names: str) -> Mapping[str, str]:
        """Some of the values that differ from the defaults, for the hidden fields of a form."""
        return {name: value for name, value in self.values().items() if name in names}


_DEFAULTS = {one.name: one.default for one in fields(BoardQuery)}


async def _read_query(
    source: Source = "human",
    category: Plain = "",
    language: Plain = "",
    dimension: Literal["overall"] = "overall",
    excluded: LeftOutVotes = "left-out",
    lane: LaneFilter = "all",
    retired: Literal["show", "hide"] = "show",
    q: Plain = "",
    sort: Sort = "rank",
    order: Literal["", "asc", "desc"] = "",
    chart: Chart = "ratings",
) -> BoardQuery:
    votes = (source, category, language, dimension, excluded, lane)
    return BoardQuery(*votes, retired, q.strip(), sort, order, chart)


BoardQueryParams = Annotated[BoardQuery, Depends(_read_query)]
