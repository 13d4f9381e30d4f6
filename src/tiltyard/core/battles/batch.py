"""Batches: columns of battles, passed from a reader to a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from tiltyard.core.battles.battle import Battle
from tiltyard.core.battles.cluster_keys import Keys, Levels, hash_texts
from tiltyard.foundation.arrays import Floats

Ints = npt.NDArray[np.integer[Any]]
Kinds = npt.NDArray[np.uint8]

#: The columns whose distinct values a table records.
TAGS = ("source", "dimension", "judge_model")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class NameColumn:
    """A column of names encoded as integers: the name in row k is ``values[codes[k]]``."""

    codes: Ints
    values: Sequence[str]

    @classmethod
    def of(cls, column: Iterable[str]) -> NameColumn:
        index: dict[str, int] = {}
        codes = np.array([index.setdefault(name, len(index)) for name in column], dtype=np.int32)
        return cls(codes, tuple(index))

    def distinct(self) -> frozenset[str]:
        """The names that occur, except the empty one."""
        used = np.flatnonzero(np.bincount(self.codes, minlength=len(self.values)))
        return frozenset(self.values[k] for k in used.tolist()) - {""}

    def take(self, rows: npt.NDArray[Any]) -> NameColumn:
        """The column for the given rows, without unused names."""
        codes = self.codes[rows]
        used = np.bincount(codes, minlength=len(self.values)) > 0
        return NameColumn(
            (np.cumsum(used) - 1)[codes], [self.values[k] for k in np.flatnonzero(used).tolist()]
        )


@dataclass(frozen=True, slots=True)
class BattleBatch:
    """Battles in log order, column by column. Optional columns may be absent."""

    model_a: NameColumn
    model_b: NameColumn
    kind: Kinds
    prompt: Keys | None = None
    voter: Keys | None = None
    weight: Floats | None = None
    #: P(A better), NaN where none is stated.
    pref: Floats | None = None
    #: One row of style differences per battle.
    covariates: Floats | None = None
    levels: Levels = field(default_factory=dict)
    #: The prompts as they are named, where some are joined because their texts are nearly the same.
    named_prompt: Keys | None = None
    #: Microseconds since 1970; 0 where no time is known.
    time: Keys | None = None
    #: The columns of `TAGS` that the battles have; an empty name means none.
    tags: Mapping[str, NameColumn] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.kind)

    def take(self, rows: npt.NDArray[Any]) -> BattleBatch:
        """The columns for the given rows (indices or a mask)."""
        columns = {name: column[rows] for name in _OPTIONAL if (column := getattr(self, name)) is not None}
        return replace(
            self,
            model_a=self.model_a.take(rows),
            model_b=self.model_b.take(rows),
            levels={level: keys[rows] for level, keys in self.levels.items()},
            tags={tag: names.take(rows) for tag, names in self.tags.items()},
            **columns,
        )

    def split(self, groups: NameColumn) -> Iterator[tuple[str, BattleBatch]]:
        """Split the batch by group; each part is in log order."""
        for code, name in enumerate(groups.values):
            rows = np.flatnonzero(groups.codes == code)
            if len(rows):
                yield name, self.take(rows)


_OPTIONAL = tuple(
    f.name for f in fields(BattleBatch) if f.name not in ("model_a", "model_b", "levels", "tags")
)


def to_batches(
    battles: Iterable[Battle], size: int = 65_536, levels: Sequence[str] = ()
) -> Iterator[BattleBatch]:
    """Convert battles in memory to batches, with those ``levels`` that are fields of theirs."""
    battles = iter(battles)
    while rows := list(islice(battles, size)):
        yield BattleBatch(
            model_a=NameColumn.of(row.model_a for row in rows),
            model_b=NameColumn.of(row.model_b for row in rows),
            kind=np.array([row.kind for row in rows], dtype=np.uint8),
            prompt=_keys([row.question_id for row in rows]),
            voter=_keys([row.voter for row in rows]),
            weight=_floats([row.weight for row in rows], absent=1.0),
            pref=_floats([row.pref for row in rows], absent=np.nan),
            levels={level: hash_texts([getattr(row, level, None) for row in rows]) for level in levels},
            time=_moments([row.time for row in rows]),
            tags={tag: NameColumn.of(getattr(row, tag) or "" for row in rows) for tag in TAGS},
        )


def _keys(column: list[str | None]) -> Keys | None:
    return None if all(value is None for value in column) else hash_texts(column)


def _moments(column: list[datetime | None]) -> Keys | None:
    if all(value is None for value in column):
        return None
    since = [0 if value is None else (value - _EPOCH) // timedelta(microseconds=1) for value in column]
    return np.array(since, dtype=np.int64).view(np.uint64)


def _floats(column: list[float | None], absent: float) -> Floats | None:
    if all(value is None for value in column):
        return None
    return np.array([absent if value is None else value for value in column], dtype=np.float64)
