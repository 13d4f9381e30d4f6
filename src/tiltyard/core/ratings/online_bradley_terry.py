"""Bradley–Terry updated vote by vote, with the covariance of all strengths, for matchmaking.

Log-strengths have a normal prior, and each vote updates their mean and their whole covariance: a
Kalman filter with a logistic observation. Letters are those of the filter: μ and Σ the mean and
covariance, d = e_a − e_b the contrast that a vote observes, s = Σd its gain, v = dᵀΣd the variance
of the gap. A vote is linearised at the mode of the gap after it, not before it (the iterated
filter of Bell and Cathey, IEEE Transactions on Automatic Control 38, 1993): otherwise an upset
among uncertain models would overshoot.

The error of linearising stays in a filter permanently: a fifth of a standard error. Therefore the
model is refitted from the sums by pair at intervals, which resets the state to the posterior mode
and its curvature, those of `BradleyTerry(prior_sd=…)`.

All arithmetic is portable (`portable_functions`, `portable_matrices`): a fold gives the same bits on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tiltyard.core.battles import CodedBattles, Kind
from tiltyard.core.ratings.pairs import PairScores, Scoring, pairs_from_points, sum_by_index
from tiltyard.core.ratings.portable_functions import (
    LN_10,
    PENDING_ROWS,
    invert,
    logistic,
    logistic_each,
    normal_cdf,
    subtract_products,
    sum_rows,
    weighted_sum,
)
from tiltyard.errors import BadOption
from tiltyard.foundation.arrays import Floats

#: After a step this small (in logits), and a quarter of the one before at most, the error is a third of it.
_LAST_REFIT_STEP_LOGITS = 1e-8
_REFIT_STEP_LIMIT = 200
#: Steps with the same covariance must shrink at least so much; otherwise it is computed anew.
_SHRINKING_RATIO = 0.25
#: Newton's error is squared at each step: after a step this small (in logits) 1e-12 is left.
_LAST_STEP_LOGITS = 1e-6


@dataclass(slots=True, eq=False)
class OnlineState:
    """The joint distribution of all strengths given the votes so far; votes are folded into it in place.

    The covariance is ``settled``, which is symmetric, minus the products of the ``held`` rows. Both are
    stored exactly, so that a fold that is saved and resumed gives bit for bit the same result as an
    uninterrupted one, on any machine.
    """

    #: μ in logits. It sums to zero: the prior's mean is zero, and every gain sums to zero.
    mean: Floats
    settled: Floats
    held: Floats
    n_held: int
    #: The total score of the row model against the column model.
    points: Floats
    #: The number of votes folded, including those that rate nobody.
    votes: int
    #: Rating votes since the last refit from ``points``.
    since_fit: int
    prior_variance: float
    base: float
    #: Rating points per logit.
    unit: float

    @property
    def n_models(self) -> int:
        return len(self.mean)

    @property
    def rating(self) -> Floats:
        """Points; their mean is the base."""
        return self.base + self.unit * self.mean

    @property
    def se(self) -> Floats:
        """Standard error, in points, of each strength minus the mean of all; before any vote, the prior's.

        Votes do not inform the sum of all strengths, so Σ1 stays τ²1, and the mean of all
        contributes τ²/M to a variance.
        """
        held = self.held[: self.n_held]
        variance = np.diagonal(self.settled) - _sum_squares(held)
        variance -= self.prior_variance / max(self.n_models, 1)
        return np.asarray(self.unit * np.sqrt(np.maximum(variance, 0.0)), dtype=np.float64)

    @property
    def covariance(self) -> Floats:
        """The full matrix Σ in logits²: for reports and tests, not for every vote."""
        covariance = self.settled.copy()
        subtract_products(covariance, self.held[: self.n_held])
        return covariance

    def difference(self, i: npt.ArrayLike, j: npt.ArrayLike) -> tuple[Floats, Floats]:
        """The rating of i minus that of j, and its standard deviation, in points."""
        i, j = np.asarray(i), np.asarray(j)
        held = self.held[: self.n_held]
        before = self.settled[i, i] + self.settled[j, j] - 2.0 * self.settled[i, j]
        variance = before - _sum_squares(held[:, i] - held[:, j])
        return self.unit * (self.mean[i] - self.mean[j]), self.unit * np.sqrt(np.maximum(variance, 0.0))

    def misorder(self, above: npt.ArrayLike, below: npt.ArrayLike) -> Floats:
        """P(the one placed above is the weaker one), pair by pair; one half for a model and itself."""
        gap, sd = self.difference(above, below)
        z = np.asarray(-gap / np.where(sd > 0.0, sd, 1.0))
        return np.array([normal_cdf(each) for each in z.ravel().tolist()]).reshape(z.shape)

    def widened(self, models: int) -> OnlineState:
        """A copy of this state with new models at the prior, up to ``models`` in total."""
        m, more = self.n_models, models - self.n_models
        if more < 0:
            raise BadOption(
                f"the state has {m} models and cannot be reduced to {models}; models are never removed"
            )
        settled = np.pad(self.settled, (0, more))
        settled[range(m, models), range(m, models)] = self.prior_variance
        return replace(
            self,
            mean=np.pad(self.mean, (0, more)),
            settled=settled,
            held=np.pad(self.held, ((0, 0), (0, more))),
            points=np.pad(self.points, (0, more)),
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values that JSON preserves exactly. Most of the size is covariance and points: M² numbers each."""
        rows = range(self.n_models)
        return {
            "mean": self.mean.tolist(),
            "upper": [self.settled[k, k:].tolist() for k in rows],
            "held": self.held[: self.n_held].tolist(),
            "points": self.points.tolist(),
            "votes": self.votes,
            "since_fit": self.since_fit,
            "prior_variance": self.prior_variance,
            "base": self.base,
            "unit": self.unit,
        }

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> OnlineState:
        m, n_held = len(saved["mean"]), len(saved["held"])
        settled, held = np.zeros((m, m)), np.zeros((PENDING_ROWS, m))
        for k, row in enumerate(saved["upper"]):
            settled[k, k:] = settled[k:, k] = row
        held[:n_held] = np.reshape(saved["held"], (n_held, m))
        return cls(
            mean=np.array(saved["mean"], dtype=np.float64),
            settled=settled,
            held=held,
            n_held=n_held,
            points=np.array(saved["points"], dtype=np.float64).reshape(m, m),
            votes=int(saved["votes"]),
            since_fit=int(saved["since_fit"]),
            prior_variance=float(saved["prior_variance"]),
            base=float(saved["base"]),
            unit=float(saved["unit"]),
        )


