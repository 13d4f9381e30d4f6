"""What is not shown again too soon: prompts to a pair, pairs and prompts to a session."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.sizes import sized
from support.staged_arenas import ASLEEP, Crowd, Diary, arena, capped, cells_in_reach, lived
from tiltyard.core.policy.matchmaking.eligible_pairs import (
    EligiblePairs,
    draw_least_met_prompt,
    draw_most_needed_prompt,
    draw_under_covered_prompt,
)
from tiltyard.core.policy.matchmaking.matchmaker import choose
from tiltyard.core.policy.state.policy import Lane


class TestPromptsOfAPair:
    @settings(max_examples=sized(5, 15))
    @given(
        models=st.integers(2, 4),
        prompts=st.integers(1, 7),
        density=st.floats(0.5, 1.0),
        seed=st.integers(0, 1000),
        sessions=st.sampled_from([0, 0, 60]),
    )
    def test_no_prompt_comes_more_often_than_allowed_in_the_last_ten_meetings(
        self, models, prompts, density, seed, sessions
    ):
        answered = np.random.default_rng(seed).random((models, prompts)) < density
        answered[:2, 0] = True
        standing, diary = arena(models, prompts, answered=answered, window=40), Diary()
        for choice in lived(standing, 100, seed=seed, sessions=sessions, diary=diary):
            shared = int((answered[choice.left] & answered[choice.right]).sum())
            last = diary.prompts[frozenset((choice.left, choice.right))][-10:]
            assert max(Counter(last).values()) <= standing.policy.repeats_of(shared)

    @pytest.mark.parametrize(("lane", "prompts"), list(zip(Lane, (9, 2, 5, 5), strict=True)))
    def test_in_each_lane_by_itself(self, lane, prompts):
        weights = tuple(float(other is lane) for other in Lane)
        standing, diary = arena(3, prompts, lane_weights=weights, **ASLEEP), Diary()
        # Nobody votes: the books of attempts stay empty, and only the rule itself is at work.
        for choice in lived(standing, 150, diary=diary, crowd=Crowd.of(standing, 1, skips=1.0)):
            assert choice.lane is lane
            last = diary.prompts[frozenset((choice.left, choice.right))][-10:]
            assert max(Counter(last).values()) <= standing.policy.repeats_of(prompts)

    @pytest.mark.parametrize("rule", [{"repeats": 1}, {"meetings": 30}, {"repeats": 1, "meetings": 4}])
    def test_a_rule_of_ones_own_is_kept_where_prompts_allow_and_never_stops_an_arena(self, rule):
        standing, diary = arena(2, 6, **rule, **ASLEEP), Diary()
        policy = standing.policy
        for _ in lived(standing, 120, diary=diary):
            last = diary.prompts[frozenset((0, 1))][-policy.meetings :]
            assert max(Counter(last).values()) <= max(policy.repeats, -(-policy.meetings // 6))


class TestSessions:
    @settings(max_examples=sized(4, 12))
    @given(
        models=st.integers(2, 4),
        prompts=st.integers(1, 4),
        density=st.floats(0.4, 1.0),
        seed=st.integers(0, 1000),
        sessions=st.integers(1, 3),
        settling=st.sampled_from([5, 10**9]),
    )
    def test_rules_are_given_up_one_by_one_and_only_when_nothing_else_is_left(
        self, models, prompts, density, seed, sessions, settling
    ):
        answered = np.random.default_rng(seed).random((models, prompts)) < density
        answered[:2, 0] = True
        standing = arena(models, prompts, answered=answered, window=40, settling=settling)
        diary, rng = Diary(), np.random.default_rng(seed)
        for step in range(24):
            session = int(rng.integers(sessions))
            choice = choose(standing, rng, session=session)
            reach, given_up = strictest(standing, diary, session)
            assert (frozenset((choice.left, choice.right)), choice.prompt) in reach
            assert choice.given_up == given_up
            standing.serve(choice.left, choice.right, choice.prompt, lane=choice.lane, session=session)
            standing.vote(choice.left, choice.right, choice.prompt, step % 4)
            diary.serve(choice, session)

    def test_a_pair_does_not_return_within_five_matchups_while_there_are_six(self):
        standing, diary = arena(4, 12, **ASLEEP), Diary()
        list(lived(standing, 70, sessions=1, diary=diary))
        pairs = [pair for pair, _ in diary.sessions[0]]
        assert all(pair not in pairs[max(k - 5, 0) : k] for k, pair in enumerate(pairs))


def strictest(standing, diary, session):
    """What the strictest rules that leave anything leave, and which of them had to go."""
    history = diary.sessions[session]
    last = [pair for pair, _ in history[-standing.policy.session_pairs :]]
    enabled = set(np.flatnonzero(standing.enabled).tolist())
    for among, exposure in ((enabled - capped(standing), ()), (enabled, ("exposure",))):
        for seen in (set(history), set()) if history else (set(),):
            for depth in range(len(last), -1, -1):
                kept = last[len(last) - depth :]
                reach = cells_in_reach(standing, diary, among=among, last=kept, seen=seen)
                if reach:
                    relaxed = depth < len(last) or len(seen) < len(set(history))
                    return reach, exposure + (("session",) if relaxed else ())
    raise AssertionError("nothing is left even without rules")


@pytest.mark.parametrize(
    "choose_prompt", [draw_least_met_prompt, draw_most_needed_prompt, draw_under_covered_prompt]
)
def test_a_pair_that_the_session_saw_on_every_prompt_has_none_left(choose_prompt):
    standing = arena(3, 2)
    for prompt in range(2):
        standing.serve(0, 1, prompt, session=4)
    seen = EligiblePairs.of(standing, standing.sessions.of(4), capped=True, depth=0)
    rng = np.random.default_rng(0)
    assert choose_prompt(seen, 0, 1, rng) is None
    assert choose_prompt(seen, 0, 2, rng) is not None
