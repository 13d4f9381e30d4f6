"""Places a model that only a judge has compared among models that people have rated.

The human ratings stay as they are: the judge's battles decide only where the new model stands among them. The judge
may like some models more than people do. What it says of the new model against each opponent, whose human rating is
known, shows how much its bias varies by model; that variance is added for the new model, whose own bias
nobody can see. With too few opponents it cannot be estimated, and the interval is conditional on the judge.

**Bias.** The judge sees model k with strength θ_k + b_k, with b_k normal of variance σ². For K models with human ratings,
e_k is what the judge's battles say of one mean, each with noise of known covariance M, so that e has covariance
M + σ²·1. Q(σ²) = e′We − (1′We)²/1′W1 with W = (M + σ²·1)⁻¹ is then χ² with K − 1 degrees of freedom at the true σ².

σ² is poorly known from few models, and a point estimate is often zero where it is not. So no single value is used:
each quantile c of χ² gives the σ² with Q(σ²) = c, or zero where there is none, and an interval is made for all of them
together. Viechtbauer, Statistics in Medicine 26 (2007), inverts Q; Nagashima, Noma and Furukawa, Statistical Methods
in Medical Research 28 (2019), predict by it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.special import chdtri, expit, gammaln, stdtr, stdtrit

from tiltyard.core.battles import Table
from tiltyard.core.battles.cluster_keys import MISSING_KEY, Keys
from tiltyard.core.ratings.bradley_terry import BradleyTerry
from tiltyard.core.ratings.findings import MIN_DOF, Finding
from tiltyard.core.ratings.index_sums import laplacians, sum_by_index
from tiltyard.core.ratings.result import Ratings, Uncertainty
from tiltyard.core.ratings.sentences import first_of
from tiltyard.core.ratings.variance import ZERO_VARIANCE_TOLERANCE, critical_value
from tiltyard.errors import BadOption
from tiltyard.foundation.arrays import Bools, Floats, Ints

#: Equally likely values of the variance; odd, so that one of them is the median.
_VALUE_COUNT = 99
#: A variance of zero counts as this, so that nothing is divided by zero.
_SMALLEST_TOLERANCE = 1e-24
#: Student's t with so many degrees of freedom is normal.
_NORMAL_DOF = 1e7
_BIAS_STEP_LIMIT = 200
_BIAS_STEP_TOLERANCE = 1e-10
#: Bisections: a double has 53 bits.
_BISECTION_COUNT = 60
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
    if np.isnan(placed.low):
        withheld = Finding("interval-withheld", first_of("models", [model]))
        placed = replace(placed, findings=(*placed.findings, withheld))
    return placed


def _unplaced(model: str, level: float, case: str) -> JudgePlacement:
    return JudgePlacement(model, level, findings=(Finding("not-placed", {"case": case, "model": model}),))


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
    # The variance of the strength if other prompts were judged, each left out in turn, and its degrees of freedom.
    reach = np.append(inverse @ weights, 0.0)
    pull = reach[battles.b] - reach[battles.a]
    share = np.bincount(battles.prompt, linear.information * pull * battles.side)
    shift = np.bincount(battles.prompt, linear.residual * pull) / (1.0 - np.minimum(share, _LARGEST_SHARE))
    variance = float(shift @ shift) * (len(share) - 1) / len(share)
    dof = float(np.abs(share).sum() ** 2 / (share @ share) - 1.0)
    return _JudgeFit(strength, weights, variance, dof, bias)


def _conditional(
    model: str, human: Ratings, known: _HumanPart, fit: _JudgeFit
) -> tuple[JudgePlacement, Floats]:
    """The placement without ranks and findings, and the degrees of freedom of each difference."""
    method, members = human.method, known.members
    assert isinstance(method, BradleyTerry)
    unit = points_per_logit(method)
    # Degrees of freedom of the opponents' weighted mean: the harmonic mean of theirs.
    shares = np.abs(fit.weights) / np.abs(fit.weights).sum()
    inverse = float(shares @ (1.0 / np.maximum(known.dof[known.opponents], 1e-9)))
    mean_dof = 1.0 / inverse if inverse > 0.0 else np.inf
    dof = np.minimum(np.append(known.dof[members], np.inf), min(fit.dof, mean_dof))
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
    """Add the judge's bias, and the order that the differences settle."""
    rated = ~np.isnan(placed.difference)
    few = np.minimum(dof, placed.opponents - 1.0)
    # The place among the human-rated models, and the range that all differences together do not rule out.
    #
    # Half-widths are extended to the level of all pairs by Student's t with as many degrees of freedom as there are
    # opponents, less one: exactly right if bias is all that is uncertain, and too far if it is not.
    difference = placed.difference[rated]
    half = placed.half_width[rated]
    level = placed.level
    finite = np.maximum(few, MIN_DOF)
    upper = 1.0 - (1.0 - level) / len(difference) / 2.0
    wider = stdtrit(finite, upper) / critical_value(level, finite)
    with np.errstate(invalid="ignore"):
        above, below = difference > wider * half, difference < -wider * half
    models = len(difference) + 1
    rank, low, high = 1 + int((difference < 0.0).sum()), 1 + int(below.sum()), models - int(above.sum())
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


