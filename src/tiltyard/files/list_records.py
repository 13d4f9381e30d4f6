"""Rows that are already Python objects: mappings or battles."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from tiltyard.core.battles.battle import Battle
from tiltyard.errors import BadOption
from tiltyard.files.json_records import SAMPLE_ROWS
from tiltyard.files.records import Record


@dataclass(frozen=True, eq=False)
class ListRecords:
    """A list of rows, read as a list of JSON objects is; None, NaN and pandas' NA are absent values."""

    name: str
    items: tuple[object, ...] = field(repr=False)
    kind: ClassVar[str] = "json"
    rows: ClassVar[int | None] = None

    @classmethod
    def opened(cls, rows: Iterable[object], name: str) -> ListRecords:
        return cls(name, tuple(rows))

    @property
    def columns(self) -> tuple[str, ...]:
        sample = itertools.islice(self.records(), SAMPLE_ROWS)
        return tuple(dict.fromkeys(key for _, record in sample for key in record))

    def records(self, _columns: Collection[str] | None = None, /) -> Iterator[Record]:
        for number, row in enumerate(self.items, start=1):
            where = f"{self.name}, row {number}"
            plain = row.to_dict() if isinstance(row, Battle) else row
            if not isinstance(plain, Mapping):
                raise BadOption(
                    f"{where}: is of type {type(row).__name__}; expected a mapping, as {{'model_a': …, 'model_b': …, 'winner': …}}"
                )
            yield where, {str(key): value for key, value in plain.items() if not _is_missing(value)}


def _is_missing(value: object) -> bool:
    """Whether a value is None, NaN, or pandas' NA or NaT, which answer no comparison."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float) and value != value
