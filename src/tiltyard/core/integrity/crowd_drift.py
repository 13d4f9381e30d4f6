"""Whether the votes on a model change over time, although its answers cannot.

Stored answers do not change, so that a model's results change only if the voters do. For every vote the result of
both models is compared with what the ratings before it say. From each of many starting points the sum of these
residuals is tested against chance, in all votes and in groups of them. Letters: S is the sum of weighted residuals
of a model in a group of votes, A how much S grows for each logit by which its results shift, V the variance of S.

Votes of one session share its taste (normal, ``voter_sd``), so that each further vote of a session on the same model
weighs less: the weight of a vote after information I is 1/(1 + σ²I), for which A = ln(1 + σ²I)/σ² and
V = I/(1 + σ²I) + σ²A² for each session. No session adds more than 2.5·√V to S: one voter with a strong taste is no
change of the crowd.

The evidence of a start is a ratio of two mixtures: a shift of ``change_sd`` against one so small that it is none
(``tolerance_sd``, and what the rating itself may be wrong by). It has an expectation of at most 1 if nothing
changed; mixed over starts, models and groups of votes it remains so, and by Ville's inequality it ever reaches 1/α
with probability α at most, for each span of ``span_votes``. The normal distribution of S is an approximation; false
alarms are measured in docs/evidence/arenas.md.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tiltyard.core.ratings.newton import fit_pairs
from tiltyard.core.ratings.pairs import pairs_from_points

__all__ = ["CrowdDrift", "DriftSettings", "DriftSign", "WatchedVotes"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

#: What one session adds to S, in units of √V.
_SESSION_DEVIATION_LIMIT = 2.5
#: Below this, a variance is none.
_VARIANCE_TOLERANCE = 1e-12
#: Before any vote a group is as sharp as all votes are, with the weight of about 30 votes.
_SHARPNESS_PRIOR_WEIGHT = 2.0


@dataclass(frozen=True, slots=True)
class DriftSettings:
    """How the test is made. The defaults are measured; change them only before an arena's first vote."""

    #: The probability of any false alarm in a span of so many votes.
    level: float = 0.05
    span_votes: int = 100_000
    #: Votes between two starting points.
    start_votes: int = 250
    #: Sessions that have not voted on a model for so many votes begin anew with it, which bounds the memory.
    remembered_votes: int = 50_000
    #: In logits: shifts to be found, shifts that are none, and how far voters differ about a model.
    change_sd: float = 1.0
    tolerance_sd: float = 0.2
    voter_sd: float = 0.8
    #: In logits: how far a group of votes may differ from all votes about a model, which is no change.
    group_sd: float = 0.3
    #: In logits: the prior of strengths.
    strength_sd: float = 2.0

    @property
    def starts(self) -> int:
        """How many starting points are kept."""
        return max(self.span_votes // self.start_votes, 1)


@dataclass(frozen=True, slots=True, eq=False)
class WatchedVotes:
    """Votes that rate somebody, in the order of the log."""

    a: Ints
    b: Ints
    #: A's result: 1 won, ½ tied, 0 lost.
    score: Floats
    session: Ints
    #: Votes by groups: whether a vote belongs to a group. Every vote belongs to the first.
    groups: Flags
    #: Whether the vote counts on the official board, so that ratings learn from it.
    counted: Flags

    def __len__(self) -> int:
        return len(self.a)

    def __getitem__(self, rows: slice) -> WatchedVotes:
        return WatchedVotes(
            self.a[rows],
            self.b[rows],
            self.score[rows],
            self.session[rows],
            self.groups[rows],
            self.counted[rows],
        )


@dataclass(frozen=True, slots=True)
class DriftSign:
    """A model whose results shifted in a group of votes by more than chance explains."""

    model: int
    group: int
    #: The shift in logits that fits best, since how many watched votes, and the natural logarithm of the evidence.
    shift: float
    since_votes: int
    log_evidence: float


@dataclass(slots=True, eq=False)
class _Sums:
    """S, A and V, each by group and model."""

    residual: Floats
    slope: Floats
    variance: Floats

    @classmethod
    def empty(cls, groups: int, models: int) -> _Sums:
        return cls(*(np.zeros((groups, models)) for _ in range(3)))

    def add(self, group: int, models: Ints, steps: tuple[Floats, Floats, Floats]) -> None:
        """Add the steps of S, A and V by votes of one group."""
        for sums, step in zip((self.residual, self.slope, self.variance), steps, strict=True):
            sums[group] += np.bincount(models, step, sums.shape[1])

    def copy(self) -> _Sums:
        return _Sums(self.residual.copy(), self.slope.copy(), self.variance.copy())

    def widened(self, models: int) -> _Sums:
        more = ((0, 0), (0, models - self.residual.shape[1]))
        return _Sums(*(np.pad(each, more) for each in (self.residual, self.slope, self.variance)))


@dataclass(slots=True, eq=False)
class _Start:
    """The sums at a starting point, and how wrong the ratings could be then."""

    votes: int
    sums: _Sums
    #: The variance of each strength, and of each group's offset, in logits², by group and model.
    variance: Floats


class CrowdDrift:
    """Watches the votes of one arena. Feed it all votes in order, in pieces of any size."""

    def __init__(self, models: int, groups: int, settings: DriftSettings | None = None) -> None:
        self.settings = DriftSettings() if settings is None else settings
        self.votes = 0
        self._groups = groups
        self._points = np.zeros((models, models))
        self._theta = np.zeros(models)
        self._variance = np.full(models, self.settings.strength_sd**2)
        self._sums = _Sums.empty(groups, models)
        #: The same of the votes that count, before the offsets below are taken off: from these they are learnt.
        self._learnt = _Sums.empty(groups, models)
        self._offset = np.zeros((groups, models))
        #: How far the results of a group follow what is expected of all votes, and the products from which it follows.
        self._sharpness = np.ones(groups)
        self._products = np.full((2, groups), _SHARPNESS_PRIOR_WEIGHT)
        self._ties = 0
        self._decisive = 1.0
        self._starts: deque[_Start] = deque(maxlen=self.settings.starts)
        #: The information in the votes of a session on a model, and their part of S: lately, and before that.
        self._lately: dict[tuple[int, int], tuple[float, float]] = {}
        self._before: dict[tuple[int, int], tuple[float, float]] = {}

    @property
    def models(self) -> int:
        return len(self._theta)

    @property
    def threshold(self) -> float:
        """The log of the evidence, of one start, model and group, at which there is an alarm."""
        family = self.models * self._groups * self.settings.starts
        return math.log(max(family, 1) / self.settings.level)

    def widen(self, models: int) -> None:
        """Watch more models from here on."""
        more = models - self.models
        self._points = np.pad(self._points, (0, more))
        self._theta = np.pad(self._theta, (0, more))
        self._variance = np.pad(self._variance, (0, more), constant_values=self.settings.strength_sd**2)
        self._sums, self._learnt = self._sums.widened(models), self._learnt.widened(models)
        self._offset = np.pad(self._offset, ((0, 0), (0, more)))
        for start in self._starts:
            start.sums = start.sums.widened(models)
            start.variance = np.pad(
                start.variance, ((0, 0), (0, more)), constant_values=self.settings.strength_sd**2
            )

    def watch(self, votes: WatchedVotes) -> None:
        """Add votes."""
        while len(votes):
            if self.votes % self.settings.start_votes == 0 or not self._starts:
                self._begin()
            room = self.settings.start_votes - self.votes % self.settings.start_votes
            self._add(votes[:room])
            votes = votes[room:]

    def count(self, a: int, b: int, score: float) -> None:
        """A vote that was watched when it was cast counts from now on: ratings learn from it."""
        self._points[a, b] += score
        self._points[b, a] += 1.0 - score

    def forget_evidence(self) -> None:
        """Begin anew from here: what was seen is explained. Ratings and what groups are like stay known."""
        self._starts.clear()

    def signs(self) -> list[DriftSign]:
        """Models and groups whose evidence has reached the threshold now, the strongest first."""
        if not self._starts:
            return []
        evidence, shift = self._evidence()
        best = evidence.argmax(axis=0)
        found = [
            DriftSign(
                model=int(m),
                group=int(g),
                shift=float(shift[best[g, m], g, m]),
                since_votes=self.votes - self._starts[int(best[g, m])].votes,
                log_evidence=float(evidence[best[g, m], g, m]),
            )
            for g, m in np.argwhere(evidence.max(axis=0) >= self.threshold)
        ]
        return sorted(found, key=lambda sign: -sign.log_evidence)

    def _evidence(self) -> tuple[Floats, Floats]:
        """The log of the evidence and the shift, by start, group and model."""
        s, a, v = (
            getattr(self._sums, name) - np.stack([getattr(start.sums, name) for start in self._starts])
            for name in ("residual", "slope", "variance")
        )
        v = np.maximum(v, _VARIANCE_TOLERANCE)
        information = a * a / v
        none = self.settings.tolerance_sd**2 + np.stack([start.variance for start in self._starts])
        some = none + self.settings.change_sd**2
        x, y = some * information, none * information
        log_evidence = 0.5 * (np.log1p(y) - np.log1p(x)) + 0.5 * (s * s / v) * (x / (1.0 + x) - y / (1.0 + y))
        return log_evidence, s * a / v / (information + 1.0 / some)

    def _begin(self) -> None:
        """Make a starting point; what is expected of the votes after it is fixed by those before it."""
        self._rate()
        variance = self._set_offsets()
        self._decisive = 1.0 - (self._ties + 1.0) / (self.votes + 10.0)
        self._sharpness = self._products[0] / self._products[1]
        if self.votes % self.settings.remembered_votes == 0:
            self._before, self._lately = self._lately, {}
        self._starts.append(_Start(self.votes, self._sums.copy(), variance + self._variance))

    def _rate(self) -> None:
        """Fit the strengths to the votes that count so far."""
        fit = fit_pairs(
            pairs_from_points(self._points),
            prior_precision=1.0 / self.settings.strength_sd**2,
            start=self._theta,
        )
        assert fit.bread is not None
        self._theta, self._variance = fit.theta, np.diagonal(fit.bread).copy()

    def _set_offsets(self) -> Floats:
        """Learn how each group differs from all votes about each model; return the variance of that, in logits²."""
        known = self._learnt.slope**2 / np.maximum(self._learnt.variance, _VARIANCE_TOLERANCE)
        prior = 1.0 / self.settings.group_sd**2
        per_slope = self._learnt.slope / np.maximum(self._learnt.variance, _VARIANCE_TOLERANCE)
        self._offset = self._learnt.residual * per_slope / (known + prior)
        variance = 1.0 / (known + prior)
        # All votes are what ratings are fitted to.
        self._offset[0], variance[0] = 0.0, 0.0
        return np.asarray(variance, dtype=np.float64)

    def _add(self, votes: WatchedVotes) -> None:
        """Add votes on which the same ratings are an opinion."""
        gap = self._theta[votes.a] - self._theta[votes.b]
        expected = 1.0 / (1.0 + np.exp(-gap))
        information = expected * (1.0 - expected) * self._decisive
        rated = votes.counted
        for models, score, own in (
            (votes.a, votes.score, expected),
            (votes.b, 1.0 - votes.score, 1.0 - expected),
        ):
            plain = score - 0.5 - self._sharpness[0] * (own - 0.5)
            steps = self._session_steps(votes.session, models, information, plain)
            weight = steps.slope / information
            for group in range(self._groups):
                inside = votes.groups[:, group]
                of, counts = models[inside], rated[inside]
                sharper = weight * (self._sharpness[0] - self._sharpness[group]) * (own - 0.5)
                residual = (steps.residual + sharper)[inside]
                grows, varies = steps.slope[inside], steps.variance[inside]
                self._learnt.add(group, of[counts], (residual[counts], grows[counts], varies[counts]))
                self._sums.add(group, of, (residual - self._offset[group, of] * grows, grows, varies))
        above, counts = expected - 0.5, votes.groups & rated[:, None]
        self._products += np.stack([((votes.score - 0.5) * above) @ counts, (above * above) @ counts])
        np.add.at(self._points, (votes.a[rated], votes.b[rated]), votes.score[rated])
        np.add.at(self._points, (votes.b[rated], votes.a[rated]), 1.0 - votes.score[rated])
        self._ties += int((votes.score == 0.5).sum())
        self.votes += len(votes)

    def _session_steps(self, sessions: Ints, models: Ints, information: Floats, residual: Floats) -> _Sums:
        """By how much each vote changes S, A and V of its model, given what its session said of it before."""
        taste = self.settings.voter_sd**2
        steps = _Sums(*(np.empty(len(sessions)) for _ in range(3)))
        rows = zip(sessions.tolist(), models.tolist(), information.tolist(), residual.tolist(), strict=True)
        for k, (session, model, more, unexpected) in enumerate(rows):
            before, sum_before = self._lately.get((session, model)) or self._before.get(
                (session, model), (0.0, 0.0)
            )
            a0, v0 = _slope_and_variance(before, taste)
            a1, v1 = _slope_and_variance(before + more, taste)
            sum_after = sum_before + unexpected * (a1 - a0) / more
            self._lately[session, model] = before + more, sum_after
            steps.slope[k], steps.variance[k] = a1 - a0, v1 - v0
            steps.residual[k] = _limited(sum_after, v1) - _limited(sum_before, v0)
        return steps


def _slope_and_variance(information: float, taste: float) -> tuple[float, float]:
    """A and V of a session with so much information on a model."""
    slope = math.log1p(taste * information) / taste
    return slope, information / (1.0 + taste * information) + taste * slope * slope


def _limited(total: float, variance: float) -> float:
    limit = _SESSION_DEVIATION_LIMIT * math.sqrt(variance)
    return max(-limit, min(total, limit))
