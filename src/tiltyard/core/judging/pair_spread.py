"""Orders pairs so that any first part of them is spread evenly over prompts, pairs of models, and models."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from tiltyard.core.judging.matches import MatchList
from tiltyard.core.judging.stable_ids import stable_id
from tiltyard.errors import BadOption

__all__ = ["sample_pairs", "spread_order"]

Integers = npt.NDArray[np.int64]


def sample_pairs(found: MatchList, count: int | None, seed: int) -> MatchList:
    """The matches of the first ``count`` pairs in the order of `spread_order`, in all dimensions.

    A larger sample contains every smaller one of the same seed. ``None`` keeps all.
    """
    if count is None:
        return found
    if count < 0:
        raise BadOption(f"the sample has {count} pairs; expected 0 or more")
    pairs = list(dict.fromkeys((one.prompt_id, one.model_a, one.model_b) for one in found.matches))
    drawn = {pairs[place] for place in spread_order(pairs, seed)[:count]}
    matches = [one for one in found.matches if (one.prompt_id, one.model_a, one.model_b) in drawn]
    return MatchList(matches, found.dropped, found.missing)


def spread_order(pairs: Sequence[tuple[str, str, str]], seed: int = 0) -> Integers:
    """The places of distinct pairs (prompt, model, model) in an order whose every beginning is spread evenly.

    If all models answered all prompts, no prompt is used again before every other has been used as often,
    and so for pairs of models. Where responses are missing, that holds for pairs of models as long as they
    have prompts left, and nearly for prompts. The order depends only on names and the seed.

    With P prompts and M pairs of models, the step t takes prompt t mod P and pair (t + ⌊t/L⌋) mod M, where L
    is the least common multiple: each block of L steps is a diagonal of the P × M table, and each of the
    gcd(P, M) blocks another one.
    """
    prompts = _numbers((pair[0] for pair in pairs), _by_hash({pair[0] for pair in pairs}, seed))
    rounds = _round_robin({pair[1:] for pair in pairs}, seed)
    models = _numbers((pair[1:] for pair in pairs), rounds)
    steps = _steps(prompts, models, max(len(set(prompts.tolist())), 1), max(len(rounds), 1))
    by_models = np.lexsort((steps, models))
    turns = np.empty(len(pairs), dtype=np.int64)
    starts = np.searchsorted(models[by_models], models[by_models])
    turns[by_models] = np.arange(len(pairs)) - starts
    return np.lexsort((steps, turns))


def _steps(prompts: Integers, models: Integers, n_prompts: int, n_models: int) -> Integers:
    """The step t of each cell, by the Chinese remainder theorem."""
    common = math.gcd(n_prompts, n_models)
    block = (models - prompts) % common
    inverse = pow(n_prompts // common, -1, n_models // common)
    turns = (models - block - prompts) // common * inverse % (n_models // common)
    return block * (n_prompts * n_models // common) + prompts + n_prompts * turns


def _by_hash(names: Iterable[str], seed: int) -> list[str]:
    return sorted(names, key=lambda name: stable_id(["spread", seed, name]))


def _numbers(values: Iterable[object], ordered: Iterable[object]) -> Integers:
    place = {value: number for number, value in enumerate(ordered)}
    return np.fromiter((place[value] for value in values), dtype=np.int64)


def _round_robin(pairs: Iterable[tuple[str, str]], seed: int) -> list[tuple[str, str]]:
    """Pairs of models by the rounds of the circle method: in each, every model meets one other.

    Two rounds already connect all models.
    """
    known = set(pairs)
    models = _by_hash({model for pair in known for model in pair}, seed)
    place = {name: number for number, name in enumerate(models)}
    last = len(models) - 1 + len(models) % 2

    def turn(pair: tuple[str, ...]) -> tuple[int, int]:
        low, high = sorted(place[name] for name in pair)
        return (2 * low if high == last else low + high) % last, low

    return sorted(known, key=turn)
