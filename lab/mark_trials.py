"""Measures how often a mark of proven order is false, and how many votes it needs, in worlds of known truth."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from tiltyard.core.battles import Kind
from tiltyard.core.policy.validity.order_marks import LIKE_THESE, THESE, PairVotes, Scope
from tiltyard.core.policy.validity.order_test import OrderTest
from tiltyard.errors import BadOption
from tiltyard.simulation.studies import Median, Proportion, median_figure, proportion
from tiltyard.simulation.worlds import POINTS_PER_LOGIT, World, WorldSettings, draw_world_of

__all__ = [
    "FalseMarkRates",
    "FalseMarks",
    "FalseMarksSettings",
    "MarkPower",
    "MarkVotesSettings",
    "Prompts",
    "false_mark_rates",
    "false_marks_in_world",
    "mark_power",
    "votes_until_proven",
]

Ints = npt.NDArray[np.int64]

#: How the next prompt of a pair is chosen: at random, in turn, or some far more often.
Prompts = Literal["uniform", "round-robin", "skewed"]

#: Models closer than this, in points, count as equal.
_EQUAL_POINTS = 1e-6
#: Evaluations that are processed together in the study of power.
_LOOK_BATCH_COUNT = 64


@dataclass(frozen=True, slots=True)
class FalseMarksSettings:
    """Worlds of models that are equal in pairs, and how often they are looked at while votes come in."""

    prompts: int = 100
    effect_sd: float = 0.5
    models: int = 20
    votes: int = 24_000
    peeks: int = 96
    chosen: Prompts = "uniform"
    #: Whether clones are equal on each prompt too.
    same_effects: bool = False


@dataclass(frozen=True, slots=True)
class MarkVotesSettings:
    """One pair, so many points apart in strength, marked at 0.05/family."""

    gap: float
    scope: Scope
    family: int = 1
    #: No more votes than these are cast.
    most: int = 24_000
    prompts: int = 100
    effect_sd: float = 0.5
    chosen: Prompts = "uniform"
    #: Votes between two looks.
    every: int = 5


@dataclass(frozen=True, slots=True)
class FalseMarks:
    """Whether any false mark was given in one world, at any evaluation."""

    these: bool
    like_these: bool
    #: Whether a mark for these prompts would have been false for the prompt population.
    these_of_population: bool
    #: Pairs that were marked at the last evaluation.
    these_marked: int
    like_these_marked: int


@dataclass(frozen=True, slots=True)
class FalseMarkRates:
    """Shares of worlds with a false mark, with exact intervals."""

    these: Proportion
    like_these: Proportion
    these_of_population: Proportion


@dataclass(frozen=True, slots=True)
class MarkPower:
    """Votes of any kind on one pair until it was marked."""

    gap: float
    scope: Scope
    family: int
    #: Infinite values are pairs that were never marked.
    votes: Median
    never: int


def false_marks_in_world(settings: FalseMarksSettings, seed: int) -> FalseMarks:
    """Whether any false mark was given in one world of models that are equal in pairs.

    Pairs are uniform. A mark for these prompts is false if it contradicts the Bradley–Terry
    projection on this world's prompts, one for prompts like these if it contradicts the strengths;
    where two are equal any mark is false.
    """
    models, prompts, effect_sd = settings.models, settings.prompts, settings.effect_sd
    rng = np.random.default_rng([seed, prompts, round(1000 * effect_sd), models])
    clones = WorldSettings(models, prompts, close_top=False, clones=True, same_effects=settings.same_effects)
    world = draw_world_of(replace(clones, effect_sd=effect_sd), rng)
    low, high = np.triu_indices(models, 1)
    truths = {
        THESE: _signs(world.truth(these_prompts=True)),
        LIKE_THESE: _signs(world.strength * POINTS_PER_LOGIT),
    }
    rule, false, marked = OrderTest(), set(), {THESE: 0, LIKE_THESE: 0}
    for tally in _tallies(world, settings.votes, settings.peeks, settings.chosen, rng):
        filled = np.einsum("ij->i", tally) > 0
        start = np.concatenate(([0], np.cumsum(filled.reshape(-1, prompts).sum(axis=1))))
        cells = PairVotes(low, high, start, tally[filled])
        for scope in (THESE, LIKE_THESE):
            leader = rule.leaders(cells, scope, family=len(low), prompts=prompts)
            claim = np.where(leader >= 0, np.where(leader == low, 1, -1), 0)
            marked[scope] = int(np.count_nonzero(claim))
            false |= {(scope, about) for about in truths if (claim * truths[about] < np.abs(claim)).any()}
    return FalseMarks(
        these=(THESE, THESE) in false,
        like_these=(LIKE_THESE, LIKE_THESE) in false,
        these_of_population=(THESE, LIKE_THESE) in false,
        these_marked=marked[THESE],
        like_these_marked=marked[LIKE_THESE],
    )


def false_mark_rates(worlds: Sequence[FalseMarks]) -> FalseMarkRates:
    """How many of these worlds had a false mark."""
    n = len(worlds)
    return FalseMarkRates(
        these=proportion(sum(world.these for world in worlds), n),
        like_these=proportion(sum(world.like_these for world in worlds), n),
        these_of_population=proportion(sum(world.these_of_population for world in worlds), n),
    )


def votes_until_proven(settings: MarkVotesSettings, seed: int, method: OrderTest | None = None) -> int | None:
    """Votes of one pair until it is marked; ``None`` if it is not marked after the most that are cast.

    The voters are those of the ranking policy: 16 % ties, 7 % both_bad, 5 % lazy, an advantage of 0.1
    for side A. A vote of any kind counts.
    """
    gap, prompts, every = settings.gap, settings.prompts, settings.every
    rng = np.random.default_rng([seed, round(1000 * gap), prompts])
    pair = WorldSettings(2, prompts, close_top=False, effect_sd=settings.effect_sd)
    world = replace(draw_world_of(pair, rng), strength=np.array([gap / POINTS_PER_LOGIT, 0.0]))
    rule = method or OrderTest()
    looks = settings.most // every
    tallies = _tallies(world, looks * every, looks, settings.chosen, rng)
    for first in range(0, looks, _LOOK_BATCH_COUNT):
        together = [tally for _, tally in zip(range(_LOOK_BATCH_COUNT), tallies, strict=False)]
        k = len(together)
        low, start = np.zeros(k, dtype=np.int64), np.arange(k + 1) * prompts
        cells = PairVotes(low, low + 1, start, np.concatenate(together))
        leader = rule.leaders(cells, settings.scope, family=settings.family, prompts=prompts, stepwise=False)
        if (leader >= 0).any():
            return every * (first + int((leader >= 0).argmax()) + 1)
    return None


def mark_power(
    seeds: Iterable[int], gap: float, scope: Scope, *, family: int = 1, chosen: Prompts = "uniform"
) -> MarkPower:
    """The median over pairs, each in a world of its own. It counts votes until proven at 0.05/family."""
    settings = MarkVotesSettings(gap, scope, family, chosen=chosen)
    found = [votes_until_proven(settings, seed) for seed in seeds]
    votes = median_figure([math.inf if one is None else one for one in found])
    return MarkPower(gap, scope, family, votes, never=found.count(None))


def _signs(rating: npt.NDArray[np.float64]) -> Ints:
    """The true order of each pair: 1 if the lower code is better, −1 if the higher is, 0 if equal."""
    low, high = np.triu_indices(len(rating), 1)
    gap = rating[low] - rating[high]
    return np.where(np.abs(gap) < _EQUAL_POINTS, 0, np.sign(gap)).astype(np.int64)


def _tallies(
    world: World, votes: int, peeks: int, chosen: Prompts, rng: np.random.Generator
) -> Iterator[Ints]:
    """Counts by pair and prompt (wins of the lower code, of the higher, ties, both_bad) at each evaluation."""
    prompts = world.effect.shape[1]
    low, high = np.triu_indices(len(world.models), 1)
    pair = rng.integers(0, len(low), votes)
    prompt = _prompts(pair, prompts, chosen, rng)
    swapped = rng.random(votes) < 0.5
    a, b = np.where(swapped, high[pair], low[pair]), np.where(swapped, low[pair], high[pair])
    kind = world.kinds(a, b, prompt, rng)
    won = (kind == Kind.WIN_A) | (kind == Kind.WIN_B)
    column = np.where(won, (kind == Kind.WIN_B) ^ swapped, kind)
    cell = (pair * prompts + prompt) * 4 + column
    tally = np.zeros(len(low) * prompts * 4, dtype=np.int64)
    for some in np.array_split(cell, peeks):
        tally = tally + np.bincount(some, minlength=len(tally))
        yield tally.reshape(-1, 4)


def _prompts(pair: Ints, prompts: int, chosen: Prompts, rng: np.random.Generator) -> Ints:
    """The prompt of each vote."""
    if chosen == "uniform":
        return rng.integers(0, prompts, len(pair))
    if chosen == "skewed":
        share = 1.0 / np.arange(1, prompts + 1)
        return rng.choice(prompts, len(pair), p=share / share.sum())
    if chosen != "round-robin":
        raise BadOption(f"prompts are chosen {chosen!r}; expected 'uniform', 'round-robin' or 'skewed'")
    order = np.argsort(pair, kind="stable")
    meetings = np.bincount(pair)
    before = np.empty(len(pair), dtype=np.int64)
    before[order] = np.arange(len(pair)) - np.repeat(np.cumsum(meetings) - meetings, meetings)
    rounds = int(before.max()) // prompts + 1
    turns = rng.permuted(np.tile(np.arange(prompts), (len(meetings) * rounds, 1)), axis=1)
    return np.asarray(turns[pair * rounds + before // prompts, before % prompts], dtype=np.int64)
