"""Reads formats record by record, and CSV by column where it can: records become battles, battles batches of columns."""

from __future__ import annotations

import csv
import io
import itertools
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.csv

from tiltyard.core.battles.battle import Battle
from tiltyard.errors import BadBattle, BadOption, InputError, UnreadableFile
from tiltyard.files.canonical_columns import (
    CANONICAL,
    OTHER_NAMES,
    REQUIRED,
    STYLE,
    TYPES,
    canonical_array,
    typed_array,
)
from tiltyard.files.conditions import Condition, wanted_columns
from tiltyard.files.format import BattleFormat, Settled, SkippedRecord
from tiltyard.files.input_file import (
    LINE_BYTES,
    FileRecords,
    InputFile,
    Record,
    Records,
    bounded_lines,
    reject_duplicate_columns,
    translate_read_errors,
)
from tiltyard.files.invalid_rows import InvalidRows, ValueRepairs
from tiltyard.files.read_options import named_winner, outcome_array, outcome_word, winners_by_name
from tiltyard.files.style_text import style_row
from tiltyard.foundation.option_names import option_name, quoted

#: Appended if a preference contradicts the winner: JudgeArena's early files look like native ones.
_OTHER_WAY_ROUND = "; if pref is the probability that B is better, read the file with "

_BLOCK_BYTES = 1 << 22
#: Columns of numbers; text in them that Arrow does not take for a number is left to the reader of rows.
_NUMBERS = frozenset({"pref", "weight", *STYLE})
_DELIMITERS = ",\t;"
_QUOTE = ord('"')
_LINE_ENDS = (ord("\n"), ord("\r"))


