"""The last votes of each model or prompt, newest last, and their both-bad rate."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tiltyard.core.policy.state.prompt_cells import BOTH_BAD, BOTH_BAD_FLAG_OFFSET

__all__ = ["RecentVotes", "is_both_bad"]

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]


class RecentVotes:
    """A ring buffer of results for each item; a flagged result has `BOTH_BAD_FLAG_OFFSET` added."""

    def __init__(self, things: int, size: int) -> None:
        self.ring = np.zeros((things, size), dtype=np.uint8)
        #: The total number of results ever added, by item.
        self.total = np.zeros(things, dtype=np.int64)
        #: How many of them had a both-bad flag.
        self.flagged = np.zeros(things, dtype=np.int64)

    def add(self, thing: int, result: int) -> None:
        total = self.total[thing]
        self.ring[thing, total % self.ring.shape[1]] = result
        self.total[thing] = total + 1
        self.flagged[thing] += result >= BOTH_BAD_FLAG_OFFSET

    def add_many(self, thing: Ints, result: Ints) -> None:
        """Add many results at once, in order."""
        size = self.ring.shape[1]
        small = thing.astype(np.min_scalar_type(len(self.total)))  # NumPy uses radix sort for 16 bits
        order = np.argsort(small, kind="stable")
        thing, result = thing[order], result[order]
        counts = np.bincount(thing, minlength=len(self.total))
        starts = np.cumsum(counts) - counts
        nth = np.arange(len(thing)) - starts[thing]
        last = nth >= counts[thing] - size
        slot = (self.total[thing] + nth) % size
        self.ring[thing[last], slot[last]] = result[last]
        self.total += counts
        self.flagged += np.bincount(thing[result >= BOTH_BAD_FLAG_OFFSET], minlength=len(self.total))

    def last(self, thing: int, n: int | None = None) -> Bytes:
        """The last ``n`` results (by default all that are kept), oldest first."""
        size, total = self.ring.shape[1], int(self.total[thing])
        n = min(size if n is None else n, size, total)
        return np.asarray(self.ring[thing, np.arange(total - n, total) % size])

    def both_bad_share(self) -> npt.NDArray[np.float64]:
        """For each item, the share of kept votes that called both bad; NaN if there are none."""
        size = self.ring.shape[1]
        kept = np.minimum(self.total, size)
        known = np.arange(size)[None, :] < kept[:, None]
        hits = (is_both_bad(self.ring) & known).sum(axis=1)
        with np.errstate(invalid="ignore"):
            return np.asarray(hits / np.where(kept > 0, kept, np.nan))

    def widen(self, things: int) -> None:
        more = things - len(self.total)
        self.ring = np.pad(self.ring, ((0, more), (0, 0)))
        self.total = np.pad(self.total, (0, more))
        self.flagged = np.pad(self.flagged, (0, more))


def is_both_bad(results: Bytes) -> npt.NDArray[np.bool_]:
    """Which results called both responses bad: as the outcome, or by a judge's flag."""
    return np.asarray(results >= BOTH_BAD)
