"""Two orders make one result, several judges one panel's; both can stand as battles."""

from __future__ import annotations

import itertools
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.judged_rows import failed, judged_from, questions_of, said
from tiltyard.core.battles import Battle, Label, Outcome
from tiltyard.core.battles.outcome import JUDGE_LABELS
from tiltyard.core.judging.judged_question import JudgedQuestion
from tiltyard.core.judging.matches import Match, Prompt
from tiltyard.core.judging.question import Question, QuestionPurpose
from tiltyard.core.judging.reconciliation import (
    MatchResult,
    MatchTally,
    build_match_battles,
    panel_name,
    panel_result,
    reconcile,
)
from tiltyard.core.judging.verdict import Verdict, VerdictStep
from tiltyard.errors import UnreadableFile

A, B, TIE = Outcome.MODEL_A, Outcome.MODEL_B, Outcome.TIE
MIRROR = {A: B, B: A, TIE: TIE}
SAID = [Verdict(step, both_bad, "") for step in VerdictStep for both_bad in (False, True)]
PAIRS = list(itertools.product(SAID, SAID))


def mirrored(result: MatchResult) -> MatchResult:
    return MatchResult(MIRROR[result.outcome], result.label, 1 - result.pref, result.both_bad)


def is_a_battle(result: MatchResult) -> None:
    row = {"model_a": "x", "model_b": "y", "winner": result.outcome.value, "label": result.label.value}
    Battle.from_dict(row | {"pref": result.pref})


def in_words(a_first: Verdict, b_first: Verdict) -> tuple[str, str]:
    """The rules as the issue tells them, by the spelling of the steps."""
    winners = {
        {"A>": "model_a", "A=": "tie", "B>": "model_b"}[a_first.step[:2]],
        {"A>": "model_b", "A=": "tie", "B>": "model_a"}[b_first.step[:2]],
    }
    if len(winners) == 1:
        (winner,) = winners
        return winner, "tie" if winner == "tie" else "win"
    if "tie" in winners:
        (winner,) = winners - {"tie"}
        return winner, "lean"
    return "tie", "inconsistent"


def test_all_hundred_pairs_of_verdicts_reconcile_by_the_written_rules():
    steps = list(VerdictStep)
    for a_first, b_first in PAIRS:
        result = reconcile(a_first, b_first)
        assert (result.outcome.value, result.label.value) == in_words(a_first, b_first)
        assert result.both_bad == (a_first.both_bad and b_first.both_bad)
        for_a = 4 - steps.index(a_first.step) + steps.index(b_first.step)
        assert result.pref == for_a / 8
        is_a_battle(result)
        assert reconcile(b_first, a_first) == mirrored(result)


RESULTS = sorted({reconcile(*pair) for pair in PAIRS}, key=repr)


def panel_in_words(results: list[MatchResult]) -> tuple[str, str]:
    n = len(results)
    for_a = [r for r in results if r.outcome is A]
    for_b = [r for r in results if r.outcome is B]
    for name, side in (("model_a", for_a), ("model_b", for_b)):
        if len(side) > n / 2:
            firm = [r for r in side if r.label is Label.WIN]
            return name, "win" if len(firm) > n / 2 else "lean"
    for label in ("tie", "inconsistent"):
        if len([r for r in results if r.label == label]) > n / 2:
            return "tie", label
    if len(for_a) != len(for_b):
        return ("model_a" if len(for_a) > len(for_b) else "model_b"), "lean"
    return "tie", "inconsistent"


def test_every_panel_of_three_follows_the_written_rules_and_is_a_battle():
    for results in itertools.combinations_with_replacement(RESULTS, 3):
        found = panel_result(results, 3)
        assert (found.outcome.value, found.label.value) == panel_in_words(results)
        is_a_battle(found)


@given(st.lists(st.sampled_from(RESULTS), min_size=1, max_size=9), st.randoms(use_true_random=False))
def test_panels_of_any_size_follow_the_rules_in_any_order_and_mirrored(results, random):
    found = panel_result(results, 1)
    assert (found.outcome.value, found.label.value) == panel_in_words(results)
    assert found.both_bad == (sum(result.both_bad for result in results) > len(results) / 2)
    assert panel_result(random.sample(results, len(results)), 1) == found
    assert panel_result([mirrored(result) for result in results], 1) == mirrored(found)
    is_a_battle(found)
    median = statistics.median(result.pref for result in results)
    low = {A: 0.5}.get(found.outcome, 0.0)
    high = {B: 0.5}.get(found.outcome, 1.0)
    assert found.pref == min(max(median, low), high)


@given(st.lists(st.sampled_from(RESULTS), max_size=5), st.integers(-1, 6))
def test_a_panel_below_its_quorum_has_no_result(results, quorum):
    assert (panel_result(results, quorum) is None) == (len(results) < max(1, quorum))


def test_a_panel_of_one_is_its_judge_and_a_preference_fits_the_outcome():
    for result in RESULTS:
        assert panel_result([result], 1) == result
    against = [
        MatchResult(A, Label.LEAN, 0.625),
        MatchResult(TIE, Label.TIE, 0.25),
        MatchResult(TIE, Label.INCONSISTENT, 0.125),
    ]
    assert panel_result(against, 2) == MatchResult(A, Label.LEAN, 0.5)
    assert panel_result([MatchResult(TIE, Label.TIE, 0.9)], 1) == MatchResult(TIE, Label.TIE, 0.75)


# From verdicts to battles: one for each complete match, streaming, and nothing slips in.


TAGS = {"p": Prompt("p", "?", category="maths", language="en"), "q": Prompt("q", "?")}
MATCHES = [
    Match(dimension, prompt, a, b)
    for dimension in ("d", "e")
    for prompt in ("q", "p")
    for a, b in itertools.combinations("xyz", 2)
]
OUTCOMES = st.none() | st.tuples(st.sampled_from(list(VerdictStep)), st.booleans())


