"""Whether a few voters vote differently from each other: a permutation test of voters within prompts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tiltyard.core.battles import Table
from tiltyard.core.battles.cluster_keys import MISSING_KEY
from tiltyard.core.ratings.group_fit import fit_groups
from tiltyard.core.ratings.groups import comparable_groups
from tiltyard.core.ratings.pairs import score_pairs
from tiltyard.core.ratings.scoring import Scoring
from tiltyard.foundation.arrays import Floats, Ints

#: Voters count as different at this level. It is far above 5 %, because to miss a difference costs more than to find one.
_LEVEL = 0.2
_PERMUTATION_COUNT = 99


def voters_differ(table: Table, scoring: Scoring) -> bool:
    """Whether voters depart from the common ratings in ways of their own, more than chance explains.

    The statistic is the sum over voters and models of squared sums of residuals. If voters are alike, their names can be
    exchanged among the votes on a prompt. The draws have a fixed seed, and the votes an order that neither the log nor
    sides decide, so that whoever repeats the test finds the same.
    """
    votes = _Votes.of(table, scoring)

    def exchanged(drawn: Floats) -> float:
        return votes.departure(votes.voter[np.argsort(votes.prompt + drawn)])

    return exceeds_chance(votes.departure(votes.voter), len(votes.voter), exchanged)


def exceeds_chance(observed: float, units: int, exchanged: Callable[[Floats], float]) -> bool:
    """Whether a statistic is larger than chance makes it, where ``exchanged`` is that of units exchanged by random numbers."""
    exceeded, most = 0, int(_LEVEL * (_PERMUTATION_COUNT + 1)) - 1
    for replicate in range(_PERMUTATION_COUNT):
        exceeded += exchanged(np.random.default_rng([0, replicate]).random(units)) >= observed
        if exceeded > most:
            return False
    return True


@dataclass(frozen=True, slots=True, eq=False)
class _Votes:
    """Votes that name a prompt and a voter, by prompt, with residuals of a fit of all battles."""

    models: int
    prompt: Ints
    voter: Ints
    a: Ints
    b: Ints
    residual: Floats

    @classmethod
    def of(cls, table: Table, scoring: Scoring) -> _Votes:
        m = len(table.models)
        pairs = score_pairs(table.counts, m, scoring)
        fitted = fit_groups(pairs, comparable_groups(pairs, prior=False), bread=False)
        log = table.log()
        assert log.prompt is not None
        assert log.voter is not None
        residual, _ = fitted.row_scores(scoring)(log)
        known = ~np.isnan(residual) & (log.prompt != MISSING_KEY) & (log.voter != MISSING_KEY)
        used = np.flatnonzero(known)
        used = used[np.lexsort((np.abs(residual[used]), log.voter[used], log.prompt[used]))]
        return cls(
            m,
            np.unique(log.prompt[used], return_inverse=True)[1],
            np.unique(log.voter[used], return_inverse=True)[1],
            log.a[used].astype(np.int64),
            log.b[used].astype(np.int64),
            residual[used],
        )

    def departure(self, voter: Ints) -> float:
        """The statistic, if these voters had cast the votes."""
        size = (int(self.voter.max(initial=-1)) + 1) * self.models
        first, second = voter * self.models + self.a, voter * self.models + self.b
        sums = np.bincount(first, self.residual, size) - np.bincount(second, self.residual, size)
        return float(sums @ sums)
