"""What a board says while the results of a model have shifted by more than chance explains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tiltyard.core.board.arena_board import ArenaBoard
from tiltyard.core.ratings import Finding
from tiltyard.core.ratings.sentences import first_of

__all__ = ["CrowdChange", "hold_for_crowd"]


@dataclass(frozen=True, slots=True)
class CrowdChange:
    """A change that no operator has explained yet: of a model, in a group of votes (`VOTE_GROUPS`)."""

    model: str
    group: str


def hold_for_crowd(board: ArenaBoard, changes: Sequence[CrowdChange]) -> ArenaBoard:
    """The board with these changes stated, and not official while there are any."""
    if not changes or board.status is None:
        return board
    said = [{"case": change.group, "model": change.model} for change in changes]
    found = [Finding("crowd-changed", first_of("changes", said))]
    if board.status == "official":
        found.insert(0, Finding("official-held", {"case": "crowd"}))
    return replace(
        board,
        status="calibrating",
        official_since=None,
        rows=tuple(replace(row, official=False) for row in board.rows),
        findings=(*found, *board.findings),
    )
