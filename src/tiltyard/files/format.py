"""The definition of a format: how its files are recognised, and how its records become battles."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field

#: The reason for skipping a record that lacks one of two verdicts.
UNREADABLE = "a verdict of the judge could not be read"


@dataclass(frozen=True)
class SkippedRecord:
    """A record that is not a battle, and the reason; such records are counted and shown."""

    reason: str


#: A row of canonical fields, or the reason why the record was skipped.
Converted = Mapping[str, object] | SkippedRecord
#: The same, with its location.
Settled = tuple[str, Converted]


@dataclass(frozen=True, kw_only=True)
class BattleFormat:
    """One format of battle files.

    ``gives`` are the canonical columns that ``convert`` fills, each with the header that it needs;
    a file without that header lacks the column. ``also_reads`` are the other headers it uses.
    Native formats list none: they read every header and keep unknown ones. ``answers`` returns the
    two answers of a record, ``answers_in`` names their headers. ``style`` returns the style columns
    of records that state them, under the headers ``style_in``: then no answer is measured. ``settle``
    gets all converted records at once, for formats in which a battle spans several records.
    ``with_baseline`` returns the same format for records that do not name the baseline themselves.
    """

    name: str
    kinds: frozenset[str]
    recognises: Callable[[Collection[str]], bool]
    convert: Callable[[Mapping[str, object]], Converted]
    gives: Mapping[str, str] = field(default_factory=dict)
    also_reads: tuple[str, ...] = ()
    answers: Callable[[Mapping[str, object]], tuple[str, str]] | None = None
    answers_in: tuple[str, ...] = ()
    style: Callable[[Mapping[str, object]], Mapping[str, float]] | None = None
    style_in: tuple[str, ...] = ()
    settle: Callable[[Iterator[Settled]], Iterator[Settled]] | None = None
    with_baseline: Callable[[str], BattleFormat] | None = None

    @property
    def reads(self) -> frozenset[str]:
        """The headers it uses; empty means all of them."""
        return frozenset((*self.gives.values(), *self.also_reads))
