"""How far a judge agrees with people, from labels of drawn matches: agreement, κ, α, and what a verdict is worth.

Every figure is one of all matches that were drawn from. A stratum counts as the share of the matches that it has, however
many of them were labelled. The variance is that of leaving out one prompt at a time, as for raters of a panel, and never
less than labels that are independent would have.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import stdtrit

from tiltyard.core.judging.diagnostics.rater_agreement import (
    MIN_AGREEMENT_DOF,
    AgreementFigure,
    AgreementGap,
    jackknife_variance,
)
from tiltyard.core.ratings.proportions import wilson_interval
from tiltyard.foundation.arrays import Bools, Floats, Ints

#: The columns of ``votes``, and the values of ``judged``.
FIRST, SECOND, TIE = range(3)
#: What each says of the first model.
_SCORES = np.array([1.0, -1.0, 0.0])
_SWAPPED = [SECOND, FIRST, TIE]


@dataclass(frozen=True)
class Labelled:
    """The labelled matches as columns."""

    #: The number of matches in each stratum, labelled or not.
    sizes: Floats
    stratum: Ints
    #: The prompts as numbers from 0.
    prompt: Ints
    judged: Ints
    #: How many people chose the first model, the second, and neither; at least one for every match.
    votes: Floats

    @cached_property
    def counts(self) -> Floats:
        """The number of labelled matches in each stratum."""
        return np.bincount(self.stratum, minlength=len(self.sizes)).astype(np.float64)

    @cached_property
    def weights(self) -> Floats:
        """How many matches each labelled one stands for."""
        return np.asarray((self.sizes / np.maximum(self.counts, 1.0))[self.stratum])

    @cached_property
    def shares(self) -> Floats:
        """The votes of each match as shares, so that every match counts once."""
        return np.asarray(self.votes / self.votes.sum(axis=1, keepdims=True))

    @cached_property
    def cells(self) -> Floats:
        """For each match, what the judge said (row) and what people said (column)."""
        return np.asarray(np.eye(3)[self.judged][:, :, None] * self.shares[:, None, :])

    @cached_property
    def pairs_of_people(self) -> Floats:
        """For each match, what one person said (row) and another (column); nothing where one person voted."""
        counts = self.votes.sum(axis=1)
        pairs = self.votes[:, :, None] * self.votes[:, None, :] - self.votes[:, :, None] * np.eye(3)
        return np.asarray(pairs / np.maximum(counts * (counts - 1.0), 1.0)[:, None, None])

    @cached_property
    def lead(self) -> Floats:
        """How far people favour the first model more than the judge does, from -2 to 2."""
        return np.asarray(self.shares @ _SCORES - _SCORES[self.judged])

    def without_each_prompt(self, values: Floats) -> Floats:
        """The weighted sum of values of the matches, without each prompt in turn."""
        n_prompts, n_strata = int(self.prompt.max()) + 1, len(self.sizes)
        sums = np.zeros((n_prompts, n_strata, *values.shape[1:]))
        np.add.at(sums, (self.prompt, self.stratum), values)
        counts = np.zeros((n_prompts, n_strata))
        np.add.at(counts, (self.prompt, self.stratum), 1.0)
        left = self.counts - counts
        weights = np.divide(self.sizes, left, out=np.zeros_like(left), where=left > 0)
        return np.asarray(np.einsum("ps,ps...->p...", weights, sums.sum(axis=0) - sums))


@dataclass(frozen=True, slots=True)
class LabelAgreement:
    """What labels say of a judge, for all matches or some of them."""

    #: The share of a judge's results that a person shares.
    agreed: AgreementFigure
    kappa: AgreementFigure
    alpha: AgreementFigure
    #: The squared correlation of what both prefer.
    correlation: AgreementFigure
    matches: int
    votes: int
    prompts: int
    #: The weighted share of each pair of what the judge said (row) and what people said (column).
    matrix: tuple[tuple[float, ...], ...]


def label_agreement(labelled: Labelled, chosen: Bools | None = None, level: float = 0.95) -> LabelAgreement:
    """How far the judge agrees with people on all matches, or on those that are ``chosen``."""
    here = np.ones(len(labelled.prompt), dtype=bool) if chosen is None else chosen
    return _agreement(labelled, labelled.cells, here, level)


def people_agreement(labelled: Labelled, level: float = 0.95) -> LabelAgreement:
    """How far people agree with each other, on the matches that several of them labelled."""
    several = labelled.votes.sum(axis=1) > 1.0
    if several.any():
        # A match that only one labelled counts like those of its stratum that several did.
        _, prompt = np.unique(labelled.prompt[several], return_inverse=True)
        columns = labelled.stratum[several], prompt, labelled.judged[several], labelled.votes[several]
        labelled, several = Labelled(labelled.sizes, *columns), several[several]
    return _agreement(labelled, labelled.pairs_of_people, several, level)


def verdict_worth(labelled: Labelled, level: float = 0.95) -> AgreementFigure:
    """How many human votes tell as much of what people prefer as one verdict.

    Judge and person each see a quality that people share, with errors of their own. Then the correlation of verdict and
    vote is the product of how well both see it, that of two votes the square of how well a person does, and the squared
    ratio of the two is 1 for a judge that sees as a person does. Matches that two people labelled are needed.
    """
    several = labelled.votes.sum(axis=1) > 1.0
    if not several.any():
        return AgreementFigure(None, gap=AgreementGap.NO_OVERLAP)
    judge, people = (
        _Table(labelled, cells, several, level) for cells in (labelled.cells, labelled.pairs_of_people)
    )
    return judge.worth_beside(people)


def _agreement(labelled: Labelled, cells: Floats, here: Bools, level: float) -> LabelAgreement:
    if not here.any():
        nothing = AgreementFigure(None, gap=AgreementGap.NO_VOTES)
        return LabelAgreement(nothing, nothing, nothing, nothing, 0, 0, 0, ())
    table = _Table(labelled, cells, here, level)
    return LabelAgreement(
        table.beyond_chance(lambda totals: np.zeros(len(totals))),
        table.beyond_chance(_chance_of_kappa),
        table.beyond_chance(_chance_of_alpha),
        table.correlation(),
        int(here.sum()),
        int(labelled.votes[here].sum()),
        len(np.unique(labelled.prompt[here])),
        tuple(tuple(row) for row in (table.total / table.total.sum()).tolist()),
    )


def mean_lead(
    labelled: Labelled, side: Floats, against: Floats | None = None, level: float = 0.95
) -> AgreementFigure:
    """How much more often people favour a side than the judge does, in matches that have it: a difference of shares.

    ``side`` is 1 where it is the first model, -1 where it is the second, and 0 where neither or both are. With
    ``against``, the difference between two sides.
    """
    sides = [side] if against is None else [side, against]
    if not all(one.any() for one in sides):
        return AgreementFigure(None, gap=AgreementGap.NO_VOTES)
    columns = np.stack([part for one in sides for part in (one * labelled.lead / 2.0, np.abs(one))], axis=1)
    total = labelled.weights @ columns
    value = float(_differences(total[None])[0])
    by_prompt = np.bincount(labelled.prompt, labelled.weights * np.any(columns[:, 1::2] > 0.0, axis=1))
    dof = float(by_prompt.sum() ** 2 / (by_prompt @ by_prompt)) - 1.0
    if dof < MIN_AGREEMENT_DOF:
        return AgreementFigure(value, gap=AgreementGap.FEW_PROMPTS)
    without = labelled.without_each_prompt(columns)
    without = without[(without[:, 1::2] > 0.0).all(axis=1)]
    # Where judge and people always agreed, a little disagreement is still to be expected.
    n_strata = len(labelled.sizes)
    expected = (np.bincount(labelled.stratum, (labelled.lead / 2.0) ** 2, n_strata) + 0.5) / (
        labelled.counts + 1.0
    )
    pulls = side / total[1] - (0.0 if against is None else against / total[3])
    least = float(np.sum((labelled.weights * pulls) ** 2 * expected[labelled.stratum]))
    spread = math.sqrt(max(jackknife_variance(_differences(without), value), least))
    t = float(stdtrit(dof, (1.0 + level) / 2.0))
    return AgreementFigure(value, max(value - t * spread, -2.0), min(value + t * spread, 2.0))


def _differences(totals: Floats) -> Floats:
    """The mean of one side, less that of the other if there is one."""
    means = totals[:, 0::2] / totals[:, 1::2]
    return np.asarray(means[:, 0] - means[:, 1:].sum(axis=1))


class _Table:
    """What two sides said of some of the matches, and the same without each prompt."""

    def __init__(self, labelled: Labelled, cells: Floats, here: Bools, level: float) -> None:
        self._labelled, self._here, self._level = labelled, here, level
        cells = cells * here[:, None, None]
        self._agreed = cells.trace(axis1=1, axis2=2)
        self.total: Floats = np.einsum("m,mij->ij", labelled.weights, cells)
        without = labelled.without_each_prompt(cells)
        self._without = without[without.sum(axis=(1, 2)) > 0.0]
        by_prompt = np.bincount(labelled.prompt[here], labelled.weights[here])
        #: The number of equal prompts that say as much as these.
        self._alike = float(by_prompt.sum() ** 2 / (by_prompt @ by_prompt))
        self._gap = AgreementGap.FEW_PROMPTS if self.dof < MIN_AGREEMENT_DOF else None
        if here.all() and not labelled.counts.all():
            self._gap = AgreementGap.NO_VOTES

    @property
    def dof(self) -> float:
        return self._alike - 1.0

    def beyond_chance(self, chance: Callable[[Floats], Floats]) -> AgreementFigure:
        """Agreement beyond that of chance, which makes κ, α, or without chance plain agreement.

        Plain agreement has Wilson's interval, with Student's t, for as many trials as give the variance of the figure. It
        is moved as the figure is, with chance held fixed.
        """
        expected = float(chance(self.total[None])[0])
        agreed = float(np.trace(self.total) / self.total.sum())
        if expected >= 1.0:
            return AgreementFigure(None, gap=AgreementGap.NO_VARIATION)
        value = (agreed - expected) / (1.0 - expected)
        if self._gap is not None:
            return AgreementFigure(value, gap=self._gap)
        moved = chance(self._without)
        shares = np.trace(self._without, axis1=1, axis2=2) / self._without.sum(axis=(1, 2))
        left = (shares - moved) / np.maximum(1.0 - moved, 1e-9)
        trials = self._alike
        if 0.0 < agreed < 1.0:
            variance = jackknife_variance(left, value) * (1.0 - expected) ** 2
            trials = min(agreed * (1.0 - agreed) / max(variance, 1e-300), self.independent_trials())
        low, high = wilson_interval(agreed, trials, self.dof, self._level)
        return AgreementFigure(
            value, max((low - expected) / (1.0 - expected), -1.0), (high - expected) / (1.0 - expected)
        )

    def correlation(self) -> AgreementFigure:
        """The squared correlation of verdicts and votes, with Fisher's interval."""
        value = float(_correlation(self.total[None])[0])
        if self._gap is not None:
            return AgreementFigure(max(value, 0.0) ** 2, gap=self._gap)
        if value > 0.999:
            # Where all agree, no variance shows: what a share of 1 leaves room for may be opposite preferences.
            low, _ = wilson_interval(1.0, self._alike, self.dof, self._level)
            return AgreementFigure(value**2, max(2.0 * low - 1.0, 0.0) ** 2, 1.0)
        inside = max(value, -0.999)
        least = (1.0 - inside**2) ** 2 / self._alike
        spread = math.sqrt(max(jackknife_variance(_correlation(self._without), value), least)) / (
            1.0 - inside**2
        )
        t = float(stdtrit(self.dof, (1.0 + self._level) / 2.0))
        low, high = (math.tanh(math.atanh(inside) + sign * t * spread) for sign in (-1, 1))
        return AgreementFigure(max(value, 0.0) ** 2, max(low, 0.0) ** 2, max(high, 0.0) ** 2)

    def worth_beside(self, people: _Table) -> AgreementFigure:
        """The squared ratio of the correlations."""
        seen, shared = (float(_correlation(one.total[None])[0]) for one in (self, people))
        if shared <= 0.0:
            return AgreementFigure(None, gap=AgreementGap.NO_VARIATION)
        ratio = seen / shared
        value = max(ratio, 0.0) ** 2
        if self._gap is not None:
            return AgreementFigure(value, gap=self._gap)
        left = [_correlation(one._without) for one in (self, people)]  # noqa: SLF001 - of the same kind
        least = (1.0 - seen**2 + ratio**2 * (1.0 - shared**2)) / (self._alike * shared**2)
        variance = max(jackknife_variance(left[0] / np.maximum(left[1], 1e-3), ratio), least)
        reach = float(stdtrit(self.dof, (1.0 + self._level) / 2.0)) * math.sqrt(variance)
        return AgreementFigure(value, max(ratio - reach, 0.0) ** 2, max(ratio + reach, 0.0) ** 2)

    def independent_trials(self) -> float:
        """As how many labels these would count if they were independent. A stratum where all agree has some variance too."""
        labelled, here = self._labelled, self._here
        stratum, n_strata = labelled.stratum[here], len(labelled.sizes)
        counts = np.bincount(stratum, minlength=n_strata)
        shares = (np.bincount(stratum, self._agreed[here], n_strata) + 0.5) / (counts + 1.0)
        weights = np.bincount(stratum, labelled.weights[here], n_strata) / labelled.weights[here].sum()
        spread = shares * (1.0 - shares) * weights**2
        share = float(weights @ shares)
        return share * (1.0 - share) / float(np.sum(spread[counts > 0] / counts[counts > 0]))


def _chance_of_kappa(totals: Floats) -> Floats:
    """The agreement of independent judge and people who say each as often as these (Cohen 1960)."""
    shares = totals / totals.sum(axis=(1, 2), keepdims=True)
    return np.asarray((shares.sum(axis=2) * shares.sum(axis=1)).sum(axis=1))


def _chance_of_alpha(totals: Floats) -> Floats:
    """The same if both drew from one pool, whichever model comes first (Krippendorff 2011, for many labels)."""
    shares = totals / totals.sum(axis=(1, 2), keepdims=True)
    pool = (shares.sum(axis=2) + shares.sum(axis=1)) / 2.0
    pool = (pool + pool[:, _SWAPPED]) / 2.0
    return np.asarray((pool**2).sum(axis=1))


def _correlation(totals: Floats) -> Floats:
    """The correlation of what judge and people prefer, whichever model comes first."""
    both = np.einsum("nij,i,j->n", totals, _SCORES, _SCORES)
    judge, people = totals.sum(axis=2) @ _SCORES**2, totals.sum(axis=1) @ _SCORES**2
    spread = np.sqrt(judge * people)
    return np.asarray(np.divide(both, spread, out=np.zeros_like(both), where=spread > 0.0))
