"""One battle from the two orders in which a judge saw a pair."""

from __future__ import annotations

from tiltyard.battles.outcome import DECISIVE, Label, Outcome

__all__ = ["UNREADABLE", "reconciled"]

#: Why a record without two verdicts is no battle.
UNREADABLE = "a verdict of the judge could not be read"


def reconciled(first: Outcome, second: Outcome) -> dict[str, str]:
    """``winner`` and ``label``, given what was said in each order, both of the same ``model_a``.

    Agreement is a win or a tie, a win and a tie a lean, two opposite wins are inconsistent.
    """
    if first is second:
        label = Label.WIN if first in DECISIVE else Label.TIE
        return _named(first, label)
    decisive = [outcome for outcome in (first, second) if outcome in DECISIVE]
    if len(decisive) == 1:
        return _named(decisive[0], Label.LEAN)
    return _named(Outcome.TIE, Label.INCONSISTENT)


def _named(outcome: Outcome, label: Label) -> dict[str, str]:
    return {"winner": outcome.value, "label": label.value}
