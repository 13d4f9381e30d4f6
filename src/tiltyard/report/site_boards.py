"""What a published site shows of a run, and what it may say about first place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tiltyard.core.ratings.findings import Finding
from tiltyard.report.ab_report import ABReport

FirstPlaceCase = Literal["unclaimed", "too-few", "nothing", "first", "shared"]

#: So many of the models that share first place are named in a sentence.
_NAMED_MODEL_COUNT = 5


@dataclass(frozen=True, slots=True)
class SiteRow:
    """One model of a board."""

    model: str
    rating: float | None
    low: float | None
    high: float | None
    rank_low: int | None
    rank_high: int | None
    tier: int | None
    #: Models of one group may be compared; ``None`` belongs to none.
    group: int | None
    placed: str | None = None


@dataclass(frozen=True, slots=True)
class SiteBoard:
    """A board of a run; ``name`` is ``None`` if it is the only one."""

    name: str | None
    rows: tuple[SiteRow, ...]
    level: float | None
    scope: str | None
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class SiteRun:
    """A published run. ``name`` is the name of its folder, archive and badge on the site."""

    name: str
    title: str
    method: str
    boards: tuple[SiteBoard, ...]
    battles: int
    models: int
    prompts: int | None
    #: When the run was written, as a date.
    date: str | None
    manifest_sha256: str
    archive_bytes: int
    #: The field by which the boards are divided, if they are.
    by: str | None
    #: The name of the board that sums up the others, if there is one.
    overall: str | None
    #: Whether every number was recomputed before it was published; else only hashes were checked.
    recomputed: bool
    #: The result of `tiltyard ab`; its boards are not shown, because their ranks hold for one look only.
    comparison: ABReport | None = None


@dataclass(frozen=True, slots=True)
class FirstPlace:
    """Who is first among the comparable models of a board, by their ranges of ranks."""

    case: FirstPlaceCase
    models: tuple[str, ...]
    #: Models that are ranked together, and their tiers.
    ranked: int
    tiers: int
    #: Models for which no order is claimed: without a rating, not comparable with these, or placed by a judge only.
    apart: int


def first_place(board: SiteBoard) -> FirstPlace:
    """Read first place off the ranges of ranks; nothing else is claimed."""
    rows = [row for row in board.rows if row.group == 0]
    ranked = [row for row in rows if row.rank_low is not None]
    first = [row for row in ranked if row.rank_low == 1]
    # The ranks of the others do not count a placed model.
    ahead = [row for row in first if row.placed is not None and row.rank_high == 1]
    models = tuple(row.model for row in ahead or first)
    case: FirstPlaceCase
    if len(rows) < 2:
        case, models = "too-few", ()
    elif board.level is None or not ranked:
        case, models = "unclaimed", ()
    elif all(row.rank_low == 1 for row in ranked):
        case = "nothing"
    else:
        case = "first" if len(models) == 1 else "shared"
    tiers = len({row.tier for row in ranked if row.tier is not None})
    return FirstPlace(case, models, len(ranked), tiers, len(board.rows) - len(ranked))


def first_place_sentence(board: SiteBoard) -> str:
    """What a board settles, in one or two sentences."""
    found = first_place(board)
    if found.case == "too-few":
        sentence = "Fewer than two models can be compared, so there is no order."
    elif found.case == "unclaimed":
        sentence = "No order is claimed: these ratings have no intervals."
    elif found.case == "nothing":
        sentence = "No model can be told apart from another."
    elif found.case == "first":
        others = "every other model" if not found.apart else f"the other {found.ranked - 1}"
        sentence = f"{found.models[0]} is first, told apart from {others}."
    else:
        sentence = f"{len(found.models)} models share first place: {_listed(found.models)}."
    if found.tiers > 1:
        sentence += f" The {found.ranked} models form {found.tiers} tiers."
    if found.apart and found.ranked:
        sentence += f" No order is claimed for {found.apart} other{'' if found.apart == 1 else 's'}."
    return sentence


def _listed(names: Sequence[str]) -> str:
    if len(names) > _NAMED_MODEL_COUNT:
        return f"{', '.join(names[:_NAMED_MODEL_COUNT])} and {len(names) - _NAMED_MODEL_COUNT} more"
    return f"{', '.join(names[:-1])} and {names[-1]}"


def headline_board(run: SiteRun) -> SiteBoard | None:
    """The board that speaks for the whole run; ``None`` if several boards stand side by side."""
    if len(run.boards) == 1:
        return run.boards[0]
    return next((board for board in run.boards if board.name == run.overall), None)


def result_sentence(run: SiteRun) -> str:
    """The first sentence about a run."""
    if run.comparison is not None:
        return run.comparison.verdict
    board = headline_board(run)
    if board is not None:
        return first_place_sentence(board)
    return f"{len(run.boards)} boards, by {run.by}." if run.boards else "No battle was rated."
