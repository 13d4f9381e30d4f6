"""The uncertainty of an order: variances and degrees of freedom that are valid for few or uneven clusters."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tiltyard.core.battles import Table
from tiltyard.core.ratings.bootstrap import ClusterNumbers
from tiltyard.core.ratings.findings import MIN_ORDER_DOF, MIN_PROMPTS, WARN_ORDER_DOF, Finding
from tiltyard.core.ratings.group_fit import FittedStrengths
from tiltyard.core.ratings.leave_one_out import leave_one_out
from tiltyard.core.ratings.sandwich import Meats
from tiltyard.core.ratings.scoring import Scoring
from tiltyard.core.ratings.sentences import first_of
from tiltyard.core.ratings.uncertainty import Uncertainty

__all__ = ["order_findings", "order_left_out", "order_of_replicates"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

#: If a prompt has more than this share of the battles, replicates prove no order.
_LARGEST_SHARE = 0.1


def order_left_out(
    table: Table, scoring: Scoring, fitted: FittedStrengths, meats: Meats, unit: float
) -> Uncertainty:
    """Leave-one-cluster-out variances of the ratings, in points.

    Battles without a cluster add their variance. With two ways of clustering the overlap is subtracted
    once from their sum, and the smaller degrees of freedom are used.
    """
    scores, information, bread = fitted.row_scores(scoring), fitted.row_information(), fitted.bread
    covariances: list[Floats] = []
    dof = np.full(len(fitted.theta), np.inf)
    for meat, key in meats.ways():
        left = leave_one_out(table, scores, information, key, bread)
        covariances.append(left.covariance + bread @ np.asarray(meat.alone) @ bread)
        dof = np.minimum(dof, left.dof)
    if meats.by_both is not None:
        overlap = bread @ (meats.by_both.matrix + meats.by_both.alone) @ bread
        covariances.insert(0, covariances[0] + covariances[1] - overlap)
    m = len(fitted.theta)
    points = tuple(v[:m, :m] * unit**2 for v in fitted.with_prior(covariances))
    return Uncertainty(points, meats.dof, dof)


def order_findings(models: tuple[str, ...], group: Ints, uncertainty: Uncertainty) -> list[Finding]:
    """Findings about models whose order is based on few clusters, or on too few to claim any."""
    dof = uncertainty.dof_by_model
    assert dof is not None
    findings: list[Finding] = []
    withheld = np.flatnonzero((group >= 0) & (dof < MIN_ORDER_DOF))
    if len(withheld):
        findings.append(Finding("order-withheld", first_of("models", [models[k] for k in withheld])))
    few = np.flatnonzero((group >= 0) & (dof >= MIN_ORDER_DOF) & (dof < WARN_ORDER_DOF))
    if len(few):
        named = first_of("models", [models[k] for k in few])
        effective = float(dof[few].min()) + 1.0
        findings.append(Finding("few-effective-prompts", {"prompts": effective, **named}))
    return findings


def order_of_replicates(
    uncertainty: Uncertainty, clusters: ClusterNumbers, findings: list[Finding]
) -> Uncertainty:
    """The uncertainty of an order from replicates that resample prompts; none if prompts are few or one has too large a share.

    Replicates vary too little, because each prompt's battles pulled the rating towards them:
    with s the largest share of the battles, a factor 1/(1 − s)² corrects for that and for the P − 1 of
    P. Degrees of freedom are those of prompts weighted by the square of their battles.
    """
    sizes = np.bincount(clusters.number, minlength=1)[: clusters.keyed].astype(np.float64)
    share = float(sizes.max() / len(clusters.number))
    if clusters.keyed < MIN_PROMPTS or share > _LARGEST_SHARE:
        findings.append(_withheld(clusters.keyed, share))
        return Uncertainty(uncertainty.covariances, 0.0)
    factor = clusters.keyed / (clusters.keyed - 1.0) / (1.0 - share) ** 2
    dof = float((sizes**2).sum() ** 2 / (sizes**4).sum() - 1.0)
    return Uncertainty(tuple(factor * v for v in uncertainty.covariances), dof)


def _withheld(prompts: int, share: float) -> Finding:
    least = {"least": MIN_PROMPTS, "most": _LARGEST_SHARE}
    return Finding("order-withheld", {"case": "elo", "prompts": prompts, "share": share, **least})
