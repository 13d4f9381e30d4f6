"""Pairs of models: the score of each kind of battle, scores by pair, and which models they make comparable."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import NegativeCycleError, bellman_ford, connected_components

from tiltyard.core.battles import KIND_COUNT, CodedBattles, Counts, Kind, Table
from tiltyard.core.ratings.findings import MIN_BATTLES, Finding
from tiltyard.core.ratings.sentences import first_of
from tiltyard.errors import BadOption
from tiltyard.foundation.arrays import Bools, Floats, Ints

AnyInts = npt.NDArray[np.integer[Any]]

#: The largest number of models for which unweighted counts are a dense array (15 MB); others are sorted.
_DENSE_MODEL_LIMIT = 512

#: Copies are reported from this share of the battles on; fewer change nothing that a reader would see.
_REPEATED_SHARE = 0.01


def sum_by_index(index: AnyInts, values: Floats, size: int) -> Floats:
    """``out[k]`` is the sum of ``values`` where ``index`` is k."""
    return np.asarray(np.bincount(index, values, size), dtype=np.float64)


def laplacians(a: AnyInts, b: AnyInts, value: Floats, cluster: AnyInts, shape: tuple[int, int]) -> Floats:
    """For each cluster the sum of value·(e_a − e_b)(e_a − e_b)ᵀ over its battles; ``shape`` is clusters by models."""
    parts = np.zeros((shape[0], shape[1], shape[1]))
    for i, j, sign in ((a, a, 1.0), (b, b, 1.0), (a, b, -1.0), (b, a, -1.0)):
        np.add.at(parts, (cluster, i, j), sign * value)
    return parts


@dataclass(frozen=True, slots=True)
class Scoring:
    """How outcomes are scored: a win is 1, the rest is configurable.

    A judge's both-bad flag does not change the score; the outcome ``both_bad`` is not scored unless asked for.
    """

    #: ``half``: a tie is half a win for each; ``drop``: ties and inconsistent results are left out.
    ties: Literal["half", "drop"] = "half"
    #: The score of a lean (decisive in one order, a tie in the other) for its winner.
    lean: float = 0.75
    #: The score of an inconsistent result (opposite winners in the two orders) for A; ``None`` leaves it out.
    inconsistent: float | None = 0.5
    #: Use a battle's stated preference, if it has one, instead of its outcome.
    soft: bool = False
    #: The outcome ``both_bad``: ``drop`` leaves it out, ``tie`` scores and counts it as a tie.
    both_bad: Literal["drop", "tie"] = "drop"

    def __post_init__(self) -> None:
        if self.ties not in ("half", "drop"):
            raise BadOption(f"ties is {self.ties!r}; expected half or drop")
        if self.both_bad not in ("drop", "tie"):
            raise BadOption(f"both_bad is {self.both_bad!r}; expected drop or tie")
        if not (0.5 <= self.lean <= 1.0 and 0.0 <= (self.inconsistent or 0.0) <= 1.0):
            raise BadOption("lean must lie between 0.5 and 1, inconsistent between 0 and 1")

    def counted_kinds(self) -> tuple[Kind, ...]:
        """As what each `Kind` is scored and counted: where ``both_bad`` is a tie, it is one with the flag."""
        tied = self.both_bad == "tie" and self.ties == "half"
        return tuple(Kind.TIE_FLAGGED if tied and kind is Kind.BOTH_BAD else kind for kind in Kind)

    def by_kind(self) -> Floats:
        """A's score for each `Kind`; NaN if that kind is left out."""
        scores = np.full(KIND_COUNT, np.nan)
        scores[Kind.WIN_A], scores[Kind.WIN_B] = 1.0, 0.0
        scores[Kind.LEAN_A], scores[Kind.LEAN_B] = self.lean, 1.0 - self.lean
        if self.ties == "half":
            scores[Kind.TIE] = 0.5
            if self.inconsistent is not None:
                scores[Kind.INCONSISTENT] = self.inconsistent
        return scores[[kind.plain for kind in self.counted_kinds()]]

    def of(self, codes: CodedBattles) -> Floats:
        """A's score in every battle of a log; NaN if it is left out."""
        scores = self.by_kind()[codes.kind]
        if self.soft and codes.pref is not None:
            stated = ~np.isnan(codes.pref) & ~np.isnan(scores)
            scores[stated] = codes.pref[stated]
        scores[codes.a == codes.b] = np.nan
        return scores


