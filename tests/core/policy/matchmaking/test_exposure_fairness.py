"""Exposure fairness: no model strays from its due, and where that cannot be, the choice says so."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.sizes import sized
from support.staged_arenas import Crowd, arena, beyond, capped, free_to_meet, lived, ranked
from tiltyard.core.policy.matchmaking.coverage_lane import starved_models
from tiltyard.core.policy.matchmaking.matchmaker import choose
from tiltyard.core.policy.state.policy import Lane

#: Two starved models do not meet each other first: the one that waits may stray for a matchup or two.


def worst(standing, n, *, after, **how):
    """By how many exposures any model lay outside tolerance, once ``after`` matchups were served."""
    return max(
        beyond(standing) if served >= after else 0.0
        for served, _ in enumerate(lived(standing, n, **how), start=1)
    )


class TestStrict:
    @pytest.mark.no_cover
    @settings(max_examples=sized(3, 6))
    @given(models=st.integers(2, 16), seed=st.integers(0, 1000))
    def test_no_model_is_outside_tolerance_once_the_window_is_full(self, models, seed):
        window = max(60, 18 * models)
        standing = arena(models, 8, window=window)
        assert worst(standing, 3 * window, after=window, seed=seed) == 0.0

    @pytest.mark.no_cover
    @pytest.mark.parametrize(("models", "window"), [(30, 400), (4, 60)])
    def test_nor_in_windows_where_the_tolerance_is_a_share_of_the_target(self, models, window):
        assert worst(arena(models, 12, window=window), 3 * window, after=window) == 0.0

    @pytest.mark.no_cover
    @pytest.mark.slow
    @pytest.mark.parametrize("models", [8, 20])
    def test_nor_in_the_policys_own_window(self, models):
        assert worst(arena(models, 20), 3000, after=2000) == 0.0

    @pytest.mark.no_cover
    @pytest.mark.parametrize(("models", "window"), [(7, 60), (13, 60), (30, 100)])
    def test_nor_where_two_exposures_are_all_the_tolerance(self, models, window):
        """Guard and tolerance leave a single count between them: the controller decides nearly every matchup."""
        after = max(window, 5 * models) + window
        assert worst(arena(models, 12, window=window), after + 3 * window, after=after) == 0.0

    @pytest.mark.no_cover
    @pytest.mark.parametrize("models", [5, 12])
    def test_skipped_matchups_are_exposures_and_change_nothing(self, models):
        standing = arena(models, 8, window=20 * models)
        crowd = Crowd.of(standing, 3, skips=0.5)
        assert worst(standing, 60 * models, after=20 * models, crowd=crowd) == 0.0

    def test_expired_matchups_move_exposures_by_less_than_two_and_for_a_moment(self):
        standing = arena(20, 8, window=400)
        crowd = Crowd.of(standing, 3, skips=0.1, expires=0.2)
        strays = [beyond(standing) for _ in lived(standing, 1200, crowd=crowd)][400:]
        assert max(strays) < 2.0
        assert np.mean(np.array(strays) > 0.0) < 0.02

    def test_choices_asked_two_at_once_move_exposures_by_less_than_one(self):
        standing = arena(20, 12, window=400)
        assert worst(standing, 1200, after=400, at_once=2) < 1.0

    def test_a_newcomer_gets_at_most_15_percent_of_its_first_200_matchups(self):
        standing = arena(20, 30, window=400)
        standing.retire(19)
        list(lived(standing, 900))
        standing.enable(19)
        first = list(lived(standing, 200, seed=5))
        assert 0.05 < np.mean([19 in (choice.left, choice.right) for choice in first]) <= 0.15

    def test_after_a_change_of_roster_tolerance_holds_again_within_a_window(self):
        standing = arena(12, 8, window=240)
        standing.retire(11)
        list(lived(standing, 500))
        standing.enable(11)
        standing.retire(0)
        assert worst(standing, 600, after=240, seed=6) == 0.0


class TestScoped:
    @pytest.mark.parametrize(("models", "window"), [(6, 120), (20, 400)])
    def test_the_other_three_lanes_stay_in_tolerance_to_within_one_exposure(self, models, window):
        # The target itself moves with the number of contender matchups in the window.
        standing = arena(models, 12, window=window, fairness="scoped")
        assert worst(standing, 3 * window, after=window) < 1.0

    @pytest.mark.no_cover
    def test_the_band_is_shown_more_than_strict_fairness_would_allow(self):
        shares = {}
        for fairness in ("strict", "scoped"):
            standing = arena(40, 12, window=600, fairness=fairness)
            choices = list(lived(standing, 900))
            shares[fairness] = np.mean([choice.lane is Lane.CONTENDER for choice in choices[500:]])
        assert shares["scoped"] > shares["strict"]


class TestNothingIsHidden:
    @settings(max_examples=8)
    @given(
        models=st.integers(2, 7),
        prompts=st.integers(1, 5),
        density=st.floats(0.15, 1.0),
        seed=st.integers(0, 1000),
        sessions=st.sampled_from([0, 0, 60]),
        fairness=st.sampled_from(["strict", "scoped"]),
    )
    def test_whenever_a_capped_model_is_served_exposure_is_given_up_and_only_then(
        self, models, prompts, density, seed, sessions, fairness
    ):
        answered = np.random.default_rng(seed).random((models, prompts)) < density
        answered[:2, 0] = True
        standing = arena(models, prompts, answered=answered, window=40, fairness=fairness)
        had_enough: set[int] = set()
        for choice in lived(standing, 100, seed=seed, sessions=sessions):
            apart = fairness == "scoped" and choice.lane is Lane.CONTENDER
            over = bool({choice.left, choice.right} & had_enough) and not apart
            assert over == ("exposure" in choice.given_up)
            had_enough = capped(standing)

    def test_one_hub_that_everybody_needs_is_served_beyond_its_due_openly(self):
        answered = np.eye(5, dtype=bool)
        answered[0] = True
        standing = arena(5, 5, answered=answered, window=60)
        choices = list(lived(standing, 300))
        assert all(0 in (choice.left, choice.right) for choice in choices)
        assert beyond(standing) > 20.0
        assert np.mean(["exposure" in choice.given_up for choice in choices[100:]]) == 1.0

    def test_everyone_capped_is_answered_and_told(self):
        standing = ranked(arena(2, 3, window=50, settling=0))
        standing.window.exposures[:] = 1000
        choice = choose(standing, np.random.default_rng(0))
        assert choice.given_up == ("exposure",)

    def test_under_exposed_models_are_served_first_the_worst_of_all(self):
        standing = arena(6, 4, window=60, settling=1)
        for k in range(30):
            standing.serve(k % 4, (k + 1) % 4, 0)
        standing.serve(4, 0, 1)
        choice = choose(standing, np.random.default_rng(1))
        assert 5 in (choice.left, choice.right)
        assert choice.lane is Lane.COVERAGE
        assert choice.reason == "under-exposed"

    def test_a_starved_model_that_may_meet_nobody_holds_nobody_up(self):
        answered = np.ones((4, 3), dtype=bool)
        answered[3] = False
        standing = arena(4, 3, answered=answered, window=60)
        choices = list(lived(standing, 150))
        assert not any(3 in (choice.left, choice.right) for choice in choices)
        assert all(free_to_meet(standing, choice.left) for choice in choices)


def test_the_most_starved_model_comes_first_and_equals_by_number():
    below = np.array([0.5, 0.0, 2.0, 1.0, 2.0, 3.0])
    field = SimpleNamespace(
        standing=SimpleNamespace(window=SimpleNamespace(active=lambda: True)),
        free=np.array([True, True, True, True, True, False]),
        due=SimpleNamespace(starved=lambda _: below),
        exposures=None,
    )
    assert starved_models(field) == [2, 4, 3, 0]
