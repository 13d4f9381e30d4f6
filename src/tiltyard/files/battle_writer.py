"""Writes battle files: atomically to a path, or as the bytes of a file for responses that are sent before it is complete."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from typing import Any, BinaryIO, Literal, cast

import pyarrow as pa

from tiltyard.core.battles.battle import Battle
from tiltyard.core.battles.outcome import TIE_BOTH_BAD, Outcome, parse_outcome
from tiltyard.errors import BadBattle, BadOption
from tiltyard.files.canonical_columns import (
    CANONICAL,
    EXTRA_JSON,
    REQUIRED,
    STYLE,
    TEXT,
    TYPES,
    canonical_array,
    typed_array,
)
from tiltyard.foundation.local_files import atomic_write

_CHUNK_BATTLES = 65_536
_JSON_ENDINGS = (".jsonl", ".jsonl.gz", ".jsonl.zst")
_ENDINGS = (*_JSON_ENDINGS, ".csv", ".csv.gz", ".csv.zst", ".parquet")
Container = Literal["jsonl", "csv", "parquet"]
#: Battles in one chunk; at most two chunks are in memory.
_PIECE_BATTLES = 8192
_PIECE_LINES = 1024
_SIMPLE: dict[type, pa.DataType] = {
    str: pa.string(),
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
}
_INT64_LIMIT = 1 << 63


def write_battles(path: str | os.PathLike[str], battles: Iterable[Battle]) -> None:
    """Write battles as JSON Lines, CSV or Parquet, by the path's extension; ``-`` is standard output.

    JSON Lines and Parquet keep every field. CSV has a column for each unknown field of the
    first 65,536 battles, as text; a new field after those raises an error.
    """
    ending = _ending(os.fspath(path), _ENDINGS)
    if ending == ".parquet":
        write_batches(path, battle_batches(battles, _CHUNK_BATTLES))
    elif ".csv" in ending:
        with atomic_write(os.fspath(path)) as file, _compressed(file, ending) as stream:
            stream.writelines(stream_csv(battles, _CHUNK_BATTLES))
    else:
        write_rows(path, (battle.to_dict() for battle in battles))


def write_rows(path: str | os.PathLike[str], rows: Iterable[Mapping[str, object]]) -> None:
    """Write rows as JSON Lines, compressed if the name ends in .gz or .zst; ``-`` is standard output."""
    text = os.fspath(path)
    ending = _ending(text, _JSON_ENDINGS)
    lines = (json_line(f"row {number}", row) for number, row in enumerate(rows, start=1))
    if text == "-":
        sys.stdout.buffer.writelines(lines)
        sys.stdout.buffer.flush()
        return
    with atomic_write(text) as file, _compressed(file, ending) as stream:
        stream.writelines(lines)


def write_batches(
    path: str | os.PathLike[str], batches: Iterable[pa.RecordBatch], *, both_bad: str | None = None
) -> None:
    """Write batches to a Parquet file: canonical columns first, outcomes in canonical spelling.

    ``tie (bothbad)`` stays as it is; ``both_bad`` is another spelling for all battles of that outcome. The first
    batch fixes the columns and their types; later ones must fit them.
    """
    stream = iter(batches)
    first = next(stream, None)
    if first is None:
        first = next(battle_batches([], _CHUNK_BATTLES))
    with atomic_write(os.fspath(path)) as file:
        file.writelines(stream_parquet(itertools.chain([first], stream), both_bad))


def _ending(text: str, known: tuple[str, ...]) -> str:
    if text == "-":
        return known[0]
    found = next((ending for ending in known if text.lower().endswith(ending)), None)
    if found is None:
        raise BadOption(f"{text}: unknown file extension; use one of {', '.join(known)}")
    return found


@contextmanager
def _compressed(file: BinaryIO, ending: str) -> Iterator[BinaryIO]:
    if ending.endswith(".gz"):
        with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as stream:
            yield cast("BinaryIO", stream)
    elif ending.endswith(".zst"):
        with pa.CompressedOutputStream(file, "zstd") as stream:
            yield stream
    else:
        yield file


def stream_battles(container: Container, battles: Iterable[Battle]) -> Iterator[bytes]:
    """The bytes of a battle file, in chunks of a few megabytes at most."""
    if container == "parquet":
        return stream_parquet(battle_batches(battles, _PIECE_BATTLES))
    if container == "csv":
        return stream_csv(battles, _PIECE_BATTLES)
    return _json_pieces(battles)


def json_line(where: str, row: Mapping[str, object]) -> bytes:
    """One row as a line of JSON; dates become ISO 8601 text."""
    try:
        return _ENCODER.encode(row).encode() + b"\n"
    except (TypeError, ValueError, RecursionError) as error:
        raise BadBattle(f"cannot be written as JSON: {error}", where=where) from None


def stream_csv(battles: Iterable[Battle], size: int) -> Iterator[bytes]:
    """CSV with a column for each unknown field of the first ``size`` battles; raises for other fields."""
    battles = iter(battles)
    first = list(itertools.islice(battles, size))
    fields = dict.fromkeys((*CANONICAL, *(key for battle in first for key in battle.extra)))
    buffer = io.StringIO(newline="")
    writer = csv.DictWriter(buffer, list(fields), lineterminator="\n")
    writer.writeheader()
    lines: list[bytes] = []
    for number, battle in enumerate(itertools.chain(first, battles), start=1):
        row = battle.to_dict()
        try:
            writer.writerow({key: _cell(value) for key, value in row.items()})
            lines.append(_drained(buffer))
        except ValueError:
            new = ", ".join(key for key in row if key not in fields) or "a field"
            raise BadOption(f"battle {number}: CSV cannot hold {new}; write JSON Lines or Parquet") from None
        if len(lines) == _PIECE_LINES:
            yield b"".join(lines)
            lines.clear()
    yield b"".join(lines) + _drained(buffer)


def stream_parquet(batches: Iterable[pa.RecordBatch], both_bad: str | None = None) -> Iterator[bytes]:
    """Parquet, with one chunk per batch and one for the footer. The first batch fixes columns and types."""
    import pyarrow.parquet as pq

    sink = _Sink()
    writer, schema, row = None, None, 0
    try:
        for batch in batches:
            # A batch in the canonical types and order, or those of ``schema`` if given.
            #
            # ``row`` is the number of rows written before, for error messages.
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
                    array = _spelled(array, row, both_bad)
                elif name in TEXT:
                    array = array.cast(pa.string())
                elif schema is not None and name not in TYPES:
                    array = _fitted(array, schema.field(name), row)
                arrays.append(array)
            shaped = pa.RecordBatch.from_arrays(arrays, names=order if schema is None else schema.names)
            if writer is None:
                schema = shaped.schema
                writer = pq.ParquetWriter(
                    pa.PythonFile(sink, mode="w"), schema, compression="zstd", use_dictionary=True
                )
            writer.write_batch(shaped)
            row += batch.num_rows
            yield sink.drain()
    finally:
        if writer is not None:
            writer.close()
    yield sink.drain()


class _Sink(io.RawIOBase):
    """An append-only file whose bytes are drained as they are written."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[bytes] = []
        self._written = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        piece = bytes(data)
        self._parts.append(piece)
        self._written += len(piece)
        return len(piece)

    def tell(self) -> int:
        return self._written

    def drain(self) -> bytes:
        parts, self._parts = self._parts, []
        return b"".join(parts)


