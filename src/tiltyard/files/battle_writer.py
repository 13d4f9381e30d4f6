"""Writes battle files atomically, in chunks."""

from __future__ import annotations

import gzip
import itertools
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import BinaryIO, cast

import pyarrow as pa
import pyarrow.parquet as pq

from tiltyard.core.battles.battle import Battle
from tiltyard.errors import BadOption
from tiltyard.files.battle_stream import json_line, stream_csv
from tiltyard.files.parquet_batches import battle_batches, canonical_batch
from tiltyard.foundation.local_files import atomic_write

__all__ = ["write_batches", "write_battles", "write_rows"]

_CHUNK_BATTLES = 65_536
_JSON_ENDINGS = (".jsonl", ".jsonl.gz", ".jsonl.zst")
_ENDINGS = (*_JSON_ENDINGS, ".csv", ".csv.gz", ".csv.zst", ".parquet")


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


def write_batches(path: str | os.PathLike[str], batches: Iterable[pa.RecordBatch]) -> None:
    """Write batches to a Parquet file: canonical columns first, outcomes in canonical spelling.

    The first batch fixes the columns and their types; later ones must fit them.
    """
    stream = iter(batches)
    first = next(stream, None)
    if first is None:
        first = next(battle_batches([], _CHUNK_BATTLES))
    row = 0
    with atomic_write(os.fspath(path)) as file:
        first = canonical_batch(first, None, row)
        with pq.ParquetWriter(file, first.schema, compression="zstd", use_dictionary=True) as writer:
            for batch in itertools.chain([first], stream):
                writer.write_batch(batch if batch is first else canonical_batch(batch, first.schema, row))
                row += batch.num_rows


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
