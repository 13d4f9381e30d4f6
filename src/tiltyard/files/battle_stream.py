"""Streams battles as the bytes of a file, for responses sent before the file is complete."""

from __future__ import annotations

import csv
import io
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from tiltyard.core.battles.battle import Battle
from tiltyard.errors import BadBattle, BadOption
from tiltyard.files.canonical_columns import CANONICAL
from tiltyard.files.parquet_batches import battle_batches, canonical_batch

Container = Literal["jsonl", "csv", "parquet"]

#: Battles in one chunk; at most two chunks are in memory.
_PIECE_BATTLES = 8192
_PIECE_LINES = 1024


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


def stream_parquet(batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    """Parquet, with one chunk per batch and one for the footer. The first batch fixes columns and types."""
    sink = _Sink()
    writer, schema, row = None, None, 0
    try:
        for batch in batches:
            shaped = canonical_batch(batch, schema, row)
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


def _plain(value: object) -> str:
    if isinstance(value, date):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} {value!r}")


_ENCODER = json.JSONEncoder(ensure_ascii=False, default=_plain)


def _cell(value: object) -> object:
    return json.dumps(value, default=str) if isinstance(value, dict | list | bool) else value