@dataclass(frozen=True, slots=True)
class OnlineBradleyTerry:
    """Strengths and their covariance after every vote, in log order.

    Ties are half wins, both_bad rates nobody, every vote counts one whatever its weight. The
    standard deviations are those of the model: they ignore prompts, and are meant for choosing
    matchups, not for publishing.
    """

    #: In points. As wide as Glicko-2's initial RD: such a prior weighs about as much as one vote, so
    #: it stabilises new models without shrinking the others.
    prior_sd: float = 350.0
    #: Rating votes per model after which the state is refitted from the sums; ``None``: never.
    refit_after: int | None = 5
    ties: Literal["half", "drop"] = "half"
    lean: float = 0.75
    inconsistent: float | None = 0.5
    base: float = 1500.0
    scale: float = 400.0

    def __post_init__(self) -> None:
        if not (self.prior_sd > 0.0 and self.scale > 0.0):
            raise BadOption(f"prior_sd is {self.prior_sd}, scale {self.scale}; both must be above 0")
        if self.refit_after is not None and self.refit_after < 1:
            raise BadOption(
                f"refit_after is {self.refit_after}; expected 1 vote for each model or more, or None"
            )
        self._scores()

    @property
    def name(self) -> str:
        return "online-bradley-terry"

    def initial(self, models: int) -> OnlineState:
        """The state of this many models before any vote."""
        unit = self.scale / LN_10
        prior_variance = (self.prior_sd / unit) * (self.prior_sd / unit)
        return OnlineState(
            mean=np.zeros(models),
            settled=np.eye(models) * prior_variance,
            held=np.zeros((PENDING_ROWS, models)),
            n_held=0,
            points=np.zeros((models, models)),
            votes=0,
            since_fit=0,
            prior_variance=prior_variance,
            base=self.base,
            unit=unit,
        )

    def fold(self, state: OnlineState, a: int, b: int, kind: Kind | int) -> None:
        """Fold one vote into the state, in place."""
        _check_known(state, min(a, b), max(a, b))
        self._fold_score(state, a, b, self._scores()[kind])

    def fold_many(self, state: OnlineState, votes: CodedBattles) -> None:
        """Fold votes into the state, in place and in order: bit for bit the same as one by one."""
        if not len(votes):
            return
        models = np.concatenate((votes.a, votes.b))
        _check_known(state, int(models.min()), int(models.max()))
        score = np.asarray(self._scores())[votes.kind]
        for a, b, y in zip(votes.a.tolist(), votes.b.tolist(), score.tolist(), strict=True):
            self._fold_score(state, a, b, y)

    def _fold_score(self, state: OnlineState, a: int, b: int, y: float) -> None:
        """Fold one vote with score ``y`` for a; NaN and a model against itself rate nobody."""
        state.votes += 1
        if math.isnan(y) or a == b:
            return
        # μ += s(y − p) and Σ −= s sᵀ·h/(1 + hv), with p = σ(gap) and h = p(1 − p) at the gap's new mode.
        mean, held = state.mean, state.held[: state.n_held]
        s = state.settled[a] - state.settled[b]
        s -= weighted_sum(held[:, a] - held[:, b], held)
        v = float(s[a] - s[b])
        p = logistic(_mode(float(mean[a] - mean[b]), v, y))
        h = p * (1.0 - p)
        mean += s * (y - p)
        np.multiply(s, math.sqrt(h / (1.0 + h * v)), out=state.held[state.n_held])
        state.n_held += 1
        state.points[a, b] += y
        state.points[b, a] += 1.0 - y
        state.since_fit += 1
        if self.refit_after is not None and state.since_fit >= self.refit_after * state.n_models:
            _refit(state)
        elif state.n_held == len(state.held):
            _settle(state)

    def _scores(self) -> tuple[float, ...]:
        return _scores(self.ties, self.lean, self.inconsistent)


