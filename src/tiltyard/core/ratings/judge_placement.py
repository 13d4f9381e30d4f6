"""Places a model that only a judge has compared among models that people have rated.

The human ratings stay as they are: the judge's battles decide only where the new model stands among them. The judge
may like some models more than people do. What it says of the new model against each opponent, whose human rating is
known, shows how much its bias varies by model (`judge_bias`); that variance is added for the new model, whose own bias
nobody can see. With too few opponents it cannot be estimated, and the interval is conditional on the judge.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from tiltyard.core.battles import Table
from tiltyard.core.ratings.bradley_terry import BradleyTerry
from tiltyard.core.ratings.findings import MIN_DOF, Finding
from tiltyard.core.ratings.judge_bias import BiasEstimate, estimate_bias, mixed_half_width
from tiltyard.core.ratings.judged_battles import JudgedBattles, LinearBattles, points_per_logit
from tiltyard.core.ratings.result import Ratings
from tiltyard.core.ratings.sentences import first_of
from tiltyard.core.ratings.uncertainty import Uncertainty
from tiltyard.core.ratings.variance import ZERO_VARIANCE_TOLERANCE, critical_value
from tiltyard.errors import BadOption

__all__ = ["MIN_OVERLAP_MODELS", "MIN_REPEATED_BATTLES", "JudgePlacement", "PlacementLabel", "place_by_judge"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

PlacementLabel = Literal["judge only", "judge, bias added"]

#: Fewer opponents with a human rating than this, and the judge's bias is not estimated.
MIN_OVERLAP_MODELS = 5
#: Judged battles beyond the first of each pair: without them nothing tells bias from chance.
MIN_REPEATED_BATTLES = 20

_STEP_LIMIT = 100
_STEP_TOLERANCE = 1e-9
_LARGEST_STEP_LOGITS = 2.0
#: A prompt with nearly all of the information is left out as if it had this share of it.
_LARGEST_SHARE = 0.9


@dataclass(frozen=True, slots=True, eq=False)
class JudgePlacement:
    """A new model among the human-rated ones: its rating, and its difference to each of them, in points.

    Every number is NaN where the battles do not support it. Without ``bias`` everything is conditional on the judge,
    and no order is claimed.
    """

    model: str
    level: float
    #: The group of the human ratings that it belongs to; −1 if it has no rating.
    group: int = -1
    rating: float = np.nan
    low: float = np.nan
    high: float = np.nan
    #: By human-rated model, in the order of the human ratings: its rating minus theirs, and the half-width.
    difference: Floats = field(default_factory=lambda: np.empty(0))
    half_width: Floats = field(default_factory=lambda: np.empty(0))
    #: The place it takes among them, and the range of places not ruled out; ``None`` where no order is claimed.
    rank: int | None = None
    rank_low: int | None = None
    rank_high: int | None = None
    #: The standard deviation of the judge's bias by model, in points, and an upper limit of it; ``None`` if unknown.
    bias_sd: float | None = None
    upper_bias_sd: float | None = None
    #: Opponents with a human rating, and judged battles that count.
    opponents: int = 0
    battles: int = 0
    findings: tuple[Finding, ...] = ()

    @property
    def label(self) -> PlacementLabel:
        return "judge only" if self.bias_sd is None else "judge, bias added"


def place_by_judge(human: Ratings, judged: Table, model: str) -> JudgePlacement:
    """Place ``model`` by the judge's battles; those between human-rated models help to estimate the judge's bias.

    The scoring, the limit on shares and the level are those of the human ratings.
    """
    method, uncertainty = human.method, human.uncertainty
    if not isinstance(method, BradleyTerry) or method.ties == "davidson" or uncertainty is None:
        raise BadOption("a placement needs Bradley–Terry ratings with intervals, and without Davidson's ties")
    battles = JudgedBattles.of(human, method, judged, model)
    if battles is None:
        return _unplaced(model, method.level, "opponents")
    if (extreme := battles.extreme()) is not None:
        return _unplaced(model, method.level, extreme)
    known = _HumanPart.of(human, uncertainty, battles, points_per_logit(method))
    unknown = _no_overlap(battles)
    fit = _fit_judge(battles, known if unknown is None else None)
    placed, dof = _conditional(model, human, known, fit)
    placed = replace(placed, opponents=battles.n_opponents, battles=len(battles.score))
    if fit.bias is not None:
        placed = _with_ranks(placed, fit.bias, dof, points_per_logit(method))
    else:
        placed = replace(placed, findings=(Finding("judge-only", {"model": model, **(unknown or {})}),))
    return _with_withheld(placed) if np.isnan(placed.low) else placed


def _unplaced(model: str, level: float, case: str) -> JudgePlacement:
    return JudgePlacement(model, level, findings=(Finding("not-placed", {"case": case, "model": model}),))


def _with_withheld(placed: JudgePlacement) -> JudgePlacement:
    withheld = Finding("interval-withheld", first_of("models", [placed.model]))
    return replace(placed, findings=(*placed.findings, withheld))


def _no_overlap(battles: JudgedBattles) -> Mapping[str, object] | None:
    """Why the judge's bias cannot be estimated; ``None`` if it can."""
    if battles.n_opponents < MIN_OVERLAP_MODELS:
        return {"case": "opponents", "opponents": battles.n_opponents, "least": MIN_OVERLAP_MODELS}
    if battles.repeated < MIN_REPEATED_BATTLES:
        counts = {"battles": len(battles.score), "opponents": battles.n_opponents}
        return {"case": "battles", **counts, "least": battles.n_pairs + MIN_REPEATED_BATTLES}
    return None


