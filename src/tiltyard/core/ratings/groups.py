"""Which models may be compared at all, and what to say of those that may not."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from scipy.sparse.csgraph import NegativeCycleError, bellman_ford

from tiltyard.core.battles import Table
from tiltyard.core.ratings.findings import MIN_BATTLES, Finding, join_names
from tiltyard.core.ratings.index_sums import sum_by_index
from tiltyard.core.ratings.pairs import BattleRecord, PairScores

__all__ = [
    "comparable_groups",
    "data_findings",
    "disconnected_finding",
    "group_findings",
    "has_tie_parameter",
    "numbered_groups",
]

Ints = npt.NDArray[np.int64]

_PRIOR = "Collect battles between them that might go the other way, or state a weak prior (--prior-sd)."


def comparable_groups(pairs: PairScores, *, prior: bool) -> Ints:
    """The group of each model, the one with most battles first; −1 for a model alone.

    Without a prior, ratings exist only among models that took points off each other both
    ways, directly or through others (Ford, American Mathematical Monthly 64, 1957). A prior
    lifts that, but it never makes unconnected models comparable.
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
    """Groups of models that met, directly or through others; that with most battles is 0, who never played −1."""
    island = pairs.groups(strong=False)
    labels = np.unique(island[played])
    battles = sum_by_index(island[pairs.i], pairs.weight, len(island))[labels]
    rank = np.full(len(island), -1)
    rank[labels[np.argsort(-battles, kind="stable")]] = np.arange(len(labels))
    return np.where(played, rank[island], -1)


def has_tie_parameter(pairs: PairScores, *, prior: bool) -> bool:
    """Whether Davidson's ν has a value, for models that are comparable with ties as half wins.

    ν and all differences can grow together, and fit ever better, unless some ring of models
    holds more wins (cost −1 here) than ties (cost 1). A prior holds the differences.
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
    """Why some models cannot be compared, or have no rating but for the ``prior``."""
    findings = _held_by_prior(models, pairs) if prior else []
    if group.any():
        findings += disconnected_finding(models, pairs, pairs.met) + _one_sided(models, pairs, group)
    return findings


def _held_by_prior(models: tuple[str, ...], pairs: PairScores) -> list[Finding]:
    """Models whose rating has no limit but the prior's, on one side."""
    findings: list[Finding] = []
    total, score = _totals(pairs)
    for name, verb, side, rivals, chosen in (
        ("only-wins", "won", "above", "stronger", pairs.met & (score == total)),
        ("only-loses", "lost", "below", "weaker", pairs.met & (score == 0)),
    ):
        if chosen.any():
            names = join_names([models[k] for k in np.flatnonzero(chosen)])
            findings.append(
                Finding(
                    name,
                    f"{names} {verb} every battle: only the prior limits the rating from {side}.",
                    f"Let it meet {rivals} models.",
                )
            )
    return findings


def disconnected_finding(
    models: tuple[str, ...], pairs: PairScores, played: npt.NDArray[np.bool_]
) -> list[Finding]:
    """A finding if the models that played fall into sets that never met."""
    group = numbered_groups(pairs, played)
    sets = int(group.max(initial=0)) + 1
    if sets == 1:
        return []
    apart = [models[k] for k in np.flatnonzero(group > 0)]
    return [
        Finding(
            "disconnected",
            f"The battles fall into {sets} sets of models that never met each other; ratings are "
            f"comparable only within a set. Apart from the largest: {join_names(apart)}.",
            "Add battles between the sets before comparing across them.",
        )
    ]


def _one_sided(models: tuple[str, ...], pairs: PairScores, group: Ints) -> list[Finding]:
    findings: list[Finding] = []
    total, score = _totals(pairs)
    alone = pairs.met & (group < 0)
    for name, verb, limit, rivals, chosen in (
        ("only-wins", "won", "upper", "stronger", alone & (score == total)),
        ("only-loses", "lost", "lower", "weaker", alone & (score == 0)),
    ):
        if chosen.any():
            names = join_names([models[k] for k in np.flatnonzero(chosen)])
            findings.append(
                Finding(
                    name,
                    f"{names} {verb} every battle: no {limit} limit to the rating, so none is given.",
                    f"Let it meet {rivals} models, or state a weak prior (--prior-sd).",
                )
            )
    rest = alone & (score != total) & (score != 0)
    island = pairs.groups(strong=False)
    home = [int(island[group == g][0]) for g in range(int(group.max(initial=-1)) + 1)]
    split = [g for g in range(len(home)) if home[g] in home[:g]]
    if rest.any() or split:
        names = join_names([models[k] for k in np.flatnonzero(rest | np.isin(group, split))])
        findings.append(
            Finding(
                "one-sided",
                f"Between {names} and the other models points only ever went one way, "
                "so no finite difference fits; they are not compared.",
                _PRIOR,
            )
        )
    return findings


def _totals(pairs: PairScores) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    m = pairs.n_models
    total = sum_by_index(pairs.i, pairs.weight, m) + sum_by_index(pairs.j, pairs.weight, m)
    score = sum_by_index(pairs.i, pairs.score, m) + sum_by_index(pairs.j, pairs.weight - pairs.score, m)
    return total, score


def data_findings(table: Table, record: BattleRecord, played: npt.NDArray[np.bool_]) -> list[Finding]:
    """Battles that should not be pooled, too few of them, of a model with itself, or that rate nothing."""
    models, counts = table.models, table.counts
    findings = _pooled(table)
    itself = int(counts.n[counts.a == counts.b].sum())
    if itself:
        findings.append(
            Finding(
                "self-battles",
                f"{itself:,} battles compare a model with itself; they say nothing of skill and are left out.",
                "Check how the pairs were made.",
            )
        )
    none = [models[k] for k in np.flatnonzero(~played)]
    if none:
        findings.append(
            Finding(
                "unrated", f"{join_names(none)} took part in no battle that rates skill.", "Collect some."
            )
        )
    few = np.flatnonzero(played & (record.battles < MIN_BATTLES))
    if len(few):
        names = join_names([f"{models[k]} ({record.battles[k]})" for k in few])
        findings.append(
            Finding(
                "few-battles",
                f"Fewer than {MIN_BATTLES} battles each: {names}.",
                "Read their ratings as a first impression.",
            )
        )
    return findings


def _pooled(table: Table) -> list[Finding]:
    """People and judges, or several dimensions, rated as if they were one."""
    findings: list[Finding] = []
    if len(sources := table.tags.get("source", frozenset())) > 1:
        findings.append(
            Finding(
                "mixed-sources",
                f"Battles decided by {' and '.join(sorted(sources))} are pooled, though they need not agree.",
                "Rate them apart with --by source.",
            )
        )
    if len(dimensions := table.tags.get("dimension", frozenset())) > 1:
        findings.append(
            Finding(
                "mixed-dimensions",
                f"Battles on {len(dimensions)} dimensions are pooled: {join_names(sorted(dimensions))}.",
                "Rate them apart with --by dimension.",
            )
        )
    return findings
