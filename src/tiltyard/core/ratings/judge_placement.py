"""Places a model that only a judge has compared among models that people have rated.

The human ratings stay as they are: the judge's battles decide only where the new model stands among them. The judge
may like some models more than people do. What it says of the new model against each opponent, whose human rating is
known, shows how much its bias varies by model; that variance is added for the new model, whose own bias
nobody can see. The judge may also be sharper than people, or less sharp: the slope of its scale against theirs. With
too few opponents neither can be estimated, and the interval is conditional on the judge.

**Bias.** The judge sees model k with strength c·θ_k + b_k, with b_k normal of variance σ². For K models with human ratings,
e_k is what the judge's battles say of a line in θ, each with noise of known covariance M, so that e has covariance
M + σ²·1. Q(σ²), the sum of squares about the line weighted by (M + σ²·1)⁻¹, is then χ² with K − 2 degrees of freedom at
the true σ².

σ² is poorly known from few models, and a point estimate is often zero where it is not. So no single value is used:
each quantile c of χ² gives the σ² with Q(σ²) = c, or zero where there is none, and an interval is made for all of them
together. Viechtbauer, Statistics in Medicine 26 (2007), inverts Q; Nagashima, Noma and Furukawa, Statistical Methods
in Medical Research 28 (2019), predict by it.

**Slope.** The new model stands α/c above the weighted mean of its opponents, if the judge puts it α above them. c is the
slope of the line; errors of θ_k flatten it, which is corrected (York, Canadian Journal of Physics 44, 1966). Where c is
poorly known α/c has no finite interval (Fieller 1954), so c is taken to lie between two limits; each σ² has a value of c.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.special import chdtri, expit, stdtr, stdtrit

from tiltyard.core.battles import Table
from tiltyard.core.battles.cluster_keys import MISSING_KEY, Keys
from tiltyard.core.ratings.bradley_terry import BradleyTerry
from tiltyard.core.ratings.findings import MIN_DOF, Finding
from tiltyard.core.ratings.pairs import laplacians, sum_by_index
from tiltyard.core.ratings.result import Ratings, Uncertainty
from tiltyard.core.ratings.sentences import first_of
from tiltyard.core.ratings.variance import ZERO_VARIANCE_TOLERANCE
from tiltyard.errors import BadOption
from tiltyard.foundation.arrays import Bools, Floats, Ints

#: Equally likely values of the variance; odd, so that one of them is the median.
_VALUE_COUNT = 99
#: From the level of one variance's slope to that of the next: the golden ratio spreads them evenly over all variances.
_GOLDEN_RATIO = 0.618034
#: A judge is taken to be between a third of and four times as sharp as people.
SLOPE_LIMITS = (1.0 / 3.0, 4.0)
#: A slope whose interval spans more than this factor is told to be unknown.
_KNOWN_SLOPE_RATIO = 3.0
#: A standard error of zero counts as this, so that nothing is divided by zero.
_SMALLEST_TOLERANCE = 1e-12
#: Student's t with so many degrees of freedom is normal.
_NORMAL_DOF = 1e7
_BISECTION_COUNT = 40
PlacementLabel = Literal["judge only", "judge, bias added"]
#: Fewer opponents with a human rating than this, and the judge's bias is not estimated.
MIN_OVERLAP_MODELS = 5
#: Judged battles beyond the first of each pair: without them nothing tells bias from chance.
MIN_REPEATED_BATTLES = 20
_STEP_LIMIT = 100
_STEP_TOLERANCE = 1e-9
_LARGEST_STEP_LOGITS = 2.0
_LARGEST_STEP_RATIO = 0.5
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
    #: By human-rated model, in the order of the human ratings: its rating minus theirs, and the interval's ends.
    difference: Floats = field(default_factory=lambda: np.empty(0))
    difference_low: Floats = field(default_factory=lambda: np.empty(0))
    difference_high: Floats = field(default_factory=lambda: np.empty(0))
    #: The place it takes among them, and the range of places not ruled out; ``None`` where no order is claimed.
    rank: int | None = None
    rank_low: int | None = None
    rank_high: int | None = None
    #: The standard deviation of the judge's bias by model, in points, and an upper limit of it; ``None`` if unknown.
    bias_sd: float | None = None
    upper_bias_sd: float | None = None
    #: How sharp the judge is, relative to people, and the ends of its interval; ``None`` if unknown.
    slope: float | None = None
    slope_low: float | None = None
    slope_high: float | None = None
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
    if fit is None:
        return _unplaced(model, method.level, "slope", least=SLOPE_LIMITS[0])
    placed, positions = _conditional(model, human, known, fit)
    placed = replace(placed, opponents=battles.n_opponents, battles=len(battles.score))
    if fit.bias is None:
        placed = replace(placed, findings=(Finding("judge-only", {"model": model, **(unknown or {})}),))
    else:
        placed = _with_ranks(placed, fit.slopes, fit.bias, positions, points_per_logit(method))
    if np.isnan(placed.low):
        withheld = Finding("interval-withheld", first_of("models", [model]))
        placed = replace(placed, findings=(*placed.findings, withheld))
    return placed


def _unplaced(model: str, level: float, case: str, **values: object) -> JudgePlacement:
    finding = Finding("not-placed", {"case": case, "model": model, **values})
    return JudgePlacement(model, level, findings=(finding,))


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
    """Where the judge's battles put the new model, and the variance of that by their prompts."""

    #: The opponents' weighted mean on people's scale, and how far above it the judge puts the new model on its own.
    center: float
    height: float
    weights: Floats
    variance: float
    dof: float
    bias: BiasEstimate | None
    #: A slope of the judge's scale for each variance of the bias; all pairs are equally likely.
    slopes: Floats


