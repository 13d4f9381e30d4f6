"""Prompt coverage: strict, adjusted, exhausted, and at the band's floor."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.told_arenas import BAD, TIE, A, arena, arenas, cast, strengthen, votes_of
from tiltyard.core.policy.state.policy import Policy
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
