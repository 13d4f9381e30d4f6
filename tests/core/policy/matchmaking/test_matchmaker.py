"""`choose` as a whole: always an answer where there is one, the same for the same seed, and no trace."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from support.sizes import sized
from support.staged_arenas import ASLEEP, Crowd, arena, lived, ranked
from tiltyard.core.battles import Kind
from tiltyard.core.policy.matchmaking.matchmaker import choose
from tiltyard.core.policy.state.policy import Lane
from tiltyard.core.policy.validity.arena_fold import restore, save
from tiltyard.errors import NoMatchup


class TestWhoIsServed:
    @settings(max_examples=sized(6, 20))
    @given(
        models=st.integers(1, 6),
        prompts=st.integers(1, 5),
        density=st.floats(0.0, 1.0),
        seed=st.integers(0, 10**6),
        phase=st.sampled_from([2, 3, 4]),
    )
    def test_an_answer_exactly_where_two_enabled_models_share_a_prompt(
        self, models, prompts, density, seed, phase
    ):
        rng = np.random.default_rng(seed)
        answered = rng.random((models, prompts)) < density
        standing = arena(models, prompts, answered=answered, window=20, phase=phase)
        for _ in range(10):
            model = int(rng.integers(models))
            (standing.enable if rng.random() < 0.6 else standing.retire)(model)
            enabled = np.flatnonzero(standing.enabled)
            if (answered[enabled].sum(axis=0) >= 2).any():
                for choice in lived(standing, 3, seed=int(rng.integers(10**6)), sessions=8):
                    assert standing.enabled[[choice.left, choice.right]].all()
                    assert answered[[choice.left, choice.right], choice.prompt].all()
                    assert choice.left != choice.right
            else:
                with pytest.raises(NoMatchup, match="no two"):
                    choose(standing, rng)

    def test_cells_that_are_all_exhausted_are_served_on(self):
        standing = ranked(arena(3, 2, **ASLEEP))
        for a, b in ((0, 1), (0, 2), (1, 2)):
            for prompt in range(2):
                for _ in range(12):
                    standing.vote(a, b, prompt, Kind.BOTH_BAD)
        assert not standing.cells.short.any()
        assert {choice.lane for choice in lived(standing, 60)} == set(Lane)

    def test_one_enabled_model_has_nobody_to_meet(self):
        standing = arena(3, 2)
        standing.retire(0)
        standing.retire(2)
        with pytest.raises(NoMatchup, match="enable models"):
            choose(standing, np.random.default_rng(0))

    @pytest.mark.parametrize("lane", Lane)
    def test_an_arena_without_models_has_no_matchup(self, lane):
        weights = tuple(float(other is lane) for other in Lane)
        with pytest.raises(NoMatchup):
            choose(arena(0, 3, lane_weights=weights), np.random.default_rng(0))
        with pytest.raises(NoMatchup):
            choose(arena(3, 0, lane_weights=weights), np.random.default_rng(0))

    def test_a_withdrawn_response_is_not_shown_again(self):
        standing = arena(3, 3, window=30)
        list(lived(standing, 40))
        standing.respond(1, 2, present=False)
        assert not any(
            choice.prompt == 2 and 1 in (choice.left, choice.right) for choice in lived(standing, 100, seed=3)
        )

    def test_dead_prompts_get_at_most_7_percent_of_the_votes(self):
        standing = arena(8, 20)
        crowd = Crowd.of(standing, 2, dead=frozenset({0}))  # 5 % of the prompts
        choices = list(lived(standing, 1500, crowd=crowd))
        assert np.mean([choice.prompt in crowd.dead for choice in choices]) <= 0.07


class TestLanesGiveWay:
    def test_a_lane_that_draws_nothing_leaves_the_choice_to_coverage(self):
        answered = np.ones((4, 3), dtype=bool)
        answered[0] = False  # the only contender has no response
        standing = ranked(arena(4, 3, answered=answered, contenders=1, **ASLEEP))
        standing.meetings.attempts[:] = standing.policy.adjacent_attempts
        choices = list(lived(standing, 100, ranked_every=10**9))
        found = {choice.nominal: choice.lane for choice in choices}
        assert found == {**{lane: lane for lane in Lane}, Lane.CONTENDER: Lane.COVERAGE}

    def test_the_nominal_lane_is_kept_where_fairness_stepped_in(self):
        standing = arena(6, 5, window=60)
        choices = list(lived(standing, 400))
        stepped_in = [choice for choice in choices if choice.reason == "under-exposed"]
        assert {choice.lane for choice in stepped_in} == {Lane.COVERAGE}
        assert {choice.nominal for choice in stepped_in} == set(Lane)


class TestRepeatable:
    @settings(max_examples=sized(5, 20))
    @given(seed=st.integers(0, 10**6), n=st.integers(0, 60), sessions=st.sampled_from([0, 3]))
    def test_the_same_seed_and_standing_give_the_same_choice_and_leave_no_trace(self, seed, n, sessions):
        standing = arena(5, 3, window=30)
        list(lived(standing, n, seed=seed, sessions=sessions))
        before = save(standing).digest()
        again = restore(save(standing))
        for session in (-1, 0, 1):
            first, second = (
                choose(one, np.random.default_rng(seed), session=session) for one in (standing, again)
            )
            assert first == second
        assert save(standing).digest() == before

    def test_other_seeds_give_other_choices(self):
        standing = arena(8, 8)
        found = {choose(standing, np.random.default_rng(seed)) for seed in range(50)}
        assert len(found) > 40


class TestPhase1:
    def test_prompts_come_evenly_and_models_by_how_seldom_they_were_shown(self):
        standing = arena(4, 5, phase=1, **ASLEEP)
        standing.shown[:, 0] = [0, 1, 3, 9]
        rng = np.random.default_rng(3)
        choices = [choose(standing, rng) for _ in range(3000)]
        assert stats.chisquare(np.bincount([choice.prompt for choice in choices])).pvalue > 1e-4
        weights = 1.0 / (1.0 + standing.shown[:, 0])
        share = weights / weights.sum()
        met = {
            (i, j): share[i] * share[j] / (1 - share[i]) + share[j] * share[i] / (1 - share[j])
            for i in range(4)
            for j in range(i)
        }
        found = [sum({choice.left, choice.right} == set(pair) for choice in choices) for pair in met]
        assert stats.chisquare(found, np.array(list(met.values())) * len(choices)).pvalue > 1e-4
        assert {choice.reason for choice in choices} == {"v1"}

    def test_lifetime_counts_flood_a_newcomer_which_is_why_phase_2_came(self):
        standing = arena(20, 10, phase=1, **ASLEEP)
        standing.shown[:19, 0] = 1000
        first = list(lived(standing, 100, seed=5))
        assert np.mean([19 in (choice.left, choice.right) for choice in first]) > 0.5

    def test_no_prompt_that_two_have_answered_is_no_matchup(self):
        standing = arena(2, 2, answered=np.eye(2, dtype=bool), phase=1)
        with pytest.raises(NoMatchup):
            choose(standing, np.random.default_rng(6))

    def test_models_of_one_prompt_need_not_share_another(self):
        answered = np.array([[1, 1, 0], [1, 0, 1], [0, 1, 1]], dtype=bool)
        for choice in lived(arena(3, 3, answered=answered, phase=1, **ASLEEP), 60):
            assert answered[[choice.left, choice.right], choice.prompt].all()

    @pytest.mark.no_cover
    @pytest.mark.parametrize("prompts", [1, 5, 20])
    def test_two_models_always_meet_and_no_rule_is_given_up_for_bad_luck(self, prompts):
        choices = list(lived(arena(2, prompts, phase=1), 200))
        assert not any(choice.given_up for choice in choices)
