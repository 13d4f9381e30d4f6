"""Outcomes, labels, and the small integers by which tables count them."""

from __future__ import annotations

import enum
import re

from tiltyard.errors import BadBattle

__all__ = [
    "DECISIVE",
    "KINDS",
    "SPELLED",
    "Kind",
    "Label",
    "Outcome",
    "kind_of",
    "parse_label",
    "parse_outcome",
]


class Outcome(enum.StrEnum):
    """What was decided. Only ``model_a`` and ``model_b`` are decisive."""

    MODEL_A = "model_a"
    MODEL_B = "model_b"
    TIE = "tie"
    BOTH_BAD = "both_bad"


class Label(enum.StrEnum):
    """How firmly it was decided, where a judge was asked in both orders."""

    WIN = "win"
    LEAN = "lean"
    TIE = "tie"
    BOTH_BAD = "both_bad"
    INCONSISTENT = "inconsistent"


class Kind(enum.IntEnum):
    """An outcome and its label as one integer: what a table stores and counts."""

    WIN_A = 0
    WIN_B = 1
    TIE = 2
    BOTH_BAD = 3
    LEAN_A = 4
    LEAN_B = 5
    INCONSISTENT = 6


KINDS = len(Kind)
DECISIVE = frozenset({Outcome.MODEL_A, Outcome.MODEL_B})

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

#: Outcome and label of each kind: `kind_of`, the other way round.
SPELLED = {kind: (outcome, label) for (outcome, label), kind in _KINDS.items() if label is not None}


def parse_outcome(text: object) -> Outcome:
    """The outcome that ``text`` spells; anything unknown is an error, never a tie.

    Case, spaces and punctuation do not matter: ``tie (bothbad)``, ``both_bad`` and
    ``BothBad`` are one outcome.
    """
    if isinstance(text, str):
        found = _SPELLINGS.get(re.sub(r"[\W_]", "", text.lower()))
        if found is not None:
            return found
    raise BadBattle(f"winner is {text!r}; expected model_a, model_b, tie or both_bad")


def parse_label(text: object) -> Label | None:
    """The label that ``text`` spells; an absent one is ``None``."""
    if text is None or text == "":
        return None
    try:
        return Label(str(text))
    except ValueError:
        expected = ", ".join(Label)
        raise BadBattle(f"label is {text!r}; expected one of {expected}") from None


def kind_of(outcome: Outcome, label: Label | None = None) -> Kind:
    """Outcome and label as one integer; a label that contradicts the outcome is an error."""
    try:
        return _KINDS[outcome, label]
    except KeyError:
        raise BadBattle(f"label {label} contradicts winner {outcome}") from None