def _json_pieces(battles: Iterable[Battle]) -> Iterator[bytes]:
    lines = (json_line(f"row {number}", battle.to_dict()) for number, battle in enumerate(battles, start=1))
    while piece := b"".join(itertools.islice(lines, _PIECE_LINES)):
        yield piece


def _drained(buffer: io.StringIO) -> bytes:
    piece = buffer.getvalue().encode()
    buffer.seek(0)
    buffer.truncate()
    return piece


def _plain_date(value: object) -> str:
    if isinstance(value, date):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} {value!r}")


_ENCODER = json.JSONEncoder(ensure_ascii=False, default=_plain_date)


def _cell(value: object) -> object:
    return json.dumps(value, default=str) if isinstance(value, dict | list | bool) else value


def battle_batches(battles: Iterable[Battle], size: int) -> Iterator[pa.RecordBatch]:
    """Battles as batches of one schema; at least one batch.

    An unknown field whose values in the first batch have one simple type gets a column; values that
    do not fit are written as JSON to the column ``extra_json``. If there is only one batch, unneeded
    columns are left out.
    """
    stream = iter(battles)
    first = list(itertools.islice(stream, size))
    # Unknown fields that can be columns: all their values have one simple type.
    seen: dict[str, set[type]] = {}
    for battle in first:
        for name, value in battle.extra.items():
            if value is not None:
                seen.setdefault(name, set()).add(type(value))
    kinds = {
        name: next(iter(kinds))
        for name, kinds in seen.items()
        if len(kinds) == 1
        and kinds <= ({int, float} if name in STYLE else set(_SIMPLE))
        and (
            name.isprintable()
            and name != ""
            and "." not in name
            and name not in (*CANONICAL, "outcome", EXTRA_JSON)
        )
    }
    chunk = list(itertools.islice(stream, size))
    yield _batch(first, kinds) if chunk else _needed(_batch(first, kinds))
    while chunk:
        yield _batch(chunk, kinds)
        chunk = list(itertools.islice(stream, size))


def _spelled(winners: pa.Array, row: int, both_bad: str | None) -> pa.Array:
    coded = winners if pa.types.is_dictionary(winners.type) else winners.dictionary_encode()
    places = coded.indices
    if coded.null_count:
        number = row + coded.is_null().index(True).as_py() + 1
        raise BadBattle("winner is missing", where=f"row {number}")
    spellings: list[str | None] = []
    for code, text in enumerate(coded.dictionary.to_pylist()):
        try:
            outcome = parse_outcome(text)
            kept = both_bad or (TIE_BOTH_BAD if text == TIE_BOTH_BAD else outcome.value)
            spellings.append(kept if outcome is Outcome.BOTH_BAD else outcome.value)
        except BadBattle as error:
            first = places.index(pa.scalar(code, places.type)).as_py()
            if first >= 0:
                raise BadBattle(error.problem, where=f"row {row + first + 1}") from None
            spellings.append(None)
    return typed_array(spellings, pa.string()).take(places)


def _fitted(array: pa.Array, column: pa.Field, row: int) -> pa.Array:
    try:
        return array.cast(column.type)
    except pa.ArrowException:
        raise BadOption(
            f"after row {row}: column {column.name} has type {array.type}, but the first batch had {column.type}"
        ) from None


def _batch(battles: Sequence[Battle], kinds: dict[str, type]) -> pa.RecordBatch:
    columns: dict[str, list[Any]] = {name: [] for name in (*CANONICAL, *kinds, EXTRA_JSON)}
    for battle in battles:
        for name in CANONICAL:
            columns[name].append(getattr(battle, name))
        columns["winner"][-1] = battle.spelled_winner
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
        return typed_array(values, kind)
    except (pa.ArrowException, OverflowError, ValueError) as error:
        raise BadBattle(f"{name} cannot be written to Parquet: {error}") from None


def _fits(value: object, kind: type) -> bool:
    if type(value) is not kind:
        return False
    return not isinstance(value, int) or -_INT64_LIMIT <= value < _INT64_LIMIT
