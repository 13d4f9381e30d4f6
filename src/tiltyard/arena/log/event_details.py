"""The JSON details that are stored with an event of the log."""

from __future__ import annotations

from typing import NotRequired, TypeAlias, TypedDict, cast, final

from tiltyard.core.policy.state.rating_fold import MethodValues


class ShownSeconds(TypedDict):
    """How many seconds before the vote each response was first on screen."""

    a: float
    b: float


@final
class ServedDetail(TypedDict, total=False):
    """For a matchup that is served or prefetched: what its voter had said to be able to judge, if anything.

    ``resting``: models of a live arena that could not answer at that time.
    """

    languages: list[str]
    categories: list[str]
    resting: list[int]


@final
class VoteDetail(TypedDict, total=False):
    """For a vote: ``shown`` and ``recognized`` if a person cast it, ``pref`` and ``judge_model`` if a judge did."""

    shown: ShownSeconds
    #: Whether the voter said to know a model by its response: the vote is not blind then.
    recognized: bool
    pref: float
    judge_model: str
    #: Of an imported vote: its number in the file.
    row: int
    #: Of an imported vote: when it was cast, if the file says so.
    cast_at: str


@final
class SkipDetail(TypedDict, total=False):
    """For a skip: why, and whether the voter said to know a model by its response."""

    reason: str
    recognized: bool


@final
class VoidDetail(TypedDict):
    """For the expiry of a live battle in which an answer failed: why, in our own words."""

    void: str


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
    #: If a person's data were erased: serials of their votes that could still have been undone.
    erased: NotRequired[list[int]]


@final
class PanelDetail(TypedDict):
    """For an expert panel that was opened: from this and the responses at that position, its assignment follows."""

    panel: int
    seed: int
    overlap: int
    pairs_per_prompt: int | None
    #: Numbers of prompts and models, and the raters' sessions in the order of their numbers.
    prompts: list[int]
    models: list[int]
    sessions: list[int]


@final
class PanelClosedDetail(TypedDict):
    """For an expert panel that was closed."""

    panel: int


@final
class CrowdChangedDetail(TypedDict):
    """For a change of the crowd: the evidence."""

    #: Positions of the first and the last vote of the span in which it was found, and how many votes that are.
    since: int
    until: int
    votes: int
    #: By how many rating points the model's results shifted, and the natural logarithm of the evidence and of its bar.
    shift: float
    log_evidence: float
    bar: float
    #: The sessions that made the shift, those that did most first; their votes are held.
    sessions: list[int]


@final
class CrowdExplainedDetail(TypedDict):
    """For a change of the crowd that is explained: the position of its event, and why."""

    change: int
    reason: str


EventDetail: TypeAlias = (
    "ServedDetail | VoteDetail | SkipDetail | VoidDetail | UndoDetail | ExclusionDetail | PanelDetail "
    "| PanelClosedDetail | CrowdChangedDetail | CrowdExplainedDetail | MethodValues"
)


def erased_serials(detail: EventDetail | None) -> list[int] | None:
    """Of an exclusion by which a person's data were erased: the serials in its detail; ``None`` for any other."""
    return cast("ExclusionDetail", detail or {}).get("erased")


def undo_detail(detail: EventDetail | None) -> UndoDetail:
    assert detail is not None
    assert "ballot" in detail
    return detail
