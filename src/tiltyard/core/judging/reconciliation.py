"""Reconciles a judge's two orders to one result, and several judges to a panel's result."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tiltyard.core.battles.battle import TIE_PREF_TOLERANCE
from tiltyard.core.battles.outcome import DECISIVE, Label, Outcome, reconcile_outcomes
from tiltyard.core.judging.verdict import Verdict, VerdictStep

__all__ = ["MatchResult", "panel_result", "reconcile"]


@dataclass(frozen=True, slots=True)
class MatchResult:
    """The result of two orders, or of a panel, as needed for a battle. ``pref`` is P(model_a is better)."""

    outcome: Outcome
    label: Label
    pref: float
    #: Whether both responses were called bad. It does not change the outcome.
    both_bad: bool = False


#: How much each step prefers the response in slot A.
_SLOT_PREF = {
    VerdictStep.FIRST_MUCH: 1.0,
    VerdictStep.FIRST: 0.75,
    VerdictStep.EVEN: 0.5,
    VerdictStep.SECOND: 0.25,
    VerdictStep.SECOND_MUCH: 0.0,
}


def reconcile(a_first: Verdict, b_first: Verdict) -> MatchResult:
    """One result from the verdict with model_a in slot A and the verdict with model_b in slot A.

    The steps decide, even between two bad responses; ``both_bad`` is set if both orders say so.
    """
    prefs = _SLOT_PREF[a_first.step], 1.0 - _SLOT_PREF[b_first.step]
    outcome, label = reconcile_outcomes(*(_preferred(pref) for pref in prefs))
    return MatchResult(outcome, label, sum(prefs) / 2, a_first.both_bad and b_first.both_bad)


def panel_result(results: Sequence[MatchResult], quorum: int) -> MatchResult | None:
    """The combined result of several judges; ``None`` if fewer than ``quorum`` of them have one.

    A majority of more than half of the judges decides:

    - for one model: it wins. The label is ``win`` only if more than half of the judges found
      a win; a majority that includes leans is only a lean.
    - for a tie, or inconsistent: that is the result. If most judges are inconsistent, this is a
      property of the match, which a single consistent judge does not change.

    Without such a majority, more judges for one model than for the other make a lean: there is
    evidence for it, but no agreement. Equal numbers make ``inconsistent``: the judges
    contradict each other, as one judge's two orders may.

    ``pref`` is the median of the judges' (the mean of the middle two), which a single extreme judge
    cannot move far; it is limited to the winner's side of one half, and near it for a tie, because a
    battle must not contradict itself. ``both_bad`` is set if more than half of the judges set it.
    """
    if len(results) < max(quorum, 1):
        return None
    outcome, label = _agreed(results)
    low, high = _bounds(outcome, label)
    pref = statistics.median(result.pref for result in results)
    flags = sum(result.both_bad for result in results)
    return MatchResult(outcome, label, min(max(pref, low), high), 2 * flags > len(results))


def _preferred(pref: float) -> Outcome:
    if pref == 0.5:
        return Outcome.TIE
    return Outcome.MODEL_A if pref > 0.5 else Outcome.MODEL_B


def _agreed(results: Sequence[MatchResult]) -> tuple[Outcome, Label]:
    votes = Counter(_vote(result) for result in results)
    vote, n = votes.most_common(1)[0]
    if 2 * n > len(results):
        if isinstance(vote, Label):
            return Outcome.TIE, vote
        wins = sum(result.outcome is vote and result.label is Label.WIN for result in results)
        return vote, Label.WIN if 2 * wins > len(results) else Label.LEAN
    ahead = votes[Outcome.MODEL_A] - votes[Outcome.MODEL_B]
    if ahead == 0:
        return Outcome.TIE, Label.INCONSISTENT
    return (Outcome.MODEL_A if ahead > 0 else Outcome.MODEL_B), Label.LEAN


def _vote(result: MatchResult) -> Outcome | Label:
    """The winner if there is one, else the label."""
    return result.outcome if result.outcome in DECISIVE else result.label


def _bounds(outcome: Outcome, label: Label) -> tuple[float, float]:
    """The range of preferences that do not contradict a result."""
    if outcome is Outcome.MODEL_A:
        return 0.5, 1.0
    if outcome is Outcome.MODEL_B:
        return 0.0, 0.5
    if label is Label.TIE:
        return 0.5 - TIE_PREF_TOLERANCE, 0.5 + TIE_PREF_TOLERANCE
    return 0.0, 1.0
