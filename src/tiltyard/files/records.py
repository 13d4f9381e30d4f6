"""The interface of all record containers (JSON, CSV, Parquet)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Protocol

from tiltyard.errors import UnreadableFile

__all__ = ["Record", "Records", "reject_duplicate_columns"]

#: A record and its location (``votes.jsonl, line 12``).
Record = tuple[str, dict[str, object]]


class Records(Protocol):
    """Records with named columns in one file, which can be read any number of times."""

    @property
    def kind(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def columns(self) -> tuple[str, ...]: ...
    @property
    def rows(self) -> int | None: ...

    def records(self, columns: Collection[str] | None = None, /) -> Iterator[Record]:
        """All records in order; for Parquet, only the given ``columns`` are read."""
        ...


def reject_duplicate_columns(where: str, columns: Sequence[str]) -> None:
    """Raise if two columns have the same name."""
    seen: set[str] = set()
    for name in columns:
        if name in seen:
            raise UnreadableFile(f"{where}: duplicate column {name!r}; rename one")
        seen.add(name)
