"""Floors of neighbours, and what a model did against them."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.told_arenas import BAD, TIE, A, B, arena, arenas, cast, strengthen, votes_of
from tiltyard.core.policy.validity.pair_floors import (
    adjacent_floors,
    challenge_record,
    challenges_of,
    floor_of,
    neighbours_of,
    pair_coverage,
    pair_coverage_score,
    votes_to_floor,
)


def spread_votes(n, prompts, kind=A):
    return [(0, 1, k % prompts, kind) for k in range(n)]


@pytest.mark.parametrize(
    ("votes", "met"),
    [
        (spread_votes(12, 6), True),
        (spread_votes(11, 6), False),
        (spread_votes(12, 5), False),
        (spread_votes(12, 6, TIE), False),
        (spread_votes(12, 6, BAD), False),
    ],
)
def test_a_floor_is_twelve_decisive_votes_on_six_prompts(votes, met):
    assert floor_of(arena(2, 8, votes), 0, 1).met is met


def withdrawn(standing, prompts):
    for prompt in prompts:
        standing.respond(0, prompt, present=False)
    return standing


def test_votes_on_a_withdrawn_prompt_do_not_fill_the_floor_of_a_pair_that_never_met_on_the_one_left():
    standing = withdrawn(arena(2, 8, [(0, 1, 0, A)] * 12), range(7))
    floor = floor_of(standing, 0, 1)
    assert (floor.prompts, floor.prompts_needed, floor.met, floor.lacking) == (1, 2, False, 1)
    cast(standing, [(0, 1, 7, A)])
    assert floor_of(standing, 0, 1).met


@pytest.mark.parametrize(
    ("met_on", "gone", "needed"),
    [
        (range(0), range(0), 6),
        (range(0), range(5), 3),
        (range(5, 8), range(5), 3),
        (range(1), range(7), 2),
        (range(7), range(7), 6),
        (range(8), range(8), 0),
    ],
)
def test_prompts_needed_are_those_shared_now_or_met_on(met_on, gone, needed):
    standing = withdrawn(arena(2, 8, [(0, 1, p, A) for p in met_on]), gone)
    assert standing.prompts_needed(0, 1) == standing.prompts_needed(1, 0) == needed


def test_a_withdrawn_prompt_without_a_decisive_vote_asks_for_nothing():
    votes = [(0, 1, 0, TIE), *[(0, 1, 1, A)] * 12]
    floor = floor_of(withdrawn(arena(2, 2, votes), [0]), 0, 1)
    assert (floor.prompts_needed, floor.met) == (1, True)


@given(st.data())
def test_a_floor_can_always_be_filled_on_the_prompts_that_are_shared(data):
    standing = arena(3, 8, data.draw(votes_of(3, 8)))
    for model, prompt in data.draw(st.sets(st.tuples(st.integers(0, 2), st.integers(0, 7)))):
        standing.respond(model, prompt, present=False)
    shared = np.flatnonzero(standing.cells.answered[:2].all(axis=0)).tolist()
    before = standing.prompts_needed(0, 1)
    cast(standing, [(0, 1, prompt, A) for prompt in shared] * 12)
    assert standing.prompts_needed(0, 1) == before
    assert floor_of(standing, 0, 1).met == bool(shared)


def test_what_a_floor_lacks_worked_by_hand():
    floor = floor_of(arena(2, 2, answered=np.array([[True, False], [False, True]])), 0, 1)
    assert not floor.met
    assert pair_coverage(floor) == 0.0
    assert math.isinf(votes_to_floor(floor, 0.8))
    floor = floor_of(arena(2, 6, spread_votes(11, 6) + spread_votes(25, 6, TIE)), 0, 1)
    assert floor.indistinguishable
    assert not floor.met
    assert math.isinf(votes_to_floor(floor, 0.8))
    assert not floor_of(arena(2, 6, spread_votes(12, 6) + spread_votes(25, 6, TIE)), 0, 1).indistinguishable
    # 4 of 12 votes on 4 of 6 prompts in 5 attempts: 8 more at (4 + 10·0.8) / (5 + 10).
    floor = floor_of(arena(2, 6, [*spread_votes(4, 4), (0, 1, 5, TIE)]), 0, 1)
    assert floor.lacking == 8
    assert votes_to_floor(floor, 0.8) == pytest.approx(8 * 15 / 12)
    assert pair_coverage(floor) == pytest.approx(4 / 12)
    assert math.isinf(votes_to_floor(floor, math.nan))
    floor = floor_of(arena(2, 6, spread_votes(20, 2)), 0, 1)
    assert floor.lacking == 4
    assert pair_coverage(floor) == pytest.approx(2 / 6)
    assert votes_to_floor(floor_of(arena(2, 6, spread_votes(12, 6)), 0, 1), 0.8) == 0.0


@given(arenas())
def test_a_floor_is_full_exactly_when_it_is_met(standing):
    for floor in adjacent_floors(standing, 10):
        assert (pair_coverage(floor) == 1.0) == floor.met
        assert 0.0 <= pair_coverage(floor) <= 1.0
        assert (floor.lacking == 0) == floor.met or not floor.prompts_needed
    for model in range(len(standing.models)):
        score = pair_coverage_score(standing, model)
        assert score is None or 0.0 <= score <= 1.0
        assert (score is None) == (not standing.enabled[model] or standing.n_enabled < 2)


def test_neighbours_are_those_by_conservative_score():
    standing = strengthen(arena(4, 1, retired=[3]), [1500, 1700, 1600, 1550])
    assert standing.order.tolist() == [1, 2, 0]
    assert neighbours_of(standing, 1) == (None, 2)
    assert neighbours_of(standing, 2) == (1, 0)
    assert neighbours_of(standing, 0) == (2, None)
    assert neighbours_of(standing, 3) == (None, None)


def test_the_pair_coverage_score_is_the_mean_over_both_neighbours():
    standing = arena(3, 6, [(0, 1, k % 6, A) for k in range(12)] + [(1, 2, 0, A)] * 6)
    strengthen(standing, [1700, 1600, 1500])
    assert pair_coverage_score(standing, 1) == pytest.approx((1 + 1 / 6) / 2)
    assert pair_coverage_score(standing, 0) == 1.0


def test_the_challenge_record_is_seen_from_the_model():
    votes = [(0, 1, 0, A), (1, 0, 0, A), (0, 1, 1, B), (0, 1, 2, TIE), (1, 0, 2, BAD)]
    standing = strengthen(arena(2, 3, votes), [1600, 1500])
    mine, yours = challenge_record(standing, 0, 1), challenge_record(standing, 1, 0)
    assert (mine.votes, mine.wins, mine.losses, mine.ties, mine.both_bad) == (5, 1, 2, 1, 1)
    assert (yours.wins, yours.losses) == (2, 1)
    assert challenges_of(standing, 0) == (None, mine)
    assert challenges_of(standing, 1) == (yours, None)
    assert mine.floor.votes == 3
