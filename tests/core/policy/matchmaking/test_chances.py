"""What a lane says of its own odds: `Draw.chance` against how often each matchup comes."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from support.sizes import sized
from support.staged_arenas import ASLEEP, arena, believed, drawn, lived, matchup, ranked, whole
from tiltyard.core.battles import Kind
from tiltyard.core.policy.matchmaking.coverage_lane import draw_coverage
from tiltyard.core.policy.matchmaking.eligible_pairs import EligiblePairs
from tiltyard.core.policy.matchmaking.matchmaker import choose
from tiltyard.core.policy.matchmaking.random_lanes import (
    draw_contender,
    draw_exploration,
    draw_uncertainty,
    draw_v1,
)
from tiltyard.core.policy.state.session_memory import UNSEEN

LANES = (draw_coverage, draw_contender, draw_uncertainty, draw_exploration, draw_v1)


def tiny(seed, *, models=4, prompts=3, votes=25):
    """A small arena with some votes behind it, unevenly spread."""
    standing = ranked(arena(models, prompts, contenders=2, challengers=1, **ASLEEP))
    rng = np.random.default_rng(seed)
    for _ in range(votes):
        a, b = rng.choice(models, 2, replace=False, p=np.arange(1, models + 1) / (models * (models + 1) / 2))
        prompt = int(rng.integers(prompts))
        standing.serve(int(a), int(b), prompt)
        standing.vote(int(a), int(b), prompt, int(rng.integers(4)))
    standing.rank(believed(standing))
    return standing


def told(draws, key):
    """The chance that was told of each outcome; all tellings must agree."""
    chances = {}
    for draw in draws:
        assert chances.setdefault(key(draw), draw.chance) == pytest.approx(draw.chance)
    return chances


def agree(draws, chances, key):
    """A G-test of how often each outcome came."""
    counts = Counter(map(key, draws))
    observed = np.array([counts[outcome] for outcome in chances], dtype=float)
    expected = np.array([chances[outcome] for outcome in chances]) * len(draws)
    if len(observed) == 1:
        return True
    expected *= observed.sum() / expected.sum()
    return stats.power_divergence(observed, expected, lambda_="log-likelihood").pvalue > 1e-4


@pytest.mark.parametrize(
    ("lane", "votes"), [(draw_contender, 25), (draw_uncertainty, 25), (draw_exploration, 25), (draw_v1, 9)]
)
def test_chances_add_to_1_and_matchups_come_as_often_as_they_say(lane, votes):
    draws = drawn(lane, whole(tiny(1, votes=votes)), sized(1200, 2000), 1)
    chances = told(draws, matchup)
    assert sum(chances.values()) == pytest.approx(1.0)
    assert agree(draws, chances, matchup)


@pytest.mark.parametrize("votes", [0, 25])
def test_coverage_tells_the_chance_of_an_anchor_with_an_opponent_and_a_prompt(votes):
    def anchored(draw):
        return draw.one, draw.other, draw.prompt

    draws = drawn(draw_coverage, whole(tiny(4, votes=votes)), 2000, 4)
    chances = told(draws, anchored)
    assert sum(chances.values()) == pytest.approx(1.0)
    assert agree(draws, chances, anchored)


@pytest.mark.parametrize("lane", [draw_contender, draw_exploration])
def test_a_draw_that_comes_to_nothing_takes_its_share_of_the_chances(lane):
    """An anchor that may meet nobody: the lane is drawn again, and its chances fall short of 1 by as much."""
    answered = np.ones((4, 3), dtype=bool)
    answered[1] = False
    standing = ranked(arena(4, 3, answered=answered, contenders=3, **ASLEEP))
    standing.meetings.attempts[:] = standing.policy.adjacent_attempts
    draws = drawn(lane, whole(standing), 2000, 5)
    chances = told([draw for draw in draws if draw], matchup)
    missed = sum(draw is None for draw in draws)
    assert 0 < missed < len(draws)
    assert stats.binomtest(missed, len(draws), 1.0 - sum(chances.values())).pvalue > 1e-5


@given(
    seed=st.integers(0, 10**6),
    models=st.integers(2, 6),
    prompts=st.integers(1, 6),
    votes=st.integers(0, 60),
    seen=st.integers(0, 5),
)
def test_every_lane_draws_two_models_that_may_meet_and_tells_a_probability(
    seed, models, prompts, votes, seen
):
    standing = tiny(seed, models=models, prompts=prompts, votes=votes)
    rng = np.random.default_rng(seed)
    history = []
    for _ in range(seen):
        a, b = rng.choice(models, 2, replace=False).tolist()
        history.append((frozenset((a, b)), int(rng.integers(prompts))))
        standing.serve(a, b, history[-1][1], session=1)
    memory = standing.sessions.of(1)
    field = EligiblePairs.of(standing, memory, capped=True, depth=len(memory.pairs))
    for lane in LANES:
        draw = lane(field, rng)
        if draw is not None:
            assert 0.0 < draw.chance <= 1.0 + 1e-12
            assert draw.one != draw.other
            assert frozenset((draw.one, draw.other)) not in {pair for pair, _ in history}
            assert draw.reason


def test_a_choice_multiplies_the_lanes_weight_with_the_draws_chance():
    standing = tiny(6)
    field = EligiblePairs.of(standing, UNSEEN, capped=True, depth=0)
    known = told(drawn(draw_exploration, field, 1500, 6), matchup)
    rng = np.random.default_rng(7)
    found = [choice for choice in (choose(standing, rng) for _ in range(300)) if choice.lane == 3]
    assert found
    for choice in found:
        outcome = frozenset((choice.left, choice.right)), choice.prompt
        assert choice.propensity == pytest.approx(0.1 * known[outcome])


def test_sides_are_even_in_every_lane():
    standing = arena(5, 4, **ASLEEP)
    lefts = Counter()
    totals = Counter()
    for choice in lived(standing, 1200, ranked_every=10**9):
        lefts[choice.lane] += choice.left < choice.right
        totals[choice.lane] += 1
        assert 0.0 < choice.propensity <= 1.0
    for lane, total in totals.items():
        assert stats.binomtest(lefts[lane], total, 0.5).pvalue > 1e-5, lane
    assert (
        stats.binomtest(int(standing.shown[:, 1].sum()), int(standing.shown[:, 0].sum()), 0.5).pvalue > 0.99
    )


def test_requests_of_one_moment_are_spread_over_many_pairs():
    standing = ranked(arena(8, 10, lane_weights=(1.0, 0.0, 0.0, 0.0)))
    standing.vote(0, 1, 0, Kind.WIN_A)
    rng = np.random.default_rng(8)
    pairs = {frozenset((c.left, c.right)) for c in (choose(standing, rng) for _ in range(200))}
    assert len(pairs) > 15
