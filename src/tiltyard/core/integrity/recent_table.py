"""Pairs of numbers by key, of the keys that were used lately: a bounded memory of an unbounded stream.

Most pairs are in sorted arrays, 24 bytes each; new ones are in a dictionary until there are enough of them to be merged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["RecentTable"]

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

#: New pairs before they are merged into the arrays.
_UNMERGED_COUNT = 2_048


class _SortedPairs:
    """Pairs in the order of their keys."""

    def __init__(self, keys: Ints | None = None, pairs: Floats | None = None) -> None:
        self.keys = np.empty(0, dtype=np.int64) if keys is None else keys
        self.pairs = np.empty((0, 2)) if pairs is None else pairs

    def get(self, key: int) -> tuple[float, float] | None:
        place = int(self.keys.searchsorted(key))
        if place == len(self.keys) or self.keys[place] != key:
            return None
        first, second = self.pairs[place].tolist()
        return first, second

    def merged(self, new: Mapping[int, tuple[float, float]]) -> _SortedPairs:
        """These pairs, with new ones added or in place of those of the same key."""
        keys = np.fromiter(new.keys(), np.int64, len(new))
        pairs = np.array(list(new.values()), dtype=np.float64).reshape(-1, 2)
        order = keys.argsort()
        keys, pairs = keys[order], pairs[order]
        place = self.keys.searchsorted(keys)
        known = np.zeros(len(keys), dtype=bool)
        inside = place < len(self.keys)
        known[inside] = self.keys[place[inside]] == keys[inside]
        replaced = self.pairs.copy()
        replaced[place[known]] = pairs[known]
        return _SortedPairs(
            np.insert(self.keys, place[~known], keys[~known]),
            np.insert(replaced, place[~known], pairs[~known], axis=0),
        )


class RecentTable:
    """A pair for each key that was put since the time before last that the table aged.

    Keys are whole numbers of 63 bits.
    """

    def __init__(self) -> None:
        self._unmerged: dict[int, tuple[float, float]] = {}
        self._lately = _SortedPairs()
        self._before = _SortedPairs()

    def get(self, key: int) -> tuple[float, float]:
        """The pair of a key; zeros if it has none."""
        return self._unmerged.get(key) or self._lately.get(key) or self._before.get(key) or (0.0, 0.0)

    def put(self, key: int, pair: tuple[float, float]) -> None:
        self._unmerged[key] = pair
        if len(self._unmerged) >= _UNMERGED_COUNT:
            self._merge()

    def age(self) -> None:
        """Forget the pairs that were not put since the table last aged."""
        self._merge()
        self._before, self._lately = self._lately, _SortedPairs()

    def saved(self) -> dict[str, Array]:
        """Everything, as arrays."""
        self._merge()
        return {
            "lately_keys": self._lately.keys,
            "lately_pairs": self._lately.pairs,
            "before_keys": self._before.keys,
            "before_pairs": self._before.pairs,
        }

    @classmethod
    def restored(cls, saved: Mapping[str, Array]) -> RecentTable:
        """What `saved` returned."""
        table = cls()
        table._lately = _SortedPairs(saved["lately_keys"], saved["lately_pairs"])
        table._before = _SortedPairs(saved["before_keys"], saved["before_pairs"])
        return table

    def _merge(self) -> None:
        if self._unmerged:
            self._lately = self._lately.merged(self._unmerged)
            self._unmerged = {}
