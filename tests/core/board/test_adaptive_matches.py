"""Adaptive designs: each round follows from the verdicts before it, and ends where the order is settled."""

from __future__ import annotations

import random
from collections import Counter
from itertools import combinations

import numpy as np
import pytest

from tiltyard.core.battles import Battle, Outcome
from tiltyard.core.board.adaptive_matches import next_matches
from tiltyard.core.judging.match_design import round_size
from tiltyard.core.judging.matches import Match


def pool(models, prompts, lacking=()):
    return [
        Match("d", f"p{p:03d}", f"m{i:02d}", f"m{j:02d}")
        for p in range(prompts)
        for i, j in combinations(range(models), 2)
        if not {(i, p), (j, p)} & set(lacking)
    ]


def battle(match, winner):
    return Battle(
        model_a=match.model_a,
        model_b=match.model_b,
        winner=winner,
        question_id=match.prompt_id,
        dimension="d",
    )


def by_strength(step):
    """A judge by the numbers of the models, ``step`` logits apart."""

    def judged(match):
        lead = step * (int(match.model_b[1:]) - int(match.model_a[1:]))
        drawn = random.Random(match.id).random()
        return battle(match, Outcome.MODEL_A if drawn < 1.0 / (1.0 + np.exp(-lead)) else Outcome.MODEL_B)

    return judged


def rounds(matches, judge, seed=0):
    """All rounds of a run."""
    asked, battles = set(), []
    while more := next_matches(matches, asked, battles, seed):
        assert not asked & set(more)
        assert set(more) <= set(matches)
        asked |= set(more)
        battles += [made for one in more if (made := judge(one)) is not None]
        yield more


def test_an_order_that_is_clear_is_settled_by_a_part_of_the_matches():
    matches = pool(6, 60)
    run = list(rounds(matches, by_strength(1.5)))
    assert sum(map(len, run)) < 0.7 * len(matches)
    assert all(len(one) <= round_size(matches) for one in run)
    counts = Counter((one.model_a, one.model_b) for more in run for one in more)
    assert counts["m00", "m01"] > 1.5 * counts["m00", "m05"]


def test_each_round_follows_from_what_was_judged_before_in_whatever_order():
    matches = pool(5, 40)
    run = list(rounds(matches, by_strength(0.3), seed=5))
    assert run == list(rounds(matches, by_strength(0.3), seed=5))
    assert run != list(rounds(matches, by_strength(0.3), seed=6))
    before = [match for more in run[:2] for match in more]
    random.Random(1).shuffle(before)
    battles = list(map(by_strength(0.3), before))
    assert next_matches(matches, {*before}, battles, 5) == run[2]


@pytest.mark.parametrize(
    "judge",
    [
        pytest.param(lambda one: battle(one, Outcome.TIE), id="ties"),
        pytest.param(lambda _one: None, id="no verdicts"),
        pytest.param(by_strength(0.0), id="equal"),
    ],
)
@pytest.mark.parametrize(("models", "prompts"), [(2, 80), (5, 1), (4, 30)])
def test_what_is_not_settled_is_asked_to_the_end(models, prompts, judge):
    matches = pool(models, prompts)
    assert sum(map(len, rounds(matches, judge))) == len(matches)


def test_two_models_are_settled_by_the_battles_of_some_prompts():
    judged = sum(map(len, rounds(pool(2, 1000), by_strength(1.5))))
    assert 100 <= judged <= 300


def test_missing_answers_leave_out_their_matches_alone():
    matches = pool(4, 40, lacking=[(0, p) for p in range(38)])
    assert sum(map(len, rounds(matches, by_strength(0.0)))) == len(matches)


def test_prompts_are_used_alike_by_each_model():
    (first, second, *_) = rounds(pool(6, 30), by_strength(0.2))
    used = Counter((name, one.prompt_id) for one in first + second for name in (one.model_a, one.model_b))
    assert max(used.values()) <= 3
