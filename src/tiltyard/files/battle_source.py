"""Opens battle files: takes a path, returns battles or batches of columns."""

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

#: The column of an arena's export that says whether the vote was blind; other votes are not rated.
BLIND = "blind"
#: The spellings of false: spreadsheets write capitals.
_NOT_BLIND = frozenset({"false", "0"})
_KNEW = "the voter knew the name of a model (blind is false)"


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
        """Canonical columns that are not in the first records, but may be in later ones."""
        ...

    @property
    def countable(self) -> tuple[str, ...]:
        """Style columns that are not stored, but can be measured in the answers."""
        ...

    @property
    def types(self) -> Mapping[str, pa.DataType]:
        """The types of unknown columns, if the file fixes them."""
        ...

    def batches(
        self, columns: Sequence[str], batch_size: int, tally: Counter[str], /
    ) -> Iterator[pa.RecordBatch]:
        """Batches of exactly these columns; records that are not battles are counted in ``tally``."""
        ...

    def battles(self, tally: Counter[str], /) -> Iterator[Battle]:
        """The battles, each validated."""
        ...


@dataclass(frozen=True)
class BattleSource:
    """Battles in a file or a folder, opened but not yet read.

    ``columns`` are its canonical columns, the unknown ones of native files, and the style columns
    that can be measured in its answers. ``rows`` is known only for native Parquet.
    ``rereadable``: every call of `batches` and `battles` starts again at the first battle, even if
    the bytes came from a pipe.
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
        """The battles as batches of columns; ``None`` means every stored column.

        Canonical columns that the file lacks are left out; any other unknown name raises
        `BadOption`. Style columns are measured only if they are requested by name. All batches
        have the same columns.
        """
        chosen = self._chosen(columns)
        self._tally.clear()
        return self._aligned(chosen, batch_size)

    def battles(self) -> Iterator[Battle]:
        """The battles, each validated."""
        self._tally.clear()
        return (
            battle
            for reader in self.readers
            for battle in reader.battles(self._tally)
            if not self._left_out(battle)
        )

    @property
    def stored(self) -> tuple[str, ...]:
        """The columns that the file contains, without those measured in its answers."""
        return tuple(_union(reader.stored + reader.later for reader in self.readers))

    @property
    def notes(self) -> tuple[tuple[str, int], ...]:
        """The reason and number of records skipped so far by the current or last read."""
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
            has_blind = BLIND in reader.stored
            asked = here if BLIND in here or not has_blind else [*here, BLIND]
            for read in reader.batches(asked, batch_size, self._tally):
                batch = self._blind_rows(read).select(here) if has_blind else read
                yield batch if len(here) == len(chosen) else _filled(batch, chosen, types)

    def _blind_rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The battles of blind votes."""
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
    """Open a file and detect its format, without reading all of it.

    ``path`` is a file, ``-`` for standard input, or a folder of Parquet or JSON Lines files of
    a single format. ``format`` names the format instead of detecting it; ``columns`` maps
    canonical names to the headers of a file in no known format.
    """
    text = os.fspath(path)
    mapped = dict(columns or {})
    for name in mapped:
        if name not in CANONICAL:
            raise BadOption(
                f"--columns: {name!r} is not a column of a battle; choose from {', '.join(CANONICAL)}"
            )
    opened = [_opened(part, format, mapped) for part in _parts(text)]
    names = sorted({name for name, _ in opened})
    if len(names) > 1:
        raise UnknownFormat(
            f"{text}: the files have different formats ({', '.join(names)}); name a single file"
        )
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
    """All battles of a file."""
    return open_battles(path).battles()


def _parts(text: str) -> list[str]:
    """The files to read: the path itself, or the files in that folder.

    In a run folder only its battles are read, in an arena-hard folder only its judgments.
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
    """Check that the records have every required column and every mapped header."""
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
        raise UnknownFormat(
            f"{records.name}: has both winner and outcome; choose one with --columns winner=…"
        )
    missing = [name for name in REQUIRED if name not in present]
    if missing:
        raise UnknownFormat(
            f"{records.name}: no column for {', '.join(missing)} among: {seen}; "
            f"name the headers with --columns {','.join(f'{name}=…' for name in missing)}"
        )


def _union(names: Iterator[tuple[str, ...]]) -> list[str]:
    """All names without duplicates, canonical ones first in their order."""
    found = dict.fromkeys(name for some in names for name in some)
    return [
        *(name for name in CANONICAL if name in found),
        *(name for name in found if name not in CANONICAL),
    ]


def _filled(
    batch: pa.RecordBatch, columns: Sequence[str], types: Mapping[str, pa.DataType]
) -> pa.RecordBatch:
    """The batch, with nulls in the columns that its file lacks."""
    arrays = [
        batch.column(name)
        if name in batch.schema.names
        else pa.nulls(batch.num_rows, types.get(name, pa.null()))
        for name in columns
    ]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))
