"""Rows: what is kept of each verdict, as whole numbers in columns, and the pairs that two orders make."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from tiltyard.core.battles.outcome import JUDGE_LABELS, Label
from tiltyard.core.judging.question import QuestionPurpose
from tiltyard.core.judging.verdict import VerdictStep
from tiltyard.errors import BadOption

Ints = npt.NDArray[np.integer[Any]]

PURPOSES = tuple(QuestionPurpose)
LABELS = JUDGE_LABELS
#: Which slot a step chooses: 1 the first, −1 the second, 0 neither.
SIGNS = {
    VerdictStep.FIRST_MUCH: 1,
    VerdictStep.FIRST: 1,
    VerdictStep.EVEN: 0,
    VerdictStep.SECOND: -1,
    VerdictStep.SECOND_MUCH: -1,
}


@dataclass(frozen=True, slots=True, eq=False)
class VerdictRows:
    """Verdicts of one judge in one dimension, column by column. Names are numbers, −1 where there is none."""

    prompt: Ints
    first: Ints
    second: Ints
    first_family: Ints
    second_family: Ints
    purpose: Ints
    #: 1 the first slot was chosen, −1 the second, 0 neither.
    chosen: Ints
    both_bad: Ints
    spoilt: Ints
    #: 1 the first is longer, −1 the second, 0 neither; the same for list items.
    longer: Ints
    lists: Ints

    @classmethod
    def read(cls, values: array[int]) -> VerdictRows:
        """Rows that were written one after another by `row_values`."""
        table = np.array(values, dtype=np.int32).reshape(-1, 6)
        bits = table[:, 5]
        return cls(
            prompt=table[:, 0],
            first=table[:, 1],
            second=table[:, 2],
            first_family=table[:, 3],
            second_family=table[:, 4],
            purpose=(bits & 7).astype(np.int8),
            chosen=_sign(bits >> 3),
            both_bad=(bits >> 5 & 1).astype(np.int8),
            spoilt=_sign(bits >> 6),
            longer=_sign(bits >> 8),
            lists=_sign(bits >> 10),
        )

    def where(self, kept: npt.NDArray[Any]) -> VerdictRows:
        """The rows at these places, or where this is true."""
        return VerdictRows(*(getattr(self, field.name)[kept] for field in fields(self)))

    def keys(self) -> Ints:
        """Prompt and both models, in this order of slots, as one number."""
        return _key(self.prompt, self.first, self.second)

    def purposed(self, purpose: QuestionPurpose) -> VerdictRows:
        return self.where(self.purpose == PURPOSES.index(purpose))


def row_values(
    names: tuple[int, int, int, int, int],
    purpose: int,
    chosen: int,
    both_bad: bool,
    spoilt: int | None,
    longer: int,
    lists: int,
) -> tuple[int, ...]:
    """Six numbers for one verdict, the small ones packed into the last. ``names``: prompt, models, families."""
    slot = 0 if spoilt is None else spoilt + 1
    bits = purpose | (chosen + 1) << 3 | both_bad << 5 | slot << 6 | (longer + 1) << 8 | (lists + 1) << 10
    return (*names, bits)


@dataclass(frozen=True, slots=True, eq=False)
class VerdictPairs:
    """Matches with a verdict in both orders. Signs are from the side of one model, always the same one."""

    prompt: Ints
    #: Prompt and models as one number: the same for every judge.
    key: Ints
    #: 1 or −1, who won; 0 unless the label is win or lean.
    winner: Ints
    #: Place among `LABELS`.
    label: Ints
    #: Whether both orders called both responses bad.
    both_bad: npt.NDArray[np.bool_]
    #: Whether both orders chose somebody.
    decided_twice: npt.NDArray[np.bool_]
    #: Whether the first slot was chosen both times, of those with opposite winners.
    first_twice: npt.NDArray[np.bool_]
    longer: Ints
    lists: Ints
    family: Ints
    rival_family: Ints

    @property
    def inconsistent(self) -> npt.NDArray[np.bool_]:
        return np.asarray(self.label == LABELS.index(Label.INCONSISTENT))

    def where(self, kept: npt.NDArray[np.bool_]) -> VerdictPairs:
        return VerdictPairs(*(getattr(self, field.name)[kept] for field in fields(self)))


def pair_orders(rows: VerdictRows) -> VerdictPairs:
    """The two orders of each match side by side; a match with one verdict only is left out.

    Each order counts for whom it chose, whatever it says of both_bad.
    """
    asked = rows.purposed(QuestionPurpose.MATCH)
    low, high = np.minimum(asked.first, asked.second), np.maximum(asked.first, asked.second)
    turned = asked.first != low
    key = _key(asked.prompt, low, high)
    order = np.lexsort((turned, key))
    key, turned = key[order], turned[order]
    same = key[1:] == key[:-1]
    if (same & (turned[1:] == turned[:-1])).any():
        raise BadOption("the same question was shown to the observer twice; show each question once")
    return _settled(key[:-1][same], asked.where(order[:-1][same]), asked.where(order[1:][same]))


def _settled(key: Ints, straight: VerdictRows, reverse: VerdictRows) -> VerdictPairs:
    one, two = straight.chosen, -reverse.chosen
    winner = np.sign(one + two)
    label = np.select(
        [one * two < 0, one * two > 0, winner != 0],
        [LABELS.index(name) for name in (Label.INCONSISTENT, Label.WIN, Label.LEAN)],
        LABELS.index(Label.TIE),
    )
    return VerdictPairs(
        prompt=straight.prompt,
        key=key,
        winner=winner,
        label=label,
        both_bad=(straight.both_bad & reverse.both_bad).astype(bool),
        decided_twice=one * two != 0,
        first_twice=(one > 0) & (two < 0),
        longer=straight.longer,
        lists=straight.lists,
        family=straight.first_family,
        rival_family=straight.second_family,
    )


def _key(prompt: Ints, one: Ints, other: Ints) -> Ints:
    return prompt.astype(np.int64) << 40 | one.astype(np.int64) << 20 | other


def _sign(bits: Ints) -> Ints:
    """The lowest two bits, which hold −1, 0 or 1, one added."""
    return np.asarray((bits & 3).astype(np.int8) - 1)
