"""The door of this room: a path in, battles or batches of columns out."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from tiltyard.core.battles.battle import Battle
from tiltyard.errors import BadOption, UnknownFormat, UnreadableFile
from tiltyard.files.canonical_columns import CANONICAL, OTHER_NAMES, REQUIRED, STYLE, TYPES
from tiltyard.files.format import BattleFormat
from tiltyard.files.format_detection import detect, find_format, open_records
from tiltyard.files.input_file import translate_read_errors
from tiltyard.files.native import native_format
from tiltyard.files.native_parquet import ParquetReader
from tiltyard.files.parquet_records import ParquetRecords
from tiltyard.files.records import Records
from tiltyard.files.row_reader import RowReader

__all__ = ["BLIND", "BattleSource", "open_battles", "read_battles"]

#: Where an arena's export says whether the voter knew no name; other votes are in no rating.
BLIND = "blind"
#: As files spell it: a spreadsheet writes capitals.
_NOT_BLIND = frozenset({"false", "0"})
_KNEW = "the voter knew a name (blind is false)"


class BattleReader(Protocol):
    """One file, read as one format."""

    @property
    def rows(self) -> int | None: ...
    @property
    def stored(self) -> tuple[str, ...]:
        """Canonical columns, then unknown ones."""
        ...

    @property
    def later(self) -> tuple[str, ...]:
        """Canonical columns that may turn up in later records, though not in the first ones."""
        ...

    @property
    def countable(self) -> tuple[str, ...]:
        """Style columns that are not stored, but can be counted in the answers."""
        ...

    @property
    def types(self) -> Mapping[str, pa.DataType]:
        """The types of unknown columns, where the file fixes them."""
        ...

    def batches(
        self, columns: Sequence[str], batch_size: int, tally: Counter[str], /
    ) -> Iterator[pa.RecordBatch]:
        """Batches of exactly these columns; records that are no battles are counted in ``tally``."""
        ...

    def battles(self, tally: Counter[str], /) -> Iterator[Battle]:
        """The battles one by one, each checked."""
        ...


@dataclass(frozen=True)
class BattleSource:
    """Battles in a file or a folder, opened but not yet read.

    ``columns`` are the canonical columns it has, the unknown ones of our own files, and the
    style columns that can be counted in its answers. ``rows`` is known for our own Parquet
    only. ``rereadable``: every call of `batches` and `battles` starts again from the first
    battle, also where the bytes came from a pipe.
    """

    path: str
    format: str
    rows: int | None
    columns: tuple[str, ...]
    rereadable: bool
    readers: tuple[BattleReader, ...] = field(repr=False)
    _tally: Counter[str] = field(default_factory=Counter, repr=False, compare=False)

    def batches(
        self, columns: Sequence[str] | None = None, batch_size: int = 131072
    ) -> Iterator[pa.RecordBatch]:
        """The battles as batches of columns; ``None`` is every column that is stored.

        A canonical column that the file lacks is left out; any other unknown name raises
        `BadOption`. The style columns are counted when they are asked for by name. All batches
        have the same columns.
        """
        chosen = self._chosen(columns)
        self._tally.clear()
        return self._aligned(chosen, batch_size)

    def battles(self) -> Iterator[Battle]:
        """The battles one by one, each checked."""
        self._tally.clear()
        return (
            battle
            for reader in self.readers
            for battle in reader.battles(self._tally)
            if not self._left_out(battle)
        )

    @property
    def stored(self) -> tuple[str, ...]:
        """The columns that the file holds, without those that are counted in its answers."""
        return tuple(_union(reader.stored + reader.later for reader in self.readers))

    @property
    def notes(self) -> tuple[tuple[str, int], ...]:
        """What the last reading left out: reason and number of records, as far as it has come."""
        return tuple(self._tally.most_common())

    def _chosen(self, columns: Sequence[str] | None) -> list[str]:
        if columns is None:
            return list(self.stored)
        possible = {*self.stored, *self.columns}
        for name in columns:
            if name not in possible and name not in CANONICAL:
                raise BadOption(f"{self.path} has no column {name!r}; it has: {', '.join(self.columns)}")
        return [name for name in dict.fromkeys(columns) if name in possible]

    def _aligned(self, chosen: Sequence[str], batch_size: int) -> Iterator[pa.RecordBatch]:
        types = {**TYPES, **dict.fromkeys(STYLE, pa.float64())}
        types |= {name: kind for reader in self.readers for name, kind in reader.types.items()}
        for reader in self.readers:
            has = {*reader.stored, *reader.later, *reader.countable}
            here = [name for name in chosen if name in has]
            told = BLIND in reader.stored
            asked = here if BLIND in here or not told else [*here, BLIND]
            for read in reader.batches(asked, batch_size, self._tally):
                batch = self._blind_rows(read).select(here) if told else read
                yield batch if len(here) == len(chosen) else _filled(batch, chosen, types)

    def _blind_rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The battles whose voter did not know a name."""
        knew = [_not_blind(value) for value in batch.column(BLIND).to_pylist()]
        if not any(knew):
            return batch
        self._tally[_KNEW] += sum(knew)
        return batch.filter(pa.array([not one for one in knew]))

    def _left_out(self, battle: Battle) -> bool:
        knew = _not_blind(battle.extra.get(BLIND))
        if knew:
            self._tally[_KNEW] += 1
        return knew


