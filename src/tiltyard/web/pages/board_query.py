"""What is asked of a board's page. The address is the whole state: every choice stands in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Annotated, Literal

from fastapi import Depends, Query

from tiltyard.arena.boards.filtered_boards import VoteSubset
from tiltyard.arena.log.event_log import SOURCES
from tiltyard.report.arena_charts import CHARTS
from tiltyard.web.pages.paths import asked
from tiltyard.web.reader_access import Plain

__all__ = ["SORTS", "BoardQuery", "BoardQueryParams", "Snap"]

#: A board that was published, by its hash; without it, the newest.
Snap = Annotated[str | None, Query(pattern=r"^[0-9a-f]{64}$")]

Source = Literal["human", "llm-judge", "both"]
Sort = Literal[
    "rank", "model", "rating", "confidence", "coverage", "consistency", "spread", "score", "record", "votes"
]
Chart = Literal["ratings", "win-rates", "battle-counts", "history"]
assert Chart.__args__ == CHARTS  # type: ignore[attr-defined]

SORTS: tuple[str, ...] = Sort.__args__  # type: ignore[attr-defined]
#: Those that begin with the least.
_ASCENDING_SORTS = frozenset({"rank", "model", "spread"})


@dataclass(frozen=True, slots=True)
class BoardQuery:
    """Which votes, which rows, in which order; and which chart."""

    source: Source = "human"
    category: str = ""
    language: str = ""
    #: Votes in an arena are on this one.
    dimension: Literal["overall"] = "overall"
    excluded: Literal["left-out", "counted"] = "left-out"
    retired: Literal["show", "hide"] = "show"
    q: str = ""
    sort: Sort = "rank"
    order: Literal["", "asc", "desc"] = ""
    chart: Chart = "ratings"

    @property
    def rising(self) -> bool:
        """Whether the least comes first."""
        return self.order == "asc" if self.order else self.sort in _ASCENDING_SORTS

    def part(self, source: int | None = None) -> VoteSubset:
        """The votes that are asked for; of both sources, those of people, if it is not said."""
        if source is None:
            source = 0 if self.source == "both" else SOURCES.index(self.source)
        return VoteSubset(source, self.category or None, self.language or None, self.excluded == "counted")

    def changed(self, **changes: str) -> BoardQuery:
        """The same with other choices."""
        return replace(self, **changes)  # type: ignore[arg-type]

    def sorted_by(self, column: str) -> BoardQuery:
        """By this column; by it already, the other way round."""
        if column != self.sort:
            return self.changed(sort=column, order="")
        return self.changed(order="desc" if self.rising else "asc")

    def values(self) -> dict[str, str]:
        """Every choice that is not the usual one."""
        told = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: value for name, value in told.items() if value != _DEFAULTS[name]}

    def address(self, path: str, **changes: str) -> str:
        """A path with these choices, some of them changed."""
        return asked(path, self.changed(**changes).values() if changes else self.values())

    def only(self, *names: str) -> Mapping[str, str]:
        """Some of the choices that are not usual: what a form keeps beside its own fields."""
        return {name: value for name, value in self.values().items() if name in names}


_DEFAULTS = {one.name: one.default for one in fields(BoardQuery)}


async def _read_query(
    source: Source = "human",
    category: Plain = "",
    language: Plain = "",
    dimension: Literal["overall"] = "overall",
    excluded: Literal["left-out", "counted"] = "left-out",
    retired: Literal["show", "hide"] = "show",
    q: Plain = "",
    sort: Sort = "rank",
    order: Literal["", "asc", "desc"] = "",
    chart: Chart = "ratings",
) -> BoardQuery:
    return BoardQuery(source, category, language, dimension, excluded, retired, q.strip(), sort, order, chart)


BoardQueryParams = Annotated[BoardQuery, Depends(_read_query)]
