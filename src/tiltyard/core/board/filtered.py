"""A board of some votes as one typed value: those on some prompts, or with excluded ones counted."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

from tiltyard.core.board.board_rows import Row
from tiltyard.core.board.document import batch_from_dict, batch_to_dict, canonical_json, parsed_object
from tiltyard.core.board.plain_values import from_plain, to_plain
from tiltyard.core.ratings import BradleyTerry, Finding
from tiltyard.errors import InputError

__all__ = ["FILTERED_FORMAT", "FilteredBoard", "PromptFilter"]

FILTERED_FORMAT = "tiltyard-filtered-board/1"


@dataclass(frozen=True, slots=True)
class PromptFilter:
    """Which prompts: those of a category, of a language, or of any."""

    category: str | None
    language: str | None


@dataclass(frozen=True, slots=True)
class _Counted:
    """What a filtered board says in plain values."""

    arena: str
    source: str
    #: The published board whose votes were counted.
    snapshot: str
    position: int
    generation: int
    filter: PromptFilter
    #: Votes that the operator excluded.
    excluded: Literal["left-out", "counted"]
    #: How many prompts there are of this filter, and how many votes on them.
    prompts: int
    votes: int
    order: Literal["bradley-terry"]
    level: float | None
    scope: str | None
    clusters: str | None
    n_clusters: int | None
    rows: tuple[Row, ...]
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class FilteredBoard(_Counted):
    """Batch Bradley–Terry on some of the votes behind a published board. It is never official."""

    method: BradleyTerry

    @classmethod
    def from_json(cls, written: str | bytes) -> FilteredBoard:
        """Read a document; `InputError` if it is none."""
        said = parsed_object(written, FILTERED_FORMAT)
        try:
            method = batch_from_dict(said["method"])
        except (KeyError, TypeError, AttributeError) as error:
            raise InputError(f"a filtered board's document cannot be read: {error!r}") from None
        counted = from_plain(_Counted, said)
        shown = {part.name: getattr(counted, part.name) for part in fields(_Counted)}
        return cls(**shown, method=method)

    def to_dict(self) -> dict[str, object]:
        """Plain values for JSON."""
        counted = {part.name: to_plain(getattr(self, part.name)) for part in fields(_Counted)}
        return {**counted, "format": FILTERED_FORMAT, "method": to_plain(batch_to_dict(self.method))}

    def to_json(self) -> bytes:
        """The bytes that are sent and hashed."""
        return canonical_json(self.to_dict())