def _not_blind(value: object) -> bool:
    return str(value).strip().lower() in _NOT_BLIND


def open_battles(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    columns: Mapping[str, str] | None = None,
) -> BattleSource:
    """Find out what is in a file, without reading it all.

    ``path`` is a file, ``-`` for standard input, or a folder of Parquet or JSON Lines files of
    one format. ``format`` names the format instead of finding it; ``columns`` maps canonical
    names to the headers of a file that follows no known format.
    """
    text = os.fspath(path)
    mapped = dict(columns or {})
    for name in mapped:
        if name not in CANONICAL:
            raise BadOption(
                f"--columns: {name!r} is no column of a battle; choose from {', '.join(CANONICAL)}"
            )
    opened = [_opened(part, format, mapped) for part in _parts(text)]
    names = sorted({name for name, _ in opened})
    if len(names) > 1:
        raise UnknownFormat(f"{text}: its files are of several formats ({', '.join(names)}); name one file")
    readers = tuple(reader for _, reader in opened)
    counts = [reader.rows for reader in readers]
    return BattleSource(
        path=text,
        format=names[0],
        rows=None if None in counts else sum(filter(None, counts)),
        columns=tuple(_union(reader.stored + reader.countable for reader in readers)),
        rereadable=True,
        readers=readers,
    )


def read_battles(path: str | os.PathLike[str]) -> Iterator[Battle]:
    """Every battle of a file, one by one."""
    return open_battles(path).battles()


def _parts(text: str) -> list[str]:
    """The files to read: the path itself, or those in the folder that it is.

    Of a run folder only its battles are read, of a folder of arena-hard only its judgments.
    """
    with translate_read_errors(text):
        folder = Path(text)
        if text == "-" or not folder.is_dir():
            return [text]
        if (folder / "battles.parquet").is_file():
            return [str(folder / "battles.parquet")]
        if (folder / "model_judgment").is_dir():
            folder = folder / "model_judgment"
        files = sorted(str(place) for place in folder.rglob("*") if place.is_file())
        for endings in ((".parquet",), (".jsonl", ".jsonl.gz", ".jsonl.zst")):
            found = [name for name in files if name.endswith(endings)]
            if found:
                return found
    raise UnreadableFile(f"{text}: no .parquet or .jsonl files in this folder")


def _opened(path: str, name: str | None, mapped: Mapping[str, str]) -> tuple[str, BattleReader]:
    records = open_records(path)
    if name is not None:
        found = find_format(name, records)
    elif mapped and records.kind != "empty":
        found = native_format(records.kind)
    else:
        found = detect(records)
    _check_columns(records, found, mapped)
    if isinstance(records, ParquetRecords) and not found.reads:
        return found.name, ParquetReader(records, mapped)
    return found.name, RowReader(records, found, mapped)


def _check_columns(records: Records, found: BattleFormat, mapped: Mapping[str, str]) -> None:
    """Every required column is in the records, and so is every header that was mapped."""
    seen = ", ".join(records.columns)
    fixed = records.kind in ("csv", "parquet")
    for name, header in mapped.items():
        if header not in records.columns and (fixed or name in REQUIRED):
            raise BadOption(
                f"--columns {name}={header}: {records.name} has no column {header!r}; it has: {seen}"
            )
    if found.reads or records.kind == "empty":
        return
    present = {
        *mapped,
        *records.columns,
        *(OTHER_NAMES[name] for name in records.columns if name in OTHER_NAMES),
    }
    if records.kind == "parquet" and {"winner", "outcome"} <= set(records.columns) and "winner" not in mapped:
        raise UnknownFormat(f"{records.name}: has both winner and outcome; say which with --columns winner=…")
    missing = [name for name in REQUIRED if name not in present]
    if missing:
        raise UnknownFormat(
            f"{records.name}: no column for {', '.join(missing)} among: {seen}; "
            f"name the headers with --columns {','.join(f'{name}=…' for name in missing)}"
        )


def _union(names: Iterator[tuple[str, ...]]) -> list[str]:
    """All names once, canonical ones first in their order."""
    found = dict.fromkeys(name for some in names for name in some)
    return [
        *(name for name in CANONICAL if name in found),
        *(name for name in found if name not in CANONICAL),
    ]


def _filled(
    batch: pa.RecordBatch, columns: Sequence[str], types: Mapping[str, pa.DataType]
) -> pa.RecordBatch:
    """The batch with nulls for the columns that its file lacks."""
    arrays = [
        batch.column(name)
        if name in batch.schema.names
        else pa.nulls(batch.num_rows, types.get(name, pa.null()))
        for name in columns
    ]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))