def points_per_logit(method: BradleyTerry) -> float:
    return method.scale / math.log(10.0)


@dataclass(frozen=True, slots=True, eq=False)
class LinearBattles:
    """The judge's battles around one strength of the new model: expected scores, residuals, and information."""

    residual: Floats
    information: Floats
    #: The score and the information of all models, the new one last.
    scores: Floats
    matrix: Floats

    def deviations(self) -> tuple[Floats, Floats]:
        """What each opponent says of how much stronger the new model is, and the inverse of the opponents' information."""
        inverse = np.asarray(np.linalg.inv(self.matrix[:-1, :-1]), dtype=np.float64)
        return -inverse @ self.scores[:-1], inverse


@dataclass(frozen=True, slots=True, eq=False)
class JudgedBattles:
    """Battles of the judge among the new model (numbered last) and opponents with a human rating of one group."""

    group: int
    #: The opponents' positions in the human ratings, and their strengths in logits.
    opponents: Ints
    strength: Floats
    a: Ints
    b: Ints
    score: Floats
    weight: Floats
    #: The cluster of each battle, and its pair of models.
    prompt: Ints
    pair: Ints

    @classmethod
    def of(cls, human: Ratings, method: BradleyTerry, judged: Table, model: str) -> JudgedBattles | None:
        """``None`` if the new model met nobody with a human rating."""
        log = method.limited(judged).table.log()
        place = {name: k for k, name in enumerate(human.models) if human.group[k] >= 0 and name != model}
        new = len(human.models)
        position = np.array([new if name == model else place.get(name, -1) for name in judged.models])
        a, b, score = position[log.a], position[log.b], method.scoring().of(log)
        used = (a >= 0) & (b >= 0) & ~np.isnan(score)
        weight = np.ones(len(a)) if log.weight is None else log.weight
        used &= weight > 0.0
        group = np.append(human.group, -1)
        met = np.where(a == new, group[b], group[a])[used & ((a == new) | (b == new))]
        if not len(met):
            return None
        own = int(np.bincount(met).argmax())
        used &= np.isin(group[a], (own, -1)) & np.isin(group[b], (own, -1))
        used = _connected(a, b, used, new)
        opponents = np.unique(np.concatenate([a[used], b[used]]))[:-1]
        number = np.full(new + 1, -1)
        number[opponents], number[new] = np.arange(len(opponents)), len(opponents)
        a, b = number[a[used]], number[b[used]]
        pair = np.minimum(a, b) * (len(opponents) + 1) + np.maximum(a, b)
        prompt = np.full(len(a), MISSING_KEY) if log.prompt is None else log.prompt[used]
        return cls(
            own,
            opponents,
            human.rating[opponents] / points_per_logit(method),
            a,
            b,
            score[used],
            weight[used],
            _numbered(prompt),
            np.unique(pair, return_inverse=True)[1],
        )

    @property
    def n_opponents(self) -> int:
        return len(self.opponents)

    @property
    def n_pairs(self) -> int:
        return int(self.pair.max()) + 1

    @property
    def repeated(self) -> int:
        """Battles beyond the first of each pair."""
        return len(self.pair) - self.n_pairs

    @property
    def side(self) -> Floats:
        """1 where the new model is A, −1 where it is B, 0 for a battle without it."""
        new = self.n_opponents
        return np.asarray((self.a == new).astype(np.float64) - (self.b == new))

    def extreme(self) -> str | None:
        """Whether the new model won or lost every point."""
        side = self.side
        own = np.where(side > 0.0, self.score, 1.0 - self.score)[side != 0.0]
        return "won" if (own == 1.0).all() else "lost" if (own == 0.0).all() else None

    def around(self, strength: float) -> LinearBattles:
        theta = np.append(self.strength, strength)
        expected = expit(theta[self.a] - theta[self.b])
        residual = self.weight * (self.score - expected)
        information = self.weight * expected * (1.0 - expected)
        m = len(theta)
        scores = sum_by_index(self.a, residual, m) - sum_by_index(self.b, residual, m)
        whole = laplacians(self.a, self.b, information, np.zeros_like(self.a), (1, m))[0]
        return LinearBattles(residual, information, scores, whole)

    def dispersion(self, linear: LinearBattles) -> float:
        """The variance of a battle relative to a coin flip, about the mean of its pair; those of one prompt together."""
        mean = np.bincount(self.pair, linear.residual) / np.bincount(self.pair)
        cell = np.unique(np.stack([self.pair, self.prompt]), axis=1, return_inverse=True)[1].ravel()
        squares = float((np.bincount(cell, linear.residual - mean[self.pair]) ** 2).sum())
        return squares / float(linear.information.sum()) * len(self.pair) / self.repeated


