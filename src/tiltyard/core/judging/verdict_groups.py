"""Verdicts grouped for a reader: a match with both orders of every judge, or one planted question or repeat."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from tiltyard.core.battles.outcome import Label
from tiltyard.core.judging.diagnostics.verdict_rows import SIGNS
from tiltyard.core.judging.judged_question import JudgedQuestion
from tiltyard.core.judging.question import QuestionPurpose
from tiltyard.core.judging.reconciliation import MatchResult, reconcile
from tiltyard.core.judging.verdict import VerdictStep

_STEPS = tuple(VerdictStep)


@dataclass(frozen=True, slots=True)
class VerdictGroup:
    """One match, or one planted question or repeat, with what was said of it.

    ``model_a`` sorts first by name. ``results`` has the result of each judge of a match, ``None`` where an
    order has no verdict; it is empty for planted questions and repeats, which have one judge.
    """

    dimension: str
    prompt_id: str
    model_a: str
    model_b: str
    purpose: QuestionPurpose
    judged: tuple[JudgedQuestion, ...]
    results: Mapping[str, MatchResult | None]
    #: Whether the judge passed; ``None`` for matches, and where this cannot be said.
    passed: bool | None = None
    #: The verdict of a repeat's first asking, if it had one.
    before: VerdictStep | None = None

    def flips(self, judge: str | None = None) -> bool:
        """Whether the winner of a judge, or of this one, changes with the order."""
        return any(
            result is not None and result.label is Label.INCONSISTENT
            for name, result in self.results.items()
            if judge in (None, name)
        )

    @property
    def disputed(self) -> bool:
        """Whether judges with a result disagree about who won."""
        return len({result.outcome for result in self.results.values() if result is not None}) > 1

    @property
    def failed(self) -> bool:
        """Whether the judge failed a planted question, or chose otherwise when asked again."""
        return self.passed is False

    def lacks(self, judge: str | None = None) -> bool:
        """Whether a judge, or this one, gave no verdict on a question."""
        return any(one.verdict is None for one in self.judged if judge in (None, one.question.judge))


def group_verdicts(judged: Iterable[JudgedQuestion]) -> Iterator[VerdictGroup]:
    """The groups of one dimension, in the order of its verdicts; streams.

    The questions of a match are consecutive, and repeats come after the matches, as in canonical order.
    """
    first_askings = _FirstAskings()
    for _, rows in groupby(judged, key=_group_key):
        together = tuple(rows)
        row = together[0]
        if row.question.purpose is QuestionPurpose.MATCH:
            first_askings.add(together)
            orders: dict[str, list[JudgedQuestion | None]] = {}
            for one in together:
                orders.setdefault(one.question.judge, [None, None])[one.question.order] = one
            yield _group(together, results={judge: _result(*both) for judge, both in orders.items()})
        elif row.question.purpose is QuestionPurpose.REPEAT:
            before = first_askings.find(row)
            yield _group(together, passed=_repeated(row, before), before=before)
        else:
            yield _group(together, passed=passes(row))


def _group_key(row: JudgedQuestion) -> str | None:
    """Equal for the questions of one match; any other question is a group of its own."""
    return row.match_id if row.question.purpose is QuestionPurpose.MATCH else row.question.id


def _group(
    together: tuple[JudgedQuestion, ...],
    *,
    results: Mapping[str, MatchResult | None] | None = None,
    passed: bool | None = None,
    before: VerdictStep | None = None,
) -> VerdictGroup:
    question = together[0].question
    model_a, model_b = sorted((question.first, question.second))
    return VerdictGroup(
        question.dimension,
        question.prompt_id,
        model_a,
        model_b,
        question.purpose,
        together,
        results or {},
        passed,
        before,
    )


def _result(a_first: JudgedQuestion | None, b_first: JudgedQuestion | None) -> MatchResult | None:
    if a_first is None or b_first is None or a_first.verdict is None or b_first.verdict is None:
        return None
    return reconcile(a_first.verdict, b_first.verdict)


def passes(row: JudgedQuestion) -> bool | None:
    """Whether the judge passed a planted question. A pair of identical responses: neither chosen. A spoilt copy: the whole response chosen."""
    if row.verdict is None:
        return None
    chosen = SIGNS[row.verdict.step]
    if row.question.purpose is QuestionPurpose.IDENTICAL:
        return chosen == 0
    return chosen == (-1 if row.question.spoilt == 0 else 1)


def _repeated(row: JudgedQuestion, before: VerdictStep | None) -> bool | None:
    if row.verdict is None or before is None:
        return None
    return SIGNS[row.verdict.step] == SIGNS[before]


class _FirstAskings:
    """The verdicts of matches, for their repeats: a few bytes of each."""

    def __init__(self) -> None:
        self._keys = array("Q")
        self._starts = array("Q")
        #: Judge, and order and step together, of each verdict.
        self._verdicts = array("H")
        self._judges: dict[str, int] = {}

    def add(self, together: Sequence[JudgedQuestion]) -> None:
        self._keys.append(_match_number(together[0]))
        self._starts.append(len(self._verdicts))
        for one in together:
            if one.verdict is not None:
                judge = self._judges.setdefault(one.question.judge, len(self._judges))
                self._verdicts.extend((judge, _STEPS.index(one.verdict.step) << 1 | one.question.order))

    def find(self, row: JudgedQuestion) -> VerdictStep | None:
        """The verdict of the same judge on the same match in the same order, if there is one."""
        key, judge = _match_number(row), self._judges.get(row.question.judge)
        if key not in self._keys:
            return None
        place = self._keys.index(key)
        last = self._starts[place + 1] if place + 1 < len(self._starts) else len(self._verdicts)
        for k in range(self._starts[place], last, 2):
            if self._verdicts[k] == judge and self._verdicts[k + 1] & 1 == row.question.order:
                return _STEPS[self._verdicts[k + 1] >> 1]
        return None


def _match_number(row: JudgedQuestion) -> int:
    """The first half of a match's ID."""
    return int((row.match_id or "0")[:16], 16)
