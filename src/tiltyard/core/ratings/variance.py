"""Computes the covariance of ratings from a fit: chooses the clusters, and the scope of the intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

import numpy as np
from scipy.special import ndtri, stdtrit

from tiltyard.core.battles import Table
from tiltyard.core.battles.cluster_keys import MISSING_KEY
from tiltyard.core.ratings.findings import MIN_DOF, MIN_PROMPTS, MIN_VOTERS, SAMPLE_VOTERS, WARN_DOF, Finding
from tiltyard.core.ratings.group_fit import FittedStrengths, fit_groups
from tiltyard.core.ratings.leave_one_out import (
    KeyOf,
    Meat,
    battle_meat,
    clustered_meat,
    leave_one_out,
    prompt_key,
    sorted_distinct,
    two_way_keys,
    voter_key,
)
from tiltyard.core.ratings.level_test import departing_levels, holds_whole_prompts, level_key
from tiltyard.core.ratings.pairs import Scoring, comparable_groups, score_pairs, tie_share
from tiltyard.core.ratings.result import Interval, Ratings, Uncertainty
from tiltyard.core.ratings.sentences import first_of, plural
from tiltyard.errors import BadOption, CannotRate
from tiltyard.foundation.arrays import Bools, Floats, Ints

#: Voters count as different at this level. It is far above 5 %, because to miss a difference costs more than to find one.
_LEVEL = 0.2
_PERMUTATION_COUNT = 99
#: A variance (in points squared) this small counts as zero: every battle went as the ratings expect.
ZERO_VARIANCE_TOLERANCE = 1e-9

#: Prompts and voters are each a sample of others like them, or the only ones that an interval speaks of. Where no voter
#: is named, nothing is said of voters.
_BOTH_LIKE_THESE = "prompts and voters like these"
_PROMPTS_LIKE_THESE = "prompts like these"
_PROMPTS_LIKE_THESE_ALONE = "prompts like these and these voters only"
_VOTERS_LIKE_THESE_ALONE = "voters like these and these prompts only"
_THESE_PROMPTS_ONLY = "these prompts only"
_THESE_ONLY = "these prompts and voters only"


def voters_differ(table: Table, scoring: Scoring) -> bool:
    """Whether voters depart from the common ratings in ways of their own, more than chance explains.

    The statistic is the sum over voters and models of squared sums of residuals. If voters are alike, their names can be
    exchanged among the votes on a prompt. The draws have a fixed seed, and the votes an order that neither the log nor
    sides decide, so that whoever repeats the test finds the same.
    """
    votes = _Votes.of(table, scoring)

    def exchanged(drawn: Floats) -> float:
        return votes.departure(votes.voter[np.argsort(votes.prompt + drawn)])

    return exceeds_chance(votes.departure(votes.voter), len(votes.voter), exchanged)


def exceeds_chance(observed: float, units: int, exchanged: Callable[[Floats], float]) -> bool:
    """Whether a statistic is larger than chance makes it, where ``exchanged`` is that of units exchanged by random numbers."""
    exceeded, most = 0, int(_LEVEL * (_PERMUTATION_COUNT + 1)) - 1
    for replicate in range(_PERMUTATION_COUNT):
        exceeded += exchanged(np.random.default_rng([0, replicate]).random(units)) >= observed
        if exceeded > most:
            return False
    return True


@dataclass(frozen=True, slots=True, eq=False)
class _Votes:
    """Votes that name a prompt and a voter, by prompt, with residuals of a fit of all battles."""

    models: int
    prompt: Ints
    voter: Ints
    a: Ints
    b: Ints
    residual: Floats

    @classmethod
    def of(cls, table: Table, scoring: Scoring) -> _Votes:
        m = len(table.models)
        pairs = score_pairs(table.counts, m, scoring)
        fitted = fit_groups(pairs, comparable_groups(pairs, prior=False), bread=False)
        log = table.log()
        assert log.prompt is not None
        assert log.voter is not None
        residual, _ = fitted.row_scores(scoring)(log)
        known = ~np.isnan(residual) & (log.prompt != MISSING_KEY) & (log.voter != MISSING_KEY)
        used = np.flatnonzero(known)
        used = used[np.lexsort((np.abs(residual[used]), log.voter[used], log.prompt[used]))]
        return cls(
            m,
            np.unique(log.prompt[used], return_inverse=True)[1],
            np.unique(log.voter[used], return_inverse=True)[1],
            log.a[used].astype(np.int64),
            log.b[used].astype(np.int64),
            residual[used],
        )

    def departure(self, voter: Ints) -> float:
        """The statistic, if these voters had cast the votes."""
        size = (int(self.voter.max(initial=-1)) + 1) * self.models
        first, second = voter * self.models + self.a, voter * self.models + self.b
        sums = np.bincount(first, self.residual, size) - np.bincount(second, self.residual, size)
        return float(sums @ sums)


@dataclass(frozen=True, slots=True)
class Clustering:
    """What is resampled, and what intervals refer to because of that."""

    #: ``battle``, ``prompt``, ``voter``, ``prompt × voter``; or the same with a coarser level in place of prompts.
    kind: str
    scope: str
    #: The key function of each way of clustering; none at battle level.
    keys: tuple[KeyOf, ...] = ()

    def coarser(self, level: str) -> Clustering:
        """The same with the groups of a level in place of prompts."""
        scope = self.scope.replace("prompts", plural(level), 1)
        return Clustering(self.kind.replace("prompt", level, 1), scope, (level_key(level), *self.keys[1:]))

    @property
    def one_way(self) -> Clustering:
        """The same without voters, for a bootstrap: of two ways it can resample only one."""
        if len(self.keys) < 2:
            return self
        scope = self.scope.replace("and voters like these", "like these and these voters only")
        return Clustering(self.kind.partition(" × ")[0], scope, self.keys[:1])


@dataclass(frozen=True, slots=True, eq=False)
class VarianceEstimate:
    """The uncertainty of ratings, and how it was estimated."""

    uncertainty: Uncertainty
    #: The same if the prompts of these battles are all that matter: clustered by voter, or by nothing.
    these_prompts: Uncertainty | None
    clustering: Clustering
    n_clusters: int
    #: Standard errors of the extra parameters, in their own units.
    extra_se: Floats = field(default_factory=lambda: np.empty(0))
    #: Their degrees of freedom.
    extra_dof: Floats = field(default_factory=lambda: np.empty(0))
    #: The number of voters, if they are clusters.
    n_voters: int | None = None
    #: The largest share of the weight that one ``prompt``, and one ``voter``, has.
    largest_shares: Mapping[str, float] = field(default_factory=dict)
    #: Whether each contrast has the larger variance of this clustering and of others.
    is_widened: bool = False

    @property
    def varies(self) -> Bools:
        """Which ratings have a positive variance."""
        return self.uncertainty.ratings() > ZERO_VARIANCE_TOLERANCE

    @property
    def known(self) -> Bools:
        """Which ratings have an interval: their variance is positive, and enough clusters decide it."""
        return self.varies & (self.uncertainty.dof >= MIN_DOF)

    def widened(self, other: VarianceEstimate) -> VarianceEstimate:
        """The same with the larger variance of both for each contrast, and the fewer degrees of freedom."""
        own, others = self.uncertainty, other.uncertainty
        both = Uncertainty((*own.covariances, *others.covariances), np.minimum(own.dof, others.dof))
        return replace(
            self,
            uncertainty=both,
            extra_se=np.maximum(self.extra_se, other.extra_se),
            extra_dof=np.minimum(self.extra_dof, other.extra_dof),
            is_widened=True,
        )

    def interval(self, low: Floats, high: Floats, level: float, made_by: str) -> Interval:
        return Interval(
            np.where(self.known, low, np.nan),
            np.where(self.known, high, np.nan),
            level,
            made_by,
            self.clustering.kind,
            self.n_clusters,
            self.clustering.scope,
            self.n_voters if voter_key in self.clustering.keys else None,
            self.largest_shares,
        )


def critical_value(level: float, dof: Floats | float) -> Floats:
    """The half-width of an interval in standard errors: Student's t, or normal for infinite ``dof``.

    Below `MIN_DOF` it is that of `MIN_DOF`; no interval is given there.
    """
    upper = (1.0 + level) / 2.0
    finite = np.maximum(np.where(np.isinf(dof), MIN_DOF, dof), MIN_DOF)
    return np.asarray(np.where(np.isinf(dof), ndtri(upper), stdtrit(finite, upper)))


def these_prompts_interval(ratings: Ratings) -> tuple[Floats, Floats] | None:
    """Low and high ends of intervals on the prompts of these battles: what more votes on them would change.

    ``None`` if ratings have no intervals, or if theirs are of that scope already.
    """
    interval, uncertainty = ratings.interval, ratings.these_prompts
    if interval is None or uncertainty is None or interval.clusters in ("battle", "voter"):
        return None
    half = _half_widths(uncertainty, interval.level)
    return ratings.rating - half, ratings.rating + half


def _half_widths(uncertainty: Uncertainty, level: float) -> Floats:
    """Half of the width of each rating's interval; NaN where there is none."""
    variance = uncertainty.ratings()
    known = (variance > ZERO_VARIANCE_TOLERANCE) & (uncertainty.dof >= MIN_DOF)
    return np.where(known, critical_value(level, uncertainty.dof) * np.sqrt(variance), np.nan)