def _connected(a: Ints, b: Ints, used: Bools, new: int) -> Bools:
    """Those of the used battles that connect to the new model."""
    graph = coo_array((np.ones(int(used.sum())), (a[used], b[used])), shape=(new + 1, new + 1))
    part = connected_components(graph, directed=False)[1]
    return np.asarray(used & (part[a] == part[new]))


def _numbered(keys: Keys) -> Ints:
    """The number of each battle's cluster; a battle without a key is its own."""
    number = np.unique(keys, return_inverse=True)[1].astype(np.int64)
    alone = keys == MISSING_KEY
    number[alone] = number.max(initial=0) + 1 + np.arange(int(alone.sum()))
    return np.asarray(np.unique(number, return_inverse=True)[1])


@dataclass(frozen=True, slots=True, eq=False)
class BiasEstimate:
    """The variance of a judge's bias by model, as equally likely values, and the weight of each model in the mean."""

    #: In ascending order.
    variances: Floats
    weights: Floats

    @property
    def sd(self) -> float:
        """The median of the standard deviation."""
        return float(np.sqrt(self.variances[len(self.variances) // 2]))

    @property
    def upper_sd(self) -> float:
        """The standard deviation that is not exceeded, at 95 %."""
        return float(np.sqrt(np.quantile(self.variances, 0.95)))


def estimate_bias(deviations: Floats, noise: Floats) -> BiasEstimate:
    """The variance of deviations from their mean beyond their ``noise``; the weights are those of its median."""
    values, vectors = np.linalg.eigh(noise)
    spectrum = _Spectrum(values, vectors.T @ deviations, vectors.sum(axis=0))
    levels = (np.arange(_VALUE_COUNT) + 0.5) / _VALUE_COUNT
    # The complement of the distribution of χ² at its quantiles, so that variances ascend.
    variances = spectrum.solve(chdtri(len(deviations) - 1, levels))
    inverse = vectors @ (spectrum.one / (values + variances[_VALUE_COUNT // 2]))
    return BiasEstimate(variances, inverse / inverse.sum())


def mixed_half_width(variances: Floats, dof: Floats, level: float) -> Floats:
    """Half-widths of intervals for errors whose variance is one of several, equally likely.

    ``variances`` has a row for each interval; ``dof`` are the degrees of freedom of the errors, given the variance.
    """
    error = np.sqrt(np.maximum(variances, _SMALLEST_TOLERANCE))
    finite = np.where(np.isinf(dof), _NORMAL_DOF, dof)[:, None]
    half = critical_value(level, dof) * error.min(axis=1)
    # The share inside is concave in the half-width, so Newton's steps from below never pass the solution.
    for _ in range(_BIAS_STEP_LIMIT):
        ratio = half[:, None] / error
        inside = (2.0 * stdtr(finite, ratio) - 1.0).mean(axis=1)
        # The density of Student's t.
        constant = np.exp(gammaln((finite + 1.0) / 2.0) - gammaln(finite / 2.0)) / np.sqrt(np.pi * finite)
        slope = 2.0 * (
            np.asarray(constant * (1.0 + ratio * ratio / finite) ** (-(finite + 1.0) / 2.0)) / error
        ).mean(axis=1)
        step = (level - inside) / slope
        half = half + step
        if (np.abs(step) <= _BIAS_STEP_TOLERANCE * half).all():
            break
    return np.asarray(half)


@dataclass(frozen=True, slots=True, eq=False)
class _Spectrum:
    """Noise by its eigenvalues; deviations and a vector of ones by its eigenvectors."""

    values: Floats
    deviation: Floats
    one: Floats

    def q(self, variances: Floats) -> Floats:
        """Q at each variance; it falls as the variance grows."""
        inverse = 1.0 / (self.values + variances[:, None])
        mean = inverse @ (self.one * self.deviation)
        return np.asarray(inverse @ self.deviation**2 - mean**2 / (inverse @ self.one**2))

    def solve(self, quantiles: Floats) -> Floats:
        """The variance at which Q has each value, or zero."""
        low, high = np.zeros(len(quantiles)), np.ones(len(quantiles))
        while (above := self.q(high) > quantiles).any():
            high[above] *= 2.0
        for _ in range(_BISECTION_COUNT):
            middle = (low + high) / 2.0
            above = self.q(middle) > quantiles
            low, high = np.where(above, middle, low), np.where(above, high, middle)
        return np.where(self.q(np.zeros(len(quantiles))) > quantiles, high, 0.0)
