"""Reads formats record by record: converts records to battles, and battles to batches of columns."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tiltyard.core.battles.battle import Battle
from tiltyard.errors import BadBattle
from tiltyard.files.canonical_columns import CANONICAL, OTHER_NAMES, STYLE, TYPES
from tiltyard.files.format import BattleFormat, Settled, SkippedRecord
from tiltyard.files.records import Records
from tiltyard.files.style_text import style_row

__all__ = ["RowReader", "parse_battle"]

#: Appended if a preference contradicts the winner: JudgeArena's early files look like native ones.
_OTHER_WAY_ROUND = "; if pref is the probability that B is better, read the file with --format judgearena"


@dataclass(frozen=True)
class RowReader:
    """Records read as one format. ``mapped`` maps canonical names to headers, where they differ."""

    records: Records
    format: BattleFormat
    mapped: Mapping[str, str] = field(default_factory=dict)

    @property
    def rows(self) -> int | None:
        return None

    @property
    def stored(self) -> tuple[str, ...]:
        if self.format.reads:
            return tuple(name for name, header in self.format.gives.items() if header in self._names)
        headers = [OTHER_NAMES.get(name, name) for name in self._names]
        known = [name for name in CANONICAL if name in headers]
        return (*known, *(name for name in dict.fromkeys(headers) if name not in CANONICAL))

    @property
    def later(self) -> tuple[str, ...]:
        if self.format.reads or self.records.kind == "csv":
            return ()
        return tuple(name for name in CANONICAL if name not in self.stored)

    @property
    def countable(self) -> tuple[str, ...]:
        if self.format.answers is None or not set(self._names).issuperset(self.format.answers_in):
            return ()
        return tuple(name for name in STYLE if name not in self._names)

    @property
    def types(self) -> Mapping[str, pa.DataType]:
        return {}

    def battles(self, tally: Counter[str], /) -> Iterator[Battle]:
        for _, battle in self._located(tally, style=False):
            yield battle

    def batches(
        self, columns: Sequence[str], batch_size: int, tally: Counter[str], /
    ) -> Iterator[pa.RecordBatch]:
        style = not set(columns).isdisjoint(self.countable)
        located = self._located(tally, style=style)
        while chunk := list(itertools.islice(located, batch_size)):
            arrays = [_column(name, chunk) for name in columns]
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns))

    def _located(self, tally: Counter[str], *, style: bool) -> Iterator[tuple[str, Battle]]:
        for where, row in self._settled(style=style):
            if isinstance(row, SkippedRecord):
                tally[row.reason] += 1
            else:
                yield where, parse_battle(where, row)

    def _settled(self, *, style: bool) -> Iterator[Settled]:
        settled = self._converted(style=style)
        return self.format.settle(settled) if self.format.settle else settled

    def _converted(self, *, style: bool) -> Iterator[Settled]:
        reads = (
            {*self.format.reads, *(self.format.answers_in if style else ())} if self.format.reads else None
        )
        for where, record in self.records.records(self._headers(reads)):
            renamed = self._renamed(record)
            try:
                row = self.format.convert(renamed)
                if style and self.format.answers and not isinstance(row, SkippedRecord):
                    row = {**style_row(*self.format.answers(renamed)), **row}
            except BadBattle as error:
                raise BadBattle(error.problem, where=where) from None
            yield where, row

    @property
    def _names(self) -> tuple[str, ...]:
        """The columns of the records, under their mapped names."""
        return tuple(self._renamed(dict.fromkeys(self.records.columns)))

    def _headers(self, names: set[str] | None) -> set[str] | None:
        return None if names is None else {self.mapped.get(name, name) for name in names}

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
        hint = (
            _OTHER_WAY_ROUND if error.problem.startswith("pref ") and "contradicts" in error.problem else ""
        )
        raise BadBattle(error.problem + hint, where=where) from None


def _column(name: str, chunk: Sequence[tuple[str, Battle]]) -> pa.Array:
    if name in CANONICAL:
        values = [getattr(battle, name) for _, battle in chunk]
        kind = TYPES[name]
    else:
        values = [battle.extra.get(name) for _, battle in chunk]
        kind = pa.float64() if name in STYLE else None
    try:
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
            return BadBattle(f"{name} is {value!r}; expected {kind}", where=where)
    raise AssertionError(f"every value of {name} fits alone")
