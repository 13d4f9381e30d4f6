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
from tiltyard.core.ratings.findings import MIN_PROMPTS, MIN_VOTERS, Finding
from tiltyard.core.ratings.group_fit import FittedStrengths
from tiltyard.core.ratings.order_uncertainty import order_findings, order_left_out
from tiltyard.core.ratings.pairs import tie_share
from tiltyard.core.ratings.result import Interval
from tiltyard.core.ratings.sandwich import (
    Meat,
    Meats,
    battle_meat,
    clustered_meat,
    distinct_keys,
    prompt_key,
    two_way_keys,
    voter_key,
)
from tiltyard.core.ratings.scoring import Scoring
from tiltyard.core.ratings.uncertainty import Uncertainty
from tiltyard.errors import BadOption, CannotRate

__all__ = [
    "ZERO_VARIANCE_TOLERANCE",
    "ClusterChoice",
    "VarianceEstimate",
    "cluster_key",
    "critical_value",
    "prompt_findings",
    "prompt_order_variance",
    "sandwich_variance",
    "unknown_variance",
]

Floats = npt.NDArray[np.float64]

ClusterChoice = Literal["auto", "prompt", "battle"]
#: What is resampled.
ClusterKind = Literal["battle", "prompt", "prompt × voter"]

#: A variance (in points squared) this small counts as zero: every battle went as the ratings expect.
ZERO_VARIANCE_TOLERANCE = 1e-9

LIKE_THESE = "prompts like these"
THESE_ONLY = "these prompts only"


@dataclass(frozen=True, slots=True, eq=False)
class VarianceEstimate:
    """The uncertainty of ratings, and how it was estimated."""

    uncertainty: Uncertainty
    clusters: ClusterKind
    n_clusters: int
    #: Standard errors of the extra parameters, in their own units.
    extra_se: Floats = field(default_factory=lambda: np.empty(0))
    #: The uncertainty for claims about order; ``None``: the same.
    order: Uncertainty | None = None

    @classmethod
    def of_replicates(cls, replicates: Floats, clusters: ClusterKind, n_clusters: int) -> VarianceEstimate:
        """The covariance of the valid bootstrap replicates."""
        present = (~np.isnan(replicates)).astype(np.float64)
        mean = np.nan_to_num(replicates).sum(axis=0) / np.maximum(present.sum(axis=0), 1.0)
        deviations = np.nan_to_num(replicates - mean)
        together = np.maximum(present.T @ present - 1.0, 1.0)
        dof = np.inf if clusters == "battle" else float(max(n_clusters - 1, 1))
        uncertainty = Uncertainty((deviations.T @ deviations / together,), dof)
        return cls(uncertainty, clusters, n_clusters)

    def with_prior(self, fitted: FittedStrengths, unit: float) -> VarianceEstimate:
        """Add the prior's uncertainty, which neither replicates nor battles include."""
        m = len(fitted.theta)
        covariances = fitted.with_prior(
            [np.pad(v / unit**2, (0, fitted.n_extra)) for v in self.uncertainty.covariances]
        )
        points = tuple(v[:m, :m] * unit**2 for v in covariances)
        return replace(self, uncertainty=replace(self.uncertainty, covariances=points))

    @property
    def known(self) -> npt.NDArray[np.bool_]:
        """Which ratings have a positive variance. Without one, no interval can be given."""
        return self.uncertainty.ratings() > ZERO_VARIANCE_TOLERANCE

    def interval(self, low: Floats, high: Floats, level: float, made_by: str) -> Interval:
        scope = THESE_ONLY if self.clusters == "battle" else LIKE_THESE
        low, high = np.where(self.known, low, np.nan), np.where(self.known, high, np.nan)
        return Interval(low, high, level, made_by, self.clusters, self.n_clusters, scope)


def critical_value(level: float, dof: float) -> float:
    """The half-width of an interval in standard errors: Student's t, or normal for infinite ``dof``."""
    upper = (1.0 + level) / 2.0
    return float(ndtri(upper) if np.isinf(dof) else stdtrit(dof, upper))


def sandwich_variance(
    table: Table,
    scoring: Scoring,
    fitted: FittedStrengths,
    choice: ClusterChoice,
    unit: float,
    findings: list[Finding],
) -> VarianceEstimate:
    """Sandwich variances of the ratings, in points; findings about the clusters are added."""
    kind, key = cluster_key(table, choice, findings)
    if key is None:
        by_battle = _by_battle(table, scoring, fitted)
        return _spread(fitted, (by_battle.corrected(),), np.inf, unit, kind, by_battle.clusters)
    meats = _meats(table, scoring, fitted, kind)
    by_prompt = meats.by_prompt
    findings += prompt_findings(by_prompt.clusters, by_prompt.battles_alone, by_prompt.battles)
    spread = _spread(fitted, meats.corrected(), meats.dof, unit, kind, by_prompt.clusters)
    return replace(spread, order=_order(table, scoring, fitted, meats, unit, findings))


def prompt_order_variance(
    table: Table, scoring: Scoring, fitted: FittedStrengths, unit: float, findings: list[Finding]
) -> Uncertainty:
    """The uncertainty of the order of the ratings, clustered by prompt; findings about it are added."""
    return _order(table, scoring, fitted, _meats(table, scoring, fitted, "prompt"), unit, findings)


def _order(
    table: Table,
    scoring: Scoring,
    fitted: FittedStrengths,
    meats: Meats,
    unit: float,
    findings: list[Finding],
) -> Uncertainty:
    order = order_left_out(table, scoring, fitted, meats, unit)
    findings += order_findings(table.models, fitted.group, order)
    return order


def _spread(
    fitted: FittedStrengths,
    meats: tuple[Floats, ...],
    dof: float,
    unit: float,
    kind: ClusterKind,
    clusters: int,
) -> VarianceEstimate:
    covariances = fitted.with_prior([fitted.bread @ middle @ fitted.bread for middle in meats])
    m = len(fitted.theta)
    extra_se = np.sqrt(Uncertainty(tuple(covariances), dof).ratings()[m:])
    points = tuple(covariance[:m, :m] * unit**2 for covariance in covariances)
    return VarianceEstimate(Uncertainty(points, dof), kind, clusters, extra_se)


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


def _meats(table: Table, scoring: Scoring, fitted: FittedStrengths, kind: ClusterKind) -> Meats:
    scores, extra = fitted.row_scores(scoring), fitted.n_extra
    by_prompt = clustered_meat(table, scores, extra, prompt_key)
    if kind == "prompt":
        return Meats(by_prompt)
    by_voter = clustered_meat(table, scores, extra, voter_key)
    return Meats(by_prompt, by_voter, clustered_meat(table, scores, extra, two_way_keys))


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
