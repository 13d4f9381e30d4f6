"""Boards of `rate`: rows best first, a row for a model that a judge placed among them, and the group that was rated."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tiltyard.core.battles import Table
from tiltyard.core.board.win_rates import BASELINE_COLUMNS, BaselineWinRates, scoring_of
from tiltyard.core.ratings import Finding, RatingMethod, Ratings
from tiltyard.core.ratings.category_shrinkage import shrink_categories
from tiltyard.core.ratings.fit_check import FitCheck, Prediction
from tiltyard.core.ratings.judge_placement import JudgePlacement, PlacementLabel
from tiltyard.core.ratings.pairs import count_records
from tiltyard.core.ratings.ranks import Flip, Ranks

#: A rating of a category, moved towards those of all categories, and its interval.
SHRUNK = ("shrunk", "shrunk_low", "shrunk_high")
#: The columns of a board as `Ratings.to_columns` and the artifacts name them, and the field of each.
_COLUMNS = {
    "rank": "rank",
    "model": "model",
    "rating": "rating",
    "ci_low": "low",
    "ci_high": "high",
    "rank_low": "rank_low",
    "rank_high": "rank_high",
    "tier": "tier",
    "group": "group",
    "rd": "rd",
    "placed": "placed",
    "battles": "battles",
    "wins": "wins",
    "losses": "losses",
    "ties": "ties",
    "both_bad": "both_bad",
    **dict(zip(SHRUNK, SHRUNK, strict=True)),
}
#: Of a win rate: what a board has already, and words.
_NOT_SHOWN = ("model", "notes")
_OPTIONAL = ("ci_low", "ci_high", "rank_low", "rank_high", "tier", "rd", "placed", *SHRUNK)


@dataclass(frozen=True, slots=True)
class Row:
    """One model. What the battles do not support is ``None``, never a number."""

    #: Place among the models of its group, 1 first.
    rank: int | None
    model: str
    rating: float | None
    low: float | None
    high: float | None
    rank_low: int | None
    rank_high: int | None
    tier: int | None
    #: Models of one group may be compared; ``None`` belongs to none.
    group: int | None
    wins: int
    losses: int
    ties: int
    #: Battles whose responses were both called bad: as the outcome, or by a judge's flag beside it.
    both_bad: int
    #: Battles that the ratings rest on, those that a judge flagged among them.
    battles: int
    #: Battles that rate nobody: their outcome is ``both_bad``, and the method does not count it as a tie.
    unrated: int
    #: Glicko-2's own bookkeeping of uncertainty; not an interval.
    rd: float | None = None
    #: How a judge placed it among models that people have rated; ``None`` for a model rated like the others.
    placed: PlacementLabel | None = None
    #: On the board of a category: the rating moved towards those of all categories, with its interval. Ranks are of `rating`.
    shrunk: float | None = None
    shrunk_low: float | None = None
    shrunk_high: float | None = None

    @property
    def both_bad_rate(self) -> float | None:
        """Share of all the model's battles in which both answers were called bad."""
        total = self.battles + self.unrated
        return self.both_bad / total if total else None


@dataclass(frozen=True, slots=True)
class Board:
    """Rows with the method that made them and what its intervals speak of."""

    rows: tuple[Row, ...]
    method: RatingMethod
    n_battles: int
    level: float | None
    scope: str | None
    clusters: str | None
    n_clusters: int | None
    #: What the intervals rest on: ``120 prompts × 150 voters, none above 10 %``.
    basis: str | None
    findings: tuple[Finding, ...]
    #: Win rates against one of the models, where one was chosen.
    baseline: BaselineWinRates | None = None

    def parameters(self) -> dict[str, object]:
        """The method's parameters by name."""
        return parameters_of(self.method)

    def to_columns(self) -> dict[str, list[Any]]:
        """Plain columns, best first; intervals and ranks only where the method gives them.

        Win rates against a baseline are further columns; those of the baseline itself are ``None``.
        """
        columns = {column: [getattr(row, name) for row in self.rows] for column, name in _COLUMNS.items()}
        absent = [name for name in _OPTIONAL if all(value is None for value in columns[name])]
        given = {name: values for name, values in columns.items() if name not in absent}
        return given | self._baseline_columns()

    def _baseline_columns(self) -> dict[str, list[Any]]:
        if self.baseline is None:
            return {}
        rates = {row.model: row for row in self.baseline.rows}
        return {
            f"baseline_{name}" if name in ("battles", "prompts") else name: [
                getattr(rates.get(row.model), name, None) for row in self.rows
            ]
            for name in BASELINE_COLUMNS
            if name not in _NOT_SHOWN and (self.baseline.has_lengths or "length" not in name)
        }


def parameters_of(method: RatingMethod) -> dict[str, object]:
    return {field.name: getattr(method, field.name) for field in dataclasses.fields(method)}  # type: ignore[arg-type]


