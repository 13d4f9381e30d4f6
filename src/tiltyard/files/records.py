"""What every container of records offers, whatever its syntax."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Protocol

from tiltyard.errors import UnreadableFile

__all__ = ["Record", "Records", "reject_duplicate_columns"]

#: A record and the place it was found at (``votes.jsonl, line 12``).
Record = tuple[str, dict[str, Any]]


class Records(Protocol):
    """Records with named columns, in one file, that can be read as often as wanted."""

    @property
    def kind(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def columns(self) -> tuple[str, ...]: ...
    @property
    def rows(self) -> int | None: ...

    def records(self, columns: Collection[str] | None = None, /) -> Iterator[Record]:
        """All records in order; a Parquet file reads only the ``columns`` asked for."""
        ...


def reject_duplicate_columns(where: str, columns: Sequence[str]) -> None:
    """Two columns of one name cannot be told apart: raise."""
    seen: set[str] = set()
    for name in columns:
        if name in seen:
            raise UnreadableFile(f"{where}: two columns are called {name!r}; rename one")
        seen.add(name)
