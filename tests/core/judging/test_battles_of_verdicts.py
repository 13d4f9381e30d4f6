"""From verdicts to battles: one for each complete match, streaming, and nothing slips in."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.judged_rows import failed, judged_from, questions_of, said
from tiltyard.core.battles import Battle, Label, Outcome
from tiltyard.core.battles.outcome import JUDGE_LABELS
from tiltyard.core.judging import (
    JudgedQuestion,
    Match,
    MatchTally,
    Prompt,
    Question,
    QuestionPurpose,
    VerdictStep,
    build_match_battles,
    panel_name,
    panel_result,
    reconcile,
)
from tiltyard.errors import UnreadableFile

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
