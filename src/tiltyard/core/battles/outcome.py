"""Outcomes, labels, and the integers by which tables count them."""

from __future__ import annotations

import enum
import re

from tiltyard.errors import BadBattle
from tiltyard.foundation.option_names import quoted


class Outcome(enum.StrEnum):
    """The result of a battle. Only ``model_a`` and ``model_b`` are decisive."""

    MODEL_A = "model_a"
    MODEL_B = "model_b"
    TIE = "tie"
    BOTH_BAD = "both_bad"


class Label(enum.StrEnum):
    """How firm the result is, if a judge was asked in both orders; ``both_bad`` occurs in older files."""

    WIN = "win"
    LEAN = "lean"
    TIE = "tie"
    BOTH_BAD = "both_bad"
    INCONSISTENT = "inconsistent"


class Kind(enum.IntEnum):
    """An outcome, its label and a judge's both-bad flag as one integer: what a table stores and counts."""

    WIN_A = 0
    WIN_B = 1
    TIE = 2
    BOTH_BAD = 3
    LEAN_A = 4
    LEAN_B = 5
    INCONSISTENT = 6
    #: The same with the flag: the judge called both responses bad, but still chose a result.
    WIN_A_FLAGGED = 7
    WIN_B_FLAGGED = 8
    TIE_FLAGGED = 9
    LEAN_A_FLAGGED = 10
    LEAN_B_FLAGGED = 11
    INCONSISTENT_FLAGGED = 12

    @property
    def flagged(self) -> bool:
        """Whether a judge called both responses bad."""
        return self >= Kind.WIN_A_FLAGGED

    @property
    def plain(self) -> Kind:
        """The same kind without the flag, which is what is rated."""
        return _PLAIN.get(self, self)

    @property
    def with_flag(self) -> Kind:
        """The same kind with the flag; an outcome ``both_bad`` needs none."""
        return _FLAGGED.get(self, self)


KIND_COUNT = len(Kind)
DECISIVE = frozenset({Outcome.MODEL_A, Outcome.MODEL_B})
#: Labels that can result from two orders or a panel.
JUDGE_LABELS = (Label.WIN, Label.LEAN, Label.TIE, Label.INCONSISTENT)
_PLAIN = {kind: Kind[kind.name.removesuffix("_FLAGGED")] for kind in Kind if kind.flagged}
_FLAGGED = {plain: flagged for flagged, plain in _PLAIN.items()}

#: How LMArena and JudgeArena spell ``both_bad``. A battle that was read with it is written with it.
TIE_BOTH_BAD = "tie (bothbad)"
_SPELLINGS = {
    "modela": Outcome.MODEL_A,
    "a": Outcome.MODEL_A,
    "modelb": Outcome.MODEL_B,
    "b": Outcome.MODEL_B,
    "tie": Outcome.TIE,
    "bothbad": Outcome.BOTH_BAD,
    "tiebothbad": Outcome.BOTH_BAD,
}

_KINDS = {
    (Outcome.MODEL_A, None): Kind.WIN_A,
    (Outcome.MODEL_A, Label.WIN): Kind.WIN_A,
    (Outcome.MODEL_A, Label.LEAN): Kind.LEAN_A,
    (Outcome.MODEL_B, None): Kind.WIN_B,
    (Outcome.MODEL_B, Label.WIN): Kind.WIN_B,
    (Outcome.MODEL_B, Label.LEAN): Kind.LEAN_B,
    (Outcome.TIE, None): Kind.TIE,
    (Outcome.TIE, Label.TIE): Kind.TIE,
    (Outcome.TIE, Label.INCONSISTENT): Kind.INCONSISTENT,
    (Outcome.BOTH_BAD, None): Kind.BOTH_BAD,
    (Outcome.BOTH_BAD, Label.BOTH_BAD): Kind.BOTH_BAD,
}

_LABELLED = {kind: (outcome, label) for (outcome, label), kind in _KINDS.items() if label is not None}
#: Outcome and label of each kind: the inverse of `kind_of`.
SPELLED = {kind: _LABELLED[kind.plain] for kind in Kind}


def parse_outcome(text: object) -> Outcome:
    """Parse an outcome; an unknown one raises, and is never taken as a tie.

    Case, spaces and punctuation do not matter: ``tie (bothbad)``, ``both_bad`` and
    ``BothBad`` are the same outcome.
    """
    if isinstance(text, str):
        found = _SPELLINGS.get(re.sub(r"[\W_]", "", text.lower()))
        if found is not None:
            return found
    raise BadBattle(f"winner is {quoted(text)}; expected model_a, model_b, tie or both_bad")


def parse_label(text: object) -> Label | None:
    """Parse a label; ``None`` if absent."""
    if text is None or text == "":
        return None
    try:
        return Label(str(text))
    except ValueError:
        expected = ", ".join(Label)
        raise BadBattle(f"label is {quoted(text)}; expected one of {expected}") from None


def kind_of(outcome: Outcome, label: Label | None = None, *, both_bad: bool = False) -> Kind:
    """Outcome, label and flag as one integer; raises if the label contradicts the outcome."""
    try:
        kind = _KINDS[outcome, label]
    except KeyError:
        raise BadBattle(f"label {label} contradicts winner {outcome}") from None
    return kind.with_flag if both_bad else kind


def reconcile_outcomes(first: Outcome, second: Outcome) -> tuple[Outcome, Label]:
    """The same winner twice is a win, a tie twice a tie, a win and a tie a lean, opposite wins inconsistent.

    Both outcomes are from the same ``model_a``'s side: a win of one of them, or a tie.
    """
    winners = [outcome for outcome in (first, second) if outcome in DECISIVE]
    if not winners:
        return Outcome.TIE, Label.TIE
    if len(winners) == 1:
        return winners[0], Label.LEAN
    return (first, Label.WIN) if first is second else (Outcome.TIE, Label.INCONSISTENT)
