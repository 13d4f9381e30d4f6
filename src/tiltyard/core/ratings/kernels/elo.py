"""Elo over shuffled orders of the same battles.

A permutation is drawn by the Fisher–Yates shuffle in Durstenfeld's form, from the splitmix64
stream of its seed: integer arithmetic that does not depend on library versions. The last battle
that the shuffle fixes is the first one played, so shuffling and playing share one loop.

A battle is one 64-bit word: model a, model b, and the index of its score and step in short
lists. The words themselves are shuffled, so a battle costs one random access, not four. Ratings
are in logits here; callers scale them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tiltyard.core.battles.cluster_keys import mix_bits
from tiltyard.errors import CannotRate
from tiltyard.foundation.arrays import Floats

Ints = npt.NDArray[np.integer[Any]]
Words = npt.NDArray[np.uint64]

#: Bits of a packed battle: the index of its value is lowest, then model b, then model a.
_VALUE_BITS = 28
_MODEL_BITS = 18
#: The maximum and minimum number of permutations that run in parallel in the vectorised kernel, and
#: the maximum of their battles together.
_PERMUTATION_LIMIT, _BATTLE_LIMIT, _MIN_PERMUTATION_COUNT = 256, 1 << 23, 8
#: Random numbers are generated for this many steps at a time.
_RANDOM_STEP_COUNT = 1024

_MODEL_A_SHIFT_BITS = np.uint64(_VALUE_BITS + _MODEL_BITS)
_MODEL_B_SHIFT_BITS = np.uint64(_VALUE_BITS)
_MODEL_MASK = np.uint64((1 << _MODEL_BITS) - 1)
_VALUE_MASK = np.uint64((1 << _VALUE_BITS) - 1)


def pack_battles(a: Ints, b: Ints, value: Ints) -> Words:
    """Pack battles into words; ``value`` is the index of a battle's score and step in their lists."""
    for numbers, bits in ((a, _MODEL_BITS), (b, _MODEL_BITS), (value, _VALUE_BITS)):
        if numbers.max(initial=0) >> bits:
            raise CannotRate(
                f"Elo over permutations supports at most {1 << bits:,} models or distinct battles"
            )
    return np.asarray(
        (a.astype(np.uint64) << _MODEL_A_SHIFT_BITS)
        + (b.astype(np.uint64) << _MODEL_B_SHIFT_BITS)
        + value.astype(np.uint64)
    )


def play_shuffled_loop(games: Words, score: Floats, step: Floats, m: int, seeds: Words) -> Floats:
    """Final ratings (permutation, model), battle by battle; meant to be compiled."""
    n = len(games)
    out = np.zeros((len(seeds), m))
    deck = np.empty(n, np.uint64)
    for p in range(len(seeds)):
        ratings = out[p]
        deck[:] = games
        state = seeds[p]
        for left in range(n, 0, -1):
            state = state + np.uint64(0x9E3779B97F4A7C15)
            z = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            z = z ^ (z >> np.uint64(31))
            place = ((z >> np.uint64(32)) * np.uint64(left)) >> np.uint64(32)
            game = deck[place]
            deck[place] = deck[left - 1]
            i, o, v = (
                game >> _MODEL_A_SHIFT_BITS,
                (game >> _MODEL_B_SHIFT_BITS) & _MODEL_MASK,
                game & _VALUE_MASK,
            )
            change = step[v] * (score[v] - 1.0 / (1.0 + math.exp(ratings[o] - ratings[i])))
            ratings[i] += change
            ratings[o] -= change
    return out


def play_shuffled_vectors(games: Words, score: Floats, step: Floats, m: int, seeds: Words) -> Floats:
    """The same as `play_shuffled_loop`, with many permutations in parallel in NumPy."""
    return play_decks_vectors([games] * len(seeds), score, step, m, seeds)


def play_decks_vectors(decks: Sequence[Words], score: Floats, step: Floats, m: int, seeds: Words) -> Floats:
    """One permutation of each deck, with the seed of the same index; the same result as `play_shuffled_loop`."""
    out = np.zeros((len(decks), m))
    # Longest first, so that finished decks can be dropped from the end of the row.
    order = sorted(range(len(decks)), key=lambda k: -len(decks[k]))
    first = 0
    while first < len(order):
        width = min(
            _PERMUTATION_LIMIT, max(_MIN_PERMUTATION_COUNT, _BATTLE_LIMIT // max(len(decks[order[first]]), 1))
        )
        here = order[first : first + width]
        out[here] = _abreast([decks[k] for k in here], score, step, m, seeds[here])
        first += width
    return out


def _abreast(decks: Sequence[Words], score: Floats, step: Floats, m: int, seeds: Words) -> Floats:
    n, width = np.array([len(deck) for deck in decks]), len(decks)
    lane = np.arange(width)
    rows = np.zeros((n[0], width), dtype=np.uint64)
    for k, deck in enumerate(decks):
        rows[: n[k], k] = deck
    deck = rows.reshape(-1)
    ratings = np.zeros(width * m)
    base = lane * m
    for first in range(0, n[0], _RANDOM_STEP_COUNT):
        steps = np.arange(first, min(first + _RANDOM_STEP_COUNT, n[0]))
        left = np.maximum(n[None, :] - steps[:, None], 1)
        places = _draws(seeds, first, left) * width + lane
        lasts = (left - 1) * width + lane
        playing = np.searchsorted(-n, -steps, side="left")
        for place, last, w in zip(places, lasts, playing.tolist(), strict=True):
            game = deck[place[:w]]
            deck[place[:w]] = deck[last[:w]]
            i, o = (
                base[:w] + (game >> _MODEL_A_SHIFT_BITS).view(np.int64),
                base[:w] + ((game >> _MODEL_B_SHIFT_BITS) & _MODEL_MASK).view(np.int64),
            )
            v = (game & _VALUE_MASK).view(np.int64)
            ri, ro = ratings[i], ratings[o]
            change = step[v] * (score[v] - 1.0 / (1.0 + np.exp(ro - ri)))
            ratings[i] = ri + change
            ratings[o] = ro - change
    return ratings.reshape(width, m)


def _draws(seeds: Words, done: int, left: Ints) -> npt.NDArray[np.int64]:
    """For each step and permutation, which of the remaining battles is next."""
    counter = np.arange(done + 1, done + 1 + len(left), dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = mix_bits(counter[:, None] + seeds[None, :])
    return (((z >> np.uint64(32)) * left.astype(np.uint64)) >> np.uint64(32)).astype(np.int64)


def play_in_log_order(games: Words, score: Floats, step: Floats, ratings: Floats) -> None:
    """Play the battles in log order, changing ``ratings`` in place; compiled if there is much work."""
    for t in range(len(games)):
        game = games[t]
        i, o, v = game >> _MODEL_A_SHIFT_BITS, (game >> _MODEL_B_SHIFT_BITS) & _MODEL_MASK, game & _VALUE_MASK
        change = step[v] * (score[v] - 1.0 / (1.0 + math.exp(ratings[o] - ratings[i])))
        ratings[i] += change
        ratings[o] -= change
