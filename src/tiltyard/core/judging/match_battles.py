"""Makes battles from verdicts: match by match, both orders, all judges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypedDict

from tiltyard.core.battles import Battle, Label
from tiltyard.core.battles.outcome import DECISIVE, JUDGE_LABELS
from tiltyard.core.judging.judged_question import JudgedQuestion
from tiltyard.core.judging.matches import Match, Prompt
from tiltyard.core.judging.question import Question, QuestionPurpose
from tiltyard.core.judging.reconciliation import MatchResult, panel_result, reconcile
from tiltyard.core.judging.verdict import Verdict
from tiltyard.errors import UnreadableFile

__all__ = ["DimensionTally", "JudgedMatch", "MatchCounts", "MatchTally", "build_match_battles", "panel_name"]


@dataclass(frozen=True, slots=True)
class JudgedMatch:
    """One match with each judge's result; ``battle`` is ``None`` if the match is incomplete."""

    match: Match
    battle: Battle | None
    results: Mapping[str, MatchResult | None]


def panel_name(judges: Sequence[str]) -> str:
    """The value of ``judge_model``: the judge, or all judges of a panel sorted by name."""
    return judges[0] if len(judges) == 1 else "panel:" + "+".join(sorted(judges))


def build_match_battles(
    matches: Iterable[Match],
    judged: Iterable[JudgedQuestion],
    judges: Sequence[str],
    quorum: int,
    tags: Mapping[str, Prompt],
) -> Iterator[JudgedMatch]:
    """Every match with its battle, in the order of ``matches``; streams, with one match in memory.

    ``judged`` must be in the same order; canaries and repeats are skipped. A judge without both
    orders has no result. With one judge its result is the battle; with several, the panel's.
    """
    name = panel_name(judges)
    rows = (row for row in judged if row.question.purpose is QuestionPurpose.MATCH)
    row = next(rows, None)
    for match in matches:
        verdicts: dict[tuple[str, int], Verdict | None] = {}
        while row is not None and _is_of(row.question, match):
            place = row.question.judge, row.question.order
            if place in verdicts or place[0] not in judges:
                raise _misplaced(row)
            verdicts[place] = row.verdict
            row = next(rows, None)
        results = {judge: _result(verdicts.get((judge, 0)), verdicts.get((judge, 1))) for judge in judges}
        found = [result for result in results.values() if result is not None]
        result = panel_result(found, quorum) if len(judges) > 1 else next(iter(found), None)
        battle = None if result is None else _battle(match, result, name, tags.get(match.prompt_id))
        yield JudgedMatch(match, battle, results)
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


def _result(a_first: Verdict | None, b_first: Verdict | None) -> MatchResult | None:
    return None if a_first is None or b_first is None else reconcile(a_first, b_first)


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
