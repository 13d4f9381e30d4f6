"""A board of some votes as one typed value: those on some prompts, or with excluded ones counted.

It is made by the method of the whole board, from its own votes alone, and claims what these settle. It has no badges, and
is never official.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from tiltyard.core.board.arena_board import ArenaRow, FirstPlaceMargin, ShownOrder
from tiltyard.core.board.cross_check import CrossCheck
from tiltyard.core.board.document import BoardMethod, canonical_json, parsed_object, row_to_dict
from tiltyard.core.board.plain_values import from_plain, to_plain
from tiltyard.core.ratings import Finding
from tiltyard.errors import InputError

__all__ = ["FILTERED_FORMAT", "FilteredBoard", "IdentityFilter", "LaneFilter", "LeftOutVotes", "PromptFilter"]

FILTERED_FORMAT = "tiltyard-filtered-board/2"


#: What becomes of votes that the official board leaves out: excluded ones are counted, or all: also those that are not blind,
#: came before a look at both responses, or wait.
LeftOutVotes = Literal["left-out", "counted", "all"]
#: Of a live arena: with or without battles in which a prompt asks who answers, or an answer says it.
IdentityFilter = Literal["with", "without"]
#: All votes, or only those on matchups of the exploration lane, whose pairs are chosen at random.
LaneFilter = Literal["all", "exploration"]


@dataclass(frozen=True, slots=True)
class PromptFilter:
    """Which prompts: those of a category, of a language, or of any; whether talk about who answers is left out; which lane."""

    category: str | None
    language: str | None
    identity: IdentityFilter = "with"
    lane: LaneFilter = "all"


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
    #: Votes that the operator excluded, or all that the official board leaves out.
    excluded: LeftOutVotes
    #: How many prompts of this filter had responses, and how many votes they have.
    prompts: int
    votes: int
    order: ShownOrder
    phase: int
    #: What is settled about the order, as one sentence; ``None`` in phase 1.
    settled: Finding | None
    #: How many votes would change first place; ``None`` with fewer than two ranked models.
    first_place: FirstPlaceMargin | None
    cross_check: CrossCheck | None
    rows: tuple[ArenaRow, ...]
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class FilteredBoard(_Counted):
    """A board of some of the votes behind a published board."""

    method: BoardMethod

    @classmethod
    def from_json(cls, written: str | bytes) -> FilteredBoard:
        """Read a document; `InputError` if it is none."""
        said: Mapping[str, Any] = parsed_object(written, FILTERED_FORMAT)
        try:
            method = BoardMethod.from_dict(said["method"])
        except (KeyError, TypeError, AttributeError) as error:
            raise InputError(f"a filtered board's document cannot be read: {error!r}") from None
        counted = from_plain(_Counted, said)
        shown = {part.name: getattr(counted, part.name) for part in fields(_Counted)}
        return cls(**shown, method=method)

    def to_dict(self) -> dict[str, object]:
        """Plain values for JSON."""
        counted = {part.name: to_plain(getattr(self, part.name)) for part in fields(_Counted)}
        return {
            **counted,
            "format": FILTERED_FORMAT,
            "rows": [row_to_dict(row) for row in self.rows],
            "method": to_plain(self.method.to_dict()),
        }

    def to_json(self) -> bytes:
        """The bytes that are sent and hashed."""
        return canonical_json(self.to_dict())
