"""The canonical columns of a battle file: their names, their order and Arrow types, and columns of other types as these."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from tiltyard.errors import BadBattle, UnreadableFile
from tiltyard.foundation.arrays import Bools

TIME = pa.timestamp("us", tz="UTC")

#: Canonical names and types, in the order in which files are written.
TYPES: dict[str, pa.DataType] = {
    "model_a": pa.string(),
    "model_b": pa.string(),
    "winner": pa.string(),
    "label": pa.string(),
    "both_bad": pa.bool_(),
    "source": pa.string(),
    "question_id": pa.string(),
    "judge_model": pa.string(),
    "dimension": pa.string(),
    "category": pa.string(),
    "language": pa.string(),
    "pref": pa.float64(),
    "voter": pa.string(),
    "time": TIME,
    "position": pa.int64(),
    "weight": pa.float64(),
}
CANONICAL = tuple(TYPES)
REQUIRED = CANONICAL[:3]
TEXT = frozenset(name for name, kind in TYPES.items() if kind == pa.string())

#: Alternative headers of canonical columns.
OTHER_NAMES = {"outcome": "winner"}

#: Columns with the two answers, in which style is measured.
RESPONSES = ("response_a", "response_b")
STYLE = tuple(f"{trait}_{side}" for trait in ("length", "headers", "lists", "bold") for side in "ab")

#: The Parquet column for unknown fields that do not fit a column of their own.
EXTRA_JSON = "extra_json"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECONDS_PER_SECOND = 1_000_000
#: The range of Python's datetime: the years 1 to 9999.
_EARLIEST_MICROSECONDS = int(datetime(1, 1, 1, tzinfo=UTC).timestamp()) * _MICROSECONDS_PER_SECOND
_LATEST_MICROSECONDS = int(datetime(9999, 12, 31, tzinfo=UTC).timestamp()) * _MICROSECONDS_PER_SECOND


def canonical_array(file: str, name: str, array: pa.Array, first_row: int) -> pa.Array:
    """A column in its canonical type; text may stay dictionary-encoded, unknown columns are unchanged.

    ``first_row`` is the number of rows before this array, for messages.
    """
    if name in TEXT:
        return _text(file, name, array)
    if name not in TYPES:
        return array
    return _cast(file, name, array, TYPES[name], first_row)


def style_array(file: str, name: str, array: pa.Array, first_row: int) -> pa.Array:
    """An existing column of style counts, as numbers."""
    return _cast(file, name, array, pa.float64(), first_row)


class _WrongType(Exception):
    """The column's type cannot be converted."""


def _cast(file: str, name: str, array: pa.Array, kind: pa.DataType, first_row: int) -> pa.Array:
    if pt.is_dictionary(array.type):
        array = array.dictionary_decode()
    convert = _converter(kind)
    if pt.is_null(array.type) or array.type == kind != TIME:
        return array.cast(kind)
    try:
        return convert(array, kind)
    except _WrongType:
        raise UnreadableFile(f"{file}: column {name} has type {array.type}; expected {kind}") from None
    except (pa.ArrowException, ValueError, OverflowError):
        raise _first_bad(file, name, array, kind, first_row) from None


def _text(file: str, name: str, array: pa.Array) -> pa.Array:
    kind = array.type.value_type if pt.is_dictionary(array.type) else array.type
    if kind == pa.string():
        return array
    if array.null_count == len(array):
        return pa.nulls(len(array), pa.string())
    if pt.is_dictionary(array.type):
        return pa.DictionaryArray.from_arrays(array.indices, _text(file, name, array.dictionary))
    if pt.is_floating(kind) and name not in REQUIRED:
        array, kind = _whole_numbers(file, name, array), pa.int64()
    is_text = pt.is_large_string(kind) or pt.is_string_view(kind) or pt.is_null(kind)
    is_number = pt.is_integer(kind) and name != "winner"
    if not (is_text or is_number):
        raise UnreadableFile(f"{file}: column {name} has type {kind}; expected text")
    return text_array(array)


def is_text_type(kind: pa.DataType) -> bool:
    """Whether values of this type are text, or all missing."""
    return bool(pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind) or pt.is_null(kind))


