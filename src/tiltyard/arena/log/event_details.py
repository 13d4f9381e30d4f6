"""The JSON details that are stored with an event of the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, TypedDict, final

if TYPE_CHECKING:
    from tiltyard.core.policy.validity.method_document import MethodValues

__all__ = ["EventDetail", "ExclusionDetail", "ShownSeconds", "UndoDetail", "VoteDetail", "undo_detail"]


class ShownSeconds(TypedDict):
    """How many seconds before the vote each response was first on screen."""

    a: float
    b: float


@final
class VoteDetail(TypedDict, total=False):
    """For a vote: ``shown`` if a person cast it, the others if a judge did."""

    shown: ShownSeconds
    pref: float
    judge_model: str


@final
class UndoDetail(TypedDict):
    """For an undo: the position of the vote, the ballot that is open now, and when it expires."""

    vote: int
    ballot: int
    expires_at: str


@final
class ExclusionDetail(TypedDict):
    """For an exclusion, or its restoration."""

    exclusion: int


EventDetail: TypeAlias = "VoteDetail | UndoDetail | ExclusionDetail | MethodValues"


def undo_detail(detail: EventDetail | None) -> UndoDetail:
    """The detail of an event that is an undo."""
    assert detail is not None
    assert "ballot" in detail
    return detail
