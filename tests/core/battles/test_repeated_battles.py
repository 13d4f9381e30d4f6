"""Battles that are in a log twice."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
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


def test_a_time_of_day_is_a_name():
    noon = datetime(2026, 5, 1, 12, tzinfo=UTC)
    timed = [
        replace(one, voter=None, question_id=None, time=noon + timedelta(seconds=k))
        for k, one in enumerate(VOTES)
    ]
    assert repeated(timed) == []
    assert repeated([*timed, *timed[10:60]]) == [(50, 350)]
    later = [replace(one, time=one.time + timedelta(hours=1)) for one in timed]
    assert repeated(timed + later) == []
    dated = [replace(one, time=noon.replace(hour=0)) for one in timed]
    assert repeated(dated * 2) == []


def test_voters_who_meet_a_pair_again_are_no_copies():
    rng = np.random.default_rng(0)
    again = [
        replace(
            one,
            voter=f"v{k % 3}",
            question_id=f"q{k % 4}",
            winner=rng.choice([Outcome.MODEL_A, Outcome.MODEL_B]),
        )
        for k, one in enumerate(VOTES)
    ]
    swapped = [
        replace(one, model_a=one.model_b, model_b=one.model_a) if rng.random() < 0.5 else one for one in again
    ]
    assert repeated(swapped) == []
    assert Table.from_battles(swapped).repeats == 0


def blocks(battles: list[Battle]) -> int:
    return Table.from_battles(battles).block_repeats


def nameless(
    n: int, seed: int, *, plan: bool = False, fixed: bool = False, skill: float = 0.7
) -> list[Battle]:
    """Battles of four models without names; pairs may follow a plan, and stand in fixed places."""
    rng = np.random.default_rng(seed)
    pairs = [(a, b) for a in "wxyz" for b in "wxyz" if a < b]
    battles = []
    for k in range(n):
        a, b = pairs[k % 6 if plan else rng.integers(6)]
        winner = (
            Outcome.MODEL_A
            if rng.random() < 1.0 / (1.0 + np.exp(skill * (ord(a) - ord(b))))
            else Outcome.MODEL_B
        )
        if not fixed and rng.random() < 0.5:
            a, b = b, a
            winner = Outcome.MODEL_B if winner is Outcome.MODEL_A else Outcome.MODEL_A
        battles.append(Battle(model_a=a, model_b=b, winner=winner))
    return battles


@pytest.mark.parametrize("copies", [2, 3, 20])
def test_a_file_without_names_that_was_joined_is_found(copies):
    battles = nameless(150, copies)
    assert blocks(battles * copies) == 150 * (copies - 1)
    apart = [*battles, *nameless(40, 100), *battles]
    assert blocks(apart) == 150
    winners = [
        one
        if one.winner is Outcome.MODEL_A
        else replace(one, model_a=one.model_b, model_b=one.model_a, winner=Outcome.MODEL_A)
        for one in battles
    ]
    assert blocks(winners * copies) == 150 * (copies - 1)


@pytest.mark.parametrize("plan", [False, True])
@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("skill", [0.2, 3.0])
def test_honest_logs_without_names_have_no_copies(plan, fixed, skill):
    for seed in range(6):
        for n in (4, 30, 100, 1500):
            assert blocks(nameless(n, seed, plan=plan, fixed=fixed, skill=skill)) == 0


def test_one_vote_again_and_again_is_no_block():
    steady = [Battle(model_a="x", model_b="y", winner=Outcome.MODEL_A)] * 300
    assert blocks(steady) == 0
    assert blocks([*steady, *nameless(300, 0)]) == 0


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
