"""Exposure fairness: no model strays from its due, and where that cannot be, the choice says so."""

from collections import deque
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.sizes import sized
from support.staged_arenas import Crowd, arena, beyond, capped, free_to_meet, lived, ranked, whole
from tiltyard.core.policy.matchmaking.lanes import starved_models
from tiltyard.core.policy.matchmaking.matchmaker import choose
from tiltyard.core.policy.state.policy import Lane
from tiltyard.core.policy.state.session_memory import UNSEEN
from tiltyard.core.policy.validity.arena_fold import save

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

    @pytest.mark.slow(but="4-60")
    @pytest.mark.no_cover
    @pytest.mark.parametrize(("models", "window"), [(30, 400), (4, 60)])
    def test_nor_in_windows_where_the_tolerance_is_a_share_of_the_target(self, models, window):
        assert worst(arena(models, 12, window=window), 3 * window, after=window) == 0.0

    @pytest.mark.no_cover
    @pytest.mark.slow
    @pytest.mark.parametrize("models", [8, 20])
    def test_nor_in_the_policys_own_window(self, models):
        assert worst(arena(models, 20), 3000, after=2000) == 0.0

    @pytest.mark.slow(but="7-60")
    @pytest.mark.no_cover
    @pytest.mark.parametrize(("models", "window"), [(7, 60), (13, 60), (30, 100)])
    def test_nor_where_two_exposures_are_all_the_tolerance(self, models, window):
        """Guard and tolerance leave a single count between them: the controller decides nearly every matchup."""
        after = max(window, 5 * models) + window
        assert worst(arena(models, 12, window=window), after + 3 * window, after=after) == 0.0

    @pytest.mark.slow(but="5")
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
    @pytest.mark.slow(but="6-120")
    @pytest.mark.parametrize(("models", "window"), [(6, 120), (20, 400)])
    def test_the_other_three_lanes_stay_in_tolerance_to_within_one_exposure(self, models, window):
        # The target itself moves with the number of contender matchups in the window.
        standing = arena(models, 12, window=window, fairness="scoped")
        assert worst(standing, 3 * window, after=window) < 1.0

    @pytest.mark.slow
    @pytest.mark.no_cover
    def test_the_band_is_shown_more_than_strict_fairness_would_allow(self):
        shares = {}
        for fairness in ("strict", "scoped"):
            standing = arena(40, 12, window=600, fairness=fairness)
            choices = list(lived(standing, 900))
            shares[fairness] = np.mean([choice.lane is Lane.CONTENDER for choice in choices[500:]])
        assert shares["scoped"] > shares["strict"]


class TestNothingIsHidden:
    @settings(max_examples=sized(4, 12))
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


# Matchups that wait to be shown: no exposures, but choices know of them.


FAIRNESS = pytest.mark.parametrize("fairness", ["strict", "scoped"])