def rows_of(matches, judges, answers) -> list[JudgedQuestion]:
    """Canonical order: match, judge, order; then each dimension's repeats and canaries."""
    rows = []
    for dimension, members in itertools.groupby(matches, key=lambda match: match.dimension):
        group = list(members)
        for match, judge in itertools.product(group, judges):
            for question in questions_of(match, judge):
                answer = next(answers)
                rows.append(
                    failed(question)
                    if answer is None
                    else judged_from(question, said(answer[0], both_bad=answer[1]))
                )
        for question in questions_of(group[0], judges[0], QuestionPurpose.REPEAT):
            rows.append(judged_from(question, said(VerdictStep.FIRST)))
        canary = Question(judges[0], dimension, "p", "x", "x", QuestionPurpose.GARBAGE, spoilt=0)
        rows.append(judged_from(canary, said(VerdictStep.SECOND)))
    return rows


@given(st.integers(1, 3), st.integers(1, 3), st.data())
def test_each_match_is_settled_by_both_orders_of_enough_judges(n_judges, quorum, data):
    judges = ["m2", "m1", "m3"][:n_judges]
    count = len(MATCHES) * n_judges * 2
    answers = data.draw(st.lists(OUTCOMES, min_size=count, max_size=count))
    rows = rows_of(MATCHES, judges, iter(answers))
    found = list(build_match_battles(MATCHES, iter(rows), judges, quorum, TAGS))
    assert [settled.match for settled in found] == MATCHES
    verdicts = {row.question: row.verdict for row in rows}
    tally = MatchTally()
    for settled in found:
        results = {}
        for judge in judges:
            two = [verdicts[question] for question in questions_of(settled.match, judge)]
            results[judge] = None if None in two else reconcile(*two)
        assert settled.results == results
        there = [result for result in results.values() if result]
        expected = panel_result(there, quorum if n_judges > 1 else 1)
        assert (settled.battle is None) == (expected is None)
        if expected:
            check_battle(settled, expected, judges)
        tally.add(settled)
    check_tally(tally, found)


def check_battle(settled, expected, judges) -> None:
    battle = settled.battle
    assert (battle.winner, battle.label, battle.pref) == (expected.outcome, expected.label, expected.pref)
    assert battle.both_bad is expected.both_bad
    assert (battle.model_a, battle.model_b) == (settled.match.model_a, settled.match.model_b)
    assert (battle.source, battle.question_id) == ("llm-judge", settled.match.prompt_id)
    assert (battle.dimension, battle.judge_model) == (settled.match.dimension, panel_name(judges))
    tags = TAGS[settled.match.prompt_id]
    assert (battle.category, battle.language) == (tags.category, tags.language)
    assert Battle.from_dict(battle.to_dict()) == battle


def check_tally(tally, found) -> None:
    assert list(tally.dimensions) == ["d", "e"]
    for dimension, counts in tally.to_dict().items():
        battles = [settled.battle for settled in found if settled.match.dimension == dimension]
        there = [battle for battle in battles if battle is not None]
        decisive = [battle for battle in there if battle.winner in {Outcome.MODEL_A, Outcome.MODEL_B}]
        assert counts == {
            "matches": len(battles),
            "settled": len(there),
            "incomplete": len(battles) - len(there),
            "decisive": len(decisive),
            "both_bad": sum(battle.both_bad for battle in there),
            "labels": {label.value: sum(battle.label is label for battle in there) for label in JUDGE_LABELS},
        }


def honest(judges=("j",)) -> list[JudgedQuestion]:
    return rows_of(MATCHES, list(judges), itertools.repeat((VerdictStep.FIRST, False)))


def settle(rows, judges=("j",)):
    return list(build_match_battles(MATCHES, rows, judges, 1, TAGS))


def test_questions_that_were_never_asked_leave_their_match_incomplete():
    rows = honest()
    whole = settle(rows)
    assert [settled.battle.label for settled in whole] == [Label.INCONSISTENT] * len(MATCHES)
    for left_out in range(len(rows)):
        found = settle(rows[:left_out] + rows[left_out + 1 :])
        purpose = rows[left_out].question.purpose
        assert sum(settled.battle is None for settled in found) == (purpose is QuestionPurpose.MATCH)
    assert all(settled.battle is None for settled in settle([]))


def test_verdicts_that_stand_twice_or_out_of_order_or_belong_to_no_match_are_errors():
    rows = honest()
    stranger = judged_from(Question("j", "d", "nowhere", "x", "y"), said(VerdictStep.FIRST))
    other_judge = judged_from(Question("k", "d", "q", "x", "y"), said(VerdictStep.FIRST))
    itself = judged_from(Question("j", "d", "q", "x", "x"), said(VerdictStep.FIRST))
    for wrong in (
        [rows[0], *rows],
        [*rows[2:4], *rows[:2], *rows[4:]],
        [*rows, stranger],
        [stranger, *rows],
        [other_judge, *rows],
        [itself, *rows],
    ):
        with pytest.raises(UnreadableFile, match="duplicate"):
            settle(wrong)


def test_nothing_is_read_ahead_of_the_match_at_hand():
    read = 0

    def counted():
        nonlocal read
        for row in honest():
            read += 1
            yield row

    found = build_match_battles(iter(MATCHES), counted(), ["j"], 1, TAGS)
    next(found)
    assert read == 3


def test_a_panel_is_called_by_its_judges_in_any_order():
    assert panel_name(["j"]) == "j"
    assert panel_name(["k", "j"]) == panel_name(["j", "k"]) == "panel:j+k"
