"""What an event of the log says beside its numbers, as the JSON that is stored with it."""

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
    """Of a vote: ``shown`` of a person's, the others of a judge's."""

    shown: ShownSeconds
    pref: float
    judge_model: str


@final
class UndoDetail(TypedDict):
    """Of an undo: the position of the vote, which ballot is open now, and until when."""

    vote: int
    ballot: int
    expires_at: str


@final
class ExclusionDetail(TypedDict):
    """Of an exclusion, or of its restoration."""

    exclusion: int


EventDetail: TypeAlias = "VoteDetail | UndoDetail | ExclusionDetail | MethodValues"


def undo_detail(detail: EventDetail | None) -> UndoDetail:
    """The detail of an event that is an undo."""
    assert detail is not None
    assert "ballot" in detail
    return detail
