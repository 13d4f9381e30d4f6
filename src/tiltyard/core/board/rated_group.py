"""A group of battles with everything that was found out about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tiltyard.core.battles import Table
from tiltyard.core.board.board_rows import Board
from tiltyard.core.board.placed_board import PlacedModel
from tiltyard.core.ratings import Ratings
from tiltyard.core.ratings.fit_check import FitCheck, Prediction
from tiltyard.core.ratings.flips import Flip
from tiltyard.core.ratings.ranks import Ranks

__all__ = ["RatedGroup"]


@dataclass(frozen=True)
class RatedGroup:
    """One group of battles (``name`` is ``None`` for all of them), rated and checked."""

    name: str | None
    table: Table
    ratings: Ratings
    ranks: Ranks | None
    board: Board
    fit: FitCheck | None = None
    flip: Flip | None = None
    #: The same ratings with bootstrap replicates, where they were asked for.
    bootstrap: Ratings | None = None
    prediction: Prediction | None = None
    #: Elo ratings under several values of K, by K.
    sweep: Mapping[float, Ratings] = field(default_factory=dict)
    #: The model that a judge placed: the ratings are of the others, by people; the board has both.
    placed: PlacedModel | None = None