def _fit_judge(battles: JudgedBattles, known: _HumanPart | None) -> _JudgeFit | None:
    """Fit the new model's strength and the judge's slope, with the human ratings fixed; ``None`` if it is too flat.

    With ``known`` opponents count the more evenly, the larger the judge's bias is. Otherwise each battle counts the
    same, as if the judge had no bias, and the slope is 1.
    """
    origin = float(battles.strength.mean())
    position = battles.strength - origin
    height, slope = float(np.average(position)), 1.0
    bias: BiasEstimate | None = None
    for _ in range(_STEP_LIMIT):
        linear = battles.around(slope * position, height)
        deviations, inverse = linear.deviations()
        weights = linear.matrix[:-1, :-1].sum(axis=1)
        weights = weights / weights.sum()
        slope_step = 0.0
        if known is not None:
            people = slope * known.noise()
            noise = battles.dispersion(linear) * inverse + slope * people
            bias = estimate_bias(deviations, noise, position, people)
            weights = bias.weights
            slope_step = float(bias.slope_weights @ deviations)
        step = float(weights @ deviations)
        if max(abs(step), abs(slope_step)) < _STEP_TOLERANCE:
            break
        height += float(np.clip(step, -_LARGEST_STEP_LOGITS, _LARGEST_STEP_LOGITS))
        slope += float(np.clip(slope_step, -_LARGEST_STEP_RATIO, _LARGEST_STEP_RATIO))
    mean = float(weights @ position)
    variance, dof = _prompt_variance(battles, linear, inverse @ weights, battles.side)
    slopes = np.ones(1)
    if bias and known:
        own, pull = np.append(position, 0.0), bias.slope_weights
        design = own[battles.a] - own[battles.b]
        by_prompt, slope_dof = _prompt_variance(battles, linear, inverse @ pull, design)
        human = slope**2 * float(pull @ known.noise() @ pull)
        errors = np.sqrt(by_prompt + human + bias.variances * float(pull @ pull))
        slopes = _limited_slopes(slope, errors, max(slope_dof, MIN_DOF))
        if not len(slopes):
            return None
    return _JudgeFit(origin + mean, height - slope * mean, weights, variance, dof, bias, slopes)


def _prompt_variance(
    battles: JudgedBattles, linear: LinearBattles, reach: Floats, design: Floats
) -> tuple[float, float]:
    """The variance of an estimate, each prompt left out in turn, and its degrees of freedom; ``design``: its part in a battle."""
    own = np.append(reach, 0.0)
    pull = own[battles.b] - own[battles.a]
    share = np.bincount(battles.prompt, linear.information * pull * design)
    shift = np.bincount(battles.prompt, linear.residual * pull) / (1.0 - np.minimum(share, _LARGEST_SHARE))
    variance = float(shift @ shift) * (len(share) - 1) / len(share)
    return variance, float(np.abs(share).sum() ** 2 / (share @ share) - 1.0)