@dataclass(frozen=True)
class RowReader:
    """Records read as one format. ``mapped`` maps canonical names to headers, where they differ."""

    records: Records
    format: BattleFormat
    mapped: Mapping[str, str] = field(default_factory=dict)
    #: What words of the file's own mean, and what collects invalid rows; without it, the first one raises.
    outcomes: Mapping[str, str] = field(default_factory=dict)
    invalid: InvalidRows | None = field(default=None, compare=False)
    #: Which battles are read, and headers that the format does not use but that are kept.
    condition: Condition | None = None
    kept: tuple[str, ...] = ()
    repairs: ValueRepairs = field(default_factory=ValueRepairs, compare=False)

    def collecting(self, invalid: InvalidRows, /) -> RowReader:
        """The same reader, which collects invalid rows instead of raising."""
        return replace(self, invalid=invalid)

    def choosing(self, condition: Condition | None, columns: Sequence[str], /) -> RowReader:
        """The same reader, for the battles that meet the condition, and with these columns kept."""
        kept = tuple(name for name in columns if name in self.keepable)
        return replace(self, condition=condition, kept=kept)

    @property
    def keepable(self) -> tuple[str, ...]:
        """Headers that the format does not use, but that `choosing` can keep as columns."""
        if not self.format.reads:
            return ()
        given = {*CANONICAL, *OTHER_NAMES, *self.stored}
        return tuple(name for name in self._names if name not in given)

    @property
    def rows(self) -> int | None:
        return None

    @property
    def stored(self) -> tuple[str, ...]:
        """Canonical columns, then unknown ones."""
        if self.format.reads:
            given = (name for name, header in self.format.gives.items() if header in self._names)
            return (*given, *self.kept)
        headers = [OTHER_NAMES.get(name, name) for name in self._names]
        known = [name for name in CANONICAL if name in headers]
        return (*known, *(name for name in dict.fromkeys(headers) if name not in CANONICAL))

    @property
    def later(self) -> tuple[str, ...]:
        """Canonical columns that are not in the first records, but may be in later ones."""
        if self.format.reads or self.records.kind in ("csv", "xlsx"):
            return ()
        return tuple(name for name in CANONICAL if name not in self.stored)

    @property
    def countable(self) -> tuple[str, ...]:
        """Style columns that are not stored, but can be measured in the answers."""
        if self._style is None:
            return ()
        return tuple(name for name in STYLE if name not in self._names)

    @property
    def _style(self) -> tuple[Callable[[Mapping[str, object]], Mapping[str, float]], tuple[str, ...]] | None:
        """What makes the style columns of a record, from which headers: stated counts, else the answers."""
        names, given = set(self._names), self.format
        if given.style is not None and names.issuperset(given.style_in):
            return given.style, given.style_in
        if given.answers_in and names.issuperset(given.answers_in):
            return lambda record: style_row(*given.answers(record)), given.answers_in
        return None

    @property
    def types(self) -> Mapping[str, pa.DataType]:
        """The types of unknown columns, if the file fixes them."""
        return {}

    def battles(self, tally: Counter[str], /) -> Iterator[Battle]:
        """The battles, each validated; records that are not battles are counted in ``tally``."""
        for _, battle in self._located(tally, style=False):
            yield battle

    def batches(
        self, columns: Sequence[str], batch_size: int, tally: Counter[str], /
    ) -> Iterator[pa.RecordBatch]:
        """The same as batches of exactly these columns."""
        located = self._located(tally, style=self._measures(columns))
        return self._row_batches(located, columns, batch_size)

    def _measures(self, columns: Sequence[str]) -> bool:
        """Whether style must be measured for these columns."""
        return not set(columns).isdisjoint(self.countable)

    @staticmethod
    def _row_batches(
        located: Iterator[tuple[str, Battle]], columns: Sequence[str], batch_size: int
    ) -> Iterator[pa.RecordBatch]:
        while chunk := list(itertools.islice(located, batch_size)):
            arrays = [_column(name, chunk) for name in columns]
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns))

    def _located(self, tally: Counter[str], *, style: bool) -> Iterator[tuple[str, Battle]]:
        settled = self._converted(style=style)
        settled_rows = self.format.settle(settled) if self.format.settle else settled
        for where, row in settled_rows:
            if isinstance(row, SkippedRecord):
                tally[row.reason] += 1
                continue
            try:
                battle = self._battle(where, row)
            except BadBattle as error:
                if not self._chooses(row.get, tally):
                    continue
                if self.invalid is None:
                    raise
                self.invalid.add(where, error.problem, row)
            else:
                if self._chooses(battle.value, tally):
                    yield where, battle

    def _chooses(self, value: Callable[[str], object], tally: Counter[str]) -> bool:
        """Whether the condition holds for these values; if not, the battle is counted."""
        if self.condition is None or self.condition.holds(value):
            return True
        tally[self.condition.reason] += 1
        return False

    def _battle(self, where: str, row: Mapping[str, object]) -> Battle:
        row = self.repairs.row(row)
        key = "winner" if row.get("winner") is not None else "outcome"
        if self.outcomes:
            meaning = self.outcomes.get(outcome_word(row.get(key)))
            row = row if meaning is None else {**row, key: meaning}
        if not self.format.reads:
            named = named_winner(row.get(key), row.get("model_a"), row.get("model_b"))
            row = row if named is None else {**row, key: named}
        return parse_battle(where, row)

    def _converted(self, *, style: bool) -> Iterator[Settled]:
        measure, style_in = self._style if style and self._style is not None else (None, ())
        reads = {*self.format.reads, *style_in, *self.kept} if self.format.reads else None
        for where, record in self.records.records(
            None if reads is None else {self.mapped.get(name, name) for name in reads}
        ):
            renamed = self._renamed(record)
            try:
                row = self.format.convert(renamed)
                if measure is not None and not isinstance(row, SkippedRecord):
                    row = {**measure(renamed), **row}
                if self.kept and not isinstance(row, SkippedRecord):
                    row = {**{name: renamed[name] for name in self.kept if name in renamed}, **row}
            except BadBattle as error:
                if self.invalid is None:
                    raise BadBattle(error.problem, where=where) from None
                self.invalid.add(where, error.problem, {})
            else:
                yield where, row

    @property
    def _names(self) -> tuple[str, ...]:
        """The columns of the records, under their mapped names."""
        return tuple(self._renamed(dict.fromkeys(self.records.columns)))

    def _renamed(self, record: dict[str, object]) -> dict[str, object]:
        if not self.mapped:
            return record
        used = {*self.mapped, *self.mapped.values()}
        if "winner" in self.mapped:
            used.add("outcome")
        renamed = {name: record[header] for name, header in self.mapped.items() if header in record}
        return renamed | {key: value for key, value in record.items() if key not in used}


def parse_battle(where: str, row: Mapping[str, object]) -> Battle:
    """Parse the battle in a row; errors name ``where``."""
    try:
        return Battle.from_dict(row)
    except BadBattle as error:
        contradicts = error.problem.startswith("pref ") and "contradicts" in error.problem
        hint = _OTHER_WAY_ROUND + option_name("format", "judgearena") if contradicts else ""
        raise BadBattle(error.problem + hint, where=where) from None