def served(standing, n, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        a, b = rng.choice(len(standing.models), 2, replace=False).tolist()
        standing.serve(a, b, int(rng.integers(len(standing.prompts))), lane=Lane(int(rng.integers(4))))
    return standing


@FAIRNESS
def test_a_choice_is_made_as_if_they_were_shown_now(fairness):
    waits, shown = (served(arena(5, 4, window=100, fairness=fairness), 30) for _ in range(2))
    for a, b, lane in ((0, 1, Lane.CONTENDER), (0, 2, Lane.COVERAGE), (3, 4, Lane.EXPLORATION)):
        waits.reserve(a, b, 1, lane)
        shown.serve(a, b, 1, lane=lane)
        (due, exposures), expected = waits.window.planned(), shown.window.due()
        np.testing.assert_allclose(due.target, expected.target)
        np.testing.assert_allclose(due.tolerance, expected.tolerance)
        np.testing.assert_array_equal(exposures, shown.window.counted())
        np.testing.assert_array_equal(whole(waits).exposures, exposures)
        assert waits.window.planned()[0] is due, "computed once, until something changes"


@FAIRNESS
def test_no_count_has_them(fairness):
    standing = served(arena(4, 3, window=60, fairness=fairness), 20)
    before, due = save(standing).digest(), standing.window.due()
    exposures = standing.window.counted().copy()
    standing.reserve(0, 1, 2, Lane.CONTENDER)
    standing.reserve(0, 1, 2, Lane.COVERAGE)
    assert save(standing).digest() == before
    np.testing.assert_array_equal(standing.window.counted(), exposures)
    assert standing.window.due() is due
    standing.unreserve(0, 1, 2, Lane.COVERAGE)
    standing.unreserve(0, 1, 2, Lane.CONTENDER)
    planned = standing.window.planned()
    assert planned[0] is due
    np.testing.assert_array_equal(planned[1], exposures)
    assert standing.meetings.reserved == {}


def test_new_models_have_none():
    standing = arena(3, 2, window=30)
    standing.reserve(0, 1, 0, Lane.COVERAGE)
    standing.widen(("m0", "m1", "m2", "new"), standing.prompts)
    standing.enable(3)
    due, exposures = standing.window.planned()
    np.testing.assert_array_equal(exposures, [1, 1, 0, 0])
    np.testing.assert_allclose(due.target, [0.5] * 4)


def test_a_session_gets_neither_the_pair_nor_the_prompt_that_waits_for_it():
    standing = arena(3, 2)
    rng = np.random.default_rng(5)
    waiting = [(0, 1, 0), (2, 1, 1)]
    for _ in range(40):
        choice = choose(standing, rng, session=7, waiting=waiting)
        assert {choice.left, choice.right} == {0, 2}
    standing.serve(0, 2, 0, session=7)
    memory = standing.sessions.of(7, waiting)
    assert len(memory.pairs) == len(memory.prompts) == 3
    assert standing.sessions.of(7).prompts.keys() < memory.prompts.keys()
    assert standing.sessions.of(8) is UNSEEN
    assert len(standing.sessions.of(8, waiting).pairs) == 2


def test_a_pair_does_not_repeat_a_prompt_because_others_wait_to_be_shown():
    """Nobody has been shown the pair: only those who wait have the prompt."""
    standing = arena(2, 12, settling=10**6)
    rng = np.random.default_rng(1)
    drawn = []
    for _ in range(9):
        choice = choose(standing, rng)
        drawn.append(choice.prompt)
        standing.reserve(choice.left, choice.right, choice.prompt, choice.lane)
    assert max(drawn.count(prompt) for prompt in drawn) <= standing.policy.repeats
    assert standing.meetings.cells(0, 1) is None


def strayed(voters, *, reserves, models=8, matchups=3000, leave=0.0):
    """The furthest that any model lay outside tolerance, when each of so many voters has one matchup waiting.

    Votes come in any order. A share of the voters ``leave`` instead of looking at what waits.
    """
    standing = arena(models, 12, window=500)
    rng, worst = np.random.default_rng(3), 0.0
    waiting = deque()
    for number in range(matchups):
        choice = choose(standing, rng)
        if reserves:
            standing.reserve(choice.left, choice.right, choice.prompt, choice.lane)
        waiting.append((number, choice))
        if len(waiting) < voters:
            continue
        waiting.rotate(int(rng.integers(voters)))
        serial, shown = waiting.popleft()
        cell = shown.left, shown.right, shown.prompt
        if reserves:
            standing.unreserve(*cell, shown.lane)
        if rng.random() < leave:
            continue
        standing.serve(*cell, lane=shown.lane, nominal=shown.nominal, serial=serial)
        standing.vote(*cell, int(rng.integers(2)))
        if standing.window.served >= 1000:
            worst = max(worst, beyond(standing))
    return worst


@pytest.mark.no_cover
@pytest.mark.slow(but="0.3")
@pytest.mark.parametrize("leave", [0.0, 0.3])
def test_many_who_prefetch_at_once_do_not_all_get_the_model_that_is_behind(leave):
    kept, forgotten = (strayed(100, reserves=reserves, leave=leave) for reserves in (True, False))
    assert kept < 1.0
    assert forgotten >= 5.0