def rating_variance(
    table: Table,
    scoring: Scoring,
    fitted: FittedStrengths,
    choice: str,
    unit: float,
    findings: list[Finding],
    level: float = 0.95,
) -> VarianceEstimate:
    """The variances of the ratings, in points; findings about the clusters are added, for intervals of ``level``.

    By cluster, each one is left out in turn (CR3). Battles without a cluster add their variance. With two ways of
    clustering, by prompt and by voter, the overlap is subtracted once from their sum. That can be smaller than
    either one-way variance; no dependence between battles explains it, so the largest of the three is used,
    contrast by contrast. The degrees of freedom are the smaller of the two.

    Where a test finds that prompts of one category, day, source or language go together, the wider of both is used,
    until somebody chooses. So it is where prompts do not lie within the groups that were chosen.
    """
    clustering = choose_clusters(table, scoring, choice, findings)
    spread = alone = clustered_variance(table, scoring, fitted, clustering, unit, findings)
    if choice in table.levels:
        by_prompt = choose_clusters(table, scoring, "auto", [])
        if prompt_key in by_prompt.keys and not holds_whole_prompts(table, choice):
            spread = spread.widened(clustered_variance(table, scoring, fitted, by_prompt, unit, []))
    elif choice == "auto" and table.levels and prompt_key in clustering.keys and spread.known.any():
        for name, p in departing_levels(
            table, fitted.row_scores(scoring), by_voter=voter_key in clustering.keys
        ).items():
            wide = clustered_variance(table, scoring, fitted, clustering.coarser(name), unit, [])
            findings.append(_dependent_prompts(name, p, alone, wide, level))
            spread = spread.widened(wide)
    findings += dof_findings(table.models, (fitted.group >= 0) & spread.varies, spread.uncertainty.dof)
    return spread


