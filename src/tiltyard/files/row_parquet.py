"""Reads and writes rows of plain values in Parquet in chunks, for tables that may be long."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tiltyard.errors import BadOption, UnreadableFile
from tiltyard.files.input_file import translate_read_errors
from tiltyard.files.parquet_sizes import check_parquet
from tiltyard.foundation.local_files import atomic_write, open_regular

__all__ = ["read_rows", "write_row_table"]

_CHUNK_ROWS = 16_384
_TYPES: Mapping[type, pa.DataType] = {str: pa.string(), int: pa.int64(), float: pa.float64()}


def write_row_table(path: Path, columns: Mapping[str, type], rows: Iterable[Mapping[str, object]]) -> int:
    """Write rows with these columns, each text, integer, number or ``None``; return the number of rows."""
    schema = pa.schema([(name, _TYPES[kind]) for name, kind in columns.items()])
    stream, written = iter(rows), 0
    with (
        atomic_write(str(path)) as file,
        pq.ParquetWriter(file, schema, compression="zstd", use_dictionary=True) as writer,
    ):
        while chunk := list(itertools.islice(stream, _CHUNK_ROWS)):
            for number, row in enumerate(chunk, start=written + 1):
                _check(f"{path}, row {number}", columns, row)
            writer.write_batch(_batch(path, schema, chunk, written))
            written += len(chunk)
    return written


def _check(where: str, columns: Mapping[str, type], row: Mapping[str, object]) -> None:
    if row.keys() != columns.keys():
        odd = ", ".join(sorted(row.keys() ^ columns.keys()))
        raise BadOption(f"{where}: unexpected or missing columns: {odd}")
    for name, kind in columns.items():
        value = row[name]
        if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
            raise BadOption(f"{where}: {name} is {value!r}; expected {kind.__name__} or None")


def _batch(path: Path, schema: pa.Schema, rows: list[Mapping[str, object]], before: int) -> pa.RecordBatch:
    try:
        arrays = [pa.array([row[field.name] for row in rows], field.type) for field in schema]
    except (pa.ArrowInvalid, OverflowError, UnicodeEncodeError) as error:
        where = f"{path}, rows {before + 1} to {before + len(rows)}"
        raise BadOption(f"{where}: a value does not fit its column ({error})") from None
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def read_rows(path: Path, columns: Mapping[str, type]) -> Iterator[dict[str, object]]:
    """The rows of a file with exactly these columns; raises `UnreadableFile` for any other file."""
    with translate_read_errors(str(path)), open_regular(path) as opened:
        check_parquet(str(path), opened)
        file = pq.ParquetFile(opened)
        expected = pa.schema([(name, _TYPES[kind]) for name, kind in columns.items()])
        if not file.schema_arrow.equals(expected):
            raise UnreadableFile(f"{path}: the columns are not {', '.join(columns)} with the expected types")
        for batch in file.iter_batches(_CHUNK_ROWS):
            yield from batch.to_pylist()
