"""Reads formats record by record: converts records to battles, and battles to batches of columns."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from tiltyard.core.battles.battle import Battle
from tiltyard.errors import BadBattle
from tiltyard.files.canonical_columns import CANONICAL, OTHER_NAMES, STYLE, TYPES, typed_array
from tiltyard.files.conditions import Condition
from tiltyard.files.format import BattleFormat, Settled, SkippedRecord
from tiltyard.files.invalid_rows import InvalidRows
from tiltyard.files.read_options import named_winner, outcome_word
from tiltyard.files.records import Records
from tiltyard.files.style_text import style_row
from tiltyard.files.value_repairs import ValueRepairs
from tiltyard.foundation.option_names import option_name, quoted

#: Appended if a preference contradicts the winner: JudgeArena's early files look like native ones.
_OTHER_WAY_ROUND = "; if pref is the probability that B is better, read the file with "


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