@dataclass(frozen=True, slots=True, eq=False)
class _HumanPart:
    """The uncertainty of the human ratings in logits."""

    covariances: tuple[Floats, ...]
    dof: Floats
    #: Positions of the opponents, and of all models of the group.
    opponents: Ints
    members: Ints

    @classmethod
    def of(cls, human: Ratings, uncertainty: Uncertainty, battles: JudgedBattles, unit: float) -> _HumanPart:
        covariances = tuple(one / unit**2 for one in uncertainty.covariances)
        members = np.flatnonzero(human.group == battles.group)
        return cls(covariances, uncertainty.dof, battles.opponents, members)

    def noise(self) -> Floats:
        """The covariance of the opponents' ratings: the one with the largest sum of variances."""
        parts = [one[np.ix_(self.opponents, self.opponents)] for one in self.covariances]
        return max(parts, key=lambda part: float(np.trace(part)))

    def variances(self, weights: Floats) -> Floats:
        """Variance of the weighted mean of the opponents' ratings minus each member's, and minus the members' mean."""
        n = len(self.covariances[0])
        contrasts = np.zeros((len(self.members) + 1, n))
        contrasts[:, self.opponents] = weights
        contrasts[np.arange(len(self.members)), self.members] -= 1.0
        contrasts[-1, self.members] -= 1.0 / len(self.members)
        parts = [np.einsum("ij,jk,ik->i", contrasts, one, contrasts) for one in self.covariances]
        return np.asarray(np.max(parts, axis=0)).clip(0.0)

    def mean_dof(self, weights: Floats) -> float:
        """Degrees of freedom of the weighted mean: the harmonic mean of the opponents'."""
        shares = np.abs(weights) / np.abs(weights).sum()
        inverse = float(shares @ (1.0 / np.maximum(self.dof[self.opponents], 1e-9)))
        return 1.0 / inverse if inverse > 0.0 else np.inf


@dataclass(frozen=True, slots=True, eq=False)
class _JudgeFit:
    """The new model's strength by the judge's battles, and the variance of it by their prompts."""

    strength: float
    weights: Floats
    variance: float
    dof: float
    bias: BiasEstimate | None


def _fit_judge(battles: JudgedBattles, known: _HumanPart | None) -> _JudgeFit:
    """Fit the new model's strength, with the human ratings fixed.

    With ``known`` opponents count the more evenly, the larger the judge's bias is. Otherwise each battle counts the
    same, as if the judge had none.
    """
    strength = float(np.average(battles.strength))
    bias: BiasEstimate | None = None
    for _ in range(_STEP_LIMIT):
        linear = battles.around(strength)
        deviations, inverse = linear.deviations()
        weights = linear.matrix[:-1, :-1].sum(axis=1)
        weights = weights / weights.sum()
        if known is not None:
            bias = estimate_bias(deviations, battles.dispersion(linear) * inverse + known.noise())
            weights = bias.weights
        step = float(weights @ deviations)
        if abs(step) < _STEP_TOLERANCE:
            break
        strength += float(np.clip(step, -_LARGEST_STEP_LOGITS, _LARGEST_STEP_LOGITS))
    variance, dof = _sampling(battles, linear, inverse @ weights)
    return _JudgeFit(strength, weights, variance, dof, bias)


