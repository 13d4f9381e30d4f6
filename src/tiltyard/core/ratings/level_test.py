"""Whether prompts of one category, day, source or language go together.

If they do, the sums of scores of one category's prompts are larger than those of as many prompts drawn at random, and
an interval by prompt is too narrow for other categories: prompts are exchanged among categories. Where nothing can be
exchanged, as the same prompts come every day, battles of one day that share neither prompt nor voter are compared: their
scores go the same way more often than under random signs for each prompt, and for each voter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from tiltyard.core.battles import CodedBattles, Table
from tiltyard.core.battles.cluster_keys import MISSING_KEY, Keys
from tiltyard.core.ratings.leave_one_out import KeyOf, RowScores
from tiltyard.core.ratings.pairs import sum_by_index
from tiltyard.foundation.arrays import Bools, Floats, Ints

#: The columns that are tested, where battles have them. A day is that of the battle's time.
LEVELS = ("category", "day", "source", "language")
#: Levels count at this level of Holm's procedure over all of them.
_LEVEL = 0.05
_PERMUTATION_COUNT = 999
#: Of more battles than this, only those of every second, fourth … prompt are looked at.
_MOST_BATTLES = 1 << 16
#: Prompts of one group are joined at random until prompts × models are at most so many, but not to fewer prompts than this.
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


def holds_whole_prompts(table: Table, level: str) -> bool:
    """Whether every prompt is in one group of the level."""
    sample = _sample(table)
    if sample.prompt is None:
        return True
    return _group_of(np.unique(sample.prompt, return_inverse=True)[1], sample.levels[level]) is not None


def departing_levels(table: Table, scores: RowScores, *, by_voter: bool) -> dict[str, float]:
    """The levels at which prompts go together, each with its p-value, by Holm's procedure over all that are tested.

    The statistic is the sum over groups and models of squared score sums; prompts are exchanged among groups. With
    ``by_voter``, if all prompts of a voter are in one group, they stay together, so that a voter's taste is not taken for
    that of a day. Where prompts are in several groups, or voters of one group share them, signs are drawn instead. Levels
    with a single group, or with as many as prompts, are not tested. The draws have a fixed seed, so that whoever repeats
    the test finds the same.
    """
    sample, m = _sample(table), len(table.models)
    several = {level: keys for level, keys in sorted(sample.levels.items()) if (keys != keys[:1]).any()}
    if sample.prompt is None or not several:
        return {}
    prompt = np.unique(sample.prompt, return_inverse=True)[1]
    units, clusters = [prompt], [prompt]
    if by_voter and sample.voter is not None:
        units.insert(0, _with_voters(prompt, sample.voter))
        clusters.append(np.unique(sample.voter, return_inverse=True)[1])
    residual = np.nan_to_num(scores(sample)[0])
    found: dict[str, float] = {}
    for level, keys in several.items():
        within = ((unit, groups) for unit in units if (groups := _group_of(unit, keys)) is not None)
        unit, groups = next(within, (prompt, keys[:0]))
        if 1 < len(np.unique(groups[groups != MISSING_KEY])) < np.count_nonzero(groups):
            part, group = _joined(groups, max(_MOST_SUM_COUNT // m, _LEAST_PROMPTS))
            at, size = part[unit] * m, (len(group) + 1) * m
            sums = sum_by_index(at + sample.a, residual, size) - sum_by_index(at + sample.b, residual, size)
            found[level] = p_of_exchange(sums.reshape(-1, m)[:-1], group)
            continue
        # People and judges who share prompts are told apart by `mixed-sources`; they are no sample of sources.
        likeness = [] if level == "source" else _likeness_of_signs(sample, residual, keys, clusters)
        if any(matrix.any() for matrix in likeness):
            found[level] = max(map(_p_of_signs, likeness))
    return holm(found)


def holm(tests: Mapping[str, float]) -> dict[str, float]:
    """Those of several tests, by name with their p-values, that are significant together, by Holm's procedure."""
    line = sorted(tests.items(), key=lambda item: item[1])
    return dict(takewhile(lambda item: item[1] <= _LEVEL / (len(line) - line.index(item)), line))


