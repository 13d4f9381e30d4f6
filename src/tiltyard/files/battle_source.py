"""Opens whatever holds battles (paths, patterns, addresses, frames, rows) and returns battles or batches of columns."""

from __future__ import annotations

import glob
import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from tiltyard.core.battles.battle import Battle
from tiltyard.errors import BadBattle, BadOption, CannotRate, UnknownFormat, UnreadableFile
from tiltyard.files.canonical_columns import CANONICAL, OTHER_NAMES, REQUIRED, STYLE, TYPES
from tiltyard.files.conditions import Condition
from tiltyard.files.format import BattleFormat
from tiltyard.files.format_detection import (
    column_option,
    detect,
    find_format,
    foreign_formats,
    native_format,
    open_input_records,
    with_foreign_headers,
)
from tiltyard.files.input_address import address_of, fetch_address
from tiltyard.files.input_file import InputFile, Records, open_input, translate_read_errors
from tiltyard.files.invalid_rows import InvalidRows, ValueRepairs
from tiltyard.files.memory_records import FrameRecords, ListRecords, records_in_memory
from tiltyard.files.native_columns import ColumnReader
from tiltyard.files.parquet_records import ParquetRecords
from tiltyard.files.read_options import QUESTION_NAMES, ReadOptions, RenamedColumns, respelled
from tiltyard.files.row_reader import CsvReader, RowReader, csv_records
from tiltyard.foundation.arrays import Bools
from tiltyard.foundation.option_names import quoted_list

#: The columns of an arena's export that say whether the vote was blind, and why it is not rated.
BLIND, UNRATED = "blind", "unrated"
#: The spellings of false: spreadsheets write capitals.
_NOT_BLIND = frozenset({"false", "0"})
#: Names by which people call columns.
COLUMN_ALIASES = {"judge": "judge_model"}
#: Records that can be read by column.
_BY_COLUMN = (ParquetRecords, FrameRecords, RenamedColumns)
#: What rating reads of a battle, and may find invalid.
_RATED = ("model_a", "model_b", "winner", "label", "both_bad", "pref", "weight")
_KNEW = "the voter knew the name of a model (blind is false)"
_COPY = "repeats an earlier battle"
_UNRATED = {
    "not-blind": _KNEW,
    "unseen": "a response had not been shown to the voter (unrated is unseen)",
    "early": "the vote came too soon after both responses were shown (unrated is early)",
    "waiting": "the voter was new, and the vote did not count yet (unrated is waiting)",
}
#: One file, read as one format.
BattleReader = RowReader | ColumnReader


