"""Pairs: how often two models met, on which prompts, and with which results.

Counts by pair are dense. Pair × prompt is sparse (a thousand models and ten thousand prompts
have five billion cells): each pair that has met stores its prompts in order, with four counts
for each.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from tiltyard.core.policy.state.policy import Policy
from tiltyard.foundation.arrays import Ints

Counts = npt.NDArray[np.uint32]

_MODEL_BITS = 20
#: Numbers of free prompts are below this.
FREE_PROMPT_LIMIT = 1 << 32
#: A pair that has met on more than one in this many prompts gets a dense array on demand.
_DENSE_PROMPT_RATIO = 8


def pair_key(one: int, other: int) -> int:
    """One integer for two models, independent of their order and of the number of models."""
    one, other = int(one), int(other)  # NumPy's small integers would overflow
    return (one << _MODEL_BITS) | other if one < other else (other << _MODEL_BITS) | one


def unpack_pair_key(key: int) -> tuple[int, int]:
    """The two models of a key, lower code first."""
    return key >> _MODEL_BITS, key & ((1 << _MODEL_BITS) - 1)


class PairCells:
    """One pair's votes by prompt. The model with the lower code is ``low``."""

    __slots__ = ("_at_least", "_attempts", "_counts", "_laid_out", "_prompts", "recent")

    def __init__(self) -> None:
        self._prompts = array("I")
        self._counts = array("I")
        # Sums of the counts, which matchmaking reads far more often than the counts.
        self._attempts = array("I")
        # A dense array of the attempts by prompt, created on demand.
        self._laid_out: npt.NDArray[np.float32] | None = None
        # The number of prompts with the fewest votes; 0 if not counted yet.
        self._at_least = 0
        #: Prompts of the last meetings, oldest first, whether answered or not.
        self.recent: list[int] = []

    def put(self, prompts: bytes, tally: bytes) -> None:
        """Set all cells from the bytes of columns: prompts ascending, and four counts for each, of 32 bits."""
        self._prompts, self._counts, self._at_least = array("I", prompts), array("I", tally), 0
        self._attempts = array("I", self.tally.sum(axis=1, dtype=np.uint32).tobytes())
        self._laid_out = None

    def packed(self) -> tuple[bytes, bytes]:
        """Prompts and tally as bytes, the inverse of `put`."""
        return self._prompts.tobytes(), self._counts.tobytes()

    @property
    def prompts(self) -> Counts:
        """Prompts on which the pair has votes, ascending."""
        return np.array(self._prompts, dtype=np.uint32)

    @property
    def tally(self) -> Counts:
        """For each of `prompts`: wins of low, wins of high, ties, both_bad."""
        return np.array(self._counts, dtype=np.uint32).reshape(-1, 4)

    def attempts(self) -> tuple[Counts, Counts]:
        """Prompts, and the votes of any kind on each."""
        return self.prompts, np.array(self._attempts, dtype=np.uint32)

    def dense_attempts(self, prompts: int) -> npt.NDArray[np.float32] | None:
        """Attempts on each of ``prompts`` prompts, for a pair that has met on many of them; else ``None``.

        The array is updated by later votes. Callers must not change it.
        """
        if len(self._prompts) < prompts // _DENSE_PROMPT_RATIO:
            return None
        if self._laid_out is None or len(self._laid_out) != prompts:
            self._laid_out = np.zeros(prompts, dtype=np.float32)
            self._laid_out[self.prompts] = self._attempts
        return self._laid_out

    def least(self) -> int:
        """The smallest number of votes on any prompt with votes of the pair."""
        attempts = np.array(self._attempts)
        least = int(attempts.min())
        self._at_least = int(np.count_nonzero(attempts == least))
        return least

    def fewest_after(self, least: int) -> int:
        """The smallest number of votes on any prompt, after a vote on a prompt that had ``least``."""
        if least == 0 or self._at_least <= 1:
            return self.least()
        self._at_least -= 1
        return least

    def __len__(self) -> int:
        return len(self._prompts)

    def vote(self, prompt: int, result: int) -> tuple[bool, int]:
        """Add a vote; whether it is the prompt's first decisive one, and the attempts there before it."""
        at = bisect_left(self._prompts, prompt)
        if at == len(self._prompts) or self._prompts[at] != prompt:
            self._prompts.insert(at, prompt)
            self._counts[4 * at : 4 * at] = array("I", (0, 0, 0, 0))
            self._attempts.insert(at, 0)
        before = self._attempts[at]
        first = result < 2 and self._counts[4 * at] + self._counts[4 * at + 1] == 0
        self._counts[4 * at + result] += 1
        self._attempts[at] = before + 1
        if self._laid_out is not None and prompt < len(self._laid_out):
            self._laid_out[prompt] = before + 1
        return first, before


