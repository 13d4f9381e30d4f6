"""A board of human ratings with one more row: a model that a judge placed among them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tiltyard.core.battles import Table
from tiltyard.core.board.board_rows import Board, Row
from tiltyard.core.board.win_rates import scoring_of
from tiltyard.core.ratings.judge_placement import JudgePlacement
from tiltyard.core.ratings.pairs import count_records
from tiltyard.core.ratings.scoring import Scoring

__all__ = ["PlacedModel", "placed_board"]


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
    own = _row(placed, scoring_of(board.method))
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


def _row(placed: PlacedModel, scoring: Scoring) -> Row:
    found, judged = placed.placement, placed.judged
    k = judged.models.index(found.model)
    record = count_records(judged.counts, len(judged.models), scoring)
    rated = found.group >= 0
    return Row(
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


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