@dataclass(frozen=True)
class BattleSource:
    """Battles in a file or a folder, opened but not yet read.

    ``columns`` are its canonical columns, the unknown ones of native files, and the style columns
    that can be measured in its answers. ``rows`` is known only for native Parquet. Every call of `batches` and
    `battles` starts again at the first battle, even if the bytes came from a pipe.
    """

    path: str
    format: str
    rows: int | None
    columns: tuple[str, ...]
    readers: tuple[BattleReader, ...] = field(repr=False)
    #: The files that were fetched from an address; their names say how to fetch the same bytes.
    fetched: tuple[InputFile, ...] = field(default=(), repr=False, compare=False)
    #: The battles, in their order, that are left out because they repeat an earlier one.
    copies: Bools | None = field(default=None, repr=False, compare=False)
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
        self._clear()
        batches = self._aligned(chosen, batch_size)
        return batches if self.copies is None else self._distinct(batches, self.copies)

    def battles(self) -> Iterator[Battle]:
        """The battles, each validated."""
        self._clear()
        read = (battle for reader in self.readers for battle in reader.battles(self._tally))
        rated = (battle for battle in read if not self._left_out(battle))
        if self.copies is None:
            return rated
        copies = self.copies.tolist()
        self._tally[_COPY] = sum(copies)
        return (battle for battle, is_copy in zip(rated, copies, strict=False) if not is_copy)

    @property
    def stored(self) -> tuple[str, ...]:
        """The columns that the file contains, without those measured in its answers."""
        return tuple(_union(reader.stored + reader.later for reader in self.readers))

    @property
    def notes(self) -> tuple[tuple[str, int], ...]:
        """The reason and number of records skipped so far by the current or last read."""
        invalid = [note for reader in self.readers if reader.invalid for note in reader.invalid.notes()]
        return (*(+self._tally).most_common(), *invalid)

    @property
    def remarks(self) -> tuple[str, ...]:
        """What the current or last read left out or changed, and headers that are read otherwise, in sentences."""
        left_out = [f"{count} left out: {reason}" for reason, count in self.notes]
        changed = [remark for reader in self.readers for remark in reader.repairs.remarks()]
        return tuple(f"{self.path}: {remark}" for remark in dict.fromkeys((*left_out, *changed)))

    def column_name(self, name: str) -> str | None:
        """The column that a user means by this name, if there is one."""
        known = self.column_names
        meant = (COLUMN_ALIASES.get(name, name), name, QUESTION_NAMES.get(name, name))
        return next((one for one in meant if one in known), None)

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names of all columns of the files, also of those that their format does not use."""
        return tuple(_union(reader.stored + reader.keepable for reader in self.readers))

    def choosing(self, condition: Condition | None, columns: Sequence[str] = ()) -> BattleSource:
        """The same source, with these columns kept, for the battles that meet the condition.

        Names are those that `column_name` knows; others are missing in all battles.
        """
        names = {name: self.column_name(name) or name for name in (condition.columns if condition else ())}
        chosen = condition.renamed(names) if condition else None
        kept = [*names.values(), *(self.column_name(name) or name for name in columns)]
        readers = tuple(reader.choosing(chosen, kept) for reader in self.readers)
        named = tuple(_union(reader.stored + reader.countable for reader in readers))
        return replace(self, readers=readers, columns=named, copies=None, _tally=Counter())

    def find_invalid(self) -> InvalidRows:
        """Read all rows, and return those that are no battles."""
        invalid = InvalidRows()
        readers = tuple(reader.collecting(invalid) for reader in self.readers)
        for _ in replace(self, readers=readers, _tally=Counter()).batches(_RATED):
            pass
        return invalid

    def _clear(self) -> None:
        self._tally.clear()
        for reader in self.readers:
            reader.repairs.changes.clear()
            if reader.invalid is not None:
                reader.invalid.clear()

    def _chosen(self, columns: Sequence[str] | None) -> list[str]:
        if columns is None:
            return list(self.stored)
        possible = {*self.stored, *self.columns}
        for name in columns:
            if name not in possible and name not in CANONICAL:
                raise BadOption(f"{self.path} has no column {name!r}; it has: {quoted_list(self.columns)}")
        return [name for name in dict.fromkeys(columns) if name in possible]

    def _aligned(self, chosen: Sequence[str], batch_size: int) -> Iterator[pa.RecordBatch]:
        types = {**TYPES, **dict.fromkeys(STYLE, pa.float64())}
        types |= {name: kind for reader in self.readers for name, kind in reader.types.items()}
        for reader in self.readers:
            has = {*reader.stored, *reader.later, *reader.countable}
            here = [name for name in chosen if name in has]
            marks = [name for name in (BLIND, UNRATED) if name in reader.stored]
            asked = [*here, *(name for name in marks if name not in here)]
            for read in reader.batches(asked, batch_size, self._tally):
                batch = self._rated_rows(read, marks).select(here) if marks else read
                yield batch if len(here) == len(chosen) else _filled(batch, chosen, types)

    def _distinct(self, batches: Iterator[pa.RecordBatch], copies: Bools) -> Iterator[pa.RecordBatch]:
        row = 0
        for batch in batches:
            kept = ~copies[row : row + batch.num_rows]
            row += batch.num_rows
            self._tally[_COPY] += batch.num_rows - int(kept.sum())
            yield batch.filter(pa.array(kept))

    def _rated_rows(self, batch: pa.RecordBatch, marks: Sequence[str]) -> pa.RecordBatch:
        columns = [batch.column(name).to_pylist() for name in marks]
        reasons = [_why_unrated(**dict(zip(marks, row, strict=True))) for row in zip(*columns, strict=True)]
        if not any(reasons):
            return batch
        self._tally.update(reason for reason in reasons if reason)
        return batch.filter(pa.array([not reason for reason in reasons]))

    def _left_out(self, battle: Battle) -> bool:
        reason = _why_unrated(battle.extra.get(BLIND), battle.extra.get(UNRATED))
        if reason:
            self._tally[reason] += 1
        return bool(reason)


def _why_unrated(blind: object = None, unrated: object = None) -> str | None:
    """Why the vote of a row is not rated, by its columns; ``None`` if it is."""
    if str(blind).strip().lower() in _NOT_BLIND:
        return _KNEW
    return _UNRATED.get(str(unrated).strip().lower())


def open_battles(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    columns: Mapping[str, str] | None = None,
    outcomes: Mapping[Any, str] | None = None,
    skip_invalid: bool = False,
    rename: Mapping[str, str] | Sequence[str] | None = None,
) -> BattleSource:
    """Open a file and detect its format, without reading all of it.

    ``path`` is a file, ``-`` for standard input, a folder of Parquet or JSON Lines files of
    a single format, or an address: ``hf://datasets/OWNER/NAME`` or ``https://HOST/FILE``.
    ``format`` names the format instead of detecting it; ``columns`` maps canonical names to the
    headers of a file in no known format. ``outcomes`` says what words of
    the winner column mean, such as ``{"left": "a"}``. ``rename`` calls models otherwise. ``skip_invalid`` leaves out rows that are no
    battles and counts them in ``notes``; otherwise the first one raises.
    """
    return open_path(path, ReadOptions(format, columns, outcomes, skip_invalid, rename=rename))


def open_path(path: str | os.PathLike[str], options: ReadOptions) -> BattleSource:
    """Open a file with these options."""
    address = address_of(path)
    if address is not None:
        fetched = fetch_address(address)
        return replace(_together(fetched.path, fetched.files, options), fetched=fetched.files)
    text = os.fspath(path)
    return _together(text, [open_input(part) for part in _parts(text)], options)


def open_file(file: InputFile, options: ReadOptions) -> BattleSource:
    """Open one file that is there already, under its own name."""
    return _together(file.name, [file], options)


def _together(text: str, files: Sequence[InputFile], options: ReadOptions) -> BattleSource:
    opened = [_opened(open_input_records(file), options) for file in files]
    names = sorted({name for name, _ in opened})
    if len(names) > 1:
        raise UnknownFormat(
            f"{text}: the files have different formats ({', '.join(names)}); name a single file"
        )
    return _source(text, names[0], tuple(reader for _, reader in opened))


def open_memory(records: Records, options: ReadOptions) -> BattleSource:
    """Open records that are in memory as `open_battles` opens those of a file."""
    name, reader = _opened(records, options)
    return _source(records.name, name, (reader,))


@contextmanager
def explain_invalid(
    sources: Sequence[BattleSource], *, offered: Collection[str] = ("rename", "outcomes", "skip_invalid")
) -> Iterator[None]:
    """Say of an invalid row how many others there are, of what kinds, and what to do, by the options that are offered."""
    try:
        yield
    except BadBattle:
        for source in sources:
            invalid = source.find_invalid()
            if invalid.problems:
                raise invalid.error(offered) from None
        raise


def require_column(sources: Sequence[BattleSource], name: str, option: str) -> None:
    """Raise `BadOption`, which names the option, unless a source has a column of this name."""
    if not any(source.column_name(name) for source in sources):
        columns = dict.fromkeys(column for source in sources for column in source.column_names)
        raise BadOption(f"{option}: the battles have no column {name}; they have {quoted_list([*columns])}")


def _source(path: str, format: str, readers: tuple[BattleReader, ...]) -> BattleSource:
    counts = [reader.rows for reader in readers]
    return BattleSource(
        path=path,
        format=format,
        rows=None if None in counts else sum(filter(None, counts)),
        columns=tuple(_union(reader.stored + reader.countable for reader in readers)),
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


def _opened(records: Records, options: ReadOptions) -> tuple[str, BattleReader]:
    name = options.format
    padded = tuple(header for header in records.columns if header != header.strip())
    mapped = {field: _meant_header(header, records.columns) for field, header in options.mapped.items()}
    if not foreign_formats(records):
        foreign = None if mapped else with_foreign_headers(records)
        records = foreign or respelled(records, mapped)
    if name is not None:
        found = find_format(name, records)
    elif mapped and records.kind != "empty":
        found = native_format(records.kind)
    else:
        found = detect(records)
    if options.baseline is not None and found.with_baseline is not None:
        found = found.with_baseline(options.baseline)
    _check_columns(records, found, mapped)
    invalid = InvalidRows() if options.skip_invalid else None
    repairs = ValueRepairs(options.renamed, padded)
    if isinstance(records, _BY_COLUMN) and not found.reads:
        return found.name, ColumnReader(records, mapped, options.meanings, invalid, repairs=repairs)
    by_rows = CsvReader if csv_records(records) is not None and not found.reads else RowReader
    return found.name, by_rows(records, found, mapped, options.meanings, invalid, repairs=repairs)


def _meant_header(header: str, headers: Collection[str]) -> str:
    """The header that is meant: this one, or the only one that is the same but for case and outer spaces."""
    same = [one for one in headers if one.strip().casefold() == header.strip().casefold()]
    return same[0] if header not in headers and len(same) == 1 else header


def _check_columns(records: Records, found: BattleFormat, mapped: Mapping[str, str]) -> None:
    """Check that the records have every required column and every mapped header."""
    seen = quoted_list(records.columns)
    fixed = records.kind in ("csv", "xlsx", "parquet", "frame")
    for name, header in mapped.items():
        if header not in records.columns and (fixed or name in REQUIRED):
            option = column_option({name: header})
            raise BadOption(f"{option}: {records.name} has no column {header!r}; it has: {seen}")
    if found.reads or records.kind == "empty":
        return
    free = [name for name in records.columns if name not in mapped.values()]
    present = {*mapped, *free, *(OTHER_NAMES[name] for name in free if name in OTHER_NAMES)}
    by_column = isinstance(records, _BY_COLUMN)
    if by_column and {"winner", "outcome"} <= set(records.columns) and "winner" not in mapped:
        option = column_option(["winner"])
        raise UnknownFormat(f"{records.name}: has both winner and outcome; choose one with {option}")
    missing = [name for name in REQUIRED if name not in present]
    if missing:
        raise UnknownFormat(
            f"{records.name}: no column for {', '.join(missing)} among: {seen}; "
            f"name the headers with {column_option(missing)}"
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


#: A path or a pattern, a frame (any object with ``__arrow_c_stream__``), a mapping of columns, or an
#: iterable of paths, of rows or of battles.
BattleData = (
    str | os.PathLike[str] | BattleSource | Mapping[str, Any] | Iterable[Mapping[str, Any] | Battle] | Any
)


def open_data(data: BattleData, options: ReadOptions) -> list[BattleSource]:
    """Open battles, wherever they are; several paths are several sources."""
    if isinstance(data, BattleSource):
        return [data]
    if isinstance(data, str | os.PathLike):
        return [open_path(path, options) for path in _matching_paths(data)]
    records = records_in_memory(data)
    rows = records.items if isinstance(records, ListRecords) else (None,)
    if not rows:
        raise CannotRate(f"no battles: {records.name} is empty")
    if all(isinstance(row, str | os.PathLike) for row in rows):
        return [source for path in rows for source in open_data(path, options)]
    return [open_memory(records, options)]


def _matching_paths(path: str | os.PathLike[str]) -> list[str]:
    """The files that a pattern matches; a path that exists is not a pattern."""
    text = os.fspath(path)
    if address_of(path) is not None:
        return [text]
    if text == "-" or not glob.has_magic(text) or os.path.lexists(text):
        return [text]
    paths = sorted(glob.glob(text, recursive=True))  # noqa: PTH207 - a pattern may be absolute
    if not paths:
        raise UnreadableFile(f"{text}: no file matches; check the pattern")
    return paths