def _sampling(battles: JudgedBattles, linear: LinearBattles, influence: Floats) -> tuple[float, float]:
    """The variance of the strength if other prompts were judged, each left out in turn, and its degrees of freedom."""
    reach = np.append(influence, 0.0)
    pull = reach[battles.b] - reach[battles.a]
    share = np.bincount(battles.prompt, linear.information * pull * battles.side)
    shift = np.bincount(battles.prompt, linear.residual * pull) / (1.0 - np.minimum(share, _LARGEST_SHARE))
    prompts = len(share)
    variance = float(shift @ shift) * (prompts - 1) / prompts
    return variance, float(np.abs(share).sum() ** 2 / (share @ share) - 1.0)


def _conditional(
    model: str, human: Ratings, known: _HumanPart, fit: _JudgeFit
) -> tuple[JudgePlacement, Floats]:
    """The placement without ranks and findings, and the degrees of freedom of each difference."""
    method, members = human.method, known.members
    assert isinstance(method, BradleyTerry)
    unit = points_per_logit(method)
    dof = np.minimum(np.append(known.dof[members], np.inf), min(fit.dof, known.mean_dof(fit.weights)))
    variance = fit.variance + known.variances(fit.weights)
    added = np.zeros(1)
    if fit.bias is not None:
        added = fit.bias.variances * (1.0 + float(fit.weights @ fit.weights))
    half = unit * mixed_half_width(variance[:, None] + added, np.maximum(dof, MIN_DOF), method.level)
    half[(dof < MIN_DOF) | (variance * unit**2 <= ZERO_VARIANCE_TOLERANCE)] = np.nan
    rating = fit.strength * unit
    difference, width = np.full((2, len(human.models)), np.nan)
    difference[members], width[members] = rating - human.rating[members], half[:-1]
    placed = JudgePlacement(
        model,
        method.level,
        int(human.group[members[0]]),
        rating,
        rating - float(half[-1]),
        rating + float(half[-1]),
        difference,
        width,
    )
    return placed, dof[:-1]


def _with_ranks(placed: JudgePlacement, bias: BiasEstimate, dof: Floats, unit: float) -> JudgePlacement:
    """Add the judge's bias, and the order that the differences prove."""
    rated = ~np.isnan(placed.difference)
    few = np.minimum(dof, placed.opponents - 1.0)
    rank, low, high = _ranks(placed.difference[rated], placed.half_width[rated], few, placed.level)
    sd, most = bias.sd * unit, bias.upper_sd * unit
    values = {
        "model": placed.model,
        "opponents": placed.opponents,
        "bias": sd,
        "most": most,
        "low": low,
        "high": high,
        "models": int(rated.sum()) + 1,
    }
    return replace(
        placed,
        rank=rank,
        rank_low=low,
        rank_high=high,
        bias_sd=sd,
        upper_bias_sd=most,
        findings=(Finding("placed-by-judge", values),),
    )


def _ranks(difference: Floats, half: Floats, dof: Floats, level: float) -> tuple[int, int, int]:
    """The place among the human-rated models, and the range that all differences together do not rule out.

    Half-widths are extended to the level of all pairs by Student's t with as many degrees of freedom as there are
    opponents, less one: exactly right if bias is all that is uncertain, and too far if it is not.
    """
    finite = np.maximum(dof, MIN_DOF)
    upper = 1.0 - (1.0 - level) / len(difference) / 2.0
    wider = stdtrit(finite, upper) / critical_value(level, finite)
    with np.errstate(invalid="ignore"):
        above, below = difference > wider * half, difference < -wider * half
    models = len(difference) + 1
    return 1 + int((difference < 0.0).sum()), 1 + int(below.sum()), models - int(above.sum())
