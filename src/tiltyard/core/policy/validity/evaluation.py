"""Evaluations: what was known of an arena after so many votes, and whether its board was official.

The rules of publication are looked at every ``policy.evaluated_every`` votes; a board is official
once they have held ``policy.evaluations`` times in a row.
"""

from __future__ import annotations

from dataclasses import dataclass

from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.policy.validity.publication import publication_rules
from tiltyard.core.policy.validity.rules import Rule
from tiltyard.foundation.arrays import Floats, Ints


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """What was known after so many votes. Arrays are by the codes of that moment."""

    votes: int
    #: Seconds since 1970, or 0 where nobody asked.
    time: int
    #: Enabled models by conservative score, best first.
    order: Ints
    rating: Floats
    rd: Floats
    #: Strict prompt coverage; NaN for a model without an eligible prompt.
    coverage: Floats
    #: The publication rules, and whether all of them held.
    rules: tuple[Rule, ...]
    holds: bool

    def conservative(self, model: int) -> float | None:
        """The model's conservative score; ``None`` if it was not enabled then."""
        if not (self.order == model).any():
            return None
        return float(self.rating[model] - 2.0 * self.rd[model])


@dataclass(frozen=True, slots=True)
class ConfidencePoint:
    """One row of a model's confidence history."""

    votes: int
    time: int
    rating: float
    rd: float
    conservative: float
    #: ``None`` on boards of versions that did not say it.
    volatility: float | None = None


@dataclass(frozen=True, slots=True)
class EvaluationHistory:
    """Evaluations of one arena, oldest first. ``in_a_row`` of them must hold for an official board."""

    evaluations: tuple[Evaluation, ...] = ()
    in_a_row: int = 3

    @classmethod
    def under(cls, policy: Policy) -> EvaluationHistory:
        """Nothing evaluated yet, under this policy."""
        return cls(in_a_row=policy.evaluations)

    def after(self, evaluation: Evaluation) -> EvaluationHistory:
        """With one more evaluation."""
        return EvaluationHistory((*self.evaluations, evaluation), self.in_a_row)

    @property
    def official(self) -> bool:
        """Whether the board is officially stable now; if not, it is calibrating."""
        return self._run() >= self.in_a_row

    def official_since(self) -> int | None:
        """Votes at which the present official stretch began (its last evaluation that was needed)."""
        run = self._run()
        return self.evaluations[self.in_a_row - 1 - run].votes if run >= self.in_a_row else None

    def first_official(self) -> int | None:
        """Votes at which the board first became official, whatever came after."""
        run = 0
        for evaluation in self.evaluations:
            run = run + 1 if evaluation.holds else 0
            if run == self.in_a_row:
                return evaluation.votes
        return None

    def recent_delta(self, model: int, now: Standing) -> float | None:
        """Conservative score now against that of the last evaluation at least ``policy.evaluated_every`` votes ago."""
        score = float(now.strengths.conservative()[model]) if now.enabled[model] else None
        for before in reversed(self.evaluations):
            if before.votes <= now.votes - now.policy.evaluated_every:
                was = before.conservative(model)
                return None if score is None or was is None else score - was
        return None

    def _run(self) -> int:
        """How many of the last evaluations held, without a gap."""
        run = 0
        for evaluation in reversed(self.evaluations):
            if not evaluation.holds:
                break
            run += 1
        return run


def evaluate(standing: Standing, *, time: int = 0) -> Evaluation:
    """Look at the rules of publication now."""
    rules = publication_rules(standing)
    return Evaluation(
        votes=standing.votes,
        time=time,
        order=standing.order.copy(),
        rating=standing.strengths.rating.copy(),
        rd=standing.strengths.rd.copy(),
        coverage=standing.cells.coverage(),
        rules=rules,
        holds=all(rule.holds for rule in rules),
    )
