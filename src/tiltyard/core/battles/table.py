"""The table: battles as integer codes in log order, the counts derived from them, and how many are there twice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tiltyard.core.battles.batch import BattleBatch, NameColumn, to_batches
from tiltyard.core.battles.battle import Battle
from tiltyard.core.battles.cluster_keys import MISSING_KEY, Keys, Levels
from tiltyard.core.battles.counts import Counts, CountsBuilder
from tiltyard.core.battles.repeats import RepeatFinder
from tiltyard.errors import CannotRate
from tiltyard.foundation.arrays import Floats
from tiltyard.foundation.compiled_kernels import choose_kernel

Ints = npt.NDArray[np.integer[Any]]

Tags = Mapping[str, frozenset[str]]
#: The default of an optional column, if only some chunks have it.
_ABSENT = {"prompt": MISSING_KEY, "voter": MISSING_KEY, "weight": 1.0, "pref": np.nan}


@dataclass(frozen=True, slots=True, eq=False)
class CodedBattles:
    """Consecutive battles in log order, with models as indices into the table's names."""

    a: Ints
    b: Ints
    kind: npt.NDArray[np.uint8]
    prompt: Keys | None = None
    voter: Keys | None = None
    weight: Floats | None = None
    pref: Floats | None = None
    covariates: Floats | None = None
    levels: Levels = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.kind)

    def take(self, rows: npt.NDArray[Any]) -> CodedBattles:
        """The given rows (indices or a mask)."""
        columns: dict[str, Any] = {
            name: None if (column := getattr(self, name)) is None else column[rows] for name in _COLUMNS
        }
        return CodedBattles(**columns, levels={level: keys[rows] for level, keys in self.levels.items()})

    def times(self, factor: Floats) -> CodedBattles:
        """The same battles with each weight multiplied by a factor."""
        return replace(self, weight=factor if self.weight is None else self.weight * factor)


_COLUMNS = CodedBattles.__slots__[:-1]


