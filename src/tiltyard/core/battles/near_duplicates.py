"""Prompts whose texts are nearly the same: MinHash of their pairs of words (Broder 1997), with banding."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from tiltyard.core.battles.cluster_keys import hash_texts, mix_bits

_WORD = re.compile(r"\w+")
#: Texts are nearly the same if they share this part of all their pairs of words.
_SHARED_SHARE = 0.4
#: Bands × rows of hashes: of texts at that part 99 % have a band in common, and are then compared by all hashes.
_BAND_COUNT, _ROW_COUNT = 31, 2
#: A pair of words in more texts than these, and than this share of all, belongs to a form and says nothing.
_COMMON_TEXT_COUNT, _COMMON_SHARE = 5, 0.1


def first_of_same(texts: Sequence[str]) -> npt.NDArray[np.int64]:
    """For each text the place of the first that is nearly the same, which may be its own."""
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
