"""Prompt coverage: strict, adjusted, exhausted, and at the band's floor."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.told_arenas import BAD, TIE, A, B, arena, arenas, cast, strengthen, votes_of
from tiltyard.core.policy.state.policy import Policy
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
from tiltyard.core.policy.validity.prompt_coverage import (
    ModelCoverage,
    band_top_coverage,
    cells_to_coverage,
    count_lacking_cells,
    coverage_of,
    decisive_votes_to_fill,
    decisive_votes_to_mean,
    servable_prompts,
    top_coverage,
    votes_to_coverage,
)


def naive(standing, model):
    """Counted cell by cell, from the words of the policy."""
    policy = standing.policy
    eligible = filled = exhausted = top = 0
    for prompt in range(len(standing.prompts)):
        others = [
            j for j in np.flatnonzero(standing.enabled) if j != model and standing.cells.answered[j, prompt]
        ]
        if not (standing.cells.answered[model, prompt] and others):
            continue
        wins, losses, ties, bad = standing.cells.tally[model, prompt].tolist()
        eligible += 1
        top += wins + losses >= policy.top_prompt_floor
        if wins + losses >= policy.prompt_floor:
            filled += 1
        elif wins + losses + ties + bad >= policy.patience * policy.prompt_floor:
            exhausted += 1
    if not eligible:
        return ModelCoverage(0, 0, 0, None, None, None)
    return ModelCoverage(
        eligible, filled, exhausted, filled / eligible, (filled + exhausted) / eligible, top / eligible
    )


@given(arenas())
def test_coverage_is_what_counting_cell_by_cell_gives(standing):
    for model in range(len(standing.models)):
        assert coverage_of(standing, model) == naive(standing, model)


@given(st.data())
def test_more_votes_never_lower_coverage(data):
    standing = arena(4, 3, data.draw(votes_of(4, 3)))
    before = [coverage_of(standing, model) for model in range(4)]
    cast(standing, data.draw(votes_of(4, 3)))
    for model in range(4):
        after = coverage_of(standing, model)
        assert after.strict >= before[model].strict
        assert after.adjusted >= before[model].adjusted
        assert after.top >= before[model].top


def test_coverage_of_exhausted_cells_of_nobody_and_of_a_band():
    standing = arena(2, 2, [(0, 1, p, BAD) for p in (0, 1)] * 6)
    found = coverage_of(standing, 0)
    assert (found.strict, found.adjusted, found.exhausted) == (0.0, 1.0, 2)
    assert math.isinf(votes_to_coverage(standing, 0, 0.8))
    standing = arena(2, 2, answered=np.array([[True, False], [False, True]]))
    assert coverage_of(standing, 0) == ModelCoverage(0, 0, 0, None, None, None)
    assert top_coverage(standing, 0) is None
    assert band_top_coverage(standing) is None
    assert math.isinf(votes_to_coverage(standing, 0, 0.8))
    standing = arena(3, 2, [(0, 1, 0, A)] * 4 + [(0, 2, 1, A)] * 4, policy=Policy(contenders=2))
    strengthen(standing, [1700, 1600, 1500])
    assert [top_coverage(standing, k) for k in range(3)] == [1.0, 0.5, 0.5]
    assert band_top_coverage(standing) == 0.75


def test_cells_lack_what_their_floor_asks():
    standing = arena(2, 5, [(0, 1, 0, A), (0, 1, 1, A), (0, 1, 1, A), *[(0, 1, 2, TIE)] * 6])
    assert count_lacking_cells(standing, 0).tolist() == [0, 1, 2]


@pytest.mark.parametrize(("more", "votes"), [(0, 0), (1, 1), (3, 5), (4, math.inf)])
def test_cells_that_lack_fewest_are_filled_first(more, votes):
    assert decisive_votes_to_fill(np.array([0, 1, 2]), more) == votes


@pytest.mark.parametrize(
    ("eligible", "covered", "bar", "cells"), [(100, 0.9, 0.9, 0), (10, 0.85, 0.9, 1), (7, 0, 0.8, 6)]
)
def test_cells_missing_round_up(eligible, covered, bar, cells):
    assert cells_to_coverage(eligible, covered, bar) == cells


@pytest.mark.parametrize(
    ("gap", "votes"),
    [(0.0, 0), (0.05, 1), (0.1, 2), (0.11, 4), (0.3, 10), (0.305, 12), (0.31, 14), (0.32, math.inf)],
)
def test_the_mean_is_raised_where_a_vote_raises_it_most(gap, votes):
    """Two models of 10 and 100 cells: a cell of the first brings 0.05, of the other 0.005."""
    lacking, eligible = np.array([[0, 2, 4], [0, 0, 2]]), np.array([10, 100])
    assert decisive_votes_to_mean(lacking, eligible, gap) == votes


@given(st.data())
def test_the_mean_rises_by_at_least_what_was_asked_and_no_cell_of_the_last_kind_is_wasted(data):
    models = data.draw(st.integers(1, 4))
    rows = data.draw(
        st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=models, max_size=models)
    )
    eligible = np.array([sum(row) + data.draw(st.integers(1, 9)) for row in rows])
    lacking = np.array([(0, *row) for row in rows])
    reach = float((lacking.sum(axis=1) / eligible).mean())
    every = float((lacking @ np.arange(3)).sum())
    assert decisive_votes_to_mean(lacking, eligible, reach) == every
    assert math.isinf(decisive_votes_to_mean(lacking, eligible, reach + 1e-3))
    gaps = np.linspace(0.0, reach, 7)
    needed = [decisive_votes_to_mean(lacking, eligible, gap) for gap in gaps.tolist()]
    assert needed == sorted(needed)


@given(arenas())
def test_a_prompt_is_live_where_two_enabled_models_have_answered(standing):
    answering = (standing.cells.answered & standing.enabled[:, None]).sum(axis=0)
    assert servable_prompts(standing).tolist() == (answering >= 2).tolist()


def test_votes_to_coverage_worked_by_hand():
    """10 prompts, 4 filled; 4 more lack 2 each; every vote is decisive and the lane is never coverage."""
    votes = [(0, 1, p, A) for p in range(4)] * 2
    standing = arena(2, 10, votes)
    hits = (0.6 - 0.2) / math.log(0.6 / 0.2)
    assert votes_to_coverage(standing, 0, 0.8) == pytest.approx(8 / hits)
    assert votes_to_coverage(standing, 0, 0.4) == 0.0


# Floors of neighbours, and what a model did against them.


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
    for floor in adjacent_floors(standing, standing.order[:10]):
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
