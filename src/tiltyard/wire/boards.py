"""Published boards and weekly reports, without their contents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from pydantic import Field


@dataclass(frozen=True, slots=True)
class SnapshotInfo:
    """A published board, without its contents."""

    snapshot: Annotated[str, Field(description="The SHA-256 of the board's document.")]
    generation: int
    position: int
    votes: int
    evaluated: Annotated[
        bool, Field(description="Whether an evaluation of the rules fell on it; such boards are kept.")
    ]
    citable: Annotated[
        bool,
        Field(
            description="Whether to cite it: it is kept for ever, and no vote was excluded or restored since."
        ),
    ]
    made_at: datetime


@dataclass(frozen=True, slots=True)
class SnapshotList:
    """A page of boards, newest first."""

    snapshots: Sequence[SnapshotInfo]


@dataclass(frozen=True, slots=True)
class ReportInfo:
    """A weekly validity report, without its contents."""

    report: Annotated[str, Field(description="The SHA-256 of the report's document.")]
    since: datetime
    until: datetime
    position: int
    made_at: datetime


@dataclass(frozen=True, slots=True)
class ReportList:
    """Every weekly report, newest first."""

    reports: Sequence[ReportInfo]