@cache
def _scores(ties: Literal["half", "drop"], lean: float, inconsistent: float | None) -> tuple[float, ...]:
    """A's score for each `Kind`, as a lookup table."""
    return tuple(Scoring(ties, lean, inconsistent).by_kind().tolist())


def _mode(m: float, v: float, y: float) -> float:
    """The most likely gap after a vote with score y, if it was normal (m, v) before: x = m + v(y − σ(x)).

    Newton's method inside a bracket: the root lies between m and the end of a step with σ(m).
    """
    x, end = m, m + v * (y - logistic(m))
    low, high = min(m, end), max(m, end)
    for _ in range(100):  # pragma: no branch (halving alone needs fewer)
        p = logistic(x)
        f = x - m - v * (y - p)
        if f < 0.0:
            low = x
        else:
            high = x
        step = f / (1.0 + v * p * (1.0 - p))
        if not low <= x - step <= high:
            step = x - 0.5 * (low + high)
        x -= step
        if abs(step) < _LAST_STEP_LOGITS:
            break
    return x


def _settle(state: OnlineState) -> None:
    subtract_products(state.settled, state.held[: state.n_held])
    state.n_held = 0


def _refit(state: OnlineState) -> None:
    """The posterior mode and the inverse of its information, from the sums by pair."""
    _settle(state)
    state.mean, state.settled = refit(state.points, state.prior_variance, state.mean, state.settled)
    state.since_fit = 0


def _sum_squares(rows: Floats) -> Floats:
    return sum_rows(rows * rows) if len(rows) else np.zeros(rows.shape[1:])


def _check_known(state: OnlineState, first: int, last: int) -> None:
    if first < 0 or last >= state.n_models:
        raise BadOption(
            f"a vote refers to model {first if first < 0 else last}, but the state has {state.n_models} models, "
            "numbered from 0; widen it before new models play"
        )


def refit(points: Floats, prior_variance: float, start: Floats, covariance: Floats) -> tuple[Floats, Floats]:
    """Mean and covariance of all strengths, in logits: the posterior mode and the inverse of its information.

    ``points`` are total scores of the row model against the column model. From ``start``, Newton's method goes on
    with the given ``covariance`` as long as steps shrink, which they do if it is that of the filter. The mode is that of
    `newton.fit_pairs` with a prior, which uses LAPACK and is for boards: published numbers are rounded, folded state is
    not.
    """
    pairs = pairs_from_points(points)
    x, last, slope, step = start, np.inf, 0.0, np.zeros_like(start)
    for _ in range(_REFIT_STEP_LIMIT):  # pragma: no branch (Newton's method needs about six)
        # Points less expected points, less the pull of the prior.
        residual = pairs.score - pairs.weight * logistic_each(x[pairs.i] - x[pairs.j])
        m = pairs.n_models
        gradient = (
            sum_by_index(pairs.i, residual, m) - sum_by_index(pairs.j, residual, m) - x / prior_variance
        )
        if _dot(gradient, step) < -slope:
            # The step went so far that the slope along it changed its sign. The next one has a new covariance.
            step, slope, last = step / 2.0, slope / 2.0, 0.0
            x = x - step
            continue
        step = weighted_sum(gradient, covariance)
        size = float(np.abs(step).max(initial=0.0))
        if size > _SHRINKING_RATIO * last:
            covariance, last = _covariance(pairs, prior_variance, x), np.inf
            step = weighted_sum(gradient, covariance)
            size = float(np.abs(step).max(initial=0.0))
        x, slope = x + step, _dot(gradient, step)
        if size < _LAST_REFIT_STEP_LOGITS:
            break
        last = size
    # Every gain sums to nought: what is left of the sum is rounding.
    x = x - float(sum_rows(x.copy())) / len(x)
    return x, _covariance(pairs, prior_variance, x)


def _covariance(pairs: PairScores, prior_variance: float, x: Floats) -> Floats:
    """The inverse of the information at x."""
    p = logistic_each(x[pairs.i] - x[pairs.j])
    w = pairs.weight * (p * (1.0 - p))
    m = pairs.n_models
    information = np.zeros((m, m))
    information[pairs.i, pairs.j] = information[pairs.j, pairs.i] = -w
    information[range(m), range(m)] = (
        sum_by_index(pairs.i, w, m) + sum_by_index(pairs.j, w, m) + 1.0 / prior_variance
    )
    return invert(information)


def _dot(one: Floats, other: Floats) -> float:
    return float(sum_rows(one * other))
