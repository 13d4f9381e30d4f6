"""Computes the covariance of ratings from a fit: chooses the clusters, and the scope of the intervals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri, stdtrit

from tiltyard.core.battles import CodedBattles, Counts, Table
from tiltyard.core.battles.cluster_keys import MISSING_KEY, Keys
from tiltyard.core.ratings.findings import MIN_DOF, MIN_PROMPTS, MIN_VOTERS, WARN_DOF, Finding
from tiltyard.core.ratings.group_fit import FittedStrengths
from tiltyard.core.ratings.leave_one_out import leave_one_out
from tiltyard.core.ratings.pairs import tie_share
from tiltyard.core.ratings.result import Interval
from tiltyard.core.ratings.sandwich import (
    Meat,
    battle_meat,
    clustered_meat,
    distinct_keys,
    prompt_key,
    two_way_keys,
    voter_key,
)
from tiltyard.core.ratings.scoring import Scoring
from tiltyard.core.ratings.sentences import first_of
from tiltyard.core.ratings.uncertainty import Uncertainty
from tiltyard.errors import BadOption, CannotRate

__all__ = [
    "ZERO_VARIANCE_TOLERANCE",
    "ClusterChoice",
    "VarianceEstimate",
    "cluster_key",
    "critical_value",
    "dof_findings",
    "prompt_findings",
    "rating_variance",
    "unknown_variance",
]

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

ClusterChoice = Literal["auto", "prompt", "battle"]
#: What is resampled.
ClusterKind = Literal["battle", "prompt", "prompt × voter"]

#: A variance (in points squared) this small counts as zero: every battle went as the ratings expect.
ZERO_VARIANCE_TOLERANCE = 1e-9

LIKE_THESE = "prompts like these"
BOTH_LIKE_THESE = "prompts and voters like these"
THESE_ONLY = "these prompts only"


@dataclass(frozen=True, slots=True, eq=False)
class VarianceEstimate:
    """The uncertainty of ratings, and how it was estimated."""

    uncertainty: Uncertainty
    clusters: ClusterKind
    n_clusters: int
    #: Standard errors of the extra parameters, in their own units.
    extra_se: Floats = field(default_factory=lambda: np.empty(0))
    #: The number of voters, with two ways of clustering.
    n_voters: int | None = None
    #: The largest share of the weight that one prompt or voter has.
    largest_share: float | None = None

    @property
    def varies(self) -> Bools:
        """Which ratings have a positive variance."""
        return self.uncertainty.ratings() > ZERO_VARIANCE_TOLERANCE

    @property
    def known(self) -> Bools:
        """Which ratings have an interval: their variance is positive, and enough clusters decide it."""
        return self.varies & (self.uncertainty.dof >= MIN_DOF)

    def interval(self, low: Floats, high: Floats, level: float, made_by: str) -> Interval:
        like_these = LIKE_THESE if self.n_voters is None else BOTH_LIKE_THESE
        return Interval(
            np.where(self.known, low, np.nan),
            np.where(self.known, high, np.nan),
            level,
            made_by,
            self.clusters,
            self.n_clusters,
            THESE_ONLY if self.clusters == "battle" else like_these,
            self.n_voters,
            self.largest_share,
        )


def critical_value(level: float, dof: Floats | float) -> Floats:
    """The half-width of an interval in standard errors: Student's t, or normal for infinite ``dof``.

    Below `MIN_DOF` it is that of `MIN_DOF`; no interval is given there.
    """
    upper = (1.0 + level) / 2.0
    finite = np.maximum(np.where(np.isinf(dof), MIN_DOF, dof), MIN_DOF)
    return np.asarray(np.where(np.isinf(dof), ndtri(upper), stdtrit(finite, upper)))


def rating_variance(
    table: Table,
    scoring: Scoring,
    fitted: FittedStrengths,
    choice: ClusterChoice,
    unit: float,
    findings: list[Finding],
) -> VarianceEstimate:
    """The variances of the ratings, in points; findings about the clusters are added.

    By cluster, each one is left out in turn (CR3). Battles without a cluster add their variance. With two ways of
    clustering, by prompt and by voter, the overlap is subtracted once from their sum. That can be smaller than
    either one-way variance; no dependence between battles explains it, so the largest of the three is used,
    contrast by contrast. The degrees of freedom are the smaller of the two.
    """
    kind, key = cluster_key(table, choice, findings)
    if key is None:
        by_battle = _by_battle(table, scoring, fitted)
        covariance = fitted.bread @ by_battle.corrected() @ fitted.bread
        dof = np.full(len(fitted.theta), np.inf)
        return _in_points(fitted, [covariance], dof, unit, kind, by_battle.clusters)
    scores, bread = fitted.row_scores(scoring), fitted.bread
    prompts = leave_one_out(table, scores, fitted.row_information(), prompt_key, bread)
    findings += prompt_findings(prompts.clusters, prompts.battles_alone, prompts.battles)
    covariances, dof, n_voters = [prompts.covariance], prompts.dof, None
    if kind == "prompt × voter":
        voters = leave_one_out(table, scores, fitted.row_information(), voter_key, bread)
        overlap = clustered_meat(table, scores, fitted.n_extra, two_way_keys)
        both = prompts.covariance + voters.covariance - bread @ (overlap.matrix + overlap.alone) @ bread
        covariances, dof = [both, prompts.covariance, voters.covariance], np.minimum(dof, voters.dof)
        n_voters = voters.clusters
    findings += dof_findings(table.models, fitted.group, dof)
    estimate = _in_points(fitted, covariances, dof, unit, kind, prompts.clusters)
    return replace(estimate, n_voters=n_voters)


def _in_points(
    fitted: FittedStrengths,
    covariances: list[Floats],
    dof: Floats,
    unit: float,
    kind: ClusterKind,
    clusters: int,
) -> VarianceEstimate:
    m = len(fitted.theta)
    whole = fitted.with_prior(covariances)
    extra_se = np.sqrt(np.max([np.diag(v)[m:] for v in whole], axis=0).clip(0.0))
    points = tuple(covariance[:m, :m] * unit**2 for covariance in whole)
    return VarianceEstimate(Uncertainty(points, dof), kind, clusters, extra_se)


def dof_findings(models: tuple[str, ...], group: npt.NDArray[np.int64], dof: Floats) -> list[Finding]:
    """Findings about models whose uncertainty is based on few clusters, or on too few to state any."""
    findings: list[Finding] = []
    withheld = np.flatnonzero((group >= 0) & (dof < MIN_DOF))
    if len(withheld):
        findings.append(Finding("interval-withheld", first_of("models", [models[k] for k in withheld])))
    few = np.flatnonzero((group >= 0) & (dof >= MIN_DOF) & (dof < WARN_DOF))
    if len(few):
        named = first_of("models", [models[k] for k in few])
        effective = float(dof[few].min()) + 1.0
        findings.append(Finding("few-effective-prompts", {"prompts": effective, **named}))
    return findings


def cluster_key(
    table: Table, choice: ClusterChoice, findings: list[Finding], *, voters: bool = True
) -> tuple[ClusterKind, Callable[[CodedBattles], Keys | None] | None]:
    """What to resample, and the key function of its clusters.

    Without ``voters``, only prompts are resampled, as in a bootstrap.
    """
    if choice not in ("auto", "prompt", "battle"):
        raise BadOption(f"clusters is {choice!r}; expected auto, prompt or battle")
    if choice == "battle":
        return "battle", None
    prompts = _named_prompts(table)
    if prompts == 0:
        if choice == "prompt":
            raise CannotRate("clustering by prompt needs a question_id in the battles")
        findings.append(Finding("no-prompts"))
        return "battle", None
    if prompts == 1:
        if choice == "prompt":
            raise CannotRate("clustering by prompt needs more than one prompt")
        findings.append(Finding("few-prompts", {"case": "one", "prompts": 1, "least": MIN_PROMPTS}))
        return "battle", None
    if voters and "voter" in table.keyed:
        known = len(distinct_keys(table, voter_key))
        if known >= MIN_VOTERS:
            return "prompt × voter", prompt_key
        findings.append(Finding("few-voters", {"voters": known, "least": MIN_VOTERS}))
    return "prompt", prompt_key


def unknown_variance() -> Finding:
    return Finding("no-spread")


def _named_prompts(table: Table) -> int:
    """The number of distinct prompts in the battles: none, one, or two for any more.

    A single cluster would appear not to vary at all.
    """
    first = MISSING_KEY
    if not table.has_log or "prompt" not in table.keyed:
        return 0
    for run in table.scan():
        named = np.empty(0, dtype=np.uint64) if run.prompt is None else run.prompt[run.prompt != MISSING_KEY]
        if first == MISSING_KEY and len(named):
            first = named[0]
        if (named != first).any():
            return 2
    return int(first != MISSING_KEY)


def _by_battle(table: Table, scoring: Scoring, fitted: FittedStrengths) -> Meat:
    if fitted.beta is None:
        return _cells(table.counts, scoring, fitted)
    return clustered_meat(table, fitted.row_scores(scoring), fitted.n_extra, None)


def _cells(counts: Counts, scoring: Scoring, fitted: FittedStrengths) -> Meat:
    """Battle-level meat computed from counts: residuals are equal within a cell."""
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
