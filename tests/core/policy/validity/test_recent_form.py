"""Record, form, average score, spread, confidence, expected scores."""

import math

import numpy as np
import pytest
from hypothesis import given

from support.told_arenas import BAD, TIE, A, B, arena, arenas, strengthen
from tiltyard.core.policy.validity.model_record import (
    VoteRecord,
    average_score,
    expected_scores,
    prompt_result_spread,
    prompt_results,
    recent_form,
    vote_record,
)

VOTES = [
    *[(0, 1, 0, A), (0, 1, 0, A)],
    *[(0, 1, 1, A), (1, 0, 1, A), (0, 1, 1, BAD)],
    *[(0, 1, 2, TIE), (0, 1, 2, B), (0, 1, 2, TIE), (0, 1, 2, B)],
    *[(0, 1, 3, A), (0, 1, 3, BAD)],
]


def test_the_average_score_is_a_mean_over_prompts_and_spread_needs_three():
    # 1, ½ and ¼; on the fourth prompt only one vote rates skill.
    standing = arena(2, 5, VOTES)
    assert prompt_results(standing, 0).tolist() == [1.0, 0.5, 0.25]
    assert average_score(standing, 0) == pytest.approx(1.75 / 3)
    assert prompt_result_spread(standing, 0) == pytest.approx(np.std([1.0, 0.5, 0.25]))
    standing = arena(2, 5, VOTES[:5])
    assert average_score(standing, 0) == 0.75
    assert prompt_result_spread(standing, 0) is None
    assert average_score(arena(2, 2), 0) is None


def test_the_record_counts_both_bad_apart():
    record = vote_record(arena(2, 5, VOTES), 0)
    assert record == VoteRecord(4, 3, 2, 2)
    assert (record.votes, record.rated, record.win_rate) == (11, 9, pytest.approx(4 / 9))
    assert VoteRecord(0, 0, 0, 3).win_rate is None


def test_recent_form_is_the_last_twenty_votes_oldest_first():
    form = recent_form(
        arena(2, 1, [(0, 1, 0, B)] * 9 + [(0, 1, 0, A)] * 17 + [(0, 1, 0, TIE), (0, 1, 0, BAD)]), 0
    )
    assert form.letters == "L" + "W" * 17 + "TB"
    assert form.record == VoteRecord(17, 1, 1, 1)
    assert form.score == pytest.approx(17.5 / 19)


def test_expected_scores_are_elos_curve():
    standing = strengthen(arena(3, 1), [1500, 1500, 1900])
    assert expected_scores(standing, 0)[1:].tolist() == pytest.approx([0.5, 1 / 11])
    assert math.isnan(expected_scores(standing, 0)[0])


@given(arenas())
def test_two_models_expected_scores_add_up_to_one(standing):
    for i in range(len(standing.models)):
        for j in range(i):
            both = expected_scores(standing, i)[j] + expected_scores(standing, j)[i]
            assert both == pytest.approx(1.0)


@given(arenas())
def test_means_are_shares_and_never_nan(standing):
    for model in range(len(standing.models)):
        score, deviation = average_score(standing, model), prompt_result_spread(standing, model)
        assert score is None or 0.0 <= score <= 1.0
        assert deviation is None or 0.0 <= deviation <= 0.5
        assert vote_record(standing, model).votes == standing.record[model].sum()