def require_number(name: str, value: Any, holds: Callable[[Any], bool], expected: str) -> None:
    """Raise `BadOption`, which names the parameter, if its value is no number or the condition does not hold."""
    try:
        fits = holds(value)
    except TypeError:
        fits = False
    if not fits:
        raise BadOption(f"{name} is {value!r}; expected {expected}")


def require_level(level: float) -> None:
    """Raise `BadOption` unless this can be a confidence level."""
    require_number("level", level, lambda value: 0.0 < value < 1.0, "a number between 0 and 1")


def require_above_zero(name: str, value: float) -> None:
    require_number(name, value, lambda value: value > 0.0, "a number above 0")


def require_at_least(name: str, value: float, least: int) -> None:
    require_number(name, value, lambda value: value >= least, f"a number, {least} or more")


@dataclass(frozen=True, slots=True, eq=False)
class PairScores:
    """Unordered pairs i < j that met: the weight of their battles, i's score, and the part that was tied."""

    n_models: int
    i: Ints
    j: Ints
    weight: Floats
    score: Floats
    tie: Floats

    @property
    def met(self) -> npt.NDArray[np.bool_]:
        """Which models are part of any pair."""
        met = np.zeros(self.n_models, dtype=bool)
        met[self.i] = met[self.j] = True
        return met

    def totals(self) -> tuple[Floats, Floats]:
        """The weight of each model's battles, and its score in them."""
        lost, m = self.weight - self.score, self.n_models
        total = sum_by_index(self.i, self.weight, m) + sum_by_index(self.j, self.weight, m)
        return total, sum_by_index(self.i, self.score, m) + sum_by_index(self.j, lost, m)

    def places(self, a: Ints, b: Ints) -> Ints:
        """The indices of the pairs of models ``a`` and ``b``, all of which must have met."""
        keys = np.minimum(a, b) * self.n_models + np.maximum(a, b)
        return np.searchsorted(self.i * self.n_models + self.j, keys)

    def among(self, members: Ints) -> PairScores:
        """The pairs inside a set of models, which are renumbered by their position in ``members``."""
        if len(members) == self.n_models:
            return self
        place = np.full(self.n_models, -1)
        place[members] = np.arange(len(members))
        i, j = place[self.i], place[self.j]
        keep = (i >= 0) & (j >= 0)
        return PairScores(len(members), i[keep], j[keep], self.weight[keep], self.score[keep], self.tie[keep])

    def groups(self, *, strong: bool) -> Ints:
        """The group of each model: models connected by battles; ``strong``: by points won both ways."""
        took = self.score > 0
        gave = self.score < self.weight
        # Whether some model won and lost points against every other: then all are one group.
        both = took & gave
        rivals = np.bincount(self.i[both], minlength=self.n_models) + np.bincount(
            self.j[both], minlength=self.n_models
        )
        if bool(rivals.max(initial=-1) == self.n_models - 1):
            return np.zeros(self.n_models, dtype=np.int64)
        rows = np.concatenate([self.i[took], self.j[gave]])
        cols = np.concatenate([self.j[took], self.i[gave]])
        graph = coo_array((np.ones(len(rows)), (rows, cols)), shape=(self.n_models,) * 2)
        _, group = connected_components(graph, connection="strong" if strong else "weak")
        return np.asarray(group, dtype=np.int64)


def score_pairs(counts: Counts, n_models: int, scoring: Scoring) -> PairScores:
    """Score the counts. Battles of a model with itself, with zero weight or of a kind left out are ignored."""
    if counts.sums is None and n_models <= _DENSE_MODEL_LIMIT:
        return _folded(_by_planes(counts, n_models, scoring), n_models)
    y = scoring.by_kind()[counts.kind]
    moments = counts.moments()
    unused = np.isnan(y) | (counts.a == counts.b)
    weight, y = np.where(unused, 0.0, moments[:, 0]), np.where(unused, 0.0, y)
    score = weight * y
    if scoring.soft:
        score = np.where(counts.soft & ~unused, moments[:, 2], score)
    return pairs_by_sorting(counts.a, counts.b, (weight, score, weight * tie_share(y)), n_models)