@dataclass(frozen=True, eq=False)
class Table:
    """Battles ready to be rated: names in sorted order, counts, and (unless dropped) the log.

    The log is either kept in memory or read again from its source at each `scan`. A table
    made by `TableBuilder(keep_log=False)` without a source has only counts: sufficient for
    Bradley–Terry with battle-level intervals, whatever the number of battles.
    """

    models: tuple[str, ...]
    counts: Counts
    covariates: tuple[str, ...] = ()
    #: The clusters available in the log: ``prompt``, ``voter`` and the levels.
    keyed: frozenset[str] = frozenset()
    #: Distinct sources, dimensions and judges of the battles.
    tags: Tags = field(default_factory=dict)
    #: How many battles repeat an earlier one by prompt and voter or judge, or by time; and how many in blocks of rows.
    repeats: int = 0
    block_repeats: int = 0
    #: How many prompts are joined to another, because their texts are nearly the same.
    joined_prompts: int = 0
    _log: tuple[CodedBattles, ...] | None = field(default=None, repr=False)
    _reread: Callable[[], Iterable[BattleBatch]] | None = field(default=None, repr=False)
    #: What is changed in the battles of a log that is read again at each scan.
    _change: Callable[[CodedBattles], CodedBattles] | None = field(default=None, repr=False)

    @classmethod
    def from_battles(cls, battles: Iterable[Battle], levels: Sequence[str] = ()) -> Table:
        """Build a table with its log from battles in memory."""
        builder = TableBuilder()
        for batch in to_batches(battles, levels=levels):
            builder.add(batch)
        return builder.table()

    @classmethod
    def from_codes(
        cls, models: Sequence[str], codes: CodedBattles, *, covariates: Sequence[str] = ()
    ) -> Table:
        """Build a table from battles that are already integer codes; ``models`` must be sorted."""
        if list(models) != sorted(set(models)):
            raise ValueError("models must be sorted and distinct")
        builder = CountsBuilder(len(models), kernel=choose_kernel("auto", len(codes)))
        builder.add_rows(codes.a, codes.b, codes.kind, codes.weight, codes.pref)
        return cls(tuple(models), builder.counts(), tuple(covariates), _keyed(codes), _log=(codes,))

    @property
    def levels(self) -> frozenset[str]:
        """The columns by which prompts may depend on each other, such as ``category``."""
        return self.keyed - {"prompt", "voter"}

    @property
    def n_battles(self) -> int:
        return self.counts.n_battles

    @property
    def has_log(self) -> bool:
        return self._log is not None or self._reread is not None

    def scan(self) -> Iterator[CodedBattles]:
        """The log in order, in chunks."""
        if self._log is not None:
            yield from self._log
        elif self._reread is not None:
            index = {name: code for code, name in enumerate(self.models)}
            for batch in self._reread():
                run = _encode(batch, _codes_of(index, batch.model_a), _codes_of(index, batch.model_b))
                yield run if self._change is None else self._change(run)
        else:
            raise CannotRate(
                "this table contains only counts, but the requested computation needs the individual battles; "
                "build the table with its log"
            )

    def log(self, chosen: Callable[[CodedBattles], npt.NDArray[Any]] | None = None) -> CodedBattles:
        """The whole log at once, in memory; or only the ``chosen`` rows of it."""
        runs = [run if chosen is None else run.take(chosen(run)) for run in self.scan()]
        if not runs:
            none = np.empty(0, dtype=np.uint16)
            return CodedBattles(none, none, np.empty(0, dtype=np.uint8))
        return runs[0] if len(runs) == 1 else _concatenated(runs)

    def reweighted(self, factor: Callable[[CodedBattles], Floats]) -> Table:
        """The same battles with the weight of each multiplied by a factor."""
        return self._changed(lambda run: run.times(factor(run)))

    def centred(self) -> Table:
        """The same battles with the mean of each covariate subtracted from it."""
        total, n = np.zeros(len(self.covariates)), 0
        for run in self.scan():
            assert run.covariates is not None
            total, n = total + run.covariates.sum(axis=0), n + len(run)
        mean = total / max(n, 1)

        def centre(run: CodedBattles) -> CodedBattles:
            assert run.covariates is not None
            return replace(run, covariates=run.covariates - mean)

        return self._changed(centre)

    def _changed(self, change: Callable[[CodedBattles], CodedBattles]) -> Table:
        counts = CountsBuilder(len(self.models))
        runs: list[CodedBattles] = []
        for run in self.scan():
            changed = change(run)
            counts.add_rows(changed.a, changed.b, changed.kind, changed.weight, changed.pref)
            if self._log is not None:
                runs.append(changed)
        kept = None if self._log is None else tuple(runs)
        before = self._change
        both = change if before is None else lambda run: change(before(run))
        return replace(self, counts=counts.counts(), _log=kept, _change=both if kept is None else None)

    def merge(self, other: Table) -> Table:
        """Both tables as one: the union of names, counts added, logs concatenated."""
        if self.covariates != other.covariates:
            raise CannotRate(f"tables with different style columns: {self.covariates} and {other.covariates}")
        models = tuple(sorted(set(self.models) | set(other.models)))
        place = {name: code for code, name in enumerate(models)}
        counts = CountsBuilder(len(models))
        logs: list[CodedBattles] = []
        for table in (self, other):
            codes = np.array([place[name] for name in table.models], dtype=_code_type(len(models)))
            counts.add_counts(table.counts, codes)
            if self.has_log and other.has_log:
                logs += [_recode(run, codes) for run in table.scan()]
        kept = tuple(logs) if self.has_log and other.has_log else None
        keyed = self.keyed | other.keyed if kept is not None else frozenset()
        tags = _united(self.tags, other.tags)
        repeats = (self.repeats + other.repeats, self.block_repeats + other.block_repeats)
        return Table(models, counts.counts(), self.covariates, keyed, tags, *repeats, _log=kept)


