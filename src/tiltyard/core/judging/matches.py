"""Matches: which responses are compared, on which prompts, in which dimension and order.

Pairs are ordered so that any first part of them is spread evenly over prompts, pairs of models, and models.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tiltyard.errors import BadOption
from tiltyard.foundation.arrays import Ints

#: What a missing response drops: the pairs that need it, or all pairs of its prompt.
MissingDrops = Literal["pair", "prompt"]
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt of the bank."""

    prompt_id: str
    text: str
    source: str = ""
    category: str | None = None
    language: str | None = None
    gold: str | None = None
    expected_behavior: str | None = None


@dataclass(frozen=True, slots=True)
class Match:
    """Two models on one prompt in one dimension. ``model_a`` sorts first by name."""

    dimension: str
    prompt_id: str
    model_a: str
    model_b: str

    @classmethod
    def between(cls, dimension: str, prompt_id: str, one: str, other: str) -> Match:
        """The match of two models, given in any order."""
        return cls(dimension, prompt_id, min(one, other), max(one, other))

    @property
    def id(self) -> str:
        """A stable id, independent of the run and the roster's order. 32 hex digits."""
        return stable_id(
            {
                "dimension": self.dimension,
                "prompt_id": self.prompt_id,
                "model_a": self.model_a,
                "model_b": self.model_b,
            }
        )


@dataclass(frozen=True)
class MatchList:
    """The matches of a run in canonical order, and what could not be matched.

    ``dropped`` is the number of pairs of models, prompt by prompt, that lack a response, each counted
    once, whatever the number of dimensions. ``missing`` is the number of prompts each model did
    not answer; models that answered all are not in it.
    """

    matches: Sequence[Match]
    dropped: int
    missing: Mapping[str, int]
    #: Those of which control questions are made; ``None``: all.
    checked: Sequence[Match] | None = None


@dataclass(frozen=True, slots=True)
class PairRules:
    """Which pairs are left out beyond those that lack a response."""

    #: Keep only this many pairs of each dimension, from the start.
    limit: int | None = None
    #: A model under test: only its own pairs are made, and only its own answers can be missing.
    around: str | None = None
    #: Dimensions that leave out prompts without a gold answer.
    gold_only: Collection[str] = ()
    #: Whether a missing response drops all pairs of its prompt, not only those that need it.
    whole_prompts: bool = False

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 0:
            raise BadOption(f"the limit of pairs is {self.limit}; expected 0 or more")


_EVERY_PAIR = PairRules()


def all_pairs(
    prompts: Sequence[Prompt],
    models: Sequence[str],
    dimensions: Sequence[str],
    has: Collection[tuple[str, str]],
    rules: PairRules = _EVERY_PAIR,
) -> MatchList:
    """Every pair of models on every prompt; a missing response drops the pairs that need it.

    ``has`` contains (model, prompt_id). Canonical order: dimension as given, prompt in bank order,
    then pairs in the order of ``models``.
    """
    around = rules.around
    for name, count in Counter(models).items():
        if count > 1:
            raise BadOption(f"duplicate model {name!r}; expected distinct names")
    pairs: list[tuple[str, str, str]] = []
    dropped = 0
    missing: Counter[str] = Counter()
    for prompt in prompts:
        here = [name for name in models if (name, prompt.prompt_id) in has]
        met = [pair for pair in itertools.combinations(here, 2) if around is None or around in pair]
        absent = set(models if around is None else [around]).difference(here)
        wanted = len(models) * (len(models) - 1) // 2 if around is None else len(absent) + len(met)
        kept = [] if rules.whole_prompts and absent else met
        pairs += [(prompt.prompt_id, *pair) for pair in kept]
        dropped += wanted - len(kept)
        missing.update(absent)
    gold = {prompt.prompt_id for prompt in prompts if prompt.gold is not None}
    matches: list[Match] = []
    for dimension in dimensions:
        allowed = [pair for pair in pairs if pair[0] in gold] if dimension in rules.gold_only else pairs
        matches += [Match.between(dimension, *pair) for pair in allowed[: rules.limit]]
    return MatchList(matches, dropped, {name: missing[name] for name in sorted(missing)})