def _limited_slopes(slope: float, errors: Floats, dof: float) -> Floats:
    """A slope between the limits for each error; none if the judge is flatter than the limit, at 97.5 %."""
    low, high = stdtr(
        dof, (np.array(SLOPE_LIMITS)[:, None] - slope) / np.maximum(errors, _SMALLEST_TOLERANCE)
    )
    if np.mean(low) > 0.975:
        return np.empty(0)
    levels = (0.5 + _GOLDEN_RATIO * np.arange(len(errors))) % 1.0
    drawn = low + np.maximum(high - low, _SMALLEST_TOLERANCE) * levels
    return np.asarray(np.clip(slope + errors * stdtrit(dof, drawn), *SLOPE_LIMITS))


def _conditional(
    model: str, human: Ratings, known: _HumanPart, fit: _JudgeFit
) -> tuple[JudgePlacement, ErrorMixture]:
    """The placement without ranks and findings, and its differences to the members of the group, in logits."""
    method, members = human.method, known.members
    assert isinstance(method, BradleyTerry)
    unit = points_per_logit(method)
    # Degrees of freedom of the opponents' weighted mean: the harmonic mean of theirs.
    shares = np.abs(fit.weights) / np.abs(fit.weights).sum()
    inverse = float(shares @ (1.0 / np.maximum(known.dof[known.opponents], 1e-9)))
    mean_dof = 1.0 / inverse if inverse > 0.0 else np.inf
    dof = np.minimum(np.append(known.dof[members], _NORMAL_DOF), min(fit.dof, mean_dof, _NORMAL_DOF))
    judge = np.full(1, fit.variance)
    if fit.bias is not None:
        judge = judge + fit.bias.variances * (1.0 + float(fit.weights @ fit.weights))
    people = known.variances(fit.weights)[:, None]
    mean = float(human.rating[members].mean())
    above = np.append(human.rating[members], mean)[:, None] / unit
    errors = np.sqrt(judge / fit.slopes**2 + people)
    positions = ErrorMixture(fit.center + fit.height / fit.slopes - above, errors, np.maximum(dof, MIN_DOF))
    ends = unit * np.stack([positions.quantile((1.0 + side * method.level) / 2.0) for side in (-1.0, 1.0)])
    ends[:, (dof < MIN_DOF) | ((fit.variance + people[:, 0]) * unit**2 <= ZERO_VARIANCE_TOLERANCE)] = np.nan
    rating = unit * (fit.center + fit.height / float(np.median(fit.slopes)))
    low, high = (mean + float(end) for end in ends[:, -1])
    differences = np.full((3, len(human.models)), np.nan)
    differences[:, members] = rating - human.rating[members], *ends[:, :-1]
    group = int(human.group[members[0]])
    return JudgePlacement(model, method.level, group, rating, low, high, *differences), positions


