"""Small tables of plain columns in Parquet, for data other than battles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tiltyard.files.input_file import translate_read_errors
from tiltyard.files.parquet_sizes import check_parquet
from tiltyard.foundation.local_files import atomic_write, open_regular

__all__ = ["read_columns", "write_columns"]


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
