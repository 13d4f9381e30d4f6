"""Compares two models by their ratings."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any

import numpy as np

from tiltyard.core.battles import Kind, Table
from tiltyard.core.battles.cluster_keys import MISSING_KEY
from tiltyard.core.ratings.bradley_terry import BradleyTerry
from tiltyard.core.ratings.findings import Finding
from tiltyard.core.ratings.pairs import Scoring, count_records, score_pairs
from tiltyard.core.ratings.posterior import Posterior, nearly_one_sided
from tiltyard.core.ratings.ranks import rank_models
from tiltyard.core.ratings.result import Ratings, speaks_of_these_voters
from tiltyard.core.ratings.variance import ZERO_VARIANCE_TOLERANCE, critical_value
from tiltyard.errors import BadOption, CannotRate
from tiltyard.foundation.arrays import Ints

#: Findings that explain why two models cannot be compared.
_REASONS = frozenset(
    {"disconnected", "interval-withheld", "only-wins", "only-loses", "one-sided", "unrated", "no-spread"}
)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A compared with B. ``difference`` is A's rating minus B's, from all battles that connect them.

    ``wins``, ``losses``, ``ties`` and ``both_bad`` are A's in their direct battles; a ``both_bad`` is
    among the ties too if the method counts it as one. ``ahead`` and
    ``behind`` are the numbers of prompts on which A scored above or below one half in these.
    """

    model_a: str
    model_b: str
    difference: float
    low: float
    high: float
    level: float
    scope: str
    #: Whether their order is settled, by rank ranges that hold at once for all models.
    settled: bool
    expected_score: float
    wins: int
    losses: int
    ties: int
    both_bad: int
    prompts_ahead: int | None
    prompts_behind: int | None
    findings: tuple[Finding, ...]

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        del cycle
        printer.text(self.sentence)

    def to_dict(self) -> dict[str, object]:
        """Plain values, by the names of the fields, and the sentence."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            **values,
            "findings": [finding.to_dict() for finding in self.findings],
            "sentence": self.sentence,
        }

    @property
    def sentence(self) -> str:
        """The result as a sentence."""
        ahead, behind = (self.model_a, self.model_b) if self.difference >= 0 else (self.model_b, self.model_a)
        ends = (self.low, self.high) if self.difference >= 0 else (-self.high, -self.low)
        gap = f"{abs(self.difference):.0f} points ({self.level:.0%} interval {ends[0]:.0f} to {ends[1]:.0f})"
        if ends[0] > 0.0 and speaks_of_these_voters(self.scope):
            said = (
                f"These voters prefer {ahead} to {behind}, by {gap}, on {self.scope.partition(' and ')[0]}."
            )
            return f"{said} No order is claimed for other voters."
        rated = f"{gap}, on {self.scope}"
        if self.settled:
            return f"{ahead} is settled above {behind}, by {rated}."
        alone = " The interval is that of one pair; ranges of ranks, which hold for all pairs at once, do not settle it."
        return (
            f"The order of {self.model_a} and {self.model_b} is not settled: {ahead} is rated higher by {rated}."
            f"{alone if ends[0] > 0.0 else ''}"
        )


def compare_models(table: Table, a: str, b: str, method: BradleyTerry | None = None) -> Comparison:
    """Compare two models by Bradley–Terry. Prompts that both answered reduce the variance automatically."""
    method = method or BradleyTerry()
    for model in (a, b):
        if model not in table.models:
            raise BadOption(f"no battle names {model!r}; the models are {', '.join(table.models[:20])}")
    if a == b:
        raise BadOption("compare needs two different models")
    ratings = method(table)
    i, j = table.models.index(a), table.models.index(b)
    together = ratings.group[i] >= 0 and ratings.group[i] == ratings.group[j]
    if not together or ratings.interval is None or np.isnan(ratings.interval.low[[i, j]]).any():
        why = [str(finding) for finding in ratings.findings if finding.name in _REASONS]
        raise CannotRate(" ".join([f"{a} and {b} cannot be compared by these battles.", *why]))
    difference = float(ratings.rating[i] - ratings.rating[j])
    ends = DifferenceIntervals(table, ratings).ends(i, j)
    if ends is None:
        raise CannotRate(
            f"{a} and {b} cannot be compared by these battles. Their difference is the same whichever battles are "
            "left out, so nothing tells how certain it is. Look for battles that are listed under both names."
        )
    ranks = rank_models(ratings, level=method.level)
    assert ranks is not None
    settled = bool(ranks.above[i, j] or ranks.above[j, i])
    expected = expected_score(difference, method.scale, ratings.extras.get("tie_parameter"))
    ahead, behind = _prompts(table, i, j)
    # A's wins, losses and ties in the direct battles, and the number of both_bad outcomes.
    scoring = method.scoring()
    counts = table.counts
    theirs = ((counts.a == i) & (counts.b == j)) | ((counts.a == j) & (counts.b == i))
    record = count_records(replace(counts, n=np.where(theirs, counts.n, 0)), len(table.models), scoring)
    both_bad = counts.n[theirs & (counts.kind == Kind.BOTH_BAD)].sum()
    return Comparison(
        a, b, difference, *ends, method.level, ratings.interval.scope,
        settled, expected, *(int(record.wins[i]), int(record.losses[i]), int(record.ties[i]), int(both_bad)), ahead, behind, ratings.findings,
    )  # fmt: skip


def expected_score(difference: float, scale: float, tie_parameter: float | None = None) -> float:
    """A's expected share of the points where its rating is higher by ``difference``; ties are Davidson's, if modelled."""
    ratio = math.pow(10.0, -abs(difference) / scale)
    tied = (tie_parameter or 0.0) * math.sqrt(ratio)
    score = (1.0 + tied / 2.0) / (1.0 + ratio + tied)
    return score if difference >= 0 else 1.0 - score


class DifferenceIntervals:
    """The intervals of differences of ratings, each pair alone.

    With a prior, a model with hardly a loss or a win uses its own posterior, as its rating does.
    """

    def __init__(self, table: Table, ratings: Ratings) -> None:
        assert ratings.uncertainty is not None
        assert ratings.interval is not None
        self._ratings, self._level, method = ratings, ratings.interval.level, ratings.method
        self._variance = ratings.uncertainty.differences()
        self._dof = ratings.uncertainty.difference_dof()
        self._pairs = None
        if isinstance(method, BradleyTerry) and method.prior_sd is not None and not method.style:
            pairs = score_pairs(method.limited(table).table.counts, len(table.models), method.scoring())
            self._pairs, self._one_sided = pairs, nearly_one_sided(pairs)

    def ends(self, i: int, j: int) -> tuple[float, float] | None:
        """Between which differences of the models i and j the truth lies; ``None`` where nothing varies."""
        error = float(np.sqrt(self._variance[i, j]))
        if error**2 <= ZERO_VARIANCE_TOLERANCE:
            return None
        difference = float(self._ratings.rating[i] - self._ratings.rating[j])
        half = float(critical_value(self._level, float(self._dof[i, j]))) * error
        if self._pairs is None or not self._one_sided[[i, j]].any():
            return difference - half, difference + half
        members, posterior = self._posterior(int(self._ratings.group[i]))
        place, other = np.searchsorted(members, (i, j)).tolist()
        reach = posterior.difference_interval(place, other, self._level)
        return difference + half * reach.low / reach.half, difference + half * reach.high / reach.half

    @cache  # noqa: B019 - lives as long as the comparison
    def _posterior(self, group: int) -> tuple[Ints, Posterior]:
        ratings, method = self._ratings, self._ratings.method
        assert isinstance(method, BradleyTerry)
        assert method.prior_sd is not None
        assert self._pairs is not None
        unit = method.scale / math.log(10.0)
        tie = ratings.extras.get("tie_parameter")
        members = np.flatnonzero(ratings.group == group)
        log_tie = None if tie is None else math.log(tie)
        precision = (unit / method.prior_sd) ** 2
        return members, Posterior.of(self._pairs, members, ratings.rating / unit, log_tie, precision)


def _prompts(table: Table, i: int, j: int) -> tuple[int | None, int | None]:
    """The number of prompts on which A scored above, and below, one half against B."""
    if not table.has_log or "prompt" not in table.keyed:
        return None, None
    scores: dict[int, list[float]] = {}
    for run in table.scan():
        if run.prompt is None:
            continue
        for x, y, sign in ((i, j, 1.0), (j, i, -1.0)):
            rows = np.flatnonzero((run.a == x) & (run.b == y) & (run.prompt != MISSING_KEY))
            margin = sign * (Scoring().by_kind()[run.kind[rows]] - 0.5)
            for key, value in zip(run.prompt[rows].tolist(), margin.tolist(), strict=True):
                if value == value:
                    scores.setdefault(key, []).append(value)
    sums = [sum(values) for values in scores.values()]
    return sum(total > 0 for total in sums), sum(total < 0 for total in sums)
