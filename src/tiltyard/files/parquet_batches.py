"""Converts battles and batches for writing to Parquet."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from tiltyard.core.battles.battle import Battle
from tiltyard.core.battles.outcome import parse_outcome
from tiltyard.errors import BadBattle, BadOption
from tiltyard.files.canonical_columns import (
    CANONICAL,
    EXTRA_JSON,
    REQUIRED,
    STYLE,
    TEXT,
    TYPES,
    canonical_array,
)

_SIMPLE: dict[type, pa.DataType] = {
    str: pa.string(),
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
}
_INT64_LIMIT = 1 << 63


def battle_batches(battles: Iterable[Battle], size: int) -> Iterator[pa.RecordBatch]:
    """Battles as batches of one schema; at least one batch.

    An unknown field whose values in the first batch have one simple type gets a column; values that
    do not fit are written as JSON to the column ``extra_json``. If there is only one batch, unneeded
    columns are left out.
    """
    stream = iter(battles)
    first = list(itertools.islice(stream, size))
    kinds = _simple_fields(first)
    chunk = list(itertools.islice(stream, size))
    yield _batch(first, kinds) if chunk else _needed(_batch(first, kinds))
    while chunk:
        yield _batch(chunk, kinds)
        chunk = list(itertools.islice(stream, size))


def canonical_batch(batch: pa.RecordBatch, schema: pa.Schema | None, row: int) -> pa.RecordBatch:
    """A batch in the canonical types and order, or those of ``schema`` if given.

    ``row`` is the number of rows written before, for error messages.
    """
    names = batch.schema.names
    order = [*(n for n in CANONICAL if n in names), *(n for n in names if n not in CANONICAL)]
    if schema is not None and set(order) != set(schema.names):
        odd = sorted(set(order) ^ set(schema.names))
        raise BadOption(
            f"after row {row}: a batch's columns differ from those of the first: {', '.join(odd)}"
        )
    arrays = []
    for name in order if schema is None else schema.names:
        array = canonical_array("the batch", name, batch.column(name), row)
        if name == "winner":
            array = _spelled(array, row)
        elif name in TEXT:
            array = array.cast(pa.string())
        elif schema is not None and name not in TYPES:
            array = _fitted(array, schema.field(name), row)
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, names=order if schema is None else schema.names)


def _spelled(winners: pa.Array, row: int) -> pa.Array:
    """Outcomes in canonical spelling."""
    coded = winners if pa.types.is_dictionary(winners.type) else winners.dictionary_encode()
    places = coded.indices
    if coded.null_count:
        number = row + coded.is_null().index(True).as_py() + 1
        raise BadBattle("winner is missing", where=f"row {number}")
    spellings: list[str | None] = []
    for code, text in enumerate(coded.dictionary.to_pylist()):
        try:
            spellings.append(parse_outcome(text).value)
        except BadBattle as error:
            first = places.index(pa.scalar(code, places.type)).as_py()
            if first >= 0:
                raise BadBattle(error.problem, where=f"row {row + first + 1}") from None
            spellings.append(None)
    return pa.array(spellings, pa.string()).take(places)


def _fitted(array: pa.Array, column: pa.Field, row: int) -> pa.Array:
    try:
        return array.cast(column.type)
    except pa.ArrowException:
        raise BadOption(
            f"after row {row}: column {column.name} has type {array.type}, but the first batch had {column.type}"
        ) from None


def _simple_fields(battles: Sequence[Battle]) -> dict[str, type]:
    """Unknown fields that can be columns: all their values have one simple type."""
    seen: dict[str, set[type]] = {}
    for battle in battles:
        for name, value in battle.extra.items():
            if value is not None:
                seen.setdefault(name, set()).add(type(value))
    return {
        name: next(iter(kinds))
        for name, kinds in seen.items()
        if len(kinds) == 1
        and kinds <= ({int, float} if name in STYLE else set(_SIMPLE))
        and _can_name_a_column(name)
    }


def _can_name_a_column(name: str) -> bool:
    # Dots separate parts of a Parquet path, and a name must be encodable text.
    return (
        name.isprintable()
        and name != ""
        and "." not in name
        and name not in (*CANONICAL, "outcome", EXTRA_JSON)
    )


def _batch(battles: Sequence[Battle], kinds: dict[str, type]) -> pa.RecordBatch:
    columns: dict[str, list[Any]] = {name: [] for name in (*CANONICAL, *kinds, EXTRA_JSON)}
    for battle in battles:
        for name in CANONICAL:
            columns[name].append(getattr(battle, name))
        rest = dict(battle.extra)
        for name, kind in kinds.items():
            columns[name].append(rest.pop(name) if _fits(rest.get(name), kind) else None)
        columns[EXTRA_JSON].append(json.dumps(rest, default=str) if rest else None)
    types = TYPES | {name: _SIMPLE[kind] for name, kind in kinds.items()} | {EXTRA_JSON: pa.string()}
    arrays = [_array(name, columns[name], types[name]) for name in columns]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _needed(batch: pa.RecordBatch) -> pa.RecordBatch:
    names = [
        name
        for name, array in zip(batch.schema.names, batch.columns, strict=True)
        if name in REQUIRED or array.null_count < len(array)
    ]
    return batch.select(names)


def _array(name: str, values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    try:
        return pa.array(values, kind)
    except (pa.ArrowException, OverflowError, ValueError) as error:
        raise BadBattle(f"{name} cannot be written to Parquet: {error}") from None


def _fits(value: object, kind: type) -> bool:
    if type(value) is not kind:
        return False
    return not isinstance(value, int) or -_INT64_LIMIT <= value < _INT64_LIMIT
