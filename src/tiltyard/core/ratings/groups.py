"""Which models are comparable, and the findings about those that are not."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from scipy.sparse.csgraph import NegativeCycleError, bellman_ford

from tiltyard.core.battles import Table
from tiltyard.core.ratings.findings import MIN_BATTLES, Finding
from tiltyard.core.ratings.pairs import BattleRecord, PairScores
from tiltyard.core.ratings.scoring import sum_by_index
from tiltyard.core.ratings.sentences import first_of
from tiltyard.foundation.arrays import Bools, Floats, Ints

#: Copies are reported from this share of the battles on; fewer change nothing that a reader would see.
_REPEATED_SHARE = 0.01


def comparable_groups(pairs: PairScores, *, prior: bool) -> Ints:
    """The group of each model, the one with most battles first; −1 for a model without a group.

    Without a prior, ratings exist only among models that won points from each other both
    ways, directly or through others (Ford, American Mathematical Monthly 64, 1957). A prior
    removes this condition, but it never makes unconnected models comparable.
    """
    raw = pairs.groups(strong=not prior)
    size = np.bincount(raw, minlength=1)
    same = raw[pairs.i] == raw[pairs.j]
    battles = sum_by_index(raw[pairs.i[same]], pairs.weight[same], len(size))
    rank = np.full(len(size), -1)
    together = np.flatnonzero(size > 1)
    rank[together[np.argsort(-battles[together], kind="stable")]] = np.arange(len(together))
    return np.asarray(rank[raw], dtype=np.int64)


def numbered_groups(pairs: PairScores, played: npt.NDArray[np.bool_]) -> Ints:
    """Groups of models that met, directly or through others; 0 has the most battles, −1 marks models that never played."""
    island = pairs.groups(strong=False)
    labels = np.unique(island[played])
    battles = sum_by_index(island[pairs.i], pairs.weight, len(island))[labels]
    rank = np.full(len(island), -1)
    rank[labels[np.argsort(-battles, kind="stable")]] = np.arange(len(labels))
    return np.where(played, rank[island], -1)


def has_tie_parameter(pairs: PairScores, *, prior: bool) -> bool:
    """Whether Davidson's ν has a finite value, for models that are comparable with ties as half wins.

    ν and all differences can grow together with an ever better fit, unless some cycle of models
    contains more wins (cost −1 here) than ties (cost 1). A prior limits the differences.
    """
    i, j, tie, slack = pairs.i, pairs.j, pairs.tie, 1e-9 * pairs.weight
    level, won = tie > slack, pairs.score - tie / 2.0 > slack
    lost = pairs.weight - pairs.score - tie / 2.0 > slack
    if not level.any() or not (won | lost).any():
        return False
    if prior or (won & lost).any():
        return True
    cost = np.zeros((pairs.n_models,) * 2)
    cost[i[level], j[level]] = cost[j[level], i[level]] = 1.0
    cost[i[won], j[won]] = cost[j[lost], i[lost]] = -1.0
    try:
        bellman_ford(csr_array(cost), indices=[0])
    except NegativeCycleError:
        return True
    return False


def group_findings(
    models: tuple[str, ...], pairs: PairScores, group: Ints, *, prior: bool = False
) -> list[Finding]:
    """Findings about models that cannot be compared, or are rated only because of the ``prior``."""
    total, score = pairs.totals()
    # With a prior, the rating of these models is limited only by it, on one side.
    findings = _always_alike(models, total, score, pairs.met, {"case": "prior"}) if prior else []
    if group.any():
        findings += disconnected_finding(models, pairs, pairs.met) + _one_sided(models, pairs, group)
    return findings


def disconnected_finding(
    models: tuple[str, ...], pairs: PairScores, played: npt.NDArray[np.bool_]
) -> list[Finding]:
    """A finding if the models that played form sets that never met."""
    group = numbered_groups(pairs, played)
    sets = int(group.max(initial=0)) + 1
    if sets == 1:
        return []
    return [Finding("disconnected", {"sets": sets, **_named(models, group > 0)})]


def _one_sided(models: tuple[str, ...], pairs: PairScores, group: Ints) -> list[Finding]:
    total, score = pairs.totals()
    alone = pairs.met & (group < 0)
    findings = _always_alike(models, total, score, alone, {})
    rest = alone & (score != total) & (score != 0)
    island = pairs.groups(strong=False)
    home = [int(island[group == g][0]) for g in range(int(group.max(initial=-1)) + 1)]
    split = [g for g in range(len(home)) if home[g] in home[:g]]
    if rest.any() or split:
        findings.append(Finding("one-sided", _named(models, rest | np.isin(group, split))))
    return findings


def _always_alike(
    models: tuple[str, ...], total: Floats, score: Floats, among: Bools, case: Mapping[str, object]
) -> list[Finding]:
    """Findings about those of some models that won every point, and those that lost every point."""
    sides = {"only-wins": among & (score == total), "only-loses": among & (score == 0)}
    return [
        Finding(name, {**case, **_named(models, chosen)}) for name, chosen in sides.items() if chosen.any()
    ]


def _named(models: tuple[str, ...], chosen: npt.NDArray[np.bool_]) -> dict[str, object]:
    return first_of("models", [models[k] for k in np.flatnonzero(chosen)])


def data_findings(table: Table, record: BattleRecord, played: npt.NDArray[np.bool_]) -> list[Finding]:
    """Findings about battles that should not be pooled, are too few, compare a model with itself, or rate nothing."""
    models, counts = table.models, table.counts
    findings = _pooled(table)
    itself = int(counts.n[counts.a == counts.b].sum())
    if itself:
        findings.append(Finding("self-battles", {"battles": itself}))
    if table.repeats >= _REPEATED_SHARE * table.n_battles > 0:
        findings.append(Finding("repeated-battles", {"repeats": table.repeats, "battles": table.n_battles}))
    if table.block_repeats >= _REPEATED_SHARE * table.n_battles > 0:
        findings.append(
            Finding("repeated-block", {"repeats": table.block_repeats, "battles": table.n_battles})
        )
    if table.joined_prompts:
        findings.append(Finding("same-prompts", {"prompts": table.joined_prompts}))
    if not played.all():
        findings.append(Finding("unrated", _named(models, ~played)))
    few = np.flatnonzero(played & (record.battles < MIN_BATTLES))
    if len(few):
        named = [{"model": models[k], "battles": int(record.battles[k])} for k in few]
        findings.append(Finding("few-battles", {"least": MIN_BATTLES, **first_of("models", named)}))
    return findings


def _pooled(table: Table) -> list[Finding]:
    findings: list[Finding] = []
    if len(sources := table.tags.get("source", frozenset())) > 1:
        findings.append(Finding("mixed-sources", {"sources": tuple(sorted(sources))}))
    if len(dimensions := table.tags.get("dimension", frozenset())) > 1:
        named = first_of("dimensions", sorted(dimensions))
        findings.append(Finding("mixed-dimensions", {"count": len(dimensions), **named}))
    return findings
