"""Makes battles from verdicts: a judge's two orders become one result, several judges a panel's, each match a battle.

For readers, verdicts are grouped by match or planted question.
"""

from __future__ import annotations

import statistics
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TypedDict

from tiltyard.core.battles import Battle
from tiltyard.core.battles.battle import TIE_PREF_TOLERANCE
from tiltyard.core.battles.outcome import DECISIVE, JUDGE_LABELS, Label, Outcome, reconcile_outcomes
from tiltyard.core.judging.diagnostics.verdict_rows import SIGNS
from tiltyard.core.judging.judged_question import JudgedQuestion
from tiltyard.core.judging.match_design import BOTH_ORDERS, MatchDesign
from tiltyard.core.judging.matches import Match, Prompt
from tiltyard.core.judging.question import Question, QuestionPurpose
from tiltyard.core.judging.verdict import Verdict, VerdictStep
from tiltyard.errors import UnreadableFile

#: How much each step prefers the response in slot A.
_SLOT_PREF = {
    VerdictStep.FIRST_MUCH: 1.0,
    VerdictStep.FIRST: 0.75,
    VerdictStep.EVEN: 0.5,
    VerdictStep.SECOND: 0.25,
    VerdictStep.SECOND_MUCH: 0.0,
}

_STEPS = tuple(VerdictStep)


@dataclass(frozen=True, slots=True)
class MatchResult:
    """The result of two orders, or of a panel, as needed for a battle. ``pref`` is P(model_a is better)."""

    outcome: Outcome
    label: Label
    pref: float
    #: Whether both responses were called bad. It does not change the outcome.
    both_bad: bool = False


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
    votes = Counter(result.outcome if result.outcome in DECISIVE else result.label for result in results)
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


def _bounds(outcome: Outcome, label: Label) -> tuple[float, float]:
    """The range of preferences that do not contradict a result."""
    if outcome is Outcome.MODEL_A:
        return 0.5, 1.0
    if outcome is Outcome.MODEL_B:
        return 0.0, 0.5
    if label is Label.TIE:
        return 0.5 - TIE_PREF_TOLERANCE, 0.5 + TIE_PREF_TOLERANCE
    return 0.0, 1.0


@dataclass(frozen=True, slots=True)
class JudgedMatch:
    """One match with its questions and each judge's result; ``battle`` is ``None`` if the match is incomplete."""

    match: Match
    battle: Battle | None
    results: Mapping[str, MatchResult | None]
    judged: Sequence[JudgedQuestion]


def panel_name(judges: Sequence[str]) -> str:
    """The value of ``judge_model``: the judge, or all judges of a panel sorted by name."""
    return judges[0] if len(judges) == 1 else "panel:" + "+".join(sorted(judges))


def build_match_battles(
    matches: Iterable[Match],
    judged: Iterable[JudgedQuestion],
    judges: Sequence[str],
    quorum: int,
    tags: Mapping[str, Prompt],
    design: MatchDesign = BOTH_ORDERS,
) -> Iterator[JudgedMatch]:
    """Every match with its battle, in the order of ``matches``; streams, with one match in memory.

    ``judged`` must be in the same order; canaries and repeats are skipped. A judge that lacks the verdict of an order in
    which it was asked has no result. With one judge its result is the battle; with several, the panel's.
    """
    name = panel_name(judges)
    rows = (row for row in judged if row.question.purpose is QuestionPurpose.MATCH)
    row = next(rows, None)
    for match in matches:
        verdicts: dict[tuple[str, int], Verdict | None] = {}
        asked: list[JudgedQuestion] = []
        while row is not None and _is_of(row.question, match):
            place = row.question.judge, row.question.order
            if place in verdicts or place[0] not in judges:
                raise _misplaced(row)
            verdicts[place] = row.verdict
            asked.append(row)
            row = next(rows, None)
        results = {
            judge: match_result({n: verdicts.get((judge, n)) for n in design.asked_orders(match, judge)})
            for judge in judges
        }
        found = [result for result in results.values() if result is not None]
        result = panel_result(found, quorum) if len(judges) > 1 else next(iter(found), None)
        battle = None if result is None else _battle(match, result, name, tags.get(match.prompt_id))
        yield JudgedMatch(match, battle, results, asked)
    if row is not None:
        raise _misplaced(row)


