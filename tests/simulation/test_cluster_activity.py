"""How active prompts and voters are, and how that goes on."""

import numpy as np
import pytest

from tiltyard.simulation.log_forecast import ClusterActivity, fit_activity


def test_a_closed_set_is_found_closed_though_not_all_of_it_was_seen():
    rng = np.random.default_rng(1)
    counts = np.bincount(rng.integers(0, 100, 250), minlength=100)
    found = fit_activity(counts)
    assert found.is_closed
    assert (counts > 0).sum() < found.size <= 115


def test_prompts_that_keep_coming_are_found_open():
    rng = np.random.default_rng(2)
    truth = ClusterActivity(0, 0, 0.6, 5.0)
    labels = truth.go_on(np.empty(0, dtype=np.int64), 4000, rng)
    found = fit_activity(np.bincount(labels))
    assert not found.is_closed
    assert found.size is None
    assert found.discount == pytest.approx(0.6, abs=0.1)


@pytest.mark.parametrize("discount", [0.0, 0.5])
def test_the_next_battle_is_on_each_prompt_as_often_as_the_process_says(discount):
    known = np.array([0] * 8 + [1] * 2)
    activity = ClusterActivity(10, 2, discount, 3.0)
    rng = np.random.default_rng(3)
    drawn = np.concatenate([activity.go_on(known, 1, rng) for _ in range(20_000)])
    expected = [(8 - discount) / 13, (2 - discount) / 13, (3 + 2 * discount) / 13]
    np.testing.assert_allclose(np.bincount(drawn) / len(drawn), expected, atol=0.015)


def test_a_closed_set_never_grows_beyond_its_size():
    activity = ClusterActivity(4, 3, -2.0, 10.0)
    assert activity.size == 5
    labels = activity.go_on(np.array([0, 1, 2, 0]), 2000, np.random.default_rng(4))
    assert set(labels.tolist()) == set(range(5))


def test_too_little_to_tell_is_a_closed_set_of_what_was_seen():
    assert fit_activity(np.array([7])).size == 1
    assert fit_activity(np.array([1, 0])).size == 1


def test_where_each_battle_has_a_prompt_of_its_own_new_ones_keep_coming():
    found = fit_activity(np.ones(400, dtype=np.int64))
    assert found.size is None
    drawn = found.go_on(np.arange(400), 400, np.random.default_rng(5))
    assert len(set(drawn.tolist())) > 390