def pilot_subset(prompts: Sequence[Prompt], sizes: Mapping[str, int] | int, seed: int) -> list[Prompt]:
    """A seeded subset, stratified by source, in bank order.

    ``sizes`` is a number for each source, or one number to divide among all sources in
    proportion. A source with fewer prompts than requested is an error that names it.

    Within a source the prompts are drawn by the hash of seed, source and name: a prompt's draw
    does not depend on its position in the bank, so a growing bank keeps most of its subset.
    """
    there = Counter(prompt.source for prompt in prompts)
    wanted = _shared(there, sizes) if isinstance(sizes, int) else sizes
    for source, size in wanted.items():
        if not 0 <= size <= there[source]:
            raise BadOption(
                f"the subset needs {size} prompts of source {source!r}; the bank has {there[source]}"
            )
    drawn: set[str] = set()
    for source, size in wanted.items():
        drawn.update(draw_order([prompt for prompt in prompts if prompt.source == source], seed)[:size])
    return [prompt for prompt in prompts if prompt.prompt_id in drawn]


def draw_order(prompts: Iterable[Prompt], seed: int) -> list[str]:
    """The prompts in the order in which a subset is drawn, whatever their source."""
    return [
        one.prompt_id for one in sorted(prompts, key=lambda one: stable_id([seed, one.source, one.prompt_id]))
    ]


def _shared(there: Mapping[str, int], size: int) -> dict[str, int]:
    """``size`` divided among sources in proportion, by largest remainder, then by name."""
    total = sum(there.values())
    if not 0 <= size <= total:
        raise BadOption(f"the subset needs {size} prompts; the bank has {total}")
    if not total:
        return {}
    shares = {source: size * count // total for source, count in there.items()}
    by_remainder = sorted(there, key=lambda source: (-(size * there[source] % total), source))
    for source in by_remainder[: size - sum(shares.values())]:
        shares[source] += 1
    return shares


def stable_id(fields: Mapping[str, object] | Sequence[Any]) -> str:
    """32 hex digits of the sha256 of the canonical JSON: keys sorted, no spaces, ASCII only."""
    return hashlib.sha256(_CANONICAL.encode(fields).encode("ascii")).hexdigest()[:32]


def sample_pairs(
    found: MatchList, count: int | Callable[[Sequence[Match]], int] | None, seed: int
) -> MatchList:
    """The matches of the first ``count`` pairs of each dimension in the order of `spread_order`.

    ``count`` may follow from the matches of a dimension. A larger sample contains every smaller one of the same seed.
    ``None`` keeps all.
    """
    if count is None:
        return found
    if isinstance(count, int) and count < 0:
        raise BadOption(f"the sample has {count} pairs; expected 0 or more")
    matches: list[Match] = []
    pairs: list[tuple[str, str, str]] = []
    places: list[int] = []
    for _, some in itertools.groupby(found.matches, key=lambda match: match.dimension):
        here = list(some)
        earlier, pairs = pairs, [(one.prompt_id, one.model_a, one.model_b) for one in here]
        if pairs != earlier:
            size = count if isinstance(count, int) else count(here)
            places = sorted(spread_order(pairs, seed)[:size].tolist())
        matches += [here[place] for place in places]
    return MatchList(matches, found.dropped, found.missing)


def spread_order(pairs: Sequence[tuple[str, str, str]], seed: int = 0) -> Ints:
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


def _steps(prompts: Ints, models: Ints, n_prompts: int, n_models: int) -> Ints:
    """The step t of each cell, by the Chinese remainder theorem."""
    common = math.gcd(n_prompts, n_models)
    block = (models - prompts) % common
    inverse = pow(n_prompts // common, -1, n_models // common)
    turns = (models - block - prompts) // common * inverse % (n_models // common)
    return block * (n_prompts * n_models // common) + prompts + n_prompts * turns


def _by_hash(names: Iterable[str], seed: int) -> list[str]:
    return sorted(names, key=lambda name: stable_id(["spread", seed, name]))


def _numbers(values: Iterable[object], ordered: Iterable[object]) -> Ints:
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
