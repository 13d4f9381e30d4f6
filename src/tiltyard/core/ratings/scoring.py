"""What rating methods share: the score of each kind of battle, from A's side, sums by index, and checks of parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tiltyard.core.battles import KIND_COUNT, CodedBattles, Kind
from tiltyard.errors import BadOption
from tiltyard.foundation.arrays import Floats

Ints = npt.NDArray[np.integer[Any]]


def sum_by_index(index: Ints, values: Floats, size: int) -> Floats:
    """``out[k]`` is the sum of ``values`` where ``index`` is k."""
    return np.asarray(np.bincount(index, values, size), dtype=np.float64)


def laplacians(a: Ints, b: Ints, value: Floats, cluster: Ints, shape: tuple[int, int]) -> Floats:
    """For each cluster the sum of value·(e_a − e_b)(e_a − e_b)ᵀ over its battles; ``shape`` is clusters by models."""
    parts = np.zeros((shape[0], shape[1], shape[1]))
    for i, j, sign in ((a, a, 1.0), (b, b, 1.0), (a, b, -1.0), (b, a, -1.0)):
        np.add.at(parts, (cluster, i, j), sign * value)
    return parts


@dataclass(frozen=True, slots=True)
class Scoring:
    """How outcomes are scored: a win is 1, the rest is configurable.

    A judge's both-bad flag does not change the score; the outcome ``both_bad`` is not scored unless asked for.
    """

    #: ``half``: a tie is half a win for each; ``drop``: ties and inconsistent results are left out.
    ties: Literal["half", "drop"] = "half"
    #: The score of a lean (decisive in one order, a tie in the other) for its winner.
    lean: float = 0.75
    #: The score of an inconsistent result (opposite winners in the two orders) for A; ``None`` leaves it out.
    inconsistent: float | None = 0.5
    #: Use a battle's stated preference, if it has one, instead of its outcome.
    soft: bool = False
    #: The outcome ``both_bad``: ``drop`` leaves it out, ``tie`` scores and counts it as a tie.
    both_bad: Literal["drop", "tie"] = "drop"

    def __post_init__(self) -> None:
        if self.ties not in ("half", "drop"):
            raise BadOption(f"ties is {self.ties!r}; expected half or drop")
        if self.both_bad not in ("drop", "tie"):
            raise BadOption(f"both_bad is {self.both_bad!r}; expected drop or tie")
        if not (0.5 <= self.lean <= 1.0 and 0.0 <= (self.inconsistent or 0.0) <= 1.0):
            raise BadOption("lean must lie between 0.5 and 1, inconsistent between 0 and 1")

    def counted_kinds(self) -> tuple[Kind, ...]:
        """As what each `Kind` is scored and counted: where ``both_bad`` is a tie, it is one with the flag."""
        tied = self.both_bad == "tie" and self.ties == "half"
        return tuple(Kind.TIE_FLAGGED if tied and kind is Kind.BOTH_BAD else kind for kind in Kind)

    def by_kind(self) -> Floats:
        """A's score for each `Kind`; NaN if that kind is left out."""
        scores = np.full(KIND_COUNT, np.nan)
        scores[Kind.WIN_A], scores[Kind.WIN_B] = 1.0, 0.0
        scores[Kind.LEAN_A], scores[Kind.LEAN_B] = self.lean, 1.0 - self.lean
        if self.ties == "half":
            scores[Kind.TIE] = 0.5
            if self.inconsistent is not None:
                scores[Kind.INCONSISTENT] = self.inconsistent
        return scores[[kind.plain for kind in self.counted_kinds()]]

    def of(self, codes: CodedBattles) -> Floats:
        """A's score in every battle of a log; NaN if it is left out."""
        scores = self.by_kind()[codes.kind]
        if self.soft and codes.pref is not None:
            stated = ~np.isnan(codes.pref) & ~np.isnan(scores)
            scores[stated] = codes.pref[stated]
        scores[codes.a == codes.b] = np.nan
        return scores


def require_number(name: str, value: Any, holds: Callable[[Any], bool], expected: str) -> None:
    """Raise `BadOption`, which names the parameter, if its value is no number or the condition does not hold."""
    try:
        fits = holds(value)
    except TypeError:
        fits = False
    if not fits:
        raise BadOption(f"{name} is {value!r}; expected {expected}")


def require_level(level: float) -> None:
    """Raise `BadOption` unless this can be a confidence level."""
    require_number("level", level, lambda value: 0.0 < value < 1.0, "a number between 0 and 1")


def require_above_zero(name: str, value: float) -> None:
    require_number(name, value, lambda value: value > 0.0, "a number above 0")


def require_at_least(name: str, value: float, least: int) -> None:
    require_number(name, value, lambda value: value >= least, f"a number, {least} or more")
