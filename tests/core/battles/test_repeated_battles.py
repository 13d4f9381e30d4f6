"""Battles that are in a log twice."""

from dataclasses import replace

import pytest

from tiltyard.core.battles import Battle, Outcome, Table
from tiltyard.core.ratings import BradleyTerry

VOTES = [
    Battle(
        model_a="a",
        model_b="b",
        winner=Outcome.MODEL_A if k % 3 else Outcome.MODEL_B,
        question_id=f"q{k % 50}",
        voter=f"v{k}",
    )
    for k in range(300)
]


def repeated(battles: list[Battle]) -> list[tuple[int, int]]:
    findings = BradleyTerry()(Table.from_battles(battles)).findings
    return [
        (found.values["repeats"], found.values["battles"])
        for found in findings
        if found.name == "repeated-battles"
    ]


def test_a_file_that_was_joined_twice_is_found():
    assert repeated(VOTES) == []
    assert repeated([*VOTES, *VOTES]) == [(300, 600)]
    assert repeated([*VOTES, *VOTES, *VOTES]) == [(600, 900)]
    assert Table.from_battles([*VOTES, *VOTES]).merge(Table.from_battles(VOTES)).repeats == 300


def test_few_copies_are_not_worth_a_word():
    assert repeated([*VOTES, *VOTES[:3]]) == []
    assert repeated([*VOTES, *VOTES[:4]]) == [(4, 304)]


@pytest.mark.parametrize(
    "change",
    [
        {"winner": Outcome.TIE},
        {"model_a": "b", "model_b": "a"},
        {"voter": "another"},
        {"voter": None},
        {"question_id": "another"},
        {"question_id": None},
        {"dimension": "style"},
        {"judge_model": "judge"},
    ],
    ids="-".join,
)
def test_what_differs_is_another_battle(change):
    others = [replace(battle, **change) for battle in VOTES]
    assert Table.from_battles([*VOTES[:1], *others[:1]]).repeats == 0


def test_people_without_a_name_may_agree():
    assert repeated([replace(battle, voter=None) for battle in VOTES] * 2) == []
    assert repeated([replace(battle, question_id=None) for battle in VOTES] * 2) == []


def test_a_judge_is_a_name_too():
    judged = [
        replace(battle, voter=None, judge_model="judge", question_id=f"q{k}")
        for k, battle in enumerate(VOTES)
    ]
    assert repeated(judged) == []
    assert repeated(judged * 2) == [(300, 600)]
    sure = [replace(battle, pref=0.9 if battle.winner is Outcome.MODEL_A else 0.1) for battle in judged]
    surer = [replace(battle, pref=0.8 if battle.winner is Outcome.MODEL_A else 0.2) for battle in judged]
    assert repeated(sure + surer) == []
    assert repeated(sure * 2) == [(300, 600)]