class TableBuilder:
    """Builds one table from batches, streaming."""

    def __init__(self, *, keep_log: bool = True, covariates: Sequence[str] = ()) -> None:
        self._index: dict[str, int] = {}
        self._counts = CountsBuilder()
        self._log: list[CodedBattles] | None = [] if keep_log else None
        self._covariates = tuple(covariates)
        self._keyed: frozenset[str] = frozenset()
        self._tags: Tags = {}
        self._repeats = RepeatFinder()
        self._joined: list[Keys] = []

    def add(self, batch: BattleBatch) -> None:
        index = self._index
        for name in (*batch.model_a.values, *batch.model_b.values):
            index.setdefault(name, len(index))
        self._counts.grow(len(index))
        run = _encode(batch, _codes_of(index, batch.model_a), _codes_of(index, batch.model_b))
        self._counts.add_rows(run.a, run.b, run.kind, run.weight, run.pref)
        self._keyed |= _keyed(batch)
        self._tags = _united(self._tags, {tag: names.distinct() for tag, names in batch.tags.items()})
        if batch.named_prompt is not None:
            self._joined.append(np.unique(batch.named_prompt[batch.named_prompt != batch.prompt]))
        if self._log is not None:
            self._log.append(run)
            self._repeats.add(batch)

    def table(self, reread: Callable[[], Iterable[BattleBatch]] | None = None) -> Table:
        """The table of everything added; ``reread`` yields the same batches again."""
        order = sorted(self._index)
        place = {name: code for code, name in enumerate(order)}
        codes = np.array([place[name] for name in self._index], dtype=_code_type(len(order)))
        log = None if self._log is None else tuple(_recode(run, codes) for run in self._log)
        counts = self._counts.counts().relabel(codes)
        repeats = self._repeats.counts()
        joined = len(np.unique(np.concatenate(self._joined))) if self._joined else 0
        return Table(
            tuple(order), counts, self._covariates, self._keyed, self._tags, *repeats, joined, log, reread
        )


class GroupTableBuilder:
    """Builds one table per group, from batches with the group of each row.

    With a ``separator`` a row belongs to every group that its value joins by it.
    """

    def __init__(self, *, covariates: Sequence[str] = (), separator: str | None = None) -> None:
        self._covariates, self._separator = covariates, separator
        self._builders: dict[str, TableBuilder] = {}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._builders)

    def add(self, batch: BattleBatch, groups: NameColumn) -> None:
        separator = self._separator
        for joined, part in batch.split(groups):
            for name in [joined] if separator is None else dict.fromkeys(joined.split(separator)):
                self._builders.setdefault(name, TableBuilder(covariates=self._covariates)).add(part)

    def tables(self) -> dict[str, Table]:
        return {name: self._builders[name].table() for name in sorted(self._builders)}


def _keyed(columns: BattleBatch | CodedBattles) -> frozenset[str]:
    return frozenset(
        {name for name in ("prompt", "voter") if getattr(columns, name) is not None} | columns.levels.keys()
    )


def _united(one: Tags, other: Tags) -> Tags:
    return {
        tag: one.get(tag, frozenset()) | other.get(tag, frozenset()) for tag in dict.fromkeys((*one, *other))
    }


def _encode(batch: BattleBatch, a: Ints, b: Ints) -> CodedBattles:
    return CodedBattles(
        a, b, batch.kind, batch.prompt, batch.voter, batch.weight, batch.pref, batch.covariates, batch.levels
    )


def _codes_of(index: Mapping[str, int], names: NameColumn) -> Ints:
    codes = np.array([index[name] for name in names.values], dtype=_code_type(len(index)))
    return codes[names.codes]


def _recode(run: CodedBattles, codes: Ints) -> CodedBattles:
    return replace(run, a=codes[run.a], b=codes[run.b])


def _code_type(models: int) -> type[np.integer[Any]]:
    return np.uint16 if models <= 1 << 16 else np.int32


def _concatenated(runs: list[CodedBattles]) -> CodedBattles:
    columns: dict[str, Any] = {
        "levels": {
            level: np.concatenate([run.levels.get(level, np.full(len(run), MISSING_KEY)) for run in runs])
            for level in {level for run in runs for level in run.levels}
        }
    }
    for name in _COLUMNS:
        parts = [getattr(run, name) for run in runs]
        if any(part is not None for part in parts):
            columns[name] = np.concatenate(
                [
                    np.full(len(run), _ABSENT[name]) if part is None else part
                    for run, part in zip(runs, parts, strict=True)
                ]
            )
    return CodedBattles(**columns)
