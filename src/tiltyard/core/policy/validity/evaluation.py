"""Evaluations: what was known of an arena after so many votes, and whether its board was official.

The rules of publication are looked at every ``policy.evaluated_every`` votes, in a small arena more often; a board is
official once they have held ``policy.evaluations`` times in a row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.policy.validity.publication import publication_rules
from tiltyard.core.policy.validity.rules import Rule
from tiltyard.foundation.arrays import Floats, Ints

#: In a small arena there is an evaluation for each such share of what it can collect, but not after fewer votes than this.
_SMALL_ARENA_SHARE = 0.1
_LEAST_INTERVAL_VOTES = 25


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
    #: Votes after which the rules are looked at next (`look`).
    next_votes: int = _LEAST_INTERVAL_VOTES

    @classmethod
    def under(cls, policy: Policy) -> EvaluationHistory:
        """Nothing evaluated yet, under this policy."""
        return cls((), policy.evaluations, min(policy.evaluated_every, _LEAST_INTERVAL_VOTES))

    def after(self, evaluation: Evaluation) -> EvaluationHistory:
        """With one more evaluation."""
        return replace(self, evaluations=(*self.evaluations, evaluation))

    def until_official(self, now: Standing) -> tuple[int, int]:
        """Evaluations that must still hold for an official board, and after how many votes from now the last of them is."""
        left = max(self.in_a_row - self._run(), 1)
        return left, self.next_votes - now.votes + (left - 1) * votes_between_evaluations(now)

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


def votes_between_evaluations(standing: Standing) -> int:
    """``policy.evaluated_every``, or a tenth of what a small arena can collect; doubled whenever it has ten times as many.

    ===============================  ======
    3 models, 6 prompts, 100 votes   25
    … 300 votes                      50
    3 models, 20 prompts, 100 votes  72
    20 models, 100 prompts           250
    ===============================  ======
    """
    most = standing.policy.evaluated_every
    every = max(_LEAST_INTERVAL_VOTES, int(min(_SMALL_ARENA_SHARE * standing.collectable_votes, most)))
    while every < most and standing.votes * _SMALL_ARENA_SHARE >= every:
        every *= 2
    return min(every, most)


def look(standing: Standing, history: EvaluationHistory, *, time: int = 0) -> EvaluationHistory:
    """What follows after ``history.next_votes``: an evaluation, unless the arena has turned out to be larger, and the next."""
    every = votes_between_evaluations(standing)
    if history.evaluations or standing.votes % every == 0:
        history = history.after(evaluate(standing, time=time))
    return replace(history, next_votes=(standing.votes // every + 1) * every)


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