class PairCounts:
    """Counts of every pair, and the cells of those that have met."""

    def __init__(self, policy: Policy, models: int, prompts: int) -> None:
        self._policy = policy
        self._n_prompts = prompts
        #: By pair, both triangles: decisive votes, votes of any kind, prompts with a decisive vote.
        self.decisive = np.zeros((models, models), dtype=np.int32)
        self.attempts = np.zeros((models, models), dtype=np.int32)
        self.prompts = np.zeros((models, models), dtype=np.int32)
        #: By pair: attempts on the prompt with the fewest; 0 until it has met on all.
        self.least = np.zeros((models, models), dtype=np.int32)
        self._cells: dict[int, PairCells] = {}
        #: Prompts of prefetched matchups that wait to be shown, by pair; a checkpoint does not contain them.
        self.reserved: dict[int, list[int]] = {}

    def cells(self, one: int, other: int) -> PairCells | None:
        """The pair's votes by prompt; ``None`` if it has never met."""
        return self._cells.get(pair_key(one, other))

    def put(self, one: int, other: int, cells: PairCells) -> None:
        """Set a pair's saved cells."""
        self._cells[pair_key(one, other)] = cells

    def __iter__(self) -> Iterator[tuple[int, int, PairCells]]:
        """Every pair that has met, by model codes."""
        for key in sorted(self._cells):
            yield *unpack_pair_key(key), self._cells[key]

    def _of(self, key: int) -> PairCells:
        cells = self._cells.get(key)
        if cells is None:
            cells = self._cells[key] = PairCells()
        return cells

    def serve(self, a: int, b: int, prompt: int) -> None:
        """Record that the pair was shown this prompt."""
        recent = self._of(pair_key(a, b)).recent
        recent.append(prompt)
        if len(recent) > self._policy.meetings:
            del recent[0]

    def reserve(self, a: int, b: int, prompt: int) -> None:
        """Expect the pair to be shown this prompt."""
        self.reserved.setdefault(pair_key(a, b), []).append(prompt)

    def unreserve(self, a: int, b: int, prompt: int) -> None:
        """Expect it no longer."""
        key = pair_key(a, b)
        self.reserved[key].remove(prompt)
        if not self.reserved[key]:
            del self.reserved[key]

    def recent(self, one: int, other: int) -> list[int]:
        """The prompts of the pair's last meetings, oldest first, and of those that wait to be shown."""
        key = pair_key(one, other)
        met, reserved = self._cells.get(key), self.reserved.get(key)
        shown = [] if met is None else met.recent
        return shown if reserved is None else shown + reserved

    def vote(self, a: int, b: int, prompt: int, result: int) -> None:
        """Add one vote; ``result`` is from the side of ``a``."""
        for_low = result if a < b or result > 1 else 1 - result
        cells = self._of(pair_key(a, b))
        first, before = cells.vote(prompt, for_low)
        self._raise(self.attempts, a, b)
        if result < 2:
            self._raise(self.decisive, a, b)
        if first:
            self._raise(self.prompts, a, b)
        if len(cells) == self._n_prompts and before == self.least[a, b]:
            self.least[a, b] = self.least[b, a] = cells.fewest_after(before)

    @staticmethod
    def _raise(matrix: npt.NDArray[np.int32], a: int, b: int) -> None:
        matrix[a, b] = matrix[b, a] = matrix[a, b] + 1

    def serve_many(self, a: Ints, b: Ints, prompt: Ints) -> None:
        """Add many meetings in order: only each pair's last ones are kept."""
        kept = self._policy.meetings
        pair = np.minimum(a, b) * len(self.decisive) + np.maximum(a, b)
        n = max(len(pair), 1)
        order = np.sort(pair * n + np.arange(len(pair))) % n
        pair = pair[order]
        starts = np.flatnonzero(np.diff(pair, prepend=-1))
        sizes = np.diff(starts, append=len(pair))
        last = np.arange(len(pair)) >= np.repeat(starts + sizes - kept, sizes)
        shown = prompt[order[last]].tolist()
        lows, highs = np.divmod(pair[starts], len(self.decisive))
        at = 0
        for low, high, n in zip(lows.tolist(), highs.tolist(), np.minimum(sizes, kept).tolist(), strict=True):
            cells = self._of(pair_key(low, high))
            cells.recent = (cells.recent + shown[at : at + n])[-kept:]
            at += n

    def vote_many(self, a: Ints, b: Ints, prompt: Ints, result: Ints) -> None:
        """Add many votes at once, with the same counts as one by one."""
        models = len(self.decisive)
        low, high = np.minimum(a, b), np.maximum(a, b)
        for_low = np.where((a == low) | (result > 1), result, 1 - result)
        pair = low * models + high
        for matrix, chosen in ((self.attempts, pair), (self.decisive, pair[result < 2])):
            more = np.bincount(chosen, minlength=models * models).reshape(models, models)
            np.add(matrix, more + more.T, out=matrix, casting="same_kind")
        # Distinct cells, ascending, and the number of each result in them.
        cell = pair * self._n_prompts + prompt
        codes = np.sort(cell * 4 + for_low)
        starts = np.flatnonzero(np.diff(codes, prepend=-1))
        counts = np.diff(starts, append=len(codes))
        codes = codes[starts]
        cells = _distinct(codes // 4)
        tally = np.zeros((len(cells), 4), dtype=np.uint32)
        tally[np.cumsum(np.diff(codes // 4, prepend=-1) > 0) - 1, codes % 4] = counts
        self._merge(*(cells, tally))

    def _merge(self, cell: Ints, tally: Counts) -> None:
        """Add tallies of cells (pair × prompt, ascending, distinct) to the stored ones."""
        models = len(self.decisive)
        lows, highs = np.divmod(_distinct(cell // self._n_prompts), models)
        held = [
            self._of(pair_key(low, high)) for low, high in zip(lows.tolist(), highs.tolist(), strict=True)
        ]
        prompts, counts = _laid_out(held)
        if len(prompts):
            sizes = np.fromiter(map(len, held), dtype=np.int64, count=len(held))
            cell, tally = _added(
                np.concatenate([np.repeat((lows * models + highs) * self._n_prompts, sizes) + prompts, cell]),
                np.concatenate([counts, tally]),
            )
        pair, on = np.divmod(cell, self._n_prompts)
        starts = np.flatnonzero(np.diff(pair, prepend=-1))
        sizes = np.diff(starts, append=len(pair))
        self._put(held, on.astype(np.uint32), tally, sizes)
        met = np.add.reduceat(tally[:, :2].any(axis=1), starts, dtype=np.int32)
        self.prompts[lows, highs] = self.prompts[highs, lows] = met
        least = np.minimum.reduceat(tally.sum(axis=1), starts)
        full = sizes == self._n_prompts
        lows, highs, least = lows[full], highs[full], least[full]
        self.least[lows, highs] = self.least[highs, lows] = least

    @staticmethod
    def _put(held: list[PairCells], prompts: Counts, tally: Counts, sizes: Ints) -> None:
        prompt_bytes, tally_bytes = prompts.tobytes(), tally.tobytes()
        start = 0
        for cells, size in zip(held, (4 * sizes).tolist(), strict=True):
            stop = start + size
            cells.put(prompt_bytes[start:stop], tally_bytes[4 * start : 4 * stop])
            start = stop

    def under(self, policy: Policy) -> None:
        """Switch to another policy that remembers as many meetings."""
        self._policy = policy

    def widen(self, models: int, prompts: int) -> None:
        """Add more models and prompts."""
        more = models - len(self.decisive)
        for name in ("decisive", "attempts", "prompts", "least"):
            setattr(self, name, np.pad(getattr(self, name), ((0, more), (0, more))))
        if prompts > self._n_prompts:
            self._n_prompts = prompts
            self.least[:] = 0


def _distinct(ascending: Ints) -> Ints:
    return ascending[np.flatnonzero(np.diff(ascending, prepend=-1))]


def _added(cell: Ints, tally: Counts) -> tuple[Ints, Counts]:
    """Distinct cells, ascending, and the sums of their tallies."""
    order = np.argsort(cell, kind="stable")
    cell = cell[order]
    starts = np.flatnonzero(np.diff(cell, prepend=-1))
    return cell[starts], np.add.reduceat(tally[order], starts, axis=0, dtype=np.uint32)


def _laid_out(held: list[PairCells]) -> tuple[Counts, Counts]:
    packed = [cells.packed() for cells in held]
    prompts = np.frombuffer(b"".join(prompts for prompts, _ in packed), dtype=np.uint32)
    tally = np.frombuffer(b"".join(tally for _, tally in packed), dtype=np.uint32)
    return prompts, tally.reshape(-1, 4)
