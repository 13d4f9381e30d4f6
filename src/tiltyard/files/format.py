"""What a format is: how its files are known, and how its records become battles."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["UNREADABLE", "BattleFormat", "Converted", "Settled", "SkippedRecord"]

#: Why a record without two verdicts is no battle.
UNREADABLE = "a verdict of the judge could not be read"


@dataclass(frozen=True)
class SkippedRecord:
    """A record that is no battle, and why; it is counted and shown."""

    reason: str


#: A record as a row of canonical fields, or the reason why there is none.
Converted = Mapping[str, Any] | SkippedRecord
#: The same with the place it was found at.
Settled = tuple[str, Converted]


@dataclass(frozen=True, kw_only=True)
class BattleFormat:
    """One format of battle files.

    ``gives`` are the canonical columns that ``convert`` fills, each with the header that it needs;
    a file without that header lacks the column. Other headers that it looks at are in
    ``also_reads``. Our own formats name none: every header is read, and unknown ones are kept.
    ``answers`` gives the two answers of a record, ``answers_in`` names their headers. ``settle``
    sees all converted records at once, where a battle is made of several.
    """

    name: str
    kinds: frozenset[str]
    recognises: Callable[[Collection[str]], bool]
    convert: Callable[[Mapping[str, Any]], Converted]
    gives: Mapping[str, str] = field(default_factory=dict)
    also_reads: tuple[str, ...] = ()
    answers: Callable[[Mapping[str, Any]], tuple[str, str]] | None = None
    answers_in: tuple[str, ...] = ()
    settle: Callable[[Iterator[Settled]], Iterator[Settled]] | None = None

    @property
    def reads(self) -> frozenset[str]:
        """The headers it looks at; none: all of them."""
        return frozenset((*self.gives.values(), *self.also_reads))
