"""Converts a board's document to the rows of its page and its downloads."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Literal

from tiltyard.core.board.arena_board import ArenaRow, ShownOrder
from tiltyard.core.board.board_summary import Headline, headline_of
from tiltyard.core.board.cross_check import CrossCheckRow
from tiltyard.core.board.document import BoardDocument, FilteredBoard
from tiltyard.core.board.settled_order import (
    LIKE_THESE,
    PlaceWord,
    Scope,
    claims_nothing,
    place_of,
)
from tiltyard.core.ratings import Finding
from tiltyard.web.pages.board_query import BoardQuery

#: Rows do not determine the scale if it shrinks to less than this without them, and they are few.
_SHRUNK_SCALE_RATIO = 1 / 3
#: The part of all rows that are few.
_FEW_ROWS_RATIO = 0.125
#: Ends that are no further outside than this part of the scale are taken in again.
_MARGIN_RATIO = 0.1


@dataclass(frozen=True, slots=True)
class DrawnInterval:
    """An interval with its estimate, in points."""

    low: float
    estimate: float
    high: float


@dataclass(frozen=True, slots=True)
class BarPosition:
    """Where an interval is drawn, in percent of the scale. An end outside of the scale is cut off at its edge."""

    low: float
    #: ``None`` if the estimate is outside of the scale.
    estimate: float | None
    high: float
    #: Whether the interval goes on to the left, and to the right.
    cut_low: bool
    cut_high: bool


@dataclass(frozen=True, slots=True)
class IntervalScale:
    """The points at the left and the right edge."""

    least: float
    most: float

    def position(self, interval: DrawnInterval) -> BarPosition:
        """Where an interval is drawn."""
        within = self.least <= interval.estimate <= self.most
        return BarPosition(
            low=self._percent(interval.low),
            estimate=self._percent(interval.estimate) if within else None,
            high=self._percent(interval.high),
            cut_low=interval.low < self.least,
            cut_high=interval.high > self.most,
        )

    def _percent(self, points: float) -> float:
        return 100.0 * min(max((points - self.least) / ((self.most - self.least) or 1.0), 0.0), 1.0)


def interval_scale(drawn: Sequence[DrawnInterval]) -> IntervalScale | None:
    """The scale from the lowest end to the highest, without outliers; ``None`` if nothing is drawn.

    An outlier would squash all other bars. So rows do not determine the scale while few of them take more than two
    thirds of it, at either side or at both: at most an eighth of the rows, but one of three rows or more. As few as
    possible are left out, and ends that are hardly outside are taken in again. Bars that reach beyond the scale are cut off at its edge, and marked there.
    """
    if not drawn:
        return None
    by_low = sorted(drawn, key=lambda interval: interval.low)
    by_high = sorted(drawn, key=lambda interval: -interval.high)
    few = max(int(_FEW_ROWS_RATIO * len(drawn)), int(len(drawn) > 2))
    ways = []
    for left, right in product(range(few + 1), repeat=2):
        left_out = {id(interval) for interval in (*by_low[:left], *by_high[:right])}
        if len(left_out) <= few:
            scale = IntervalScale(by_low[left].low, by_high[right].high)
            ways.append((len(left_out), scale.most - scale.least, scale))
    ways.sort(key=lambda way: way[:2])
    _, span, scale = ways[0]
    for _, shorter, without in ways:
        if shorter < _SHRUNK_SCALE_RATIO * span:
            span, scale = shorter, without
    margin = _MARGIN_RATIO * span
    return IntervalScale(
        min(interval.low for interval in drawn if interval.low >= scale.least - margin),
        max(interval.high for interval in drawn if interval.high <= scale.most + margin),
    )


#: The order of the board, which is also what the rating column shows.
Kind = ShownOrder


@dataclass(frozen=True, slots=True)
class BoardLine:
    """The row of one model; missing values are ``None``."""

    #: The place in the published order, which claims nothing; and the ranks and the tier that may be claimed.
    rank: int | None
    rank_low: int | None
    rank_high: int | None
    tier: int | None
    model: str
    badge: str | None
    retired: bool
    #: For which prompts it is settled above the next row; the wider scope, if for both.
    above_next: Scope | None
    #: Whether its place is settled; ``None`` where no rank is claimed.
    place: PlaceWord | None
    kind: Kind
    #: The score by which it is ranked; raw rating and RD; the Bradley–Terry rating with its interval.
    score: float | None
    rating: float | None
    rd: float | None
    volatility: float | None
    bradley_terry: float | None
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
    #: The row of the board, and of the cross-check, if there is one.
    row: ArenaRow
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
    def one_sided(self) -> Literal["won", "lost"] | None:
        """Whether it won, or lost, every rated vote: then there is no Bradley–Terry rating, and no order can be settled."""
        if self.bradley_terry is not None or self.ties or bool(self.wins) == bool(self.losses):
            return None
        return "won" if self.wins else "lost"

    @property
    def taken_off(self) -> float | None:
        """The confidence as it is shown: where the row shows rating and score, the difference of what it shows."""
        if self.kind != "conservative" or self.rating is None or self.score is None:
            return self.confidence
        return float(f"{self.rating:.0f}") - float(f"{self.score:.0f}")

    @property
    def drawn(self) -> DrawnInterval | None:
        """The interval that is drawn: that of the Bradley–Terry rating, whatever the board is ordered by."""
        if self.bradley_terry is None or self.low is None or self.high is None:
            return None
        return DrawnInterval(self.low, self.bradley_terry, self.high)


@dataclass(frozen=True, slots=True)
class BoardView:
    """A board as a page shows it."""

    kind: Kind
    #: Whether the arena's phase shows what the ranking policy computes.
    seen: bool
    lines: tuple[BoardLine, ...]
    #: The number of rows without a search.
    total: int
    #: How many of these are retired.
    retired: int
    #: ``None`` if no row has an interval.
    scale: IntervalScale | None
    #: What may be said of the order in one sentence; ``None`` in phase 1.
    claim: Finding | None
    #: Who is first, and whether that is settled.
    headline: Headline

    @property
    def unordered(self) -> bool:
        """Whether no order at all may be claimed, whatever badges say."""
        return claims_nothing(self.claim)

    @property
    def draws_bars(self) -> bool:
        """Whether rows have bars: only where the table shows the rating that these are of."""
        return self.kind == "bradley-terry" and self.scale is not None

    @property
    def tiers(self) -> int:
        return max((line.tier or 0 for line in self.lines), default=0)

    @property
    def clipped(self) -> bool:
        """Whether any interval reaches beyond the scale."""
        bars = [self.bar(line) for line in self.lines]
        return any(bar is not None and (bar.cut_low or bar.cut_high) for bar in bars)

    def bar(self, line: BoardLine) -> BarPosition | None:
        """Where the interval of a row is drawn; ``None`` if it has none."""
        return None if line.drawn is None or self.scale is None else self.scale.position(line.drawn)


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
        """How many ranks lower judges rank it than people do, at least; 0 if the ranges of ranks overlap.

        Where a board claims no ranges, its place counts.
        """
        human, judge = _ranks(self.human), _ranks(self.judge)
        if human is None or judge is None:
            return None
        return max(judge[0] - human[1], 0) + min(judge[1] - human[0], 0)

    @property
    def beyond(self) -> bool:
        """Whether both boards claim ranges of ranks, and these do not overlap."""
        claimed = (line is not None and line.rank_low is not None for line in (self.human, self.judge))
        return all(claimed) and bool(self.apart)


def _ranks(line: BoardLine | None) -> tuple[int, int] | None:
    """The lowest and the highest rank that is claimed for a row, or its place alone."""
    if line is None or line.rank is None:
        return None
    if line.rank_low is None or line.rank_high is None:
        return line.rank, line.rank
    return line.rank_low, line.rank_high


def full_view(document: BoardDocument, filtered: FilteredBoard | None = None) -> BoardView:
    """All rows of a published or filtered board, in its order."""
    shown = document if filtered is None else filtered
    lines = board_lines(shown)
    return BoardView(
        shown.order,
        shown.phase > 1,
        tuple(lines),
        len(lines),
        sum(line.retired for line in lines),
        interval_scale([line.drawn for line in lines if line.drawn is not None]),
        shown.settled,
        headline=headline_of(shown),
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


def board_lines(document: BoardDocument | FilteredBoard) -> list[BoardLine]:
    """All rows of a published or filtered board, in its order; there are no ranks before the first vote."""
    cross = document.cross_check
    checks = {} if cross is None else {row.model: row for row in cross.rows}
    ranked = sum(row.rank_low is not None for row in document.rows)
    lines = [_published(row, document.order, checks.get(row.model), ranked) for row in document.rows]
    if document.votes:
        return lines
    nothing: dict[str, Any] = dict.fromkeys(("rank", "rank_low", "rank_high", "tier", "place"))
    return [replace(line, **nothing) for line in lines]


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


def _published(row: ArenaRow, order: Kind, cross: CrossCheckRow | None, ranked: int) -> BoardLine:
    record = row.record
    return BoardLine(
        rank=row.rank,
        rank_low=row.rank_low,
        rank_high=row.rank_high,
        tier=row.tier,
        model=row.model,
        badge=None if row.badge is None else row.badge.value,
        retired=not row.enabled,
        # Who is settled for prompts like these is settled for these as well.
        above_next=LIKE_THESE if LIKE_THESE in row.settled else next(iter(row.settled), None),
        place=None
        if row.rank_low is None or row.rank_high is None
        else place_of(row.rank_low, row.rank_high, ranked),
        kind=order,
        score=row.score(order),
        rating=row.rating,
        rd=row.rd,
        volatility=row.volatility,
        bradley_terry=row.bradley_terry,
        low=None if cross is None else cross.low,
        high=None if cross is None else cross.high,
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