def make_board(ratings: Ratings, ranks: Ranks | None, *, findings: tuple[Finding, ...] = ()) -> Board:
    """Rows of these ratings; ``findings`` are those of other checks, shown after the method's own."""
    interval = ratings.interval
    rows: list[Row] = []
    place: dict[int, int] = {}
    for k in ratings.order():
        group = int(ratings.group[k])
        rated = group >= 0 and ratings.rating[k] == ratings.rating[k]
        if rated:
            place[group] = place.get(group, 0) + 1
        rows.append(
            Row(
                rank=place[group] if rated else None,
                model=ratings.models[k],
                rating=_number(ratings.rating[k]),
                low=None if interval is None else _number(interval.low[k]),
                high=None if interval is None else _number(interval.high[k]),
                rank_low=int(ranks.low[k]) if ranks is not None and rated else None,
                rank_high=int(ranks.high[k]) if ranks is not None and rated else None,
                tier=int(ranks.tier[k]) if ranks is not None and rated else None,
                group=group if rated else None,
                wins=int(ratings.record.wins[k]),
                losses=int(ratings.record.losses[k]),
                ties=int(ratings.record.ties[k]),
                both_bad=int(ratings.record.both_bad[k]),
                battles=int(ratings.record.battles[k]),
                unrated=int(ratings.record.unrated[k]),
                rd=_number(ratings.extras["rd"][k]) if "rd" in ratings.extras and rated else None,
            )
        )
    return Board(
        rows=tuple(rows),
        method=ratings.method,
        n_battles=int(ratings.record.battles.sum() + ratings.record.unrated.sum()) // 2,
        level=None if interval is None else interval.level,
        scope=None if interval is None else interval.scope,
        clusters=None if interval is None else interval.clusters,
        n_clusters=None if interval is None else interval.n_clusters,
        basis=None if interval is None else interval.basis,
        findings=(*ratings.findings, *findings),
    )


def with_shrunk(groups: Sequence[RatedGroup]) -> list[RatedGroup]:
    """The groups with moved ratings in their rows, where the groups are enough to tell how they differ."""
    level = getattr(groups[0].ratings.method, "level", 0.95)
    moved = shrink_categories([one.ratings for one in groups], level)
    if moved is None:
        return list(groups)
    found = []
    for rated, one in zip(groups, moved, strict=True):
        values = np.stack([one.rating, one.low, one.high], axis=1)
        rows = []
        for row in rated.board.rows:
            rating, low, high = map(_number, values[rated.ratings.models.index(row.model)])
            rows.append(replace(row, shrunk=rating, shrunk_low=low, shrunk_high=high))
        found.append(replace(rated, board=replace(rated.board, rows=tuple(rows))))
    return found


def _number(value: float) -> float | None:
    return None if value != value else float(value)


@dataclass(frozen=True, slots=True, eq=False)
class PlacedModel:
    """A placement, the human battles that it is made among, and the judge's."""

    placement: JudgePlacement
    human: Table
    judged: Table


def placed_board(board: Board, placed: PlacedModel) -> Board:
    """The human board with the placed model's row where its rating belongs; all other rows stay as they are."""
    model = placed.placement.model
    others = [row for row in board.rows if row.model != model]
    found, judged = placed.placement, placed.judged
    k = judged.models.index(found.model)
    record = count_records(judged.counts, len(judged.models), scoring_of(board.method))
    rated = found.group >= 0
    own = Row(
        rank=found.rank,
        model=found.model,
        rating=_number(found.rating),
        low=_number(found.low),
        high=_number(found.high),
        rank_low=found.rank_low,
        rank_high=found.rank_high,
        tier=None,
        group=found.group if rated else None,
        wins=int(record.wins[k]),
        losses=int(record.losses[k]),
        ties=int(record.ties[k]),
        both_bad=int(record.both_bad[k]),
        battles=int(record.battles[k]),
        unrated=int(record.unrated[k]),
        placed=found.label if rated else None,
    )
    at = next((k for k, row in enumerate(others) if _follows(row, own)), len(others))
    return replace(
        board,
        rows=(*others[:at], own, *others[at:]),
        n_battles=board.n_battles + own.battles + own.unrated,
        findings=(*board.findings, *placed.placement.findings),
    )


def _follows(row: Row, own: Row) -> bool:
    """Whether a row of the human board stands below the placed model's."""
    if own.rating is None or row.rating is None or row.group != own.group:
        return own.group is not None and (row.group is None or row.group > own.group)
    return row.rating < own.rating


@dataclass(frozen=True)
class RatedGroup:
    """One group of battles (``name`` is ``None`` for all of them), rated and checked."""

    name: str | None
    table: Table
    ratings: Ratings
    ranks: Ranks | None
    board: Board
    fit: FitCheck | None = None
    #: How few battles, prompts or voters first place rests on; for a report.
    flips: tuple[Flip, ...] = ()
    #: The same ratings with bootstrap replicates, where they were asked for.
    bootstrap: Ratings | None = None
    prediction: Prediction | None = None
    #: Elo ratings under several values of K, by K.
    sweep: Mapping[float, Ratings] = field(default_factory=dict)
    #: The model that a judge placed: the ratings are of the others, by people; the board has both.
    placed: PlacedModel | None = None
