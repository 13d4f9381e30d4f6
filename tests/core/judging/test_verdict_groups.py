"""Verdicts grouped for a reader: what flips, what is disputed, what failed, what is missing."""

from __future__ import annotations

import pytest

from support.judged_rows import failed, judged_from, questions_of, said
from tiltyard.core.battles import Label, Outcome
from tiltyard.core.judging.matches import Match
from tiltyard.core.judging.question import Question, QuestionPurpose
from tiltyard.core.judging.reconciliation import group_verdicts
from tiltyard.core.judging.verdict import VerdictStep

FIRST, EVEN, SECOND = VerdictStep.FIRST, VerdictStep.EVEN, VerdictStep.SECOND
MATCH = Match("d", "p", "x", "y")
OTHER = Match("d", "p", "x", "z")


def rows(match, judge, *steps, purpose=QuestionPurpose.MATCH):
    """The two orders of a match by one judge; ``None`` is a call that failed."""
    asked = questions_of(match, judge, purpose)
    return [
        failed(question) if step is None else judged_from(question, said(step))
        for question, step in zip(asked, steps, strict=False)
    ]


def one_group(*parts):
    (found,) = group_verdicts([row for part in parts for row in part])
    return found


def test_a_match_has_the_results_of_its_judges_who_may_dispute():
    group = one_group(rows(MATCH, "j", FIRST, SECOND), rows(MATCH, "k", FIRST, FIRST))
    assert (group.dimension, group.prompt_id, group.model_a, group.model_b) == ("d", "p", "x", "y")
    assert group.purpose is QuestionPurpose.MATCH
    assert [one.question.judge for one in group.judged] == ["j", "j", "k", "k"]
    assert group.results["j"].outcome is Outcome.MODEL_A
    assert group.results["k"].label is Label.INCONSISTENT
    assert group.flips()
    assert group.flips("k")
    assert not group.flips("j")
    assert group.disputed
    assert not group.lacks()
    assert group.passed is None
    assert not group.failed
    group = one_group(rows(MATCH, "j", FIRST, SECOND), rows(MATCH, "k", FIRST, EVEN))
    assert not group.disputed
    assert not group.flips()


def test_an_order_without_a_verdict_leaves_no_result():
    for steps in ((None, FIRST), (FIRST, None)):
        group = one_group(rows(MATCH, "j", *steps), rows(MATCH, "k", FIRST, SECOND))
        assert group.results["j"] is None
        assert not group.flips()
        assert not group.disputed
        assert not group.lacks("k")
        assert group.lacks("j")
    assert one_group(rows(MATCH, "j", FIRST, None)[1:]).results == {"j": None}


def test_a_match_that_was_asked_in_one_order_has_the_result_of_its_verdict():
    for place, outcome in enumerate((Outcome.MODEL_A, Outcome.MODEL_B)):
        (result,) = one_group(rows(MATCH, "j", FIRST, FIRST)[place : place + 1]).results.values()
        assert (result.outcome, result.label, result.pref) == (outcome, Label.WIN, 0.75 - place / 2)
    (result,) = one_group(rows(MATCH, "j", EVEN, EVEN)[:1]).results.values()
    assert (result.outcome, result.label, result.pref) == (Outcome.TIE, Label.TIE, 0.5)


def test_matches_come_in_order_with_planted_questions_each_apart():
    again = rows(MATCH, "j", FIRST, FIRST, purpose=QuestionPurpose.REPEAT)
    found = list(group_verdicts([*rows(MATCH, "j", FIRST, SECOND), *rows(OTHER, "j", EVEN, EVEN), *again]))
    assert [group.purpose for group in found] == [QuestionPurpose.MATCH] * 2 + [QuestionPurpose.REPEAT] * 2
    assert [group.before for group in found] == [None, None, FIRST, SECOND]
    assert [group.passed for group in found] == [None, None, True, False]
    assert found[3].failed
    assert found[3].results == {}
    assert (found[3].model_a, found[3].model_b) == ("x", "y")


@pytest.mark.parametrize(
    ("purpose", "spoilt", "step", "passed"),
    [
        (QuestionPurpose.IDENTICAL, 0, EVEN, True),
        (QuestionPurpose.IDENTICAL, 1, FIRST, False),
        (QuestionPurpose.TRUNCATED, 0, SECOND, True),
        (QuestionPurpose.TRUNCATED, 0, FIRST, False),
        (QuestionPurpose.GARBAGE, 1, FIRST, True),
        (QuestionPurpose.GARBAGE, 1, EVEN, False),
        (QuestionPurpose.GARBAGE, 1, None, None),
    ],
)
def test_a_planted_question_is_passed_or_failed(purpose, spoilt, step, passed):
    question = Question("j", "d", "p", "x", "x", purpose, spoilt=spoilt)
    group = one_group([failed(question) if step is None else judged_from(question, said(step))])
    assert group.passed is passed
    assert group.lacks() is (step is None)


def test_a_repeat_without_a_first_verdict_is_neither_passed_nor_failed():
    again = rows(OTHER, "k", EVEN, EVEN, purpose=QuestionPurpose.REPEAT)
    for before in (
        [],
        rows(MATCH, "k", FIRST, FIRST),
        rows(OTHER, "j", FIRST, FIRST),
        rows(OTHER, "k", None, EVEN)[:1],
        [*rows(OTHER, "k", None, None), *rows(MATCH, "k", FIRST, FIRST)],
    ):
        found = list(group_verdicts([*before, again[0]]))
        assert (found[-1].passed, found[-1].before) == (None, None)
    silent = failed(questions_of(OTHER, "k", QuestionPurpose.REPEAT)[0])
    found = list(group_verdicts([*rows(OTHER, "k", FIRST, FIRST), silent]))
    assert (found[-1].passed, found[-1].before) == (None, FIRST)
