"""Whether the votes on a model change over time, more than its answers do.

Stored answers do not change, so that a model's results change only if the voters do; live ones change slowly, and their
ratings forget. For every vote the result of
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
from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np

from tiltyard.core.integrity.vote_groups import RecentTable
from tiltyard.core.ratings.newton import NewtonFit, fit_pairs
from tiltyard.core.ratings.pairs import pairs_from_points
from tiltyard.foundation.arrays import Array, Bools, Floats, Ints

#: What one session adds to S, in units of √V.
_SESSION_DEVIATION_LIMIT = 2.5
#: Below this, a variance is none.
_VARIANCE_TOLERANCE = 1e-12
#: Before any vote a group is as sharp as all votes are, with the weight of about 30 votes.
_SHARPNESS_PRIOR_WEIGHT = 2.0
#: The newest starting points, all of which are kept: so many for few models, fewer for many.
_NEWEST_START_COUNT = 32
_NEWEST_START_MODEL_COUNT = 3_200
#: Spreads the numbers of sessions, so that those of their models differ too.
_KEY_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_KEY_MASK = np.uint64(2**63 - 1)


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
    #: How much of what ratings have learnt is kept from one starting point to the next.
    kept_share: float = 1.0

    @property
    def starts(self) -> int:
        """How many starting points a span has."""
        return max(self.span_votes // self.start_votes, 1)


#: Where answers are written for each vote: half of what ratings know is forgotten within 1,650 votes.
LIVE_DRIFT = DriftSettings(tolerance_sd=0.3, kept_share=0.9)


@dataclass(frozen=True, slots=True, eq=False)
class WatchedVotes:
    """Votes that rate somebody, in the order of the log."""

    a: Ints
    b: Ints
    #: A's result: 1 won, ½ tied, 0 lost.
    score: Floats
    session: Ints
    #: Votes by groups: whether a vote belongs to a group. Every vote belongs to the first.
    groups: Bools
    #: Whether the vote counts on the official board, so that ratings learn from it.
    counted: Bools

    def __len__(self) -> int:
        return len(self.a)

    def __getitem__(self, rows: slice | Bools) -> WatchedVotes:
        return WatchedVotes(*(getattr(self, field.name)[rows] for field in fields(self)))


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
class _Start:
    """The sums at a starting point, and how wrong the ratings could be then."""

    votes: int
    #: S, A and V by group and model.
    sums: Floats
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
        #: S, A and V, each by group and model.
        self._sums = np.zeros((3, groups, models))
        #: The same of the votes that count, before the offsets below are taken off: from these they are learnt.
        self._learnt = np.zeros((3, groups, models))
        self._offset = np.zeros((groups, models))
        #: How far the results of a group follow what is expected of all votes, and the products from which it follows.
        self._sharpness = np.ones(groups)
        self._products = np.full((2, groups), _SHARPNESS_PRIOR_WEIGHT)
        self._ties = 0
        self._decisive = 1.0
        self._starts: list[_Start] = []
        #: The information in the votes of a session on a model, and their part of S.
        self._sessions = RecentTable()

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
        self._sums = np.pad(self._sums, ((0, 0), (0, 0), (0, more)))
        self._learnt = np.pad(self._learnt, ((0, 0), (0, 0), (0, more)))
        self._offset = np.pad(self._offset, ((0, 0), (0, more)))
        for start in self._starts:
            start.sums = np.pad(start.sums, ((0, 0), (0, 0), (0, more)))
            start.variance = np.pad(
                start.variance, ((0, 0), (0, more)), constant_values=self.settings.strength_sd**2
            )

    def watch(self, votes: WatchedVotes) -> None:
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
        s, a, v = np.stack([self._sums - start.sums for start in self._starts], axis=1)
        v = np.maximum(v, _VARIANCE_TOLERANCE)
        # The evidence is at most S²/2V, which most starting points are far below.
        near = np.nonzero(s * s >= 2.0 * self.threshold * v)
        variance = np.array([self._starts[start].variance[g, m] for start, g, m in zip(*near, strict=True)])
        evidence, shift = self._evidence(s[near], a[near], v[near], variance)
        best: dict[tuple[int, int], DriftSign] = {}
        for start, g, m, log_evidence, by in zip(
            *(column.tolist() for column in (*near, evidence, shift)), strict=True
        ):
            known = best.get((g, m))
            if log_evidence >= self.threshold and (known is None or log_evidence > known.log_evidence):
                best[g, m] = DriftSign(m, g, by, self.votes - self._starts[start].votes, log_evidence)
        return sorted(best.values(), key=lambda sign: -sign.log_evidence)

    def movers(self, sign: DriftSign, span: WatchedVotes) -> Ints:
        """The sessions that made a shift, those that did most first: the fewest without whose votes it is gone.

        ``span`` are the latest votes, since where the sign was found. They are compared with ratings without them, so that
        no rating falls below what it was by the loss of these sessions.
        """
        rated = span[span.counted]
        points = self._points.copy()
        np.subtract.at(points, (rated.a, rated.b), rated.score)
        np.subtract.at(points, (rated.b, rated.a), 1.0 - rated.score)
        # What was forgotten meanwhile cannot be taken off.
        theta = self._fit(np.maximum(points, 0.0)).theta
        votes = span[span.groups[:, sign.group] & ((span.a == sign.model) | (span.b == sign.model))]
        expected = 1.0 / (1.0 + np.exp(theta[votes.b] - theta[votes.a]))
        direction = np.where(votes.a == sign.model, 1.0, -1.0) * math.copysign(1.0, sign.shift)
        sessions, places = np.unique(votes.session, return_inverse=True)
        moved = np.bincount(places, direction * (votes.score - expected))
        shift = abs(sign.shift) * float(expected @ (1.0 - expected)) * self._decisive
        order = np.argsort(-moved, kind="stable")[: int((moved > 0.0).sum())]
        enough = np.searchsorted(moved[order].cumsum(), min(shift, float(moved.sum())))
        return sessions[order[: enough + 1]]

    def _evidence(self, s: Floats, a: Floats, v: Floats, variance: Floats) -> tuple[Floats, Floats]:
        """The log of the evidence, and the shift; ``variance`` of what ratings may be wrong by."""
        information = a * a / v
        none = self.settings.tolerance_sd**2 + variance
        some = none + self.settings.change_sd**2
        x, y = some * information, none * information
        log_evidence = 0.5 * (np.log1p(y) - np.log1p(x)) + 0.5 * (s * s / v) * (x / (1.0 + x) - y / (1.0 + y))
        return log_evidence, s * a / v / (information + 1.0 / some)

    def _begin(self) -> None:
        """Make a starting point; what is expected of the votes after it is fixed by those before it."""
        self._points *= self.settings.kept_share
        self._rate()
        variance = self._set_offsets()
        self._decisive = 1.0 - (self._ties + 1.0) / (self.votes + 10.0)
        self._sharpness = self._products[0] / self._products[1]
        if self.votes % self.settings.remembered_votes == 0:
            self._sessions.age()
        self._starts.append(_Start(self.votes, self._sums.copy(), variance + self._variance))
        self._starts = [start for start in self._starts if self._is_kept(start)]

    def _is_kept(self, start: _Start) -> bool:
        """Whether a starting point is still needed: all of the newest are, then every second, every fourth and so on.

        A change that began long ago is as visible from a little earlier.
        """
        number, newest = (votes // self.settings.start_votes for votes in (start.votes, self.votes))
        whole = max(min(_NEWEST_START_COUNT, _NEWEST_START_MODEL_COUNT // max(self.models, 1)), 2)
        every, reach = 1, whole
        while newest - number >= reach:
            every *= 2
            reach += whole * every
        return newest - number < self.settings.starts and number % every == 0

    def _rate(self) -> None:
        fit = self._fit(self._points)
        assert fit.bread is not None
        self._theta, self._variance = fit.theta, np.diagonal(fit.bread).copy()

    def _fit(self, points: Floats) -> NewtonFit:
        precision = 1.0 / self.settings.strength_sd**2
        return fit_pairs(pairs_from_points(points), prior_precision=precision, start=self._theta)

    def _set_offsets(self) -> Floats:
        """Learn how each group differs from all votes about each model; return the variance of that, in logits²."""
        residual, slope, spread = self._learnt
        known = slope**2 / np.maximum(spread, _VARIANCE_TOLERANCE)
        prior = 1.0 / self.settings.group_sd**2
        per_slope = slope / np.maximum(spread, _VARIANCE_TOLERANCE)
        self._offset = residual * per_slope / (known + prior)
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
        rows, groups = np.nonzero(votes.groups)
        counts = votes.counted[rows]
        for models, score, own in (
            (votes.a, votes.score, expected),
            (votes.b, 1.0 - votes.score, 1.0 - expected),
        ):
            plain = score - 0.5 - self._sharpness[0] * (own - 0.5)
            steps, slopes, variances = self._session_steps(votes.session, models, information, plain)
            weight = slopes / information
            sharper = (weight * (own - 0.5))[rows] * (self._sharpness[0] - self._sharpness[groups])
            residual, cells = steps[rows] + sharper, groups * self.models + models[rows]
            grows, varies = slopes[rows], variances[rows]
            _add(self._learnt, cells[counts], (residual[counts], grows[counts], varies[counts]))
            _add(self._sums, cells, (residual - self._offset.ravel()[cells] * grows, grows, varies))
        above, members = expected - 0.5, votes.groups & rated[:, None]
        self._products += np.stack([((votes.score - 0.5) * above) @ members, (above * above) @ members])
        np.add.at(self._points, (votes.a[rated], votes.b[rated]), votes.score[rated])
        np.add.at(self._points, (votes.b[rated], votes.a[rated]), 1.0 - votes.score[rated])
        self._ties += int((votes.score == 0.5).sum())
        self.votes += len(votes)

    def _session_steps(self, sessions: Ints, models: Ints, information: Floats, residual: Floats) -> Floats:
        """By how much each vote changes S, A and V of its model, given what its session said of it before."""
        taste = self.settings.voter_sd**2
        steps = np.empty((3, len(sessions)))
        keys = (sessions.astype(np.uint64) * _KEY_FACTOR + models.astype(np.uint64)) & _KEY_MASK
        rows = zip(keys.tolist(), information.tolist(), residual.tolist(), strict=True)
        for k, (key, more, unexpected) in enumerate(rows):
            before, sum_before = self._sessions.get(key)
            a0, v0 = _slope_and_variance(before, taste)
            a1, v1 = _slope_and_variance(before + more, taste)
            sum_after = sum_before + unexpected * (a1 - a0) / more
            self._sessions.put(key, (before + more, sum_after))
            steps[:, k] = _limited(sum_after, v1) - _limited(sum_before, v0), a1 - a0, v1 - v0
        return steps

    def saved(self) -> dict[str, Array]:
        """Everything, as arrays: what is restored from them goes on as if it had never stopped."""
        shape = (len(self._starts), self._groups, self.models)
        return {
            "counts": np.array([self.votes, self._ties, self._groups], dtype=np.int64),
            "points": self._points,
            "theta": self._theta,
            "variance": self._variance,
            "sums": self._sums.copy(),
            "learnt": self._learnt.copy(),
            "offset": self._offset,
            "sharpness": self._sharpness,
            "products": self._products,
            "decisive": np.array([self._decisive]),
            "start_votes": np.array([start.votes for start in self._starts], dtype=np.int64),
            "start_sums": np.array([start.sums for start in self._starts]).reshape(shape[0], 3, *shape[1:]),
            "start_variance": np.array([start.variance for start in self._starts]).reshape(shape),
            **{f"session_{name}": array for name, array in self._sessions.saved().items()},
        }

    @classmethod
    def restored(cls, saved: Mapping[str, Array], settings: DriftSettings | None = None) -> CrowdDrift:
        """What `saved` returned, under the same settings."""
        votes, ties, groups = saved["counts"].tolist()
        drift = cls(len(saved["theta"]), groups, settings)
        drift.votes, drift._ties = votes, ties
        drift._points, drift._products = saved["points"].copy(), saved["products"].copy()
        drift._theta, drift._variance = saved["theta"], saved["variance"]
        drift._sums, drift._learnt = saved["sums"].copy(), saved["learnt"].copy()
        drift._offset, drift._sharpness = saved["offset"], saved["sharpness"]
        drift._decisive = float(saved["decisive"][0])
        columns = zip(
            saved["start_votes"].tolist(), saved["start_sums"], saved["start_variance"], strict=True
        )
        drift._starts = [_Start(*column) for column in columns]
        prefix = "session_"
        drift._sessions = RecentTable.restored(
            {name.removeprefix(prefix): array for name, array in saved.items() if name.startswith(prefix)}
        )
        return drift


def _add(sums: Floats, cells: Ints, steps: tuple[Floats, Floats, Floats]) -> None:
    """Add the steps of S, A and V at these places, counted through groups and models."""
    sums += np.stack([np.bincount(cells, step, sums[0].size) for step in steps]).reshape(sums.shape)


def _slope_and_variance(information: float, taste: float) -> tuple[float, float]:
    """A and V of a session with so much information on a model."""
    slope = math.log1p(taste * information) / taste
    return slope, information / (1.0 + taste * information) + taste * slope * slope


def _limited(total: float, variance: float) -> float:
    limit = _SESSION_DEVIATION_LIMIT * math.sqrt(variance)
    return max(-limit, min(total, limit))
