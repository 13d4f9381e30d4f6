"""The bounded cache: least recently used values are dropped first, and values may expire."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Generic, TypeVar

__all__ = ["BoundedCache"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class BoundedCache(Generic[K, V]):
    """Values by key, up to a total weight. Safe to use from several threads.

    A value weighs 1 unless `put` is told otherwise, so ``limit`` is a number of values, or of bytes. The newest
    value is kept even if it alone exceeds the limit, unless it is heavier than ``heaviest``.
    ``seconds``: how long a value is valid after `put`; ``None``: always.
    """

    def __init__(self, limit: int, *, heaviest: int | None = None, seconds: float | None = None) -> None:
        self.limit = limit
        #: The total weight of what is kept, expired values included.
        self.weight = 0
        self._heaviest = heaviest
        self._seconds = seconds
        self._values: OrderedDict[K, V] = OrderedDict()
        #: Only of values that do not weigh 1, and only if values expire: a plain cache holds nothing else.
        self._weights: dict[K, int] = {}
        self._expiry: dict[K, float] = {}
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: K) -> V | None:
        """A valid value, which now counts as used; ``None`` if there is none."""
        with self._lock:
            if key not in self._values:
                return None
            if self._seconds is not None and time.monotonic() >= self._expiry[key]:
                return None
            self._values.move_to_end(key)
            return self._values[key]

    def put(self, key: K, value: V, weight: int = 1, *, read_at: float | None = None) -> V:
        """Keep a value, drop others until all fit, and return the value.

        ``read_at``: the monotonic time from which on it is valid; the default is now.
        """
        with self._lock:
            self._remove(key)
            if self._heaviest is not None and weight > self._heaviest:
                return value
            self._values[key] = value
            if weight != 1:
                self._weights[key] = weight
            if self._seconds is not None:
                self._expiry[key] = (time.monotonic() if read_at is None else read_at) + self._seconds
            self.weight += weight
            while self.weight > self.limit and len(self._values) > 1:
                self._remove(next(iter(self._values)))
        return value

    def pop(self, key: K) -> V | None:
        """Remove a value and return it, even if it has expired; ``None`` if there is none."""
        with self._lock:
            return self._remove(key)

    def keys(self) -> list[K]:
        """The keys of all values, least recently used first."""
        with self._lock:
            return list(self._values)

    def clear(self) -> None:
        """Remove all values."""
        with self._lock:
            self._values.clear()
            self._weights.clear()
            self._expiry.clear()
            self.weight = 0

    def _remove(self, key: K) -> V | None:
        if key not in self._values:
            return None
        self.weight -= self._weights.pop(key, 1)
        self._expiry.pop(key, None)
        return self._values.pop(key)
