"""The texts of a board's cells, and sentences about it, for all the forms in which it is shown."""

from __future__ import annotations

import numpy as np

from tiltyard.core.board import Board, RatedGroup, Row
from tiltyard.core.ratings.ranks import Flip
from tiltyard.report.terminal_escape import escape_controls

_TITLES = {"bradley-terry": "Bradley–Terry", "elo": "Elo", "glicko-2": "Glicko-2"}
#: How many of the models that may be first a sentence names.
_NAMED_MODELS = 3


def method_title(name: str) -> str:
    return _TITLES.get(name, name)


def title_parts(board: Board) -> list[str]:
    """Method, battles and models."""
    rated = sum(row.group is not None for row in board.rows)
    return [method_title(board.method.name), _counted(board.n_battles, "battle"), _counted(rated, "model")]


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def model_text(row: Row) -> str:
    return row.model if row.placed is None else f"{row.model} ({row.placed})"


def rating_text(value: float | None) -> str:
    return "–" if value is None else f"{value:.0f}"


def interval_text(row: Row) -> str:
    if row.low is None or row.high is None:
        return ""
    return f"{row.low:.0f} – {row.high:.0f}"


def rank_range(low: int | None, high: int | None) -> str:
    """The ranks that are not ruled out: ``1–3``, or ``2`` if there is only one."""
    if low is None:
        return ""
    return str(low) if low == high else f"{low}–{high}"


def flip_sentence(flip: Flip) -> str:
    """How many battles the first place depends on."""
    share = flip.votes / flip.of
    return (
        f"First place: leaving out {flip.votes:,} of {flip.of:,} battles ({share:.2%}) "
        f"would put {escape_controls(flip.rival)} above {escape_controls(flip.first)}."
    )


def left_out_sentence(board: Board, top: int | None) -> str:
    """How many models are below the first ``top`` that are shown; empty if none is."""
    below = 0 if top is None else max(len(board.rows) - top, 0)
    return (
        f"{below:,} more model{'s' if below > 1 else ''} of {len(board.rows):,} not shown." if below else ""
    )


def settled_sentence(rated: RatedGroup) -> str:
    """How much of the order is settled, and who may be first; empty where nothing can be said."""
    ranks, rows = rated.ranks, [row for row in rated.board.rows if row.group == 0]
    if ranks is None or len(rows) < 2:
        return ""
    together = rated.ratings.group == 0
    settled = int(np.asarray(ranks.above)[np.ix_(together, together)].sum())
    orders = int(together.sum() * (together.sum() - 1)) // 2
    said = f"{settled:,} of {orders:,} orders of two models are settled at {100 * ranks.level:g}%."
    return f"{said} {_first_place([row.model for row in rows if row.rank_low == 1])}"


def _first_place(models: list[str]) -> str:
    if len(models) == 1:
        return f"First: {models[0]}."
    named, more = models[:_NAMED_MODELS], len(models) - _NAMED_MODELS
    if more > 0:
        return f"First place is open between {', '.join(named)} and {more} more."
    return f"First place is open between {', '.join(named[:-1])} and {named[-1]}."
