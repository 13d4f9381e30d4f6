"""Tables of our own in Parquet: plain columns, and rows in chunks."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tiltyard.errors import BadOption, UnreadableFile
from tiltyard.files.input_file import translate_read_errors
from tiltyard.files.parquet_records import check_parquet
from tiltyard.foundation.local_files import atomic_write, open_regular

_CHUNK_ROWS = 16_384
_ROW_TYPES: Mapping[type, pa.DataType] = {str: pa.string(), int: pa.int64(), float: pa.float64()}


def write_columns(path: Path, columns: dict[str, list[Any]]) -> None:
    """Write columns of equal length."""
    with atomic_write(str(path)) as file:
        pq.write_table(pa.table(columns), file, compression="zstd")


def read_columns(path: Path) -> dict[str, list[Any]]:
    """The columns of a file, as plain values; raises `UnreadableFile` if it is invalid."""
    with translate_read_errors(str(path)), open_regular(path) as file:
        check_parquet(str(path), file)
        table: pa.Table = pq.read_table(file)
        return {name: table.column(name).to_pylist() for name in table.column_names}


def write_row_table(path: Path, columns: Mapping[str, type], rows: Iterable[Mapping[str, object]]) -> int:
    """Write rows with these columns, each text, integer, number or ``None``; return the number of rows."""
    schema = pa.schema([(name, _ROW_TYPES[kind]) for name, kind in columns.items()])
    stream, written = iter(rows), 0
    with (
        atomic_write(str(path)) as file,
        pq.ParquetWriter(file, schema, compression="zstd", use_dictionary=True) as writer,
    ):
        while chunk := list(itertools.islice(stream, _CHUNK_ROWS)):
            for number, row in enumerate(chunk, start=written + 1):
                _check_row(f"{path}, row {number}", columns, row)
            try:
                arrays = [pa.array([row[field.name] for row in chunk], field.type) for field in schema]
            except (pa.ArrowInvalid, OverflowError, UnicodeEncodeError) as error:
                where = f"{path}, rows {written + 1} to {written + len(chunk)}"
                raise BadOption(f"{where}: a value does not fit its column ({error})") from None
            writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
            written += len(chunk)
    return written


def _check_row(where: str, columns: Mapping[str, type], row: Mapping[str, object]) -> None:
    if row.keys() != columns.keys():
        odd = ", ".join(sorted(row.keys() ^ columns.keys()))
        raise BadOption(f"{where}: unexpected or missing columns: {odd}")
    for name, kind in columns.items():
        value = row[name]
        if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
            raise BadOption(f"{where}: {name} is {value!r}; expected {kind.__name__} or None")


def read_rows(path: Path, columns: Mapping[str, type]) -> Iterator[dict[str, object]]:
    """The rows of a file with exactly these columns; raises `UnreadableFile` for any other file."""
    with translate_read_errors(str(path)), open_regular(path) as opened:
        check_parquet(str(path), opened)
        file = pq.ParquetFile(opened)
        expected = pa.schema([(name, _ROW_TYPES[kind]) for name, kind in columns.items()])
        if not file.schema_arrow.equals(expected):
            raise UnreadableFile(f"{path}: the columns are not {', '.join(columns)} with the expected types")
        for batch in file.iter_batches(_CHUNK_ROWS):
            yield from batch.to_pylist()
