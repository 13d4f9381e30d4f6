"""Whether prompts of one category, day, source or language go together: a permutation test of prompts among them.

If they do, the sums of scores of one category's prompts are larger than those of as many prompts drawn at random, and
an interval by prompt is too narrow for other categories.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tiltyard.core.battles import CodedBattles, Table
from tiltyard.core.battles.cluster_keys import MISSING_KEY, Keys
from tiltyard.core.ratings.sandwich import KeyIndex, KeyOf, RowScores, distinct_keys
from tiltyard.foundation.arrays import Floats, Ints

#: The columns that are tested, where battles have them. A day is that of the battle's time.
LEVELS = ("category", "day", "source", "language")
#: Levels count at this level of Holm's procedure over all of them.
_LEVEL = 0.05
_PERMUTATION_COUNT = 999
#: Of more battles than this, only those of every second, fourth … prompt are looked at.
_MOST_BATTLES = 1 << 17
#: Prompts of one group are joined at random until prompts × models are at most so many, so that a million prompts cost
#: what a thousand do; but not to fewer prompts than this.
_MOST_SUM_COUNT = 1 << 15
_LEAST_PROMPTS = 500
_ROUNDING_TOLERANCE = 1e-9


def level_key(level: str) -> KeyOf:
    """The key of a battle's group at a level; a battle without one keeps its prompt."""

    def key(codes: CodedBattles) -> Keys | None:
        groups = codes.levels.get(level)
        if groups is None or codes.prompt is None:
            return codes.prompt if groups is None else groups
        return np.where(groups == MISSING_KEY, codes.prompt, groups)

    return key


def prompts_by_level(table: Table) -> tuple[Keys, Mapping[str, Keys]]:
    """The prompts, and the group of each at every level whose groups have their prompts to themselves."""
    chosen = _chosen_prompts(table)
    prompts = distinct_keys(table, lambda run: None if run.prompt is None else run.prompt[chosen(run.prompt)])
    index, seen = KeyIndex(prompts), np.zeros(len(prompts), dtype=bool)
    group_of = {level: np.zeros(len(prompts), dtype=np.uint64) for level in sorted(table.levels)}
    for run in table.scan() if group_of else ():
        if run.prompt is None:
            continue
        rows = chosen(run.prompt)
        prompt = index.positions(run.prompt[rows])
        before = seen[prompt]
        for level, known in list(group_of.items()):
            group = run.levels[level][rows] if level in run.levels else np.zeros_like(prompt)
            known[prompt] = np.where(before, known[prompt], group)
            if (known[prompt] != group).any():
                del group_of[level]
        seen[prompt] = True
    return prompts, group_of


def _chosen_prompts(table: Table) -> Callable[[Keys], Ints]:
    """Which battles are looked at, by their prompts: keys are hashes, so that these are prompts at random."""
    bits = max(table.n_battles // _MOST_BATTLES, 1).bit_length() - 1
    mask = np.uint64((1 << bits) - 1)
    return lambda prompt: np.flatnonzero(((prompt & mask) == 0) & (prompt != MISSING_KEY))


def departing_levels(table: Table, scores: RowScores) -> dict[str, float]:
    """The levels at which prompts go together, each with its p-value, by Holm's procedure over all that are tested.

    The statistic is the sum over groups and models of squared score sums; prompts are exchanged among groups. Levels
    with a single group, with as many as prompts, or with prompts in several groups are not tested. The draws have a
    fixed seed, so that whoever repeats the test finds the same.
    """
    prompts, group_of = prompts_by_level(table)
    most = max(_MOST_SUM_COUNT // len(table.models), _LEAST_PROMPTS)
    parts = {}
    for level, groups in group_of.items():
        count = len(np.unique(groups[groups != MISSING_KEY]))
        if 1 < count < np.count_nonzero(groups):
            parts[level] = _joined(groups, most)
    sums = _score_sums(table, scores, prompts, [part for part, _ in parts.values()])
    found = {
        level: _p_value(sums_of[: len(group)], group)
        for (level, (_, group)), sums_of in zip(parts.items(), sums, strict=True)
    }
    departing: dict[str, float] = {}
    for rank, (level, p) in enumerate(sorted(found.items(), key=lambda item: item[1])):
        if p > _LEVEL / (len(found) - rank):
            break
        departing[level] = p
    return departing


def _joined(groups: Keys, most: int) -> tuple[Ints, Ints]:
    """The part of each prompt, and the group of each part: prompts of one group, joined if there are too many.

    Keys are hashes, so their order is random. Prompts without a group are in the part after the last.
    """
    named = np.flatnonzero(groups)
    order = named[np.argsort(groups[named], kind="stable")]
    _, first, group = np.unique(groups[order], return_index=True, return_inverse=True)
    size = -(-len(order) // most)
    opens = (np.arange(len(order)) - first[group]) % size == 0
    part = np.full(len(groups), int(opens.sum()))
    part[order] = np.cumsum(opens) - 1
    return part, group[opens]


def _score_sums(table: Table, scores: RowScores, prompts: Keys, parts: list[Ints]) -> list[Floats]:
    """The sums of scores by part and model, for each way to divide prompts into parts."""
    m = len(table.models)
    sums = [np.zeros((int(part.max(initial=0)) + 1) * m) for part in parts]
    index, chosen = KeyIndex(prompts), _chosen_prompts(table)
    for run in table.scan() if parts else ():
        if run.prompt is None:
            continue
        residual, _ = scores(run)
        rows = chosen(run.prompt)
        rows = rows[~np.isnan(residual[rows])]
        prompt, residual = index.positions(run.prompt[rows]), residual[rows]
        for part, total in zip(parts, sums, strict=True):
            at = part[prompt] * m
            total[:] += np.bincount(at + run.a[rows], residual, len(total))
            total[:] -= np.bincount(at + run.b[rows], residual, len(total))
    return [total.reshape(-1, m) for total in sums]


def _p_value(sums: Floats, group: Ints) -> float:
    """Of parts in groups, which are contiguous; 1 as soon as it is sure to be above the level."""
    starts = np.flatnonzero(np.diff(group, prepend=-1))

    def departure(order: Ints) -> float:
        totals = np.add.reduceat(sums[order], starts, axis=0)
        return float((totals * totals).sum())

    least = departure(np.arange(len(group))) * (1.0 - _ROUNDING_TOLERANCE)
    exceeded, most = 0, int(_LEVEL * (_PERMUTATION_COUNT + 1)) - 1
    for replicate in range(_PERMUTATION_COUNT):
        drawn = np.random.default_rng([1, replicate]).random(len(group))
        exceeded += departure(np.argsort(drawn)) >= least
        if exceeded > most:
            return 1.0
    return (exceeded + 1) / (_PERMUTATION_COUNT + 1)
