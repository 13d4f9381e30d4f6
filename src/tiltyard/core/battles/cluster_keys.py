"""Prompts and voters as 64-bit hash keys.

Clustering only needs to know which rows belong together, not their names. A key that depends only
on the text needs no shared dictionary: files, partitions and machines compute the same keys
independently, and a hundred million distinct prompts take eight bytes each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

Keys = npt.NDArray[np.uint64]

#: Keys by the name of a coarser level, such as ``category``: prompts that share one may depend on each other.
Levels = Mapping[str, Keys]

#: The key of a row without a prompt (or voter).
MISSING_KEY = np.uint64(0)


def hash_texts(values: Sequence[str | None]) -> Keys:
    """One key per text; ``None`` gives `MISSING_KEY`."""
    encoded = [(value or "").encode("utf-8", "surrogatepass") for value in values]
    offsets = np.zeros(len(encoded) + 1, dtype=np.int64)
    np.cumsum([len(text) for text in encoded], out=offsets[1:])
    keys = hash_buffer(np.frombuffer(b"".join(encoded), dtype=np.uint8), offsets)
    keys[[value is None for value in values]] = MISSING_KEY
    return keys


def hash_buffer(data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> Keys:
    """Keys of texts concatenated in ``data``; text k is ``data[offsets[k]:offsets[k + 1]]``.

    Each text is read in words of eight bytes, which are mixed in order; all texts are processed in parallel.
    """
    lengths = np.diff(offsets)
    keys = _mix(lengths.astype(np.uint64))
    padded = np.concatenate([data, np.zeros(8, dtype=np.uint8)])
    words = np.ndarray(len(data) + 1, dtype="<u8", buffer=padded, strides=(1,))
    alive = np.flatnonzero(lengths > 0)
    read = 0
    while len(alive):
        left = lengths[alive] - read
        word = words[offsets[alive] + read].astype(np.uint64)
        short = left < 8
        word[short] &= (np.uint64(1) << (left[short] * 8).astype(np.uint64)) - np.uint64(1)
        keys[alive] = _mix(keys[alive] ^ word)
        read += 8
        alive = alive[left > 8]
    keys[keys == MISSING_KEY] = np.uint64(1)
    return keys


def _mix(x: Keys) -> Keys:
    return mix_bits(x + np.uint64(0x9E3779B97F4A7C15))


def mix_bits(x: Keys) -> Keys:
    """The finaliser of splitmix64 (Steele, Lea and Flood 2014): every input bit affects every output bit."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
