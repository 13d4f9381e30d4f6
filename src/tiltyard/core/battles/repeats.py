"""Battles that are in a log twice: by what names each of them, or as blocks of rows that repeat.

People may vote on one pair twice and agree, so equal rows alone prove nothing. A battle is named by its prompt with its
voter or judge, or by its time of day. Rows without such names are copies only where so many follow each other in the same
order that chance does not explain it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from tiltyard.core.battles.batch import BattleBatch, NameColumn
from tiltyard.core.battles.cluster_keys import MISSING_KEY, Keys, hash_texts, mix_bits
from tiltyard.foundation.arrays import Bools

#: Where battles are copies, nearly all with the same names and models, in any places, are equal: people who meet a pair
#: again see it in random places, and do not always agree with themselves.
_EQUAL_SHARE = 0.85
#: The probability that a block of an honest log repeats, as a power of two.
_CHANCE_BITS = 20.0
_MIN_BLOCK_ROWS = 20
#: Rows in which the chance of equal results is measured.
_SAMPLE_ROWS = 1 << 16
#: A block in which results change less often than this share of what is usual is the run of somebody who votes alike.
_CHANGED_SHARE = 0.75
#: Odd, so that it has an inverse modulo 2⁶⁴.
_BASE = np.uint64(0x9E3779B97F4A7C15)
_INVERSE = np.uint64(pow(int(_BASE), -1, 1 << 64))
_MICROSECONDS_PER_DAY = 86_400_000_000
_WORD = re.compile(r"\w+")
#: Texts are nearly the same if they share this part of all their pairs of words.
_SHARED_SHARE = 0.4
#: Bands × rows of hashes: of texts at that part 99 % have a band in common, and are then compared by all hashes.
_BAND_COUNT, _ROW_COUNT = 31, 2
#: A pair of words in more texts than these, and than this share of all, belongs to a form and says nothing.
_COMMON_TEXT_COUNT, _COMMON_SHARE = 5, 0.1


class RepeatFinder:
    """Finds copies in batches that are added in log order."""

    def __init__(self) -> None:
        #: Each battle with all its names but its time; the same with its time, if it has names; and what only it met.
        self._rows: list[Keys] = []
        self._named: list[Keys] = []
        self._meetings: list[Keys] = []
        self._results: list[Keys] = []
        #: Pairs as they were shown and in any order, where chance is measured.
        self._sample: list[tuple[Keys, Keys]] = []

    def add(self, batch: BattleBatch) -> None:
        first, second = _name_keys(batch.model_a), _name_keys(batch.model_b)
        result = batch.kind.astype(np.uint64)
        if batch.pref is not None:
            result = mix_bits(result) ^ batch.pref.view(np.uint64)
        pair = mix_bits(first) ^ second
        if sum(map(len, self._results)) < _SAMPLE_ROWS:
            self._sample.append((pair, first + second))
        self._results.append(result)
        names, is_named = _names_of(batch)
        row = mix_bits(mix_bits(pair ^ names) ^ result)
        meeting = mix_bits(first + second) ^ names
        self._rows.append(row)
        if batch.time is not None:
            row, meeting = mix_bits(row) ^ batch.time, mix_bits(meeting) ^ batch.time
        self._named.append(np.where(is_named, row, MISSING_KEY))
        self._meetings.append(np.where(is_named, meeting, MISSING_KEY))

    def counts(self) -> tuple[int, int]:
        """How many battles repeat an earlier one by their names, and how many in blocks."""
        named, meetings = _joined(self._named), _joined(self._meetings)
        known = named[named != MISSING_KEY]
        ordered = np.sort(known)
        repeats = int(np.count_nonzero(ordered[1:] == ordered[:-1]))
        if repeats and _equal_share(known, meetings[meetings != MISSING_KEY]) < _EQUAL_SHARE:
            repeats = 0
        return repeats, int(np.count_nonzero(self.block_copies()))

    def copies(self) -> Bools:
        """The battles that repeat an earlier one, by their names or in blocks."""
        named = _joined(self._named)
        return np.asarray((_later(named) & (named != MISSING_KEY)) | self.block_copies())

    def block_copies(self) -> Bools:
        """The rows of blocks that repeat earlier ones; none where every battle has names of its own."""
        rows, results = _joined(self._rows), _joined(self._results)
        n, length = len(rows), self._block_length(results)
        copies = np.zeros(n, dtype=bool)
        if n <= length or (_joined(self._named) != MISSING_KEY).all():
            return copies
        powers = np.cumprod(np.full(n, _BASE))
        sums = np.append(np.uint64(0), np.cumsum(rows * powers))
        blocks = (sums[length:] - sums[:-length]) * np.cumprod(np.full(n - length + 1, _INVERSE))
        changed = np.append(0, np.cumsum(results[1:] != results[:-1]))
        changes = changed[length - 1 :] - changed[: n - length + 1]
        varied = changes >= _CHANGED_SHARE * changed[-1] / n * length
        ordered = np.sort(blocks[varied])
        if not (ordered[1:] == ordered[:-1]).any():
            return copies
        later = _later(blocks)
        # Blocks that begin one row after another are parts of one: it counts as a whole if any part is varied.
        whole = np.cumsum(later & ~np.append(False, later[:-1]))
        counts = np.bincount(whole, later & varied) > 0
        starts = np.flatnonzero(later & counts[whole])
        edges = np.bincount(starts, minlength=n + 1) - np.bincount(starts + length, minlength=n + 1)
        return np.asarray(np.cumsum(edges)[:n] > 0)

    def _block_length(self, results: Keys) -> int:
        """So many rows that two honest blocks of them, anywhere in the log, are hardly ever equal.

        Pairs may follow a plan, so that only results tell blocks apart: what is measured is how often two of one pair agree.
        Where all results are the same, as in tables of winners and losers, the places of the two models are the result.
        """
        n = len(results)
        shown, met = (_joined([keys[k] for keys in self._sample]) for k in (0, 1))
        result = results[: len(shown)]
        one_result = bool((result == result[:1]).all())
        pairs = _equal_pairs(met if one_result else shown)
        equal = _equal_pairs(shown if one_result else mix_bits(shown) ^ result)
        bits = -math.log2(equal / pairs) if 0.0 < equal < pairs else 1e-9 if equal else 1.0
        return max(_MIN_BLOCK_ROWS, min(n, math.ceil((2.0 * math.log2(max(n, 2)) + _CHANCE_BITS) / bits)))


def _names_of(batch: BattleBatch) -> tuple[Keys, Bools]:
    """A key of the prompt, the voter, the judge and the dimension of each battle, and whether they name it with its time."""
    n = len(batch)
    judge, dimension = batch.tags.get("judge_model"), batch.tags.get("dimension")
    key = np.zeros(n, dtype=np.uint64)
    prompt = batch.prompt if batch.named_prompt is None else batch.named_prompt
    by_person = np.zeros(n, dtype=bool)
    for names in (dimension, judge):
        if names is not None:
            key = mix_bits(key) ^ _name_keys(names)
    if judge is not None:
        by_person |= np.array([name != "" for name in judge.values], dtype=bool)[judge.codes]
    if batch.voter is not None:
        key, by_person = mix_bits(key) ^ batch.voter, by_person | (batch.voter != MISSING_KEY)
    if prompt is not None:
        key, by_person = mix_bits(key) ^ prompt, by_person & (prompt != MISSING_KEY)
    else:
        by_person[:] = False
    if batch.time is None:
        return key, by_person
    # A date alone, or none, is no time of day.
    return key, by_person | (batch.time % np.uint64(_MICROSECONDS_PER_DAY) != 0)


def _name_keys(names: NameColumn) -> Keys:
    return hash_texts(names.values)[names.codes]


def _joined(keys: list[Keys]) -> Keys:
    return np.concatenate(keys) if keys else np.empty(0, dtype=np.uint64)


def _later(keys: Keys) -> Bools:
    """Whether each key is there earlier."""
    order = np.argsort(keys, kind="stable")
    later: npt.NDArray[np.bool_] = np.zeros(len(keys), dtype=bool)
    later[order[1:]] = keys[order[1:]] == keys[order[:-1]]
    return later


def _equal_share(keys: Keys, meetings: Keys) -> float:
    """Of two battles of one meeting, how many are equal; the mean over meetings, so that no busy voter decides."""
    _, meeting, sizes = np.unique(meetings, return_inverse=True, return_counts=True)
    _, places, copies = np.unique(keys, return_index=True, return_counts=True)
    equal = np.bincount(meeting[places], copies * (copies - 1.0), len(sizes))
    several = sizes > 1
    return float((equal[several] / (sizes[several] * (sizes[several] - 1.0))).mean())


def _equal_pairs(keys: Keys) -> float:
    """How many pairs of rows have equal keys."""
    counts = np.unique(keys, return_counts=True)[1].astype(np.float64)
    return float((counts * (counts - 1.0) / 2.0).sum())


def first_of_same(texts: Sequence[str]) -> npt.NDArray[np.int64]:
    """For each text the place of the first that is nearly the same, which may be its own.

    By MinHash of their pairs of words (Broder 1997), with banding.
    """
    words = [_WORD.findall(text.lower()) for text in texts]
    owner = np.repeat(np.arange(len(texts)), [len(some) for some in words])
    word = hash_texts([one for some in words for one in some])
    paired = np.flatnonzero(owner[1:] == owner[:-1])
    key = mix_bits(word[paired]) ^ word[paired + 1]
    _, place, times = np.unique(key, return_inverse=True, return_counts=True)
    rare = times[place] <= max(_COMMON_TEXT_COUNT, _COMMON_SHARE * len(texts))
    owner, key = owner[paired][rare], key[rare]
    # A text without pairs that tell it from others is compared as a whole.
    bare = np.setdiff1d(np.arange(len(texts)), owner)
    owner, key = np.append(owner, bare), np.append(key, hash_texts([" ".join(words[k]) for k in bare]))
    order = np.argsort(owner, kind="stable")
    owner, key = owner[order], mix_bits(key[order])
    starts = np.searchsorted(owner, np.arange(len(texts)))
    factors = mix_bits(np.arange(1, _BAND_COUNT * _ROW_COUNT + 1, dtype=np.uint64)) | np.uint64(1)
    hashes = np.stack([np.minimum.reduceat(key * factor, starts) for factor in factors])
    edges: list[npt.NDArray[Any]] = []
    for rows in hashes.reshape(_BAND_COUNT, _ROW_COUNT, -1):
        band = mix_bits(rows[0]) ^ rows[1]
        _, opened, bucket = np.unique(band, return_index=True, return_inverse=True)
        first = opened[bucket]
        same = (hashes == hashes[:, first]).mean(axis=0) >= _SHARED_SHARE
        edges.append(np.stack([np.flatnonzero(same), first[same]]))
    one, other = np.concatenate(edges, axis=1)
    graph = coo_array((np.ones(len(one)), (one, other)), shape=(len(texts), len(texts)))
    group = connected_components(graph, directed=False)[1]
    return np.asarray(np.unique(group, return_index=True)[1][group], dtype=np.int64)
