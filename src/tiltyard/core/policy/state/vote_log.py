"""Votes that a standing keeps: all of them in log order, for batch ratings, and the last of each model and prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tiltyard.core.battles import CodedBattles, Table
from tiltyard.core.battles.cluster_keys import hash_texts
from tiltyard.core.policy.state.events import NO_SESSION
from tiltyard.core.policy.state.prompt_cells import BOTH_BAD, BOTH_BAD_FLAG_OFFSET
from tiltyard.foundation.arrays import Ints

Column = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]

#: A vote takes 23 bytes: two models, a prompt (of the roster, or a free one), a session, a kind and a day.
_DTYPES: Mapping[str, type[np.generic]] = {
    "a": np.uint32,
    "b": np.uint32,
    "prompt": np.uint32,
    "session": np.int64,
    "kind": np.uint8,
    "day": np.uint16,
}
_FIRST_ROOM_VOTES = 256
#: How much more room is made when there is none left.
_GROWTH_RATIO = 1.15


class VoteLog:
    """Votes as columns, with ``a`` on the left and ``b`` on the right.

    ``session`` is the voter's, or `NO_SESSION`. ``day`` is that on which the vote came, in UTC since 1970, or 0 if it is not
    known. Room for more votes grows by a seventh, so a vote takes at most 27 bytes.
    """

    def __init__(self) -> None:
        self._columns: dict[str, Column] = {name: np.empty(0, dtype) for name, dtype in _DTYPES.items()}
        self._n = 0

    def __len__(self) -> int:
        return self._n

    def add(self, a: int, b: int, prompt: int, session: int, kind: int, day: int = 0) -> None:
        n = self._n
        if n == len(self._columns["a"]):
            self._make_room(n + 1)
        columns = self._columns
        columns["a"][n], columns["b"][n], columns["prompt"][n] = a, b, prompt
        columns["session"][n], columns["kind"][n], columns["day"][n] = session, kind, day
        self._n = n + 1

    def add_many(
        self, a: Column, b: Column, prompt: Column, session: Column, kind: Column, day: Column | int = 0
    ) -> None:
        stop = self._n + len(a)
        if stop > len(self._columns["a"]):
            self._make_room(stop)
        for name, more in zip(_DTYPES, (a, b, prompt, session, kind, day), strict=True):
            self._columns[name][self._n : stop] = more
        self._n = stop

    def columns(self) -> dict[str, Column]:
        return {name: column[: self._n] for name, column in self._columns.items()}

    @classmethod
    def of(cls, columns: Mapping[str, Column]) -> VoteLog:
        log = cls()
        log.add_many(*(columns[name] for name in _DTYPES))
        return log

    def table(self, models: Sequence[str], prompts: Sequence[str] | None, votes: int | None = None) -> Table:
        """The first ``votes`` of them, or all, as battles of named models; codes of the table are by sorted name.

        ``prompts`` has the names of the roster's prompts; ``None`` if prompts are free: a number from 1 up is one prompt.
        """
        known = {name: column[:votes] for name, column in self.columns().items()}
        place = np.argsort(np.argsort(np.array(models, dtype=object), kind="stable"), kind="stable")
        code: npt.NDArray[np.integer[Any]] = place.astype(np.uint16 if len(models) <= 1 << 16 else np.int32)
        session = known["session"]
        codes = CodedBattles(
            code[known["a"]],
            code[known["b"]],
            known["kind"],
            prompt=known["prompt"].astype(np.uint64)
            if prompts is None
            else hash_texts(prompts)[known["prompt"]],
            # NO_SESSION becomes the key of a battle without a voter.
            voter=(session - NO_SESSION).astype(np.uint64) if (session != NO_SESSION).any() else None,
        )
        return Table.from_codes(sorted(models), codes)

    def _make_room(self, votes: int) -> None:
        room = max(votes, int(self._n * _GROWTH_RATIO), _FIRST_ROOM_VOTES)
        for name, column in self._columns.items():
            wider = np.empty(room, column.dtype)
            wider[: self._n] = column[: self._n]
            self._columns[name] = wider


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
