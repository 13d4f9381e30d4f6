"""Order proven: which of two models is better, said so that it may be looked at after every vote.

An interval of fixed size, looked at again and again, ends up excluding whatever is true. The marks
here come from a mixture: a process that stays below 1/α for ever, with probability 1 − α, while
neither model is better. A pair is judged by its direct votes alone, counted by prompt.

There are two marks. *These prompts* says who is better on the prompts of the arena. *Prompts like
these* says who is better on the population they were drawn from, where prompts are the sample and
votes on one prompt are not independent of each other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tiltyard.core.policy.validity.mixture_martingale import MixtureMartingale
from tiltyard.core.policy.validity.order_marks import LIKE_THESE, THESE, OrderMarks, PairVotes, Scope
from tiltyard.core.ratings.index_sums import sum_by_index
from tiltyard.errors import BadOption

__all__ = ["OrderTest"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

#: Cells that are summed at once: temporary columns stay in the cache.
_BLOCK_CELLS = 1 << 18
#: Where a pair has no mark and this many times its votes would not give one, no number is named.
_FORECAST_VOTES_RATIO = 1e4
_BISECTION_ITERATIONS = 24
#: Prompts may explain no more than four fifths of a vote's variance.
_MIN_VARIANCE_SHARE = 0.2


@dataclass(frozen=True, slots=True, eq=False)
class _Sums:
    """Sums over the cells of each pair. ω weighs a vote, h = ω·n a prompt, g = ω·(wins − losses)."""

    votes: Floats
    rated: Floats
    decisive: Floats
    prompts: Floats
    g: Floats
    h: Floats
    gg: Floats
    gh: Floats
    hh: Floats
    #: Σω²·decisive, Σω²n, Σω⁴n(n−1).
    single: Floats
    own: Floats
    fourth: Floats


@dataclass(frozen=True, slots=True, eq=False)
class _Statistic:
    """An estimate with the variance that its scope asks for, pair by pair.

    ``within`` falls as votes are added on the same prompts, ``between`` only with more prompts.
    """

    estimate: Floats
    within: Floats
    between: Floats
    #: Second moment of a rated vote: the share of decisive ones.
    moment: Floats
    #: Degrees of freedom of the variance; ``None`` where votes are many and the normal will do.
    dof: Floats | None
    enough: Bools


@dataclass(frozen=True, slots=True)
class OrderTest:
    """The rule of the two marks.

    Of one pair, let n_p be its rated votes on prompt p and S_p its wins minus losses there.

    - **Weights.** The estimate is Σω_p S_p / Σω_p n_p with ω_p = 1/(1 + φ n_p): the weights of a
      random-effects model, where φ = ``between`` is the variance between prompts over that within
      one (about 0.1 for effects of half a logit, 0.3 for a whole one). A prompt with many votes
      counts little more than one with a few, so that a matchmaker that dwells on some prompts does
      not move the claim. Where votes are spread evenly the weights do not matter, and a wrong φ
      costs votes only. With the right one, the likelihood ratio of the model depends on the votes
      by this very sum, and is a martingale however prompts are chosen by looking back (for such
      estimates in information time: Jennison and Turnbull, JASA 92, 1997).
    - **These prompts.** The variance is Σω²·decisive, less what prompts explain of it (their spread
      is not chance if they are fixed), plus their spread for as much as the weights are uneven. The
      spread is estimated from products of two votes on one prompt and trusted by C/(C + ``steady``),
      where C is how many such products there are. At least a fifth of the variance stays.
    - **Prompts like these.** The variance is that between prompts, k/(k−1)·Σ(ωS_p − mωn_p)², and
      never below Σω²·decisive, because a few prompts may agree by luck. It has few degrees of
      freedom ν (k − 1 for even weights, fewer for uneven ones), hence heavy tails: t² enters as
      (ν+1)·ln(1 + t²/ν), which is what the likelihood of normal prompts of unknown variance makes
      of it (Lai, Ann. Statist. 4, 1976; Wang and Ramdas, "Anytime-valid t-tests and confidence
      sequences for Gaussian means with unknown variance", 2023).
    - **Time** runs with information: n is how many independent decisive votes would give the same
      variance. With estimated variances both sequences are asymptotic (Waudby-Smith, Arbour, Sinha,
      Kennedy and Ramdas, Ann. Statist. 52, 2024); that they hold from the first votes on is measured
      in the lab.
    - **Prompts met.** No mark is given below ``min_prompts`` prompts (or all there are, for these
      prompts): votes on one or two say nothing of the others, however many they are.

    All claims of one scope hold together with probability 1 − ``alpha``, over all pairs and for ever.
    Evidence is compared as in Holm's procedure: the largest with family/α, the next with
    (family − 1)/α, and so on to the first that falls short. For pairs that are equal that holds at all
    times at once: at the first false mark all m of them are unmarked, so one has reached m/α. A mark
    the wrong way round on a pair that has an order is outside Holm's proof, but rarer still (it has half of
    its pair's level, and the evidence runs against it); the lab counts both. Each interval is that of
    its pair's own level.

    A side's advantage cancels because sides are drawn evenly. The marks speak of direct votes: where
    strengths do not add up (i beats j, yet does worse against the others) a board may differ.
    """

    alpha: float = 0.05
    gap: float = 58.0
    spread: float = 20.0
    between: float = 0.15
    steady: float = 100.0
    min_prompts: int = 6

    def __post_init__(self) -> None:
        if not 0.0 < self.alpha < 1.0:
            raise BadOption(f"alpha is {self.alpha}; expected a number between 0 and 1")
        MixtureMartingale(self.gap, self.spread)
        if not (self.between >= 0.0 and self.steady >= 0.0 and self.min_prompts >= 2):
            raise BadOption("between and steady must be 0 or more, min_prompts 2 or more")

    def __call__(
        self, votes: PairVotes, scope: Scope, *, family: int, prompts: int | None = None
    ) -> OrderMarks:
        """The marks of these pairs.

        ``family`` is the number of pairs about which anything might be claimed: all of the arena's,
        m(m−1)/2, also those that are not given here. ``prompts`` is on how many a pair could meet;
        without it, those on which it did, and there is no end of others to vote on.
        """
        sums, found = self._found(votes, scope, prompts)
        evidence = self._evidence(found)
        level = self._levels(evidence, family)
        return self._marks(votes, scope, sums, found, level, evidence >= -np.log(level), prompts)

    def leaders(
        self,
        votes: PairVotes,
        scope: Scope,
        *,
        family: int,
        prompts: int | None = None,
        stepwise: bool = True,
    ) -> Ints:
        """The proven leader of each pair, −1 where there is none: the marks without their figures.

        Not ``stepwise``, each pair stands for itself at the level alpha/family.
        """
        found = self._found(votes, scope, prompts)[1]
        evidence = self._evidence(found)
        level = self._levels(evidence, family) if stepwise else np.full(len(votes), self.alpha / family)
        return np.where(evidence >= -np.log(level), _leader(votes, found), -1)

    @property
    def mixture(self) -> MixtureMartingale:
        return MixtureMartingale(self.gap, self.spread)

    def _found(self, votes: PairVotes, scope: Scope, prompts: int | None) -> tuple[_Sums, _Statistic]:
        sums = self._sums(votes)
        if scope == THESE:
            return sums, self._these(sums, prompts)
        if scope == LIKE_THESE:
            return sums, self._like_these(sums)
        raise BadOption(f"the scope is {scope!r}; expected {THESE!r} or {LIKE_THESE!r}")

    def _sums(self, votes: PairVotes) -> _Sums:
        parts = [self._block(votes, first, last) for first, last in _blocks(votes.start)]
        return _Sums(*np.concatenate(parts, axis=1)) if parts else _Sums(*np.zeros((12, 0)))

    def _block(self, votes: PairVotes, first: int, last: int) -> Floats:
        start = votes.start[first : last + 1]
        pair = np.repeat(np.arange(last - first), np.diff(start))
        wins, losses, ties, both_bad = votes.tally[start[0] : start[-1]].T.astype(np.float64)
        decisive = wins + losses
        n = decisive + ties
        w = 1.0 / (1.0 + self.between * n)
        g, h, w2 = w * (wins - losses), w * n, w * w
        columns = (n + both_bad, n, decisive, (n > 0.0) * 1.0, g, h, g * g, g * h, h * h)
        variances = (w2 * decisive, w2 * n, w2 * w2 * n * (n - 1.0))
        return np.stack([sum_by_index(pair, column, last - first) for column in columns + variances])

    def _these(self, sums: _Sums, prompts: int | None) -> _Statistic:
        estimate, moment = _ratio(sums.g, sums.h), _ratio(sums.decisive, sums.rated)
        products = sums.hh - sums.own
        spread = np.maximum(_ratio(sums.gg - sums.single, products) - estimate**2, 0.0)
        trust = _ratio(products**2, products**2 + 2.0 * self.steady * sums.fourth)
        uneven = sums.hh - sums.h**2 / np.maximum(sums.prompts, prompts or 1)
        explained = sums.own - uneven
        spread = np.where(explained > 0.0, trust * spread, spread)
        variance = np.maximum(sums.single - spread * explained, _MIN_VARIANCE_SHARE * sums.single)
        return _Statistic(
            estimate=estimate,
            within=_ratio(variance, sums.h**2),
            between=np.zeros(len(estimate)),
            moment=moment,
            dof=None,
            enough=sums.prompts >= self._needed(THESE, prompts),
        )

    def _like_these(self, sums: _Sums) -> _Statistic:
        estimate, k = _ratio(sums.g, sums.h), sums.prompts
        strayed = np.maximum(sums.gg - 2.0 * estimate * sums.gh + estimate**2 * sums.hh, 0.0)
        clustered = k / np.maximum(k - 1.0, 1.0) * strayed
        return _Statistic(
            estimate=estimate,
            within=_ratio(sums.single, sums.h**2),
            between=_ratio(np.maximum(clustered - sums.single, 0.0), sums.h**2),
            moment=_ratio(sums.decisive, sums.rated),
            dof=np.maximum(_ratio(sums.h**2, sums.hh) - 1.0, 1.0),
            enough=k >= self._needed(LIKE_THESE, None),
        )

    def _needed(self, scope: Scope, prompts: int | None) -> int:
        return self.min_prompts if scope == LIKE_THESE else min(self.min_prompts, prompts or self.min_prompts)

    def _evidence(self, found: _Statistic) -> Floats:
        """Log evidence that the two are not equal; 0 below the prompts that are needed."""
        return np.where(found.enough, self._after(found, np.ones(1), np.ones(1)), 0.0)

    def _after(self, found: _Statistic, times: Floats, room: Floats) -> Floats:
        """Log evidence at ``times`` as many votes and an unchanged estimate.

        They go to new prompts until the pair has met on ``room`` times as many, and then deeper.
        """
        wider = np.minimum(times, room)
        variance = (found.between + found.within * (wider / times)) / wider
        t2 = _ratio(found.estimate**2, variance)
        z2 = t2 if found.dof is None else _as_normal(t2, (found.dof + 1.0) * wider - 1.0)
        return self.mixture.log_evidence(z2, _ratio(found.moment**2, variance))

    def _levels(self, evidence: Floats, family: int) -> Floats:
        """The level of each pair in Holm's procedure."""
        if family < len(evidence):
            raise BadOption(f"{len(evidence)} pairs in a family of {family}; count all pairs of the arena")
        order = np.argsort(-evidence, kind="stable")
        ranked = self.alpha / (family - np.arange(len(order)))
        short = evidence[order] < -np.log(ranked)
        if short.any():
            first = int(short.argmax())
            ranked[first:] = ranked[first]
        level = np.empty(len(order))
        level[order] = ranked
        return level

    def _half_width(self, found: _Statistic, level: Floats) -> Floats:
        """Half of the confidence sequence; infinite where it says nothing."""
        variance = found.within + found.between
        n = _ratio(found.moment**2, variance)
        known = found.enough & (n > 0.0)
        z2 = self.mixture.critical(np.where(known, n, 1.0), level) ** 2
        t2 = z2 if found.dof is None else _as_t(z2, found.dof)
        return np.where(known, np.sqrt(t2 * variance), np.inf)

    def _missing(
        self, found: _Statistic, sums: _Sums, level: Floats, scope: Scope, prompts: int | None
    ) -> Floats:
        """Votes until proven, by halving: how many times the present ones, on a log scale. −1 for never."""
        needed = self._needed(scope, prompts)
        room = np.full(len(level), np.inf) if prompts is None else prompts / np.maximum(sums.prompts, 1.0)
        room = np.maximum(room, 1.0)
        target = -np.log(level)
        never = (self._after(found, np.full(len(level), _FORECAST_VOTES_RATIO), room) < target) | (
            found.estimate == 0.0
        )
        if prompts is not None and prompts < needed:
            never[:] = True
        low, high = np.zeros(len(level)), np.full(len(level), math.log(_FORECAST_VOTES_RATIO))
        for _ in range(_BISECTION_ITERATIONS):
            middle = 0.5 * (low + high)
            short = self._after(found, np.exp(middle), room) < target
            low, high = np.where(short, middle, low), np.where(short, high, middle)
        more = np.ceil(sums.votes * np.expm1(high) - 1e-6)
        return np.where(never, -1.0, np.maximum(more, np.maximum(needed - sums.prompts, 1.0)))

    def _marks(
        self,
        votes: PairVotes,
        scope: Scope,
        sums: _Sums,
        found: _Statistic,
        level: Floats,
        proven: Bools,
        prompts: int | None,
    ) -> OrderMarks:
        half = self._half_width(found, level)
        missing = np.where(proven, 0.0, self._missing(found, sums, level, scope, prompts))
        return OrderMarks(
            scope=scope,
            low=votes.low,
            high=votes.high,
            leader=_leader(votes, found),
            level=level,
            estimate=np.where(sums.rated > 0.0, found.estimate, np.nan),
            lower=np.maximum(found.estimate - half, -1.0),
            upper=np.minimum(found.estimate + half, 1.0),
            votes=sums.votes.astype(np.int64),
            prompts=sums.prompts.astype(np.int64),
            proven=proven,
            missing=missing.astype(np.int64),
        )


def _leader(votes: PairVotes, found: _Statistic) -> Ints:
    return np.where(found.estimate > 0.0, votes.low, np.where(found.estimate < 0.0, votes.high, -1))


def _as_normal(t2: Floats, dof: Floats) -> Floats:
    """The z² that weighs as much as this t²."""
    return (dof + 1.0) * np.log1p(t2 / dof)


def _as_t(z2: Floats, dof: Floats) -> Floats:
    """The t² that weighs as much as this z²; past any use it is as good as infinite."""
    return dof * np.expm1(np.minimum(z2 / (dof + 1.0), 500.0))


def _ratio(above: Floats, below: Floats) -> Floats:
    """The quotient, 0 where there is nothing to divide by."""
    return np.divide(above, below, out=np.zeros(np.shape(above)), where=below > 0.0)


def _blocks(start: Ints) -> Iterator[tuple[int, int]]:
    """Runs of pairs with about as many cells as are summed at once."""
    first, pairs = 0, len(start) - 1
    while first < pairs:
        last = max(int(np.searchsorted(start, start[first] + _BLOCK_CELLS, side="right")) - 1, first + 1)
        yield first, last
        first = last
