"""Native battles in Parquet files and frames, read by column; single rows are read only when necessary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from tiltyard.core.battles.battle import ALWAYS_WRITTEN, Battle
from tiltyard.errors import BadBattle
from tiltyard.files.canonical_columns import (
    CANONICAL,
    EXTRA_JSON,
    OTHER_NAMES,
    REQUIRED,
    RESPONSES,
    STYLE,
    TEXT,
    canonical_array,
    style_array,
    text_array,
)
from tiltyard.files.conditions import Condition, wanted_columns
from tiltyard.files.input_file import ColumnRecords, translate_read_errors
from tiltyard.files.invalid_rows import InvalidRows, ValueRepairs
from tiltyard.files.json_records import parse_json
from tiltyard.files.read_options import is_outcome, outcome_array, winners_by_name
from tiltyard.files.row_reader import parse_battle
from tiltyard.files.style_text import style_row

_BATCH_ROWS = 4096


@dataclass(frozen=True)
class ColumnReader:
    """Columns of battles, with the same methods as `RowReader`. ``mapped`` maps canonical names to headers."""

    records: ColumnRecords
    mapped: Mapping[str, str] = field(default_factory=dict)
    #: What words of the file's own mean, and what collects invalid rows; without it, they are passed on.
    outcomes: Mapping[str, str] = field(default_factory=dict)
    invalid: InvalidRows | None = field(default=None, compare=False)
    condition: Condition | None = None
    repairs: ValueRepairs = field(default_factory=ValueRepairs, compare=False)

    def collecting(self, invalid: InvalidRows, /) -> ColumnReader:
        return replace(self, invalid=invalid)

    def choosing(self, condition: Condition | None, _columns: Sequence[str], /) -> ColumnReader:
        return replace(self, condition=condition)

    @property
    def keepable(self) -> tuple[str, ...]:
        return ()

    @property
    def rows(self) -> int | None:
        return self.records.rows

    @property
    def stored(self) -> tuple[str, ...]:
        headers = self._headers()
        known = [name for name in CANONICAL if name in headers]
        return (*known, *(name for name in headers if name not in CANONICAL))

    @property
    def later(self) -> tuple[str, ...]:
        return ()

    @property
    def countable(self) -> tuple[str, ...]:
        headers = self._headers()
        return tuple(name for name in STYLE if name not in headers) if set(RESPONSES) <= set(headers) else ()

    @property
    def types(self) -> Mapping[str, pa.DataType]:
        known = self.records.column_types
        headers = self._headers().items()
        return {
            n: known[header] for n, header in headers if header in known and n not in {*CANONICAL, *STYLE}
        }

    def batches(
        self, columns: Sequence[str], batch_size: int, tally: Counter[str], /
    ) -> Iterator[pa.RecordBatch]:
        asked = wanted_columns(columns, self.condition, self.stored)
        for batch in self._all_batches(asked, batch_size):
            chosen = batch if self.condition is None else self.condition.kept(batch, tally)
            yield chosen.select(list(columns))

    def _all_batches(self, columns: Sequence[str], batch_size: int) -> Iterator[pa.RecordBatch]:
        countable = self.countable
        counted = [name for name in columns if name in countable]
        reads = [name for name in columns if name not in countable]
        reads += [name for name in RESPONSES if counted and name not in reads]
        row = 0
        for batch in self._read(reads, batch_size, coded=True):
            made = dict(zip(reads, batch.columns, strict=True))
            for name in set(reads).intersection(STYLE):
                made[name] = style_array(self.records.name, name, made[name], row)
            if counted:
                made = self._styles([made[name] for name in RESPONSES], row) | made
            whole = pa.RecordBatch.from_arrays([made[name] for name in columns], names=list(columns))
            yield whole if self.invalid is None else self._valid_rows(whole, row, self.invalid)
            row += batch.num_rows

    def _valid_rows(self, batch: pa.RecordBatch, row: int, invalid: InvalidRows) -> pa.RecordBatch:
        """The rows of a batch that are battles; ``row`` is the number of rows before it."""
        names = [name for name in batch.schema.names if name in CANONICAL]
        if not set(REQUIRED) <= set(names):
            return batch
        valid = [True] * batch.num_rows
        doubtful = _doubtful_rows(batch.select(names))
        for place, values in zip(
            doubtful, batch.select(names).take(pa.array(doubtful, pa.int64())).to_pylist(), strict=True
        ):
            given = {name: value for name, value in values.items() if value is not None}
            where = f"{self.records.name}, row {row + place + 1}"
            try:
                parse_battle(where, given)
            except BadBattle as error:
                valid[place] = False
                invalid.add(where, error.problem, given)
        return batch if all(valid) else batch.filter(pa.array(valid))

    def battles(self, tally: Counter[str], /) -> Iterator[Battle]:
        number = 0
        for batch in self._read(self.stored, _BATCH_ROWS, coded=False):
            with translate_read_errors(
                f"{self.records.name}, rows {number + 1} to {number + batch.num_rows}"
            ):
                rows = batch.to_pylist()
            for row in rows:
                number += 1
                if self.condition is not None and not self.condition.holds(row.get):
                    tally[self.condition.reason] += 1
                    continue
                where = f"{self.records.name}, row {number}"
                try:
                    yield parse_battle(where, _unpacked(where, row))
                except BadBattle as error:
                    if self.invalid is None:
                        raise
                    self.invalid.add(where, error.problem, row)

    def plain_rows(self) -> Iterator[dict[str, object]]:
        """The rows of a file that `write_batches` wrote, as `Battle.to_dict` makes them: each was checked before."""
        for batch in self._read(self.stored, _BATCH_ROWS, coded=False):
            for row in batch.to_pylist():
                known = {name: row.pop(name, None) for name in CANONICAL}
                stated = {n: value for n, value in known.items() if value is not None or n in ALWAYS_WRITTEN}
                yield stated | _unpacked(self.records.name, row)

    def _read(self, columns: Sequence[str], batch_size: int, *, coded: bool) -> Iterator[pa.RecordBatch]:
        """The columns under their canonical names and in their canonical types."""
        headers = self._headers()
        codes = [headers[name] for name in columns if coded and name in TEXT]
        row = 0
        reads = list(dict.fromkeys(headers[name] for name in columns))
        for batch in self.records.batches(reads, batch_size, codes):
            arrays = {}
            for name in columns:
                array = self.repairs.array(name, batch.column(headers[name]))
                array = outcome_array(array, self.outcomes) if name == "winner" else array
                arrays[name] = canonical_array(self.records.name, name, array, row)
            if set(REQUIRED) <= set(columns):
                arrays["winner"] = winners_by_name(arrays["winner"], arrays["model_a"], arrays["model_b"])
            yield pa.RecordBatch.from_arrays(list(arrays.values()), names=list(columns))
            row += batch.num_rows

    def _headers(self) -> dict[str, str]:
        """Maps output column names to headers in the file."""
        taken = {*self.mapped, *self.mapped.values()}
        headers = dict(self.mapped)
        for header in self.records.columns:
            name = OTHER_NAMES.get(header, header)
            if header not in taken and (name == header or name not in self.records.columns):
                headers.setdefault(name, header)
        return headers

    def _styles(self, answers: Sequence[pa.Array], row: int) -> dict[str, pa.Array]:
        """The style columns, measured in the answers of one batch that starts after ``row`` rows."""
        rows = []
        for number, pair in enumerate(
            zip(*(array.to_pylist() for array in answers), strict=True), start=row + 1
        ):
            if not all(isinstance(text, str) for text in pair):
                where = f"{self.records.name}, row {number}"
                raise BadBattle("an answer is missing or is not text; style is measured in text", where=where)
            rows.append(style_row(*pair))
        return {name: pa.array([row[name] for row in rows], pa.float64()) for name in STYLE}


def _doubtful_rows(batch: pa.RecordBatch) -> list[int]:
    """Rows that need a look of their own: a missing or blank name, an odd winner, or values that may contradict it."""
    plain = {name: text_array(batch.column(name)) for name in REQUIRED}
    spelled = [word for word in plain["winner"].unique().to_pylist() if word is not None and is_outcome(word)]
    clear = pc.is_in(plain["winner"], value_set=pa.array(spelled, pa.string()))
    for name in ("model_a", "model_b"):
        blank = pc.equal(pc.utf8_trim_whitespace(plain[name]), "")
        clear = pc.and_(clear, pc.invert(pc.fill_null(blank, True)))
    for name in ("label", "pref", "weight", "both_bad"):
        if name in batch.schema.names:
            clear = pc.and_(clear, batch.column(name).is_null())
    return [place for place, is_clear in enumerate(clear.to_pylist()) if not is_clear]


def _unpacked(where: str, row: dict[str, object]) -> dict[str, object]:
    """The row as written: without absent values, and with the fields kept as JSON restored."""
    packed = row.pop(EXTRA_JSON, None)
    kept = {key: value for key, value in row.items() if value is not None}
    if packed is None:
        return kept
    fields = parse_json(f"{where}, column {EXTRA_JSON}", str(packed).encode())
    if not isinstance(fields, dict):
        raise BadBattle(f"{EXTRA_JSON} is not a JSON object", where=where)
    return fields | kept