def _by_planes(counts: Counts, m: int, scoring: Scoring) -> Floats:
    """Weight, score and tie of every ordered pair, for unweighted battles, added kind by kind."""
    kinds = int(counts.kind.max(initial=-1)) + 1
    planes = np.zeros(kinds * m * m)
    planes[(counts.kind * m + counts.a) * m + counts.b] = counts.n
    y = scoring.by_kind()[:kinds]
    used = ~np.isnan(y)
    y = np.where(used, y, 0.0)
    factors = np.stack([used, y, used * tie_share(y)])
    return np.asarray((factors @ planes.reshape(kinds, m * m)).reshape(3, m, m))


def _folded(sums: Floats, m: int) -> PairScores:
    """Convert sums by ordered pair to unordered pairs: the lower triangle is added to the upper one."""
    weight, score, tie = sums
    score = score + (weight - score).T
    weight, tie = weight + weight.T, tie + tie.T
    met = np.flatnonzero(np.triu(weight, 1))
    i = met // max(m, 1)
    return PairScores(m, i, met - i * m, weight.ravel()[met], score.ravel()[met], tie.ravel()[met])


def pairs_from_points(points: Floats) -> PairScores:
    """Pairs from a matrix of the row model's score against the column model; a tie is half a win."""
    met = points + points.T
    i, j = np.nonzero(np.triu(met))
    return PairScores(len(points), i, j, met[i, j], points[i, j], np.zeros(len(i)))


def pairs_by_sorting(a: Ints, b: Ints, columns: tuple[Floats, Floats, Floats], m: int) -> PairScores:
    """Sums by pair of any cells, for any number of models."""
    used = columns[0] > 0.0
    a, b = a[used], b[used]
    weight, score, tie = (column[used] for column in columns)
    score = np.where(a > b, weight - score, score)
    met, place = np.unique(np.minimum(a, b) * m + np.maximum(a, b), return_inverse=True)
    i, j = np.divmod(met, m)
    return PairScores(m, i, j, *(sum_by_index(place, column, len(met)) for column in (weight, score, tie)))


def tie_share(score: Floats) -> Floats:
    """The tied part of a battle: all of it at one half, none at a win or a loss."""
    return 1.0 - np.abs(2.0 * score - 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class BattleRecord:
    """Each model's unweighted number of battles by result."""

    wins: Ints
    losses: Ints
    ties: Ints
    #: Battles with the outcome ``both_bad``, unless the method counts it as a tie.
    unrated: Ints
    #: Battles whose responses were both called bad: by that outcome, or by a judge's flag beside another one.
    both_bad: Ints

    @property
    def battles(self) -> Ints:
        """Battles that rate skill."""
        return self.wins + self.losses + self.ties


#: The result of each kind for A: won, lost, tied, both bad.
_FOR_A = {
    Kind.WIN_A: 0,
    Kind.LEAN_A: 0,
    Kind.WIN_B: 1,
    Kind.LEAN_B: 1,
    Kind.TIE: 2,
    Kind.INCONSISTENT: 2,
    Kind.BOTH_BAD: 3,
}


def count_records(counts: Counts, n_models: int, scoring: Scoring) -> BattleRecord:
    """The results of every model's battles; a battle with itself is ignored."""
    kinds = scoring.counted_kinds()
    for_a = np.array([_FOR_A[kind.plain] for kind in kinds])
    for_b = np.array([1, 0, 2, 3])[for_a]
    n = np.where(counts.a == counts.b, 0, counts.n).astype(np.float64)  # exact below 2^53 battles
    total = sum_by_index(counts.a * 4 + for_a[counts.kind], n, n_models * 4)
    total += sum_by_index(counts.b * 4 + for_b[counts.kind], n, n_models * 4)
    wins, losses, ties, unrated = total.reshape(n_models, 4).astype(np.int64).T
    flagged = np.where(np.array([kind.flagged for kind in kinds])[counts.kind], n, 0.0)
    flags = sum_by_index(counts.a, flagged, n_models) + sum_by_index(counts.b, flagged, n_models)
    return BattleRecord(wins, losses, ties, unrated, unrated + flags.astype(np.int64))


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