def text_array(array: pa.Array) -> pa.Array:
    """An array as plain strings."""
    try:
        return array.cast(pa.string())
    except pa.ArrowNotImplementedError:  # pragma: no cover - Arrow 17 cannot cast string views
        return pa.array(array.to_pylist(), pa.string())


def _whole_numbers(file: str, name: str, array: pa.Array) -> pa.Array:
    """Integers that became floating-point numbers because other values of the column are missing."""
    try:
        return array.cast(pa.int64())
    except pa.ArrowException:
        raise UnreadableFile(f"{file}: column {name} has type {array.type}; expected text") from None


def _converter(kind: pa.DataType) -> Callable[[pa.Array, pa.DataType], pa.Array]:
    if kind == TIME:
        return _times
    return _flags if pt.is_boolean(kind) else _numbers


def _flags(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Booleans, also written as text or as 1 and 0."""
    if pt.is_integer(array.type):
        array = array.cast(pa.string())
    if not (pt.is_string(array.type) or pt.is_large_string(array.type)):
        raise _WrongType
    return array.cast(kind)


def _numbers(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if not (pt.is_integer(array.type) or pt.is_floating(array.type) or pt.is_decimal(array.type)):
        raise _WrongType
    return array.cast(kind)


def _times(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if pt.is_string(array.type) or pt.is_large_string(array.type):
        moments = _moments(array, kind)
    elif pt.is_integer(array.type):
        moments = pc.multiply_checked(array.cast(pa.int64()), _MICROSECONDS_PER_SECOND).cast(kind)
    elif pt.is_floating(array.type):
        moments = (
            pc.round(pc.multiply(array.cast(pa.float64()), float(_MICROSECONDS_PER_SECOND)))
            .cast(pa.int64())
            .cast(kind)
        )
    elif pt.is_timestamp(array.type):
        moments = array.cast(kind, safe=array.type.unit != "ns")
    elif pt.is_date(array.type):
        moments = array.cast(pa.timestamp("us")).cast(kind)
    else:
        raise _WrongType
    ends = pc.min_max(moments.cast(pa.int64())).as_py()
    if (
        ends["min"] is not None
        and not _EARLIEST_MICROSECONDS <= ends["min"] <= ends["max"] <= _LATEST_MICROSECONDS
    ):
        raise ValueError("out of range")
    return moments


def _moments(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Times in text: all of them with a zone or all without, which Arrow reads fast, or else one by one."""
    for spelled in (kind, pa.timestamp("us")):
        try:
            return array.cast(spelled).cast(kind)
        except pa.ArrowInvalid:
            continue
    return pa.array([None if text is None else _moment(text) for text in array.to_pylist()], kind)


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _first_bad(file: str, name: str, array: pa.Array, kind: pa.DataType, first_row: int) -> BadBattle:
    convert = _converter(kind)
    for number in range(len(array)):
        try:
            convert(array.slice(number, 1), kind)
        except (pa.ArrowException, ValueError, OverflowError):
            where = f"{file}, row {first_row + number + 1}"
            return BadBattle(f"{name} is {_shown(array[number])}; expected {kind}", where=where)
    raise AssertionError(f"every value of {name} fits alone")


def _shown(value: pa.Scalar) -> str:
    try:
        return str(value)
    except (ValueError, OverflowError):
        return "out of range"


def typed_array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """What `pa.array` makes of values of this type; that would load pandas, which costs half a second."""
    known = np.array([value is not None for value in values], dtype=bool)
    if pt.is_string(kind):
        texts = [b"" if value is None else str.encode(value) for value in values]
        ends = np.cumsum([0, *map(len, texts)]).astype(np.int32)
        data = [pa.py_buffer(ends), pa.py_buffer(b"".join(texts))]
    elif pt.is_boolean(kind):
        data = [_bits(np.array([value is True for value in values], dtype=bool))]
    else:
        number = np.float64 if pt.is_floating(kind) else np.int64
        plain = map(_microseconds, values) if pt.is_timestamp(kind) else values
        data = [pa.py_buffer(np.array([0 if value is None else value for value in plain], dtype=number))]
    return pa.Array.from_buffers(kind, len(values), [_bits(known), *data])


def _bits(flags: Bools) -> pa.Buffer:
    return pa.py_buffer(np.packbits(flags, bitorder="little"))


def _microseconds(moment: datetime | None) -> int:
    if moment is None:
        return 0
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH) // timedelta(microseconds=1)