def _column(name: str, chunk: Sequence[tuple[str, Battle]]) -> pa.Array:
    if name in CANONICAL:
        values = [getattr(battle, name) for _, battle in chunk]
        kind = TYPES[name]
    else:
        values = [battle.extra.get(name) for _, battle in chunk]
        kind = pa.float64() if name in STYLE else None
    try:
        if name in CANONICAL:
            return typed_array(values, TYPES[name])
        return pa.array(values, type=kind) if kind else _free_array(values)
    except (pa.ArrowException, OverflowError, ValueError, TypeError):
        raise _first_bad(name, kind, chunk, values) from None


def _free_array(values: Sequence[Any]) -> pa.Array:
    """Values of an unknown field: of one simple type, or as JSON text."""
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int, float} or kinds in ({bool}, {str}):
        try:
            return pa.array(values, type=pa.float64() if float in kinds else None)
        except (pa.ArrowException, OverflowError):
            pass
    return pa.array(
        [None if value is None else json.dumps(value, default=str) for value in values], pa.string()
    )


def _first_bad(
    name: str, kind: pa.DataType, chunk: Sequence[tuple[str, Battle]], values: Sequence[Any]
) -> BadBattle:
    for (where, _), value in zip(chunk, values, strict=True):
        try:
            pa.array([value], type=kind)
        except (pa.ArrowException, OverflowError, ValueError, TypeError):
            return BadBattle(f"{name} is {quoted(value)}; expected {kind}", where=where)
    raise AssertionError(f"every value of {name} fits alone")


@dataclass(frozen=True)
class CsvRecords(FileRecords):
    """A header and its rows; an empty field is an absent value."""

    columns: tuple[str, ...]
    delimiter: str
    kind: ClassVar[str] = "csv"
    rows: ClassVar[int | None] = None

    @classmethod
    def opened(cls, file: InputFile) -> CsvRecords:
        with translate_read_errors(f"{file.name}, line 1"):
            with file.open_text() as stream:
                line = stream.readline(1 << 20)
            delimiter = max(_DELIMITERS, key=line.count)
            columns: list[str] = next(_rows([line], delimiter), [])
        reject_duplicate_columns(f"{file.name}, line 1", columns)
        return cls(file, tuple(columns), delimiter)

    def records(self, _columns: Collection[str] | None = None, /) -> Iterator[Record]:
        for where, fields in self.lines():
            yield where, self.record(where, fields)

    def lines(self) -> Iterator[tuple[str, list[str]]]:
        """Every non-empty line below the header, unprocessed, with its location."""
        with translate_read_errors(self.name), self.file.open_text() as stream:
            reader = _rows(bounded_lines(self.name, stream), self.delimiter)
            next(reader, None)
            while True:
                where = f"{self.name}, line {reader.line_num + 1}"
                try:
                    fields = next(reader, None)
                except csv.Error as error:
                    raise UnreadableFile(f"{where}: broken CSV ({error})") from None
                if fields is None:
                    return
                if fields:
                    yield where, fields

    def record(self, where: str, fields: list[str]) -> dict[str, object]:
        """The fields of a line by their headers; raises if there are more or fewer."""
        if len(fields) != len(self.columns):
            raise UnreadableFile(
                f"{where}: {len(fields)} fields where the header has {len(self.columns)}; "
                "quote a field that contains the delimiter"
            )
        return {name: text for name, text in zip(self.columns, fields, strict=True) if text != ""}


def _rows(lines: Any, delimiter: str) -> Any:
    # Models' answers can exceed the csv module's default limit of 128 kB.
    csv.field_size_limit(max(csv.field_size_limit(), LINE_BYTES))
    return csv.reader(lines, delimiter=delimiter, strict=True)


def csv_records(records: Records) -> CsvRecords | None:
    """The CSV file behind records, whatever their headers are called."""
    origin = getattr(records, "origin", records)
    return origin if isinstance(origin, CsvRecords) else None