def _sample(table: Table) -> CodedBattles:
    """The battles that are looked at, by their prompts: keys are hashes, so that these are prompts at random."""
    mask = np.uint64((1 << max(table.n_battles // _MOST_BATTLES, 1).bit_length() - 1) - 1)

    def chosen(run: CodedBattles) -> Bools:
        if run.prompt is None:
            return np.zeros(len(run), dtype=bool)
        return np.asarray((run.prompt & mask == MISSING_KEY) & (run.prompt != MISSING_KEY))

    return table.log(chosen)


def _group_of(unit: Ints, keys: Keys) -> Keys | None:
    """The group of each unit; ``None`` if some are in several."""
    groups = np.zeros(int(unit.max(initial=-1)) + 1, dtype=np.uint64)
    groups[unit] = keys
    return groups if (groups[unit] == keys).all() else None


def _with_voters(prompt: Ints, voter: Keys) -> Ints:
    """Of each battle, the number of the prompts that some voters, or voters of the same prompts, connect."""
    named = np.flatnonzero(voter != MISSING_KEY)
    prompts, number = int(prompt.max(initial=-1)) + 1, np.unique(voter[named], return_inverse=True)[1]
    nodes = prompts + int(number.max(initial=-1)) + 1
    graph = coo_array((np.ones(len(named)), (prompt[named], prompts + number)), shape=(nodes, nodes))
    return np.asarray(connected_components(graph, directed=False)[1][prompt], dtype=np.int64)


def _joined(groups: Keys, most: int) -> tuple[Ints, Ints]:
    """The part of each unit, and the group of each part: units of one group, joined if there are too many.

    Keys are hashes, so their order is random. Units without a group are in the part after the last.
    """
    named = np.flatnonzero(groups)
    order = named[np.argsort(groups[named], kind="stable")]
    _, first, group = np.unique(groups[order], return_index=True, return_inverse=True)
    opens = (np.arange(len(order)) - first[group]) % -(-len(order) // most) == 0
    part = np.full(len(groups), int(opens.sum()))
    part[order] = np.cumsum(opens) - 1
    return part, group[opens]


def departure_by_group(sums: Floats, group: Ints) -> Callable[[Ints], float]:
    """The sum of squared sums by group and model, of parts in another order; groups are contiguous."""
    starts = np.flatnonzero(np.diff(group, prepend=-1))

    def departure(order: Ints) -> float:
        totals = np.add.reduceat(sums[order], starts, axis=0)
        return float((totals * totals).sum())

    return departure


def p_of_exchange(sums: Floats, group: Ints) -> float:
    """How often parts exchanged among groups, which are contiguous, are as alike; 1 as soon as it is surely above the level."""
    departure = departure_by_group(sums, group)
    least = departure(np.arange(len(group))) * (1.0 - _ROUNDING_TOLERANCE)
    exceeded, most = 0, int(_LEVEL * (_PERMUTATION_COUNT + 1)) - 1
    for replicate in range(_PERMUTATION_COUNT):
        drawn = np.random.default_rng([1, replicate]).random(len(group))
        exceeded += departure(np.argsort(drawn)) >= least
        if exceeded > most:
            return 1.0
    return (exceeded + 1) / (_PERMUTATION_COUNT + 1)


def _likeness_of_signs(
    codes: CodedBattles, residual: Floats, groups: Keys, clusters: Sequence[Ints]
) -> list[Floats]:
    """For each way of clustering, how alike scores of two clusters are within the groups: in battles that share no cluster.

    Entry i, j is the sum over groups and models of products of a score of i and a score of j.
    """
    named = np.flatnonzero(groups != MISSING_KEY)
    group = np.unique(groups[named], return_inverse=True)[1]
    parts = [cluster[named] % _LEAST_PROMPTS for cluster in clusters]
    model = np.concatenate([codes.a[named], codes.b[named]]).astype(np.int64)
    score = np.concatenate([residual[named], -residual[named]])

    def products(own: Ints, cell: Ints) -> Floats:
        column = np.unique(np.tile(cell, 2) * (int(model.max()) + 1) + model, return_inverse=True)[1]
        shape = (int(own.max()) + 1, int(column.max()) + 1)
        sums = coo_array((score, (np.tile(own, 2), column)), shape=shape).tocsr()
        return np.asarray((sums @ sums.T).toarray())

    found = []
    for own, other in zip(parts, reversed(parts), strict=True):
        alike = products(own, group)
        if len(parts) > 1:
            alike -= products(own, group * _LEAST_PROMPTS + other)
        np.fill_diagonal(alike, 0.0)
        found.append(alike)
    return found


def _p_of_signs(alike: Floats) -> float:
    """How often random signs of clusters make scores as alike as they are."""
    signs = np.random.default_rng(2).integers(0, 2, (_PERMUTATION_COUNT, len(alike))) * 2.0 - 1.0
    drawn = ((signs @ alike) * signs).sum(axis=1)
    least = alike.sum() - _ROUNDING_TOLERANCE * np.abs(alike).sum()
    return float(np.count_nonzero(drawn >= least) + 1) / (_PERMUTATION_COUNT + 1)
