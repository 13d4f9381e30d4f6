"""Counts: how often each ordered pair had each kind of result. Counts can be added."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tiltyard.foundation.arrays import Floats, Ints
from tiltyard.foundation.compiled_kernels import Kernel, compile_kernel

Codes = npt.NDArray[np.integer[Any]]
#: Cell keys, the count of each, and its weighted sums, if any.
_Run = tuple[Ints, Ints, Floats | None]

#: The sums of a weighted cell over its battles: w, w², w·pref, w²·pref, w²·pref².
CELL_SUM_COUNT = 5
#: A cell's plane: its kind, plus 16 for battles with a stated preference. Planes are contiguous,
#: so that kinds which do not occur use neither cache nor memory.
_PLANE_COUNT = 32
_HARD_PLANE_COUNT = 16
#: The largest number of models for which cells are one dense array (up to 84 MB); beyond, they are sorted runs.
_DENSE_MODEL_LIMIT = 512
#: Rows are counted in 32 bits, and added to 64-bit counts before they could overflow.
_CARRY_ROWS = 1 << 30
#: Keys of sorted runs reserve 28 bits per model code, so that they never change.
_SPARSE_MODEL_LIMIT = 1 << 28
#: The number of pending cells at which sorted runs are merged.
_WAITING_CELLS = 1 << 22


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """Cells of (model a, model b, kind), sorted; only those that occurred.

    ``soft`` marks cells whose battles state a preference. ``sums`` is absent if every battle has
    weight one and no preference: then each sum follows from ``n``.
    """

    a: Ints
    b: Ints
    kind: Ints
    soft: npt.NDArray[np.bool_]
    n: Ints
    sums: Floats | None = None

    @property
    def n_battles(self) -> int:
        return int(self.n.sum())

    def moments(self) -> Floats:
        """The five sums of every cell (see `CELL_SUM_COUNT`), shape (cells, 5)."""
        if self.sums is not None:
            return self.sums
        moments = np.zeros((len(self.n), CELL_SUM_COUNT))
        moments[:, 0] = moments[:, 1] = self.n
        return moments

    def relabel(self, codes: Codes) -> Counts:
        """The same counts with model k renumbered to ``codes[k]``."""
        builder = CountsBuilder(len(codes))
        builder.add_counts(self, codes)
        return builder.counts()


class CountsBuilder:
    """Adds up cells, from rows or from other counts, for a growing number of models."""

    def __init__(self, models: int = 0, *, kernel: Kernel = "plain") -> None:
        self._kernel = kernel
        self._capacity = max(models, 1)
        self._sparse = models > _DENSE_MODEL_LIMIT
        if self._sparse:
            self._capacity = _SPARSE_MODEL_LIMIT
        self._recent = np.zeros(0 if self._sparse else _HARD_PLANE_COUNT * self._capacity**2, dtype=np.int32)
        self._recent_rows = 0
        #: Created when 32-bit counts of unweighted battles are no longer sufficient.
        self._wide: Ints | None = None
        self._sums: Floats | None = None
        self._runs: list[_Run] = []

    def grow(self, models: int) -> None:
        """Extend to this many models."""
        if models <= self._capacity:
            return
        if models > _DENSE_MODEL_LIMIT:
            keys, n, sums = self._merged()
            plane, a, b = self._parts(keys)
            self._capacity, self._sparse = _SPARSE_MODEL_LIMIT, True
            self._wide, self._recent, self._sums = None, self._recent[:0], None
            self._runs = [(self._keys(plane, a, b), n, sums)]
            return
        old, new = self._capacity, min(max(models, 2 * self._capacity), _DENSE_MODEL_LIMIT)
        self._recent = _widen(self._recent, old, new)
        if self._wide is not None:
            self._wide = _widen(self._wide, old, new)
        if self._sums is not None:
            self._sums = np.stack([_widen(column, old, new) for column in self._sums])
        self._capacity = new

    def add_rows(
        self,
        a: Codes,
        b: Codes,
        kind: npt.NDArray[np.uint8],
        weight: Floats | None = None,
        pref: Floats | None = None,
    ) -> None:
        """Count battles given as integer codes."""
        if weight is None and pref is None and self._sums is None and not self._sparse:
            self._count(a, b, kind)
            return
        plane = kind.astype(np.int64)
        w = np.ones(len(plane)) if weight is None else weight
        y = np.zeros(len(plane))
        if pref is not None:
            stated = ~np.isnan(pref)
            plane[stated] += _HARD_PLANE_COUNT
            y[stated] = pref[stated]
        unweighted = weight is None and pref is None
        sums = None if unweighted else np.stack([w, w * w, w * y, w * w * y, w * w * y * y])
        self._add(self._keys(plane, a, b), np.ones(len(plane), dtype=np.int64), sums)

    def add_counts(self, counts: Counts, codes: Codes) -> None:
        """Add other counts, whose model k is ``codes[k]`` here."""
        plane = counts.kind + np.where(counts.soft, _HARD_PLANE_COUNT, 0)
        keys = self._keys(plane, codes[counts.a], codes[counts.b])
        self._add(keys, counts.n, None if counts.sums is None else counts.sums.T)

    def counts(self) -> Counts:
        """Everything added so far, as cells sorted by kind, then model a, then model b."""
        keys, n, sums = self._merged()
        plane, a, b = self._parts(keys)
        soft = plane >= _HARD_PLANE_COUNT
        kind = np.where(soft, plane - _HARD_PLANE_COUNT, plane)
        return Counts(a, b, kind, soft, n, None if sums is None else sums.T.copy())

    def _keys(self, plane: Codes, a: Codes, b: Codes) -> Ints:
        keys = plane.astype(np.int64)
        keys *= self._capacity
        keys += a
        keys *= self._capacity
        keys += b
        return keys

    def _parts(self, keys: Ints) -> tuple[Ints, Ints, Ints]:
        """Plane, model a and model b of each key; uses 32-bit divisions if keys fit, because they are faster."""
        whole: npt.NDArray[Any] = keys if self._sparse else keys.astype(np.uint32)
        width = whole.dtype.type(self._capacity)
        rest = whole // width
        plane = rest // width
        a, b = rest - plane * width, whole - rest * width
        return plane.astype(np.int64), a.astype(np.int64), b.astype(np.int64)

    def _count(self, a: Codes, b: Codes, kind: npt.NDArray[np.uint8]) -> None:
        for first in range(0, len(kind), _CARRY_ROWS):
            rows = slice(first, first + _CARRY_ROWS)
            if self._recent_rows + len(kind[rows]) > _CARRY_ROWS:
                self._carry()
            self._recent_rows += len(kind[rows])
            if self._kernel == "compiled":
                compile_kernel(_count_loop)(a[rows], b[rows], kind[rows], self._capacity, self._recent)
            else:
                # The constant is typed: a plain 1 would make NumPy thirty times slower.
                np.add.at(self._recent, self._keys(kind[rows], a[rows], b[rows]), np.int32(1))

    def _carry(self) -> Ints:
        if self._wide is None:
            self._wide = np.zeros(_PLANE_COUNT * self._capacity**2, dtype=np.int64)
        if self._recent_rows:
            self._wide[: len(self._recent)] += self._recent
            self._recent[:] = 0
            self._recent_rows = 0
        return self._wide

    def _add(self, keys: Ints, n: Ints, sums: Floats | None) -> None:
        if self._sparse:
            self._runs.append(_summed(keys, n, sums))
            if sum(len(run[0]) for run in self._runs) > _WAITING_CELLS:
                self._runs = [self._merged()]
            return
        wide = self._carry()
        if sums is not None and self._sums is None:
            self._sums = _unweighted(wide)
        np.add.at(wide, keys, n)
        if self._sums is not None:
            for total, column in zip(self._sums, _unweighted(n) if sums is None else sums, strict=True):
                np.add.at(total, keys, column)

    def _merged(self) -> _Run:
        if not self._sparse:
            cells = self._recent if self._wide is None else self._carry()
            keys = np.flatnonzero(cells)
            return keys, cells[keys].astype(np.int64), None if self._sums is None else self._sums[:, keys]
        runs = [(np.empty(0, np.int64), np.empty(0, np.int64), None), *self._runs]
        keys = np.concatenate([run[0] for run in runs])
        n = np.concatenate([run[1] for run in runs])
        if all(run[2] is None for run in runs):
            return _summed(keys, n, None)
        sums = [_unweighted(run[1]) if run[2] is None else run[2] for run in runs]
        return _summed(keys, n, np.concatenate(sums, axis=1))


def _count_loop(
    a: Codes, b: Codes, kind: npt.NDArray[np.uint8], capacity: int, cells: npt.NDArray[np.int32]
) -> None:
    """Meant to be compiled; unsigned indices avoid the check for negative ones."""
    width = np.uint32(capacity)
    for row in range(len(kind)):
        pair = (np.uint32(kind[row]) * width + np.uint32(a[row])) * width + np.uint32(b[row])
        cells[pair] += 1


def _unweighted(n: Ints) -> Floats:
    """The sums of cells whose battles have weight one and no preference."""
    sums = np.zeros((CELL_SUM_COUNT, len(n)))
    sums[:2] = n
    return sums


def _summed(keys: Ints, n: Ints, sums: Floats | None) -> _Run:
    """Sum equal keys, in key order."""
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    if not len(starts):
        return keys, n, sums
    added = None if sums is None else np.add.reduceat(sums[:, order], starts, axis=1)
    return keys[starts], np.add.reduceat(n[order], starts), added


def _widen(cells: npt.NDArray[Any], old: int, new: int) -> npt.NDArray[Any]:
    planes = len(cells) // old**2
    wide = np.zeros((planes, new, new), dtype=cells.dtype)
    wide[:, :old, :old] = cells.reshape(planes, old, old)
    return wide.ravel()