def _dependent_prompts(
    name: str, p: float, spread: VarianceEstimate, wide: VarianceEstimate, level: float
) -> Finding:
    """Prompts of one group go together: a typical interval both ways, if the groups are enough for one."""
    by_prompt, by_group = (_half_widths(one.uncertainty, level) for one in (spread, wide))
    values: dict[str, object] = {"level": name, "levels": plural(name), "groups": wide.n_clusters, "p": p}
    values["by_prompt"] = float(np.nanmedian(by_prompt))
    if np.isnan(by_group).all():
        return Finding("dependent-prompts", {"case": "few", **values})
    return Finding("dependent-prompts", {**values, "by_group": float(np.nanmedian(by_group))})


def clustered_variance(
    table: Table,
    scoring: Scoring,
    fitted: FittedStrengths,
    clustering: Clustering,
    unit: float,
    findings: list[Finding],
) -> VarianceEstimate:
    """The same where it is known what to resample."""
    if not clustering.keys:
        alone, battles = _by_battle_alone(table, scoring, fitted, unit)
        free = np.full(fitted.n_extra, np.inf)
        return VarianceEstimate(
            alone.uncertainty, alone.uncertainty, clustering, battles, alone.extra_se, free
        )
    scores, information, bread = fitted.row_scores(scoring), fitted.row_information(), fitted.bread
    ways = [leave_one_out(table, scores, information, key, bread) for key in clustering.keys]
    covariances, every_dof = [way.covariance for way in ways], np.min([way.dof for way in ways], axis=0)
    first, last, m = ways[0], ways[-1], len(fitted.theta)
    dof = every_dof[:m]
    if len(ways) > 1:
        cells = partial(two_way_keys, first=clustering.keys[0])
        overlap = clustered_meat(table, scores, fitted.n_extra, cells)
        covariances.insert(0, sum(covariances) - bread @ (overlap.matrix + overlap.alone) @ bread)
    found = _in_points(fitted, covariances, dof, unit)
    by_voter = voter_key in clustering.keys
    these = (
        _in_points(fitted, [last.covariance], last.dof[:m], unit)
        if by_voter
        else _by_battle_alone(table, scoring, fitted, unit)[0]
    )
    if prompt_key in clustering.keys:
        findings += prompt_findings(first.clusters, first.battles_alone, first.battles)
    n_voters = last.clusters if by_voter else None
    return VarianceEstimate(
        found.uncertainty,
        these.uncertainty,
        clustering,
        first.clusters,
        found.extra_se,
        every_dof[m:],
        n_voters,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Points:
    """Variances in points, and the standard errors of extra parameters."""

    uncertainty: Uncertainty
    extra_se: Floats


def _by_battle_alone(
    table: Table, scoring: Scoring, fitted: FittedStrengths, unit: float
) -> tuple[_Points, int]:
    """The variances if no two battles depend on each other, and the number of battles."""
    by_battle = _by_battle(table, scoring, fitted)
    covariance = fitted.bread @ by_battle.corrected() @ fitted.bread
    return _in_points(fitted, [covariance], np.full(len(fitted.theta), np.inf), unit), by_battle.clusters


def _in_points(fitted: FittedStrengths, covariances: list[Floats], dof: Floats, unit: float) -> _Points:
    m = len(fitted.theta)
    whole = fitted.with_prior(covariances)
    extra_se = np.sqrt(np.max([np.diag(v)[m:] for v in whole], axis=0).clip(0.0))
    return _Points(Uncertainty(tuple(covariance[:m, :m] * unit**2 for covariance in whole), dof), extra_se)


def dof_findings(models: tuple[str, ...], rated: Bools, dof: Floats) -> list[Finding]:
    """Findings about rated models whose uncertainty is based on few clusters, or on too few to state any."""
    findings: list[Finding] = []
    withheld = np.flatnonzero(rated & (dof < MIN_DOF))
    if len(withheld):
        findings.append(Finding("interval-withheld", first_of("models", [models[k] for k in withheld])))
    few = np.flatnonzero(rated & (dof >= MIN_DOF) & (dof < WARN_DOF))
    if len(few):
        named = first_of("models", [models[k] for k in few])
        effective = float(dof[few].min()) + 1.0
        findings.append(Finding("few-effective-prompts", {"prompts": effective, **named}))
    return findings


def choose_clusters(table: Table, scoring: Scoring, choice: str, findings: list[Finding]) -> Clustering:
    """What to resample: prompts and voters, if the battles name enough of them; findings say what is missing.

    ``choice`` is ``auto``, ``prompt``, ``battle`` or, in place of prompts, a level of the table.

    With two prompts and fewer than `MIN_VOTERS` voters, prompts are the sample and the voters are only themselves; with
    fewer than `SAMPLE_VOTERS`, voters are clusters beside them if a test finds that they differ. With one prompt or
    none, voters are the sample, if there are two.
    """
    if choice not in ("auto", "prompt", "battle", *table.levels):
        raise BadOption(
            f"clusters is {choice!r}; expected auto, prompt or battle, or a column that battles have"
        )
    voters = _count_named(table, scoring, "voter", SAMPLE_VOTERS)
    alone = Clustering("battle", _THESE_ONLY if voters else _THESE_PROMPTS_ONLY)
    counts = table.counts
    rated = ~np.isnan(scoring.by_kind()[counts.kind]) & (counts.a != counts.b)
    if choice == "battle" or not rated.any():
        return alone
    prompts = 2 if choice in table.levels else _count_named(table, scoring, "prompt", 2)
    if choice == "prompt" and prompts < 2:
        lacking = "more than one prompt" if prompts else "a question_id in the battles"
        raise CannotRate(f"clustering by prompt needs {lacking}")
    by_prompt, by_voter = (prompt_key,), (voter_key,)
    if prompts < 2:
        one = Finding("few-prompts", {"case": "one", "prompts": 1, "least": MIN_PROMPTS})
        findings.append(one if prompts else Finding("no-prompts"))
        clustering = Clustering("voter", _VOTERS_LIKE_THESE_ALONE, by_voter) if voters > 1 else alone
    elif voters < MIN_VOTERS:
        scope = _PROMPTS_LIKE_THESE_ALONE if voters else _PROMPTS_LIKE_THESE
        clustering = Clustering("prompt", scope, by_prompt)
    elif voters >= SAMPLE_VOTERS or "prompt" not in table.keyed or voters_differ(table, scoring):
        clustering = Clustering("prompt × voter", _BOTH_LIKE_THESE, by_prompt + by_voter)
    else:
        clustering = Clustering("prompt", _BOTH_LIKE_THESE, by_prompt)
    if 0 < voters < SAMPLE_VOTERS:
        findings.append(_few_voters(voters, clustering))
    return clustering.coarser(choice) if choice in table.levels else clustering


def _few_voters(voters: int, clustering: Clustering) -> Finding:
    """Whether a few named voters stand for others, with or without a sign of differences, or for themselves."""
    if voters == 1:
        case = {"case": "one"}
    elif voter_key in clustering.keys:
        case = {"case": "sampled"}
    else:
        case = {"case": "alike"} if clustering.scope == _BOTH_LIKE_THESE else {}
    return Finding("few-voters", {**case, "voters": voters, "least": SAMPLE_VOTERS})


def _count_named(table: Table, scoring: Scoring, kind: Literal["prompt", "voter"], enough: int) -> int:
    """The number of prompts or voters named by battles that count; reads no further once there are ``enough``."""
    known = np.empty(0, dtype=np.uint64)
    for run in table.scan() if table.has_log and kind in table.keyed else ():
        keys = run.prompt if kind == "prompt" else run.voter
        if keys is not None:
            named = keys[(keys != MISSING_KEY) & ~np.isnan(scoring.of(run))]
            known = sorted_distinct(np.concatenate([known, named]))
        if len(known) >= enough:
            return enough
    return len(known)


def _by_battle(table: Table, scoring: Scoring, fitted: FittedStrengths) -> Meat:
    if fitted.beta is None:
        # Battle-level meat computed from counts: residuals are equal within a cell.
        counts = table.counts
        y = scoring.by_kind()[counts.kind]
        s = fitted.expected()[counts.a, counts.b]
        _, w2, _, w2p, w2pp = counts.moments().T
        r = np.sqrt(w2) * (y - s)
        if scoring.soft:
            stated = np.sqrt(np.clip(w2pp - 2.0 * s * w2p + s * s * w2, 0.0, None))
            r = np.where(counts.soft & ~np.isnan(y), stated, r)
        used = ~np.isnan(r)
        tie = fitted.expected_tie()
        x = None if tie is None else (np.sqrt(w2) * (tie_share(y) - tie[counts.a, counts.b]))[used, None]
        meat = battle_meat(counts.a[used], counts.b[used], r[used], x, len(fitted.theta))
        return Meat(meat, int(counts.n[used].sum()))
    return clustered_meat(table, fitted.row_scores(scoring), fitted.n_extra, None)


def prompt_findings(prompts: int, without: int, battles: int) -> list[Finding]:
    """Findings about intervals based on few prompts, or on battles without a prompt."""
    findings: list[Finding] = []
    if prompts < MIN_PROMPTS:
        findings.append(Finding("few-prompts", {"prompts": prompts, "least": MIN_PROMPTS}))
    if without:
        findings.append(
            Finding("without-prompt", {"without": without, "battles": battles, "share": without / battles})
        )
    return findings