def _is_of(question: Question, match: Match) -> bool:
    first, second = match.model_a, match.model_b
    return (
        question.prompt_id == match.prompt_id
        and question.dimension == match.dimension
        and (question.first, question.second) in ((first, second), (second, first))
    )


def _misplaced(row: JudgedQuestion) -> UnreadableFile:
    question = row.question
    return UnreadableFile(
        f"the verdict of {question.judge} on {question.first} and {question.second}, prompt {question.prompt_id}, "
        f"dimension {question.dimension} (question {question.id}) is a duplicate, out of order, or belongs to no "
        "match of this run; expected one for each judge and order, in the order of the matches"
    )


def match_result(verdicts: Mapping[int, Verdict | None]) -> MatchResult | None:
    """The result of a judge by the orders in which it was asked; ``None`` if one of them lacks its verdict.

    The verdict of a single order is a win or a tie as it stands: orders are drawn, so that a slot favours nobody.
    """
    said = {order: verdict for order, verdict in verdicts.items() if verdict is not None}
    if not said or len(said) < len(verdicts):
        return None
    if len(said) == 2:
        return reconcile(said[0], said[1])
    ((order, verdict),) = said.items()
    pref = abs(order - _SLOT_PREF[verdict.step])
    outcome = _preferred(pref)
    return MatchResult(outcome, Label.TIE if outcome is Outcome.TIE else Label.WIN, pref, verdict.both_bad)


def _battle(match: Match, result: MatchResult, judge: str, prompt: Prompt | None) -> Battle:
    return Battle(
        model_a=match.model_a,
        model_b=match.model_b,
        winner=result.outcome,
        label=result.label,
        both_bad=result.both_bad,
        source="llm-judge",
        question_id=match.prompt_id,
        judge_model=judge,
        dimension=match.dimension,
        category=prompt.category if prompt else None,
        language=prompt.language if prompt else None,
        pref=result.pref,
    )


class MatchCounts(TypedDict):
    """The results of the matches of one dimension, as written in `diagnostics.json`."""

    matches: int
    settled: int
    incomplete: int
    decisive: int
    both_bad: int
    labels: dict[str, int]


@dataclass
class DimensionTally:
    """The results of the matches of one dimension. ``labels`` has every label of a judge, including zeros."""

    matches: int = 0
    settled: int = 0
    decisive: int = 0
    both_bad: int = 0
    labels: Counter[Label] = field(default_factory=Counter)

    @property
    def incomplete(self) -> int:
        return self.matches - self.settled

    def to_dict(self) -> MatchCounts:
        return {
            "matches": self.matches,
            "settled": self.settled,
            "incomplete": self.incomplete,
            "decisive": self.decisive,
            "both_bad": self.both_bad,
            "labels": {label.value: self.labels[label] for label in JUDGE_LABELS},
        }


class MatchTally:
    """Counts by dimension, in order of first occurrence."""

    def __init__(self) -> None:
        self.dimensions: dict[str, DimensionTally] = {}

    def add(self, settled: JudgedMatch) -> None:
        counts = self.dimensions.setdefault(settled.match.dimension, DimensionTally())
        counts.matches += 1
        battle = settled.battle
        if battle is not None and battle.label is not None:
            counts.settled += 1
            counts.decisive += battle.winner in DECISIVE
            counts.both_bad += bool(battle.both_bad)
            counts.labels[battle.label] += 1

    def to_dict(self) -> dict[str, MatchCounts]:
        return {name: counts.to_dict() for name, counts in self.dimensions.items()}


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
            orders: dict[str, dict[int, Verdict | None]] = {}
            for one in together:
                orders.setdefault(one.question.judge, {})[one.question.order] = one.verdict
            yield _group(together, results={judge: match_result(said) for judge, said in orders.items()})
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
