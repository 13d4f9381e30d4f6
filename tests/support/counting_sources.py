"""Battles in files and in hand, for counting."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tiltyard.core.battles import Table
from tiltyard.files import BattleSource, open_battles
from tiltyard.files.invalid_rows import InvalidRows

TYPES = {"pref": pa.float64(), "weight": pa.float64()}


def parquet(path: Path, rows: Sequence[dict[str, Any]], **options: Any) -> BattleSource:
    """Rows as they are, unchecked, in a Parquet file."""
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {
        name: pa.array([row.get(name) for row in rows], TYPES.get(name) or _kind(name, rows))
        for name in names
    }
    pq.write_table(pa.table(columns), path, **options)
    return open_battles(path)


def _kind(name: str, rows: Sequence[dict[str, Any]]) -> pa.DataType | None:
    return pa.string() if all(isinstance(row.get(name), str | None) for row in rows) else None


@dataclass(frozen=True)
class InHand:
    """A source whose batches are given; it notes the columns that are asked for."""

    batch: pa.RecordBatch
    asked: list[str]
    size: int = 1000
    path: str = "hand"
    rows: int | None = None

    @classmethod
    def of(cls, **columns: Any) -> InHand:
        return cls(pa.RecordBatch.from_pydict(columns), [])

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.batch.schema.names)

    @property
    def column_names(self) -> tuple[str, ...]:
        return self.columns

    def column_name(self, name: str) -> str | None:
        return name if name in self.columns else None

    def find_invalid(self) -> InvalidRows:
        return InvalidRows()

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        self.asked[:] = columns
        chosen = self.batch.select([name for name in columns if name in self.columns])
        for first in range(0, len(chosen), self.size):
            yield chosen.slice(first, self.size)


def coded(codes: Sequence[int | None], values: Sequence[str | None]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(values, pa.string()))


def assert_same(one: Table, other: Table) -> None:
    assert (one.models, one.keyed) == (other.models, other.keyed)
    assert [*filter(None, one.tags.values())] == [*filter(None, other.tags.values())]
    assert_same_values(one.counts, other.counts)
    assert_same_values(one.log(), other.log())


def assert_same_values(one: Any, other: Any) -> None:
    for field in fields(one):
        a, b = getattr(one, field.name), getattr(other, field.name)
        assert (a is None) == (b is None), field.name
        if a is not None:
            np.testing.assert_array_equal(a, b)