@dataclass(frozen=True)
class CsvReader(RowReader):
    """A CSV file of battles."""

    def batches(
        self, columns: Sequence[str], batch_size: int, tally: Counter[str], /
    ) -> Iterator[pa.RecordBatch]:
        asked = wanted_columns(columns, self.condition, self.stored)
        headers = self._file_headers(asked)
        rows, left_out = 0, Counter[str]()
        if self.invalid is None and headers is not None:
            try:
                for read in self._column_batches(asked, headers):
                    batch = read if self.condition is None else self.condition.kept(read, left_out)
                    yield batch.select(list(columns))
                    rows += batch.num_rows
            except BadOption:
                raise
            except (pa.ArrowException, InputError, ValueError, OSError):
                pass
            else:
                tally.update(left_out)
                return
        # From here on every row is read again, and counted again.
        self.repairs.changes.clear()
        rest = itertools.islice(self._located(tally, style=self._measures(columns)), rows, None)
        yield from self._row_batches(rest, columns, batch_size)

    def _file_headers(self, columns: Sequence[str]) -> dict[str, str] | None:
        """The header of each column in the file; nothing where a column is more than text or a number."""
        records = csv_records(self.records)
        assert records is not None
        places = dict(zip(self.records.columns, records.columns, strict=True))
        free = {name: header for name, header in places.items() if name not in self.mapped.values()}
        if {"winner", "outcome"} <= set(free) or self._measures(columns):
            return None
        headers = {**free, **{name: places[header] for name, header in self.mapped.items()}}
        if "winner" not in headers and "outcome" in headers:
            headers["winner"] = headers["outcome"]
        plain = all(name in headers and name != "position" for name in columns)
        return {name: headers[name] for name in columns} if plain and columns else None

    def _column_batches(self, columns: Sequence[str], headers: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
        for read in self._text_batches(list(dict.fromkeys(headers.values()))):
            arrays = {name: self._array(name, read.column(headers[name])) for name in columns}
            if set(REQUIRED) <= set(columns):
                arrays["winner"] = winners_by_name(arrays["winner"], arrays["model_a"], arrays["model_b"])
            yield pa.RecordBatch.from_arrays(list(arrays.values()), names=list(columns))

    def _array(self, name: str, array: pa.Array) -> pa.Array:
        if name in _NUMBERS:
            return array.cast(TYPES.get(name, pa.float64()))
        array = self.repairs.array(name, array)
        return canonical_array(
            self.records.name, name, outcome_array(array, self.outcomes) if name == "winner" else array, 0
        )

    def _text_batches(self, headers: list[str]) -> Iterator[pa.RecordBatch]:
        """The columns as text, with nulls for empty fields."""
        records = csv_records(self.records)
        assert records is not None
        with (
            closing(CheckedQuotes(records.file.open(), records.delimiter)) as stream,
            pyarrow.csv.open_csv(
                stream,
                pyarrow.csv.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES),
                pyarrow.csv.ParseOptions(delimiter=records.delimiter, newlines_in_values=True),
                pyarrow.csv.ConvertOptions(
                    column_types=dict.fromkeys(headers, pa.string()),
                    include_columns=headers,
                    null_values=[""],
                    strings_can_be_null=True,
                ),
            ) as opened,
        ):
            yield from opened


class CheckedQuotes(io.RawIOBase):
    """A stream of CSV that raises `ValueError` before it returns bytes with a misplaced quote.

    A quoted field begins after a delimiter or a line's end, and ends before one; quotes inside it are doubled.
    """

    def __init__(self, stream: BinaryIO, delimiter: str) -> None:
        super().__init__()
        self._stream = stream
        self._borders = np.array([ord(delimiter), *_LINE_ENDS], dtype=np.uint8)
        self._quotes = 0
        self._last = _LINE_ENDS[0]

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        data = self._stream.read(size)
        if data:
            self._check(np.frombuffer(data, dtype=np.uint8))
        elif self._quotes % 2:
            raise ValueError("a quoted field does not end")
        return data

    def close(self) -> None:
        self._stream.close()
        super().close()

    def _check(self, data: np.ndarray[tuple[int], np.dtype[np.uint8]]) -> None:
        after_closing = self._last == _QUOTE and self._quotes % 2 == 0 and self._quotes > 0
        if after_closing and data[0] != _QUOTE and data[0] not in self._borders:
            raise ValueError("text after a quoted field")
        places = np.flatnonzero(data == _QUOTE)
        opening = (np.arange(len(places)) + self._quotes) % 2 == 0
        before = np.concatenate([[self._last], data[:-1]])[places[opening]]
        closings = places[~opening]
        after = data[np.minimum(closings + 1, len(data) - 1)][closings + 1 < len(data)]
        allowed = np.append(self._borders, _QUOTE)
        if not (np.isin(before, allowed).all() and np.isin(after, allowed).all()):
            raise ValueError("a quote in the wrong place")
        self._quotes += len(places)
        self._last = int(data[-1])
