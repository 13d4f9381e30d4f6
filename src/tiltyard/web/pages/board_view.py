"""Converts a board's document to the rows of its page and its downloads."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tiltyard.core.board.arena_board import ArenaRow, ShownOrder
from tiltyard.core.board.board_rows import Row
from tiltyard.core.board.cross_check import CrossCheckRow
from tiltyard.core.board.document import BoardDocument
from tiltyard.core.board.filtered import FilteredBoard
from tiltyard.web.pages.board_query import BoardQuery

__all__ = [
    "BoardLine",
    "BoardView",
    "IntervalScale",
    "Kind",
    "SourceComparison",
    "board_lines",
    "compare_sources",
    "digits_to_show",
    "filter_and_sort",
    "filtered_view",
    "floor_percent",
    "full_view",
    "interval_scale",
]

#: The order of the board, which is also what the rating column shows.
Kind = ShownOrder

#: Rows with a larger RD do not determine the scale of the intervals.
_WIDE_RD_POINTS = 200.0


@dataclass(frozen=True, slots=True)
class BoardLine:
    """The row of one model; missing values are ``None``."""

    rank: int | None
    rank_low: int | None
    rank_high: int | None
    tier: int | None
    model: str
    badge: str | None
    retired: bool
    proven: bool
    kind: Kind
    #: The score by which it is ranked; raw rating and RD; the interval, if there is one.
    score: float | None
    rating: float | None
    rd: float | None
    low: float | None
    high: float | None
    confidence: float | None
    coverage: float | None
    consistency: float | None
    spread: float | None
    average_score: float | None
    wins: int
    losses: int
    ties: int
    #: Votes that are not rated, because a person called both responses bad.
    unrated: int
    #: Votes that called both responses bad, including those flagged by judges.
    both_bad: int
    #: The row of the published board, and of the cross-check, if there is one.
    row: ArenaRow | None
    cross: CrossCheckRow | None

    @property
    def votes(self) -> int:
        """Votes of any kind."""
        return self.wins + self.losses + self.ties + self.unrated

    @property
    def record(self) -> float | None:
        """The share of wins among rated votes, by which the record column is sorted."""
        rated = self.wins + self.losses + self.ties
        return self.wins / rated if rated else None

    @property
    def drawn(self) -> tuple[float, float, float] | None:
        """Low, value and high of the drawn interval: the confidence interval, or rating ± 2 RD."""
        if self.kind == "conservative":
            if self.rating is not None and self.rd is not None:
                return self.rating - 2.0 * self.rd, self.rating, self.rating + 2.0 * self.rd
        elif self.low is not None and self.high is not None and self.score is not None:
            return self.low, self.score, self.high
        return None


@dataclass(frozen=True, slots=True)
class IntervalScale:
    """The scale on which all intervals of a page are drawn."""

    least: float
    most: float

    def place(self, value: float) -> float:
        """The position of a value in percent, clamped to the ends."""
        return 100.0 * min(max((value - self.least) / ((self.most - self.least) or 1.0), 0.0), 1.0)


@dataclass(frozen=True, slots=True)
class BoardView:
    """A board as a page shows it."""

    kind: Kind
    lines: tuple[BoardLine, ...]
    #: The number of rows without a search.
    total: int
    #: How many of these are retired.
    retired: int
    scale: IntervalScale

    def places(self, line: BoardLine) -> tuple[str, str, str]:
        """The positions of low, value and high in percent."""
        assert line.drawn is not None
        low, value, high = (f"{self.scale.place(at):.1f}" for at in line.drawn)
        return low, value, high


@dataclass(frozen=True, slots=True)
class SourceComparison:
    """One model on the boards of people and of judges, which are never pooled; ``None`` if it is not on a board."""

    human: BoardLine | None
    judge: BoardLine | None

    @property
    def known(self) -> BoardLine:
        """Its row on people's board, or on judges' if it is only there."""
        found = self.judge if self.human is None else self.human
        assert found is not None
        return found

    @property
    def model(self) -> str:
        return self.known.model

    @property
    def apart(self) -> int | None:
        """How many places lower judges rank it than people do."""
        if self.human is None or self.judge is None or self.human.rank is None or self.judge.rank is None:
            return None
        return self.judge.rank - self.human.rank

    @property
    def beyond(self) -> bool:
        """Whether the two ranges of ranks do not overlap."""
        if self.human is None or self.judge is None:
            return False
        ends = (self.human.rank_low, self.human.rank_high, self.judge.rank_low, self.judge.rank_high)
        low, high, other_low, other_high = ends
        if low is None or high is None or other_low is None or other_high is None:
            return False
        return low > other_high or other_low > high


def full_view(document: BoardDocument, filtered: FilteredBoard | None = None) -> BoardView:
    """All rows of a published or filtered board, in its order."""
    kind: Kind = document.order if filtered is None else "bradley-terry"
    lines = board_lines(document) if filtered is None else _counted(document, filtered)
    return BoardView(
        kind, tuple(lines), len(lines), sum(line.retired for line in lines), interval_scale(lines)
    )


def filtered_view(whole: BoardView, query: BoardQuery) -> BoardView:
    """The view with the rows that a query selects, in its order."""
    retired = whole.retired if query.retired == "show" else 0
    total = whole.total - whole.retired + retired
    return replace(whole, lines=tuple(filter_and_sort(whole.lines, query)), total=total, retired=retired)


def compare_sources(
    human: Sequence[BoardLine], judge: Sequence[BoardLine], query: BoardQuery
) -> list[SourceComparison]:
    """The models of two boards side by side, in the order of people's; those on judges' only come last."""
    other, known = {line.model: line for line in judge}, {line.model for line in human}
    of_people = [SourceComparison(line, other.get(line.model)) for line in filter_and_sort(human, query)]
    return of_people + [
        SourceComparison(None, line) for line in filter_and_sort(judge, query) if line.model not in known
    ]


def board_lines(document: BoardDocument) -> list[BoardLine]:
    """All rows of a published board, in its order; there are no ranks before the first vote."""
    cross = document.cross_check
    checks = {} if cross is None else {row.model: row for row in cross.rows}
    lines = [_published(row, document.order, checks.get(row.model)) for row in document.rows]
    return lines if document.votes else [replace(line, rank=None) for line in lines]


def filter_and_sort(lines: Iterable[BoardLine], query: BoardQuery) -> list[BoardLine]:
    """Filter and sort rows by a query; rows without a value come last."""
    sought = query.q.casefold()
    found = [
        line
        for line in lines
        if sought in line.model.casefold() and (query.retired == "show" or not line.retired)
    ]
    known = [line for line in found if _sort_key(line, query.sort) is not None]
    known.sort(key=lambda line: _sort_key(line, query.sort), reverse=not query.rising)
    return known + [line for line in found if _sort_key(line, query.sort) is None]


def interval_scale(lines: Sequence[BoardLine]) -> IntervalScale:
    """One scale for all rows, determined by rows with a small RD, or by all rows if there are none."""
    drawn = [line.drawn for line in lines if line.drawn is not None]
    narrow = [ends for ends in drawn if ends[2] - ends[0] <= 4.0 * _WIDE_RD_POINTS] or drawn
    if not narrow:
        return IntervalScale(0.0, 1.0)
    return IntervalScale(min(low for low, _, _ in narrow), max(high for _, _, high in narrow))


def floor_percent(share: float | None) -> float | None:
    """A share in whole percent, rounded down, so that 100 % means all."""
    return None if share is None else math.floor(100.0 * share + 1e-9) / 100.0


def digits_to_show(value: float | None, bar: float, usual: int, *, holds: bool) -> int:
    """Decimal digits needed to show that a value misses its threshold; at most two more than usual."""
    if holds or value is None:
        return usual
    enough = (digits for digits in (usual, usual + 1) if round(value, digits) != round(bar, digits))
    return next(enough, usual + 2)


def _sort_key(line: BoardLine, sort: str) -> Any:
    if sort == "model":
        return line.model.casefold()
    return getattr(line, {"rating": "score", "score": "average_score"}.get(sort, sort))


def _published(row: ArenaRow, order: Kind, cross: CrossCheckRow | None) -> BoardLine:
    record, batch = row.record, cross if order == "bradley-terry" else None
    return BoardLine(
        rank=row.rank,
        rank_low=None if cross is None else cross.rank_low,
        rank_high=None if cross is None else cross.rank_high,
        tier=None if cross is None else cross.tier,
        model=row.model,
        badge=None if row.badge is None else row.badge.value,
        retired=not row.enabled,
        proven=bool(row.proven),
        kind=order,
        score=row.score(order),
        rating=row.rating,
        rd=row.rd,
        low=None if batch is None else batch.low,
        high=None if batch is None else batch.high,
        confidence=row.confidence,
        coverage=None if row.coverage is None else row.coverage.strict,
        consistency=row.consistency,
        spread=row.spread,
        average_score=row.average_score,
        wins=record.wins,
        losses=record.losses,
        ties=record.ties,
        unrated=record.both_bad,
        both_bad=record.both_bad if row.quality is None else row.quality.both_bad,
        row=row,
        cross=cross,
    )


def _counted(document: BoardDocument, filtered: FilteredBoard) -> list[BoardLine]:
    """Rows of a filtered board."""
    published = {row.model: row for row in document.rows}
    return [_counted_line(row, published.get(row.model)) for row in filtered.rows]


def _counted_line(row: Row, published: ArenaRow | None) -> BoardLine:
    """The row of a filtered board. A model outside the largest group has no rank."""
    ranked = row if row.group == 0 else None
    return BoardLine(
        rank=None if ranked is None else ranked.rank,
        rank_low=None if ranked is None else ranked.rank_low,
        rank_high=None if ranked is None else ranked.rank_high,
        tier=None if ranked is None else ranked.tier,
        model=row.model,
        badge=None,
        retired=published is not None and not published.enabled,
        proven=False,
        kind="bradley-terry",
        score=None if ranked is None else ranked.rating,
        rating=None,
        rd=None,
        low=None if ranked is None else ranked.low,
        high=None if ranked is None else ranked.high,
        confidence=None,
        coverage=None,
        consistency=None,
        spread=None,
        average_score=None,
        wins=row.wins,
        losses=row.losses,
        ties=row.ties,
        unrated=row.unrated,
        both_bad=row.both_bad,
        row=published,
        cross=None,
    )
