"""Tables of NumPy columns in Parquet, for logs that are too long to be handled row by row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from tiltyard.errors import BadOption, UnreadableFile
from tiltyard.files.input_file import translate_read_errors
from tiltyard.files.parquet_sizes import check_parquet
from tiltyard.foundation.local_files import open_regular

__all__ = ["ArrayKind", "Arrays", "read_arrays", "write_arrays"]

#: ``time`` is in microseconds since 1970, ``flag`` is 0 or 1. Absent is -1 in these and in integers, NaN in numbers.
ArrayKind: TypeAlias = Literal["integer", "time", "flag", "number", "text"]
#: Columns of equal length by name; texts are objects and never absent.
Arrays: TypeAlias = dict[str, npt.NDArray[Any]]

_TYPES: Mapping[ArrayKind, pa.DataType] = {
    "integer": pa.int64(),
    "time": pa.timestamp("us", "UTC"),
    "flag": pa.bool_(),
    "number": pa.float64(),
    "text": pa.string(),
}


def write_arrays(
    file: BinaryIO, kinds: Mapping[str, ArrayKind], columns: Mapping[str, npt.NDArray[Any] | Sequence[Any]]
) -> int:
    """Write these columns, in the order of their kinds; return the number of rows."""
    try:
        arrays = [_to_arrow(kind, columns[name]) for name, kind in kinds.items()]
        table = pa.Table.from_arrays(arrays, schema=_schema(kinds))
    except (pa.ArrowException, OverflowError, UnicodeEncodeError, ValueError) as error:
        raise BadOption(f"a value does not fit its column of {', '.join(kinds)} ({error})") from None
    pq.write_table(table, file, compression="zstd")
    return int(table.num_rows)


def read_arrays(path: Path, kinds: Mapping[str, ArrayKind]) -> Arrays:
    """The columns of a file that has exactly these; raises `UnreadableFile` for any other file."""
    with translate_read_errors(str(path)), open_regular(path) as opened:
        check_parquet(str(path), opened)
        file = pq.ParquetFile(opened)
        if not file.schema_arrow.equals(_schema(kinds)):
            raise UnreadableFile(f"{path}: the columns are not {', '.join(kinds)} with the expected types")
        table: pa.Table = file.read()
        return {name: _to_numpy(kind, table.column(name)) for name, kind in kinds.items()}


def _schema(kinds: Mapping[str, ArrayKind]) -> pa.Schema:
    return pa.schema([(name, _TYPES[kind]) for name, kind in kinds.items()])


def _to_arrow(kind: ArrayKind, values: npt.NDArray[Any] | Sequence[Any]) -> pa.Array:
    if kind == "text":
        return pa.array(list(values), pa.string())
    if kind == "number":
        numbers = np.asarray(values, dtype=np.float64)
        return pa.array(numbers, pa.float64(), mask=np.isnan(numbers))
    whole = np.asarray(values, dtype=np.int64)
    return pa.array(whole, pa.int64(), mask=whole == -1).cast(_TYPES[kind])


def _to_numpy(kind: ArrayKind, column: pa.ChunkedArray) -> npt.NDArray[Any]:
    if kind == "text":
        texts = np.empty(len(column), dtype=object)
        texts[:] = column.to_pylist()
        return texts
    absent = np.nan if kind == "number" else -1
    values: npt.NDArray[Any] = (
        column.cast(_TYPES["number" if kind == "number" else "integer"]).fill_null(absent).to_numpy()
    )
    return values
