"""The interface of all record containers (JSON, CSV, Parquet, frames)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from tiltyard.errors import UnreadableFile
from tiltyard.files.input_file import InputFile, translate_read_errors
from tiltyard.foundation.option_names import quoted

#: Rows converted to Python objects at a time: conversations are large.
RECORD_BATCH_ROWS = 1024

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


@dataclass(frozen=True)
class FileRecords:
    """What all records of a single file have."""

    file: InputFile

    @property
    def name(self) -> str:
        return self.file.name


class ColumnRecords(Records, Protocol):
    """Records that can be read by column."""

    @property
    def column_types(self) -> Mapping[str, pa.DataType]:
        """The types of the columns, as far as they are known before reading."""
        ...

    def batches(
        self, columns: Sequence[str], batch_size: int, codes: Collection[str] = (), /
    ) -> Iterator[pa.RecordBatch]:
        """The named columns with their own types; those in ``codes`` may come dictionary-encoded."""
        ...


def reject_duplicate_columns(where: str, columns: Sequence[str]) -> None:
    """Raise if two columns have the same name."""
    seen: set[str] = set()
    for name in columns:
        if name in seen:
            raise UnreadableFile(f"{where}: duplicate column {quoted(name)}; rename one")
        seen.add(name)


def numbered_rows(name: str, batches: Iterable[pa.RecordBatch]) -> Iterator[Record]:
    """The rows of batches as records, each with its number in what ``name`` names."""
    number = 0
    for batch in batches:
        with translate_read_errors(f"{name}, rows {number + 1} to {number + batch.num_rows}"):
            rows = batch.to_pylist()
        for row in rows:
            number += 1
            yield f"{name}, row {number}", {k: v for k, v in row.items() if v is not None}