def _with_ranks(
    placed: JudgePlacement, slopes: Floats, bias: BiasEstimate, positions: ErrorMixture, unit: float
) -> JudgePlacement:
    """Add the judge's bias and slope, and the range of places that all differences together do not rule out."""
    rated = ~np.isnan(placed.difference)
    difference, known = placed.difference[rated], ~np.isnan(placed.difference_low[rated])
    # Degrees of freedom: exactly right if bias is all that is uncertain.
    few = replace(positions, dof=np.minimum(positions.dof, placed.opponents - 2.0))
    chance = few.below(np.zeros(len(few.dof)))[:-1]
    tail = (1.0 - placed.level) / 2.0
    above, below = known & (chance < tail / len(chance)), known & (1.0 - chance < tail / len(chance))
    slope_low, slope, slope_high = np.quantile(slopes, [tail, 0.5, 1.0 - tail]).tolist()
    placed = replace(
        placed,
        rank=1 + int((difference < 0.0).sum()),
        rank_low=1 + int(below.sum()),
        rank_high=len(difference) + 1 - int(above.sum()),
        bias_sd=bias.sd * unit / slope,
        upper_bias_sd=bias.upper_sd * unit / slope,
        slope=slope,
        slope_low=slope_low,
        slope_high=slope_high,
    )
    values: dict[str, object] = {
        name: getattr(placed, name) for name in ("model", "opponents", "slope", "slope_low", "slope_high")
    }
    values |= {"bias": placed.bias_sd, "most": placed.upper_bias_sd}
    values |= {"low": placed.rank_low, "high": placed.rank_high, "models": len(difference) + 1}
    findings: tuple[Finding, ...] = (Finding("placed-by-judge", values),)
    if slope_high > _KNOWN_SLOPE_RATIO * slope_low:
        limits = {"least": SLOPE_LIMITS[0], "most": SLOPE_LIMITS[1]}
        findings += (Finding("judge-slope-unknown", {"model": placed.model, **limits}),)
    return replace(placed, findings=findings)


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

    def around(self, opponents: Floats, strength: float) -> LinearBattles:
        """The battles, if the judge's scale has the opponents and the new model there."""
        theta = np.append(opponents, strength)
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
    """The variance of a judge's bias by model, as equally likely values, and the weights of each model."""

    #: In ascending order.
    variances: Floats
    weights: Floats
    slope_weights: Floats

    @property
    def sd(self) -> float:
        """The median of the standard deviation."""
        return float(np.sqrt(self.variances[len(self.variances) // 2]))

    @property
    def upper_sd(self) -> float:
        """The standard deviation that is not exceeded, at 95 %."""
        return float(np.sqrt(np.quantile(self.variances, 0.95)))


def estimate_bias(deviations: Floats, noise: Floats, position: Floats, shared: Floats) -> BiasEstimate:
    """The variance beyond ``noise`` about a falling line in ``position``, whose errors share covariance with the noise."""
    values, vectors = np.linalg.eigh(noise)
    spectrum = _Spectrum(values, vectors.T @ deviations, vectors.sum(axis=0), vectors.T @ position)
    levels = (np.arange(_VALUE_COUNT) + 0.5) / _VALUE_COUNT
    # The complement of the distribution of χ² at its quantiles, so that variances ascend.
    variances = spectrum.solve(chdtri(len(deviations) - 2, levels))
    inverse = (vectors / (values + variances[_VALUE_COUNT // 2])) @ vectors.T
    weights = inverse.sum(axis=1) / inverse.sum()
    # The positions without what the residuals say of their errors.
    likely = position - shared @ inverse @ deviations
    pull = inverse @ (likely - weights @ likely)
    return BiasEstimate(variances, weights, -pull / (pull @ position))


@dataclass(frozen=True, slots=True, eq=False)
class ErrorMixture:
    """Estimates whose centre and error are one of several, equally likely; a row for each, with finite ``dof``."""

    center: Floats
    error: Floats
    dof: Floats

    def below(self, value: Floats) -> Floats:
        """The chance that the truth is below a value."""
        ratio = (value[:, None] - self.center) / np.maximum(self.error, _SMALLEST_TOLERANCE)
        return np.asarray(stdtr(self.dof[:, None], ratio).mean(axis=1))

    def quantile(self, level: float) -> Floats:
        """The value that the truth is below with this chance."""
        single = self.center + self.error * stdtrit(self.dof[:, None], level)
        low, high = single.min(axis=1), single.max(axis=1)
        for _ in range(_BISECTION_COUNT):
            middle = (low + high) / 2.0
            above = self.below(middle) > level
            low, high = np.where(above, low, middle), np.where(above, middle, high)
        return np.asarray(high)


@dataclass(frozen=True, slots=True, eq=False)
class _Spectrum:
    """Noise by its eigenvalues; deviations, a vector of ones and positions by its eigenvectors."""

    values: Floats
    deviation: Floats
    one: Floats
    position: Floats

    def q(self, variances: Floats) -> Floats:
        """Q at each variance; it falls as the variance grows."""
        inverse = 1.0 / (self.values + variances[:, None])
        weight, mean, center = (
            inverse @ (self.one * other) for other in (self.one, self.deviation, self.position)
        )
        square = inverse @ self.position**2 - center**2 / weight
        product = inverse @ (self.position * self.deviation) - center * mean / weight
        return np.asarray(inverse @ self.deviation**2 - mean**2 / weight - product**2 / square)

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
