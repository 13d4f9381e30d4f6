"""Battles in memory: frames of other libraries, mappings of columns, and rows that are Python objects.

Frames (pandas, polars, DuckDB, Arrow) come through Arrow's C interface (``__arrow_c_stream__``), so that none of these
libraries is imported.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from tiltyard.core.battles.battle import Battle
from tiltyard.errors import BadOption, UnreadableFile
from tiltyard.files.canonical_columns import text_array
from tiltyard.files.input_file import (
    RECORD_BATCH_ROWS,
    Record,
    numbered_rows,
    reject_duplicate_columns,
    translate_read_errors,
)
from tiltyard.files.json_records import SAMPLE_ROWS
from tiltyard.foundation.option_names import quoted

#: How Arrow calls an index of pandas that has no name.
_UNNAMED_INDEX = "__index_level_"


def is_frame(data: object) -> bool:
    """Whether an object offers its columns through Arrow's C interface."""
    return hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")


def records_in_memory(data: Any) -> FrameRecords | ListRecords:
    """The records of a frame, of a mapping of columns, or of rows."""
    name = f"the {type(data).__name__}"
    if is_frame(data):
        return FrameRecords.opened(data)
    if isinstance(data, Mapping):
        return FrameRecords.opened(column_table(name, data), name)
    if hasattr(data, "collect"):
        raise BadOption(f"{name} is not computed yet; pass what its collect() returns")
    if isinstance(data, bytes) or not isinstance(data, Iterable):
        raise BadOption(
            f"cannot read battles from {type(data).__name__}; give a path, an address, or a pattern such as "
            "'votes/*.parquet', a frame of pandas, polars, DuckDB or Arrow, a mapping of columns, or a list of rows"
        )
    return ListRecords.opened(data, name)


@dataclass(frozen=True, eq=False)
class FrameRecords:
    """A frame; NaN and absent values are left out of the records.

    Where the library lets columns be chosen, only those that are asked for are converted.
    """

    name: str
    data: Any = field(repr=False)
    #: The library's own keys of the columns, by their names as text.
    keys: Mapping[str, object] = field(repr=False)
    kind: ClassVar[str] = "frame"

    @classmethod
    def opened(cls, data: Any, name: str | None = None) -> FrameRecords:
        """A frame; a stream that can be read only once is read to memory."""
        name = name or f"the {type(data).__name__}"
        keys = None if isinstance(data, pa.Table) else _column_keys(data)
        if keys is None:
            data = _arrow_table(name, data)
            keys = list(data.column_names)
        names = [str(key) for key in keys]
        reject_duplicate_columns(name, names)
        return cls(name, data, dict(zip(names, keys, strict=True)))

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.keys)

    @property
    def rows(self) -> int | None:
        return len(self.data) if isinstance(self.data, pa.Table) else None

    @property
    def column_types(self) -> Mapping[str, pa.DataType]:
        """Types are not known before the columns are converted."""
        return {}

    def records(self, columns: Collection[str] | None = None, /) -> Iterator[Record]:
        wanted = [name for name in self.columns if columns is None or name in columns]
        return numbered_rows(self.name, self.batches(wanted, RECORD_BATCH_ROWS))

    def batches(
        self, columns: Sequence[str], batch_size: int, _codes: Collection[str] = ()
    ) -> Iterator[pa.RecordBatch]:
        """The named columns with the frame's types."""
        chosen = self._chosen(columns)
        with translate_read_errors(self.name):
            for batch in chosen.to_batches(max_chunksize=batch_size):
                arrays = [_plain(array) for array in batch.columns]
                yield pa.RecordBatch.from_arrays(arrays, names=list(columns))

    def _chosen(self, columns: Sequence[str]) -> pa.Table:
        if isinstance(self.data, pa.Table):
            return self.data.select(list(columns))
        # An index with a name is a column of the Arrow table, but not of the frame.
        table = _arrow_table(self.name, _select(self.data, [self.keys[name] for name in columns]))
        return table.select(list(range(len(columns)))).rename_columns(list(columns))


def column_table(name: str, columns: Mapping[Any, object]) -> pa.Table:
    arrays: dict[str, pa.Array] = {}
    for key, values in columns.items():
        if isinstance(values, str | bytes) or not isinstance(values, Iterable):
            raise BadOption(
                f"{name}: {key!r} holds {quoted(values)}; expected a list of values, one for each battle"
            )
        plain = (
            values if hasattr(values, "__array__") or hasattr(values, "__arrow_c_array__") else list(values)
        )
        try:
            made = pa.array(plain, from_pandas=True)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise _mixed(name, str(key), error) from None
        arrays[str(key)] = made.combine_chunks() if isinstance(made, pa.ChunkedArray) else made
    lengths = {key: len(array) for key, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{key} {length:,}" for key, length in lengths.items())
        raise BadOption(f"{name}: the columns differ in length ({shown}); give one value for each battle")
    return pa.table(arrays)


def _column_keys(data: object) -> list[object] | None:
    """The keys of the columns, if the object lets columns be chosen."""
    keys = getattr(data, "columns", None)
    if keys is None or callable(keys) or isinstance(keys, str | bytes) or not isinstance(keys, Iterable):
        return None
    listed = list(keys)
    return listed if all(isinstance(key, str | int | tuple) for key in listed) else None


def _select(data: Any, keys: list[object]) -> Any:
    try:
        return data[keys]
    except TypeError:  # a relation of DuckDB
        return data.select(*keys)


def _arrow_table(name: str, data: object) -> pa.Table:
    try:
        with warnings.catch_warnings():
            # Of pandas, about names that are no text: only their text is used here.
            warnings.simplefilter("ignore")
            table = pa.table(data)
    except Exception as error:  # noqa: BLE001 - the other library's own errors
        raise _unreadable(name, data, error) from None
    unnamed = [header for header in table.column_names if header.startswith(_UNNAMED_INDEX)]
    return table.drop_columns(unnamed) if unnamed else table


def _unreadable(name: str, data: Any, error: Exception) -> UnreadableFile:
    """What is wrong, with the name of the first column that cannot be converted."""
    keys = _column_keys(data) or []
    for key in keys if len(keys) > 1 else ():
        try:
            pa.table(_select(data, [key]))
        except Exception as reason:  # noqa: BLE001 - the other library's own errors
            return _mixed(name, str(key), reason)
    if len(keys) == 1:
        return _mixed(name, str(keys[0]), error)
    return UnreadableFile(f"{name}: no table of columns ({_said(error)}); give a frame with named columns")


def _mixed(name: str, column: str, error: Exception) -> UnreadableFile:
    return UnreadableFile(
        f"{name}: column {column} cannot be read ({_said(error)}); give its values one type, such as text"
    )


def _said(error: Exception) -> str:
    text = str(error.args[0]) if error.args else ""
    lines = text.strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__


def _plain(array: pa.Array) -> pa.Array:
    """The array with nulls for NaN, which frames use for missing values, and without string views."""
    kind = array.type
    if pa.types.is_floating(kind):
        nan = pc.is_nan(array)
        return pc.if_else(nan, pa.scalar(None, kind), array) if nan.true_count else array
    if pa.types.is_string_view(kind):
        return text_array(array)
    if pa.types.is_dictionary(kind) and pa.types.is_string_view(kind.value_type):
        return pa.DictionaryArray.from_arrays(array.indices, text_array(array.dictionary))
    return array


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
