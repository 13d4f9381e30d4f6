"""Rows for `COPY … FROM STDIN (FORMAT binary)`, made from NumPy columns without a loop over them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TRAILER = b"\xff\xff"


@dataclass(frozen=True, eq=False)
class Column:
    """Values of one width in the server's spelling; `NULL` has none."""

    kind: str
    values: npt.ArrayLike

    @property
    def width(self) -> int:
        return np.dtype(self.kind).itemsize if self.kind else -1


NULL = Column("", ())


def short(values: npt.ArrayLike) -> Column:
    return Column(">i2", values)


def whole(values: npt.ArrayLike) -> Column:
    return Column(">i4", values)


def long_(values: npt.ArrayLike) -> Column:
    return Column(">i8", values)


def raw(values: npt.NDArray[np.void] | bytes) -> Column:
    """Bytes as they are: text of one length, or uuids."""
    if isinstance(values, bytes):
        return Column(f"S{len(values)}", values)
    return Column(values.dtype.str, values)


def packed(n: int, columns: Mapping[str, Column]) -> bytes:
    """``n`` rows. A column that is one value is the same in all of them."""
    layout: list[tuple[str, str]] = [("fields", ">i2")]
    for name, column in columns.items():
        layout.append((f"{name} size", ">i4"))
        if column is not NULL:
            layout.append((name, column.kind))
    rows = np.empty(n, dtype=np.dtype(layout))
    rows["fields"] = len(columns)
    for name, column in columns.items():
        rows[f"{name} size"] = column.width
        if column is not NULL:
            rows[name] = column.values
    return rows.tobytes()
