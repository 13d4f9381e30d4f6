"""Evaluations in a row: when a board is official, and how scores have moved."""

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.told_arenas import arena, arenas, cast, full_votes, strengthen, uniform_votes
from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.state.rating_fold import Rater, RaterSettings
from tiltyard.core.policy.validity.arena_fold import decode_fold, encode_fold
from tiltyard.core.policy.validity.publication import (
    Evaluation,
    EvaluationHistory,
    evaluate,
    look,
    votes_between_evaluations,
)


def history_of(holds, in_a_row=3):
    """Evaluations every 250 votes that held or did not."""
    one = evaluate(strengthen(arena(2, 1), [1600, 1500]))
    history = EvaluationHistory(in_a_row=in_a_row)
    for k, held in enumerate(holds, 1):
        history = history.after(replace(one, votes=250 * k, holds=held))
    return history


@pytest.mark.parametrize(
    ("holds", "official", "since", "first"),
    [
        ("", False, None, None),
        ("yy", False, None, None),
        ("yyy", True, 750, 750),
        ("yyyyy", True, 750, 750),
        ("yynyyy", True, 1500, 1500),
        ("yyyn", False, None, 750),
        ("yyynyyyy", True, 1750, 750),
    ],
)
def test_a_board_is_official_after_three_in_a_row(holds, official, since, first):
    history = history_of([held == "y" for held in holds])
    assert history.official is official
    assert history.official_since() == since
    assert history.first_official() == first


@given(st.lists(st.booleans(), max_size=12), st.integers(1, 4))
def test_official_means_that_the_last_ones_all_held(holds, in_a_row):
    history = history_of(holds, in_a_row)
    assert history.official == (len(holds) >= in_a_row and all(holds[-in_a_row:]))
    assert (history.official_since() is None) == (not history.official)
    if history.official:
        assert history.first_official() <= history.official_since()


@given(arenas())
def test_an_evaluation_holds_exactly_when_all_its_rules_do(standing):
    found = evaluate(standing, time=7)
    assert found.holds == all(rule.holds for rule in found.rules)
    assert (found.votes, found.time) == (standing.votes, 7)
    assert found.order.tolist() == standing.order.tolist()


def test_an_evaluation_is_not_changed_by_later_votes():
    standing = strengthen(arena(2, 10, full_votes(2, 10, 8)), [1600, 1500])
    found = evaluate(standing)
    strengthen(standing, [1400, 1700], 30.0)
    assert found.order.tolist() == [0, 1]
    assert found.rating.tolist() == [1600, 1500]
    assert found.coverage.tolist() == [1.0, 1.0]
    assert found.holds


def moved():
    """Three evaluations: 0, 250 and 500 votes; m2 joins before the last."""
    standing = arena(3, 1, retired=[2])
    history = EvaluationHistory()
    for votes, rating, rd in ((0, 1500, 300), (250, 1540, 200), (500, 1600, 100)):
        if votes == 500:
            standing.enable(2)
        strengthen(standing, [rating, 1500, 1450], rd)
        history = history.after(replace(evaluate(standing, time=10 * votes), votes=votes))
    return history


def test_recent_delta_is_the_conservative_score_against_250_votes_ago_if_there_is_one():
    standing, history = strengthen(arena(3, 1, retired=[2]), [1700, 1500, 1450], 80.0), moved()
    standing.votes = 600
    assert history.recent_delta(0, standing) == (1700 - 160) - (1540 - 400)
    standing.votes = 750
    assert history.recent_delta(0, standing) == (1700 - 160) - (1600 - 200)
    assert history.recent_delta(2, standing) is None
    standing.enable(2)
    strengthen(standing, [1700, 1500, 1450], 80.0)
    assert history.recent_delta(2, standing) == (1450 - 160) - (1450 - 200)
    standing.votes = 600
    assert history.recent_delta(2, standing) is None, "not enabled then"
    standing.votes = 249
    assert history.recent_delta(0, standing) is None
    assert EvaluationHistory().recent_delta(0, standing) is None


def same(one, other):
    for part in fields(Evaluation):
        mine, yours = getattr(one, part.name), getattr(other, part.name)
        if isinstance(mine, np.ndarray):
            assert mine.dtype == yours.dtype
            np.testing.assert_array_equal(mine, yours)
        else:
            assert mine == yours
            assert type(mine) is type(yours)


def saved_and_restored(standing, history):
    rater = Rater(RaterSettings(), len(standing.models))
    standing, _, history, _ = decode_fold(encode_fold(standing, rater, history, None))
    return standing, history


def test_a_history_saved_and_restored_half_way_goes_on_the_same():
    votes = uniform_votes(3, 6, 300, seed=2)
    straight, history = arena(3, 6), EvaluationHistory(in_a_row=2)
    standing, kept = arena(3, 6), EvaluationHistory(in_a_row=2)
    for step in range(6):
        for one in (straight, standing):
            cast(one, votes[50 * step : 50 * step + 50])
            strengthen(one, [1600 + step, 1500, 1400], 100.0 - 10 * step)
        history, kept = history.after(evaluate(straight)), kept.after(evaluate(standing))
        standing, kept = saved_and_restored(standing, kept)
    for one, other in zip(history.evaluations, kept.evaluations, strict=True):
        same(one, other)
    assert history.official
    assert (kept.official_since(), kept.first_official()) == (
        history.official_since(),
        history.first_official(),
    )
    assert kept.recent_delta(0, standing) == history.recent_delta(0, standing)


@pytest.mark.parametrize(
    ("models", "prompts", "votes", "every"),
    [(3, 6, 0, 25), (3, 6, 249, 25), (3, 6, 250, 50), (3, 6, 3000, 250), (3, 20, 0, 72), (20, 100, 0, 250)],
)
def test_a_small_arena_is_evaluated_every_tenth_of_what_it_can_collect(models, prompts, votes, every):
    standing = arena(models, prompts)
    assert standing.collectable_votes == 12 * prompts * models * (models - 1) / 2
    standing.votes = votes
    assert votes_between_evaluations(standing) == every


def test_where_prompts_are_free_there_is_no_end_of_votes():
    standing = arena(3, 2, policy=Policy(free_prompts=True))
    assert votes_between_evaluations(standing) == 250


def test_evaluations_of_a_large_arena_come_every_250_votes_and_of_a_small_one_as_it_grows():
    for models, prompts, until, expected in (
        (5, 60, 600, [250, 500]),
        (3, 6, 400, [*range(25, 251, 25), 300, 350, 400]),
    ):
        standing, history, looks = arena(models, prompts), EvaluationHistory.under(Policy()), []
        for votes in range(1, until + 1):
            standing.votes = votes
            if votes == history.next_votes:
                before, history = len(history.evaluations), look(standing, history)
                looks += [votes] * (len(history.evaluations) - before)
        assert looks == expected


def test_how_long_it_is_until_the_board_is_official():
    standing = strengthen(arena(3, 6, full_votes(3, 6, 8)), [1700, 1600, 1500])
    history = EvaluationHistory((evaluate(standing),), next_votes=150)
    assert standing.votes == 144
    assert history.evaluations[0].holds
    assert history.until_official(standing) == (2, 6 + 25)
