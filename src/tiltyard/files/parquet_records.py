"""Reads Parquet files by row or by column."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from tiltyard.errors import UnreadableFile
from tiltyard.files.input_file import InputFile, translate_read_errors
from tiltyard.files.parquet_sizes import ParquetSizes, check_parquet
from tiltyard.files.read_limits import DELIVERED_FLOOR_BYTES, EXPANSION_RATIO, is_bomb
from tiltyard.files.records import RECORD_BATCH_ROWS, Record, numbered_rows, reject_duplicate_columns

#: What a batch may take if every value of it is the longest of its dictionary.
_BATCH_BYTES = 1 << 28


@dataclass(frozen=True)
class ParquetRecords:
    """A Parquet file; absent values are left out of the records."""

    file: InputFile
    schema: pa.Schema
    rows: int
    kind: ClassVar[str] = "parquet"

    @classmethod
    def opened(cls, file: InputFile) -> ParquetRecords:
        """Read the footer of an uncompressed file."""
        with translate_read_errors(file.name), pq.ParquetFile(file.path) as parquet:
            # Do not read the metadata of single columns: on a damaged file, Arrow's binding crashes
            # the process.
            schema, rows = parquet.schema_arrow, parquet.metadata.num_rows
        reject_duplicate_columns(file.name, schema.names)
        return cls(file, schema, rows)

    @property
    def name(self) -> str:
        return self.file.name

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.schema.names)

    @property
    def column_types(self) -> Mapping[str, pa.DataType]:
        return {field.name: field.type for field in self.schema}

    def unpacked(self) -> int:
        """The uncompressed size in bytes that the file declares; repeated values count once."""
        return self._sizes(None).unpacked_bytes

    def _sizes(self, columns: Collection[str] | None) -> ParquetSizes:
        with translate_read_errors(self.name), self.file.path.open("rb") as stored:
            return check_parquet(self.name, stored, columns)

    def records(self, columns: Collection[str] | None = None, /) -> Iterator[Record]:
        wanted = [name for name in self.columns if columns is None or name in columns]
        return numbered_rows(self.name, self.batches(wanted, RECORD_BATCH_ROWS))

    def batches(
        self, columns: Sequence[str], batch_size: int, codes: Collection[str] = ()
    ) -> Iterator[pa.RecordBatch]:
        """The named columns with the file's types; those in ``codes`` dictionary-encoded."""
        coded = [name for name in codes if _is_text(self.schema.field(name).type)]
        sizes, size = self._sizes(columns), self.file.path.stat().st_size
        # Values that a file repeats by number are delivered once for each row.
        repeated = sum(held for name, held in sizes.dictionary_bytes.items() if name not in coded)
        rows = max(1, min(batch_size, _BATCH_BYTES // max(1, repeated)))
        # Pre-buffering would keep everything read in memory until the file is closed.
        options = {"read_dictionary": coded, "pre_buffer": False}
        with translate_read_errors(self.name), pq.ParquetFile(self.file.path, **options) as parquet:
            row = delivered = 0
            for batch in parquet.iter_batches(rows, columns=list(columns), use_threads=False):
                self._check(batch, row)
                delivered += batch.nbytes
                if is_bomb(delivered, size, DELIVERED_FLOOR_BYTES):
                    raise UnreadableFile(
                        f"{self.name}, row {row + 1}: the rows up to here are more than {EXPANSION_RATIO} times as large "
                        "as the file; if you trust it, write it again as JSON Lines"
                    )
                yield batch.select(list(columns))
                row += batch.num_rows

    def _check(self, batch: pa.RecordBatch, row: int) -> None:
        """Reject the dictionary codes out of range and the invalid text of a damaged file."""
        for name, array in zip(batch.schema.names, batch.columns, strict=True):
            try:
                array.validate(full=True)
            except pa.ArrowException as error:
                damage = "bytes that are not UTF-8 text" if "UTF8" in str(error) else "damaged values"
                rows = f"rows {row + 1} to {row + batch.num_rows}"
                raise UnreadableFile(f"{self.name}, {rows}: column {name} contains {damage}") from None


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
