"""Elo over shuffled orders of the same battles.

A permutation is drawn by the shuffle of Fisher and Yates in Durstenfeld's form, from the
splitmix64 stream of its seed: integer arithmetic that no library version can change. The
last battle that the shuffle fixes is the first one played, so both go in one loop.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["in_order", "shuffled_loop", "shuffled_vectors"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.integer[Any]]
Seeds = npt.NDArray[np.uint64]

_LN10 = math.log(10.0)
#: Permutations that run side by side in the vectorised kernel.
_ABREAST = 256
#: Random numbers are made for this many steps at a time.
_AHEAD = 1024


def shuffled_loop(
    a: Ints,
    b: Ints,
    score: Floats,
    weight: Floats,
    k: float,
    start: float,
    spread: float,
    m: int,
    seeds: Seeds,
) -> Floats:
    """Final ratings (permutation, model), battle by battle; meant to be compiled.

    ``weight`` has one entry per battle, or a single one for all.
    """
    n = len(a)
    out = np.empty((len(seeds), m))
    c = _LN10 / spread
    stride = 1 if len(weight) == n else 0
    order = np.empty(n, np.uint32)
    for p in range(len(seeds)):
        ratings = out[p]
        ratings[:] = start
        for t in range(n):
            order[t] = t
        state = seeds[p]
        for left in range(n, 0, -1):
            state = state + np.uint64(0x9E3779B97F4A7C15)
            z = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            z = z ^ (z >> np.uint64(31))
            j = ((z >> np.uint64(32)) * np.uint64(left)) >> np.uint64(32)
            game = order[j]
            order[j] = order[left - 1]
            i, o = a[game], b[game]
            expected = 1.0 / (1.0 + math.exp((ratings[o] - ratings[i]) * c))
            change = k * weight[game * stride] * (score[game] - expected)
            ratings[i] += change
            ratings[o] -= change
    return out


def shuffled_vectors(
    a: Ints,
    b: Ints,
    score: Floats,
    weight: Floats,
    k: float,
    start: float,
    spread: float,
    m: int,
    seeds: Seeds,
) -> Floats:
    """The same as `shuffled_loop`, many permutations abreast in NumPy."""
    if len(weight) != len(a):
        weight = np.broadcast_to(weight, len(a))
    parts = [
        _abreast(a, b, score, k * weight, start, spread, m, seeds[first : first + _ABREAST])
        for first in range(0, len(seeds), _ABREAST)
    ]
    return np.concatenate(parts) if parts else np.empty((0, m))


def _abreast(
    a: Ints, b: Ints, score: Floats, step: Floats, start: float, spread: float, m: int, seeds: Seeds
) -> Floats:
    n, width = len(a), len(seeds)
    lane = np.arange(width)
    order = np.repeat(np.arange(n, dtype=np.uint32), width)
    ratings = np.full(width * m, start)
    base = lane * m
    c = _LN10 / spread
    for top in range(n, 0, -_AHEAD):
        lefts = range(top, max(top - _AHEAD, 0), -1)
        places = _draws(seeds, n - top, lefts) * width + lane
        for left, place in zip(lefts, places, strict=True):
            game = order[place]
            order[place] = order[(left - 1) * width : left * width]
            i, o = base + a[game], base + b[game]
            ri, ro = ratings[i], ratings[o]
            change = step[game] * (score[game] - 1.0 / (1.0 + np.exp((ro - ri) * c)))
            ratings[i] = ri + change
            ratings[o] = ro - change
    return ratings.reshape(width, m)


def _draws(seeds: Seeds, done: int, lefts: range) -> Ints:
    """For each step and permutation, which of the battles left is next."""
    counter = np.arange(done + 1, done + 1 + len(lefts), dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = counter[:, None] + seeds[None, :]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    left = np.array(lefts, dtype=np.uint64)[:, None]
    return (((z >> np.uint64(32)) * left) >> np.uint64(32)).astype(np.int64)


def in_order(
    a: Ints, b: Ints, score: Floats, weight: Floats, k: float, spread: float, ratings: Floats
) -> None:
    """Play the battles as they stand in the log, changing ``ratings``; compiled where work is large."""
    c = _LN10 / spread
    stride = 1 if len(weight) == len(a) else 0
    for game in range(len(a)):
        i, o = a[game], b[game]
        expected = 1.0 / (1.0 + math.exp((ratings[o] - ratings[i]) * c))
        change = k * weight[game * stride] * (score[game] - expected)
        ratings[i] += change
        ratings[o] -= change
