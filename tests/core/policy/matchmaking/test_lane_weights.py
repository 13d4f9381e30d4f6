"""Who is drawn, how often: the weights inside each lane, and of the lanes themselves."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from support.sizes import sized
from support.staged_arenas import (
    ASLEEP,
    arena,
    believed,
    draw_once,
    drawn,
    free_to_meet,
    lived,
    matchup,
    ranked,
    whole,
)
from tiltyard.core.battles import Kind
from tiltyard.core.policy.matchmaking import lanes
from tiltyard.core.policy.matchmaking.eligible_pairs import EligiblePairs
from tiltyard.core.policy.matchmaking.lanes import (
    closeness,
    contender_draws,
    draw_coverage,
    exploration_draws,
    floor_deficit,
    novelty,
    pair_novelty,
    scarcity,
    uncertainty_draws,
    v1_draws,
)
from tiltyard.core.policy.matchmaking.matchmaker import choose
from tiltyard.core.policy.state.policy import Lane
from tiltyard.core.policy.state.prompt_cells import FEW_ATTEMPTS_WEIGHT
from tiltyard.core.policy.state.session_memory import UNSEEN


def within(hits, n, share):
    """A count that a share would give, but for one time in a hundred thousand."""
    return stats.binomtest(int(hits), int(n), share).pvalue > 1e-5


def settled(models, prompts=6, **policy):
    """Ranked by code, every adjacent pair left alone: only 70/20/10 is at work."""
    standing = ranked(arena(models, prompts, **ASLEEP, **policy))
    standing.meetings.attempts[:] = standing.policy.adjacent_attempts
    return standing


class TestLanes:
    def test_nominal_shares_are_the_policys(self):
        standing = ranked(arena(12, 6, **ASLEEP))
        rng = np.random.default_rng(1)
        choices = [choose(standing, rng) for _ in range(sized(800, 2000))]
        for lane, share in zip(Lane, standing.policy.lane_weights, strict=True):
            assert within(sum(choice.nominal is lane for choice in choices), len(choices), share)
        assert all(choice.lane is choice.nominal for choice in choices)

    @pytest.mark.parametrize("lane", Lane)
    def test_a_lane_with_all_the_weight_is_the_only_one(self, lane):
        weights = tuple(float(other is lane) for other in Lane)
        standing = ranked(arena(5, 4, lane_weights=weights, **ASLEEP))
        assert {choice.lane for choice in lived(standing, 60)} == {lane}

    def test_the_contender_lane_sleeps_until_the_arena_has_settled(self):
        standing = arena(6, 5, window=200, lane_weights=(0.0, 1.0, 0.0, 0.0))
        choices = list(lived(standing, 60))
        assert {choice.nominal for choice in choices} == {Lane.CONTENDER}
        assert {choice.lane for choice in choices[: 5 * 6]} == {Lane.COVERAGE}
        assert Lane.CONTENDER in {choice.lane for choice in choices[5 * 6 :]}

    def test_what_rounding_leaves_over_goes_to_coverage(self):
        class Last:
            def random(self, size=None):
                return 1.0 - 1e-10 if size is None else np.zeros(size)

        standing = arena(3, 2, lane_weights=(0.4, 0.3, 0.2, 0.1 - 5e-10), **ASLEEP)
        assert choose(standing, Last()).nominal is Lane.COVERAGE


class TestContender:
    @pytest.mark.parametrize("anchor", [0, 3, 7])
    def test_a_neighbour_70_a_rival_20_a_challenger_10(self, anchor):
        weights = lanes.contender_opponents(whole(settled(20)), anchor)
        neighbours = [k for k in (anchor - 1, anchor + 1) if k >= 0]
        assert weights[neighbours].sum() == pytest.approx(0.7)
        rest = np.setdiff1d(np.arange(8), [*neighbours, anchor])
        assert weights[rest].sum() == pytest.approx(0.2)
        # The challengers of ranks 9 to 16, less the one who is a neighbour already.
        assert weights[8:16].sum() == pytest.approx(0.1 + (0.35 if anchor == 7 else 0.0))
        assert not weights[16:].any()
        assert weights.sum() == pytest.approx(1.0)

    def test_the_rival_is_the_contender_of_nearest_rating(self):
        rating = [2000, 1990, 1980, 1900, 1890, 1880, 1870, 1860, 1000]
        standing = settled(9)
        ranked(standing, rating)
        weights = lanes.contender_opponents(whole(standing), 3)
        assert weights[[2, 4]].tolist() == pytest.approx([0.35, 0.35])
        assert weights[5] == pytest.approx(0.2)  # 20 away; the next is 30
        assert weights[8] == pytest.approx(0.1)

    @given(data=st.data())
    def test_empty_buckets_fall_through(self, data):
        models = data.draw(st.integers(2, 14))
        standing = settled(models, contenders=4, challengers=3)
        answered = np.array(
            data.draw(
                st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=models, max_size=models)
            )
        )
        for model, prompt in zip(*np.nonzero(~np.pad(answered, ((0, 0), (0, 3)))), strict=True):
            standing.respond(int(model), int(prompt), present=False)
        anchor = data.draw(st.integers(0, min(4, models) - 1))
        weights = lanes.contender_opponents(whole(standing), anchor)
        assert weights == pytest.approx(by_hand(standing, anchor))

    def test_half_the_draws_go_to_the_adjacent_pair_furthest_from_its_floor(self):
        standing = ranked(arena(14, 8, **ASLEEP))
        for low in range(9):
            if low != 4:
                meet(standing, low, low + 1, times=7)
        draws = drawn(contender_draws, whole(standing), 1000, seed=2)
        floor = [draw for draw in draws if draw.reason == "adjacent pair short of its floor"]
        assert within(len(floor), len(draws), 0.5)
        assert {(draw.one, draw.other) for draw in floor} == {(4, 5)}

    def test_pairs_short_by_the_same_share_the_half_evenly(self):
        standing = ranked(arena(12, 6, **ASLEEP))
        draws = drawn(contender_draws, whole(standing), 2000, seed=3)
        floor = [draw.one for draw in draws if draw.reason == "adjacent pair short of its floor"]
        assert set(floor) == set(range(9))  # the nine adjacent pairs of the top ten
        assert stats.chisquare(np.bincount(floor)).pvalue > 1e-4

    def test_without_a_short_pair_every_draw_is_between_rivals(self):
        draws = drawn(contender_draws, whole(settled(12)), 200, seed=4)
        assert [draw.reason for draw in draws if "floor" in draw.reason] == []

    @given(misorder=st.lists(st.floats(0, 0.5), min_size=12, max_size=12))
    def test_anchors_half_even_half_by_the_chance_of_a_wrong_place(self, misorder):
        standing = ranked(arena(12, 3), misorder=misorder)
        weights = lanes.contender_anchors(whole(standing))
        assert not weights[8:].any()
        wrong = np.array(misorder[:8])
        if wrong.sum() > 0:
            assert weights[:8] == pytest.approx(0.5 / 8 + 0.5 * wrong / wrong.sum())
        else:
            assert weights[:8] == pytest.approx(weights[0])
            assert weights[0] > 0

    def test_no_anchor_where_the_whole_band_has_had_its_share(self):
        standing = ranked(arena(4, 3, contenders=2, window=20, settling=0))
        for _ in range(10):
            standing.serve(0, 1, 0)
        assert not lanes.contender_anchors(whole(standing)).any()
        assert draw_once(contender_draws, whole(standing), np.random.default_rng(0)) is None

    def test_the_floor_deficit_is_what_its_table_says(self):
        standing = ranked(arena(12, 8))
        votes = [(0, 0, 0), (6, 3, 6), (12, 4, 12), (12, 6, 12), (5, 5, 36)]
        for low, (decisive, prompts, attempts) in enumerate(votes):
            standing.meetings.decisive[low, low + 1] = decisive
            standing.meetings.prompts[low, low + 1] = prompts
            standing.meetings.attempts[low, low + 1] = attempts
        above = np.arange(len(votes))
        assert floor_deficit(standing, above, above + 1).tolist() == pytest.approx([2, 1, 1 / 3, 0, 0])

    def test_the_prompt_is_the_one_on_which_the_pair_has_met_least(self):
        standing = ranked(arena(2, 4, **ASLEEP))
        for prompt, times in enumerate([2, 1, 3, 1]):
            for _ in range(times):
                standing.vote(0, 1, prompt, Kind.BOTH_BAD)
        draws = drawn(contender_draws, whole(standing), 300, seed=5)
        assert {draw.prompt for draw in draws} == {1, 3}
        assert within(sum(draw.prompt == 1 for draw in draws), len(draws), 0.5)


class TestUncertainty:
    @given(se=st.lists(st.floats(1, 400), min_size=5, max_size=5), votes=st.integers(0, 40))
    def test_anchors_by_standard_error_times_two_less_coverage(self, se, votes):
        standing = ranked(arena(5, 4, **ASLEEP), se=se)
        rng = np.random.default_rng(votes)
        for _ in range(votes):
            a, b = rng.choice(5, 2, replace=False).tolist()
            standing.vote(a, b, int(rng.integers(4)), Kind.WIN_A)
        decisive = standing.cells.tally[:, :, :2].sum(axis=2)
        covered = (decisive >= 2).mean(axis=1)
        assert lanes.uncertain_anchors(whole(standing)) == pytest.approx(np.array(se) * (2 - covered))
        standing.under(replace(standing.policy, uncertainty="rd"))
        standing.strengths.rd[:] = se[::-1]
        assert lanes.uncertain_anchors(whole(standing)) == pytest.approx(np.array(se[::-1]) * (2 - covered))

    def test_the_opponent_is_the_one_that_tells_most(self):
        standing = ranked(arena(4, 3), [1500, 1490, 1200, 1470])
        assert np.argmax(lanes.informative_opponents(whole(standing), 0)) == 1
        for _ in range(6):
            standing.vote(0, 1, 0, Kind.TIE)
        assert np.argmax(lanes.informative_opponents(whole(standing), 0)) == 3

    @given(gap=st.floats(-3000, 3000))
    def test_closeness_is_1_between_equals_and_falls_both_ways(self, gap):
        standing = ranked(arena(3, 1), [1500.0, 1500.0, 1500.0 + gap])
        close = closeness(standing, 0)
        p = 1 / (1 + 10 ** (-gap / 400))
        assert close[:2].tolist() == [1.0, 1.0]
        assert close[2] == pytest.approx(4 * p * (1 - p), abs=1e-12)

    def test_novelty_is_a_quarter_over_one_and_the_attempts(self):
        standing = arena(3, 2)
        for _ in range(4):
            standing.vote(0, 1, 1, Kind.BOTH_BAD)
        assert novelty(standing, 0)[1:].tolist() == [0.05, 0.25]

    def test_nobody_to_meet_is_no_weight_at_all(self):
        standing = ranked(arena(2, 2))
        standing.retire(1)
        assert not lanes.informative_opponents(whole(standing), 0).any()
        assert draw_once(uncertainty_draws, whole(standing), np.random.default_rng(0)) is None

    def test_the_prompt_is_the_one_that_both_need_most(self):
        standing = ranked(arena(2, 3, **ASLEEP))
        for prompt in (0, 2):
            meet(standing, 0, 1, times=4, on=prompt)
        draws = drawn(uncertainty_draws, whole(standing), 20, seed=6)
        assert {draw.prompt for draw in draws} == {1}


class TestExploration:
    def test_models_by_one_over_one_and_their_exposures_in_the_window(self):
        standing = arena(4, 2, window=50, **ASLEEP)
        standing.shown[3] = 10_000  # shown often, long ago
        for _ in range(3):
            standing.serve(0, 1, 0)
        standing.serve(0, 2, 0)
        assert scarcity(whole(standing)).tolist() == [1 / 5, 1 / 4, 1 / 2, 1.0]

    def test_anchor_then_opponent_are_drawn_in_these_proportions(self):
        standing = arena(4, 2, window=50, **ASLEEP)
        for a, b in ((0, 1), (0, 1), (0, 2)):
            standing.serve(a, b, 0)
        weights = scarcity(whole(standing))
        draws = drawn(exploration_draws, whole(standing), 3000, seed=7)
        anchors = np.bincount([draw.one for draw in draws], minlength=4)
        assert stats.chisquare(anchors, len(draws) * weights / weights.sum()).pvalue > 1e-4
        for anchor in range(4):
            against = np.bincount([draw.other for draw in draws if draw.one == anchor], minlength=4)
            others = np.delete(weights, anchor)
            expected = anchors[anchor] * others / others.sum()
            assert stats.chisquare(np.delete(against, anchor), expected).pvalue > 1e-4

    def test_prompts_in_deficit_come_evenly_and_alone_then_all_evenly(self):
        standing = arena(2, 4, **ASLEEP)
        for prompt in (0, 3):
            meet(standing, 0, 1, times=4, on=prompt)
        draws = drawn(exploration_draws, whole(standing), 600, seed=8)
        on = np.bincount([draw.prompt for draw in draws], minlength=4)
        assert on[[0, 3]].tolist() == [0, 0]
        assert within(on[1], len(draws), 0.5)
        for prompt in range(4):
            meet(standing, 0, 1, times=4, on=prompt)
        draws = drawn(exploration_draws, whole(standing), 1200, seed=9)
        assert stats.chisquare(np.bincount([draw.prompt for draw in draws], minlength=4)).pvalue > 1e-4


class TestCoverage:
    def test_the_anchor_score_adds_prompts_opponents_and_exposure(self):
        standing = arena(4, 2, top_prompt_floor=2, **ASLEEP)
        for _ in range(2):
            standing.serve(0, 1, 0)
            standing.vote(0, 1, 0, Kind.WIN_A)
        # 0 and 1 have covered one prompt of two and one opponent of three; both had 2 where 1 was due.
        field = whole(standing)
        score = lanes.anchor_score(field, field.lag())
        assert score.tolist() == pytest.approx([0.5 + 2 / 3 - 1, 0.5 + 2 / 3 - 1, 1 + 1 + 1, 1 + 1 + 1])

    @given(votes=st.lists(st.sampled_from(list(Kind)[:4]), max_size=12))
    def test_an_opponent_is_news_until_two_decisive_votes_then_by_attempts(self, votes):
        standing = arena(3, 2)
        for kind in votes:
            standing.vote(1, 0, 1, kind)
        decisive = sum(kind in (Kind.WIN_A, Kind.WIN_B) for kind in votes)
        assert pair_novelty(standing, 0)[1] == (1.0 if decisive < 2 else 1 / (1 + len(votes)))
        assert pair_novelty(standing, 0)[2] == 1.0


def meet(standing, one, other, *, times, on=None):
    """Decisive votes of this pair, on one prompt or on all in turn."""
    for k in range(times):
        prompt = k % len(standing.prompts) if on is None else on
        standing.vote(one, other, prompt, Kind.WIN_A if k % 2 else Kind.WIN_B)


def by_hand(standing, anchor):
    """70/20/10 with fall-through, in plain words; models are ranked by code."""
    size, challengers = standing.policy.contenders, standing.policy.challengers
    allowed, around = free_to_meet(standing, anchor), {anchor - 1, anchor + 1}
    others = sorted((set(range(size)) - around) & allowed, key=lambda k: abs(k - anchor))
    nearest = [k for k in others if abs(k - anchor) == abs(others[0] - anchor)]
    below = sorted((set(range(size, size + challengers)) - around) & allowed)
    weights, carried = np.zeros(len(standing.models)), 0.0
    for share, bucket in ((0.7, sorted(around & allowed)), (0.2, nearest), (0.1, below)):
        carried += share
        for model in bucket:
            weights[model] += carried / len(bucket)
        carried = 0.0 if bucket else carried
    return weights


def test_a_floor_is_not_met_by_prompts_that_are_gone():
    standing = ranked(arena(2, 8))
    for _ in range(12):
        standing.vote(0, 1, 0, Kind.WIN_A)
    for prompt in range(7):
        standing.respond(0, prompt, present=False)
    deficit = lanes.floor_deficit(standing, np.array([0]), np.array([1]))
    assert deficit.tolist() == [pytest.approx(1 / 6)]


# What a lane says of its own odds: `Draw.chance` against how often each matchup comes.


LANES = (draw_coverage, contender_draws, uncertainty_draws, exploration_draws, v1_draws)


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
    ("lane", "votes"),
    [(contender_draws, 25), (uncertainty_draws, 25), (exploration_draws, 25), (v1_draws, 9)],
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


@pytest.mark.parametrize("lane", [contender_draws, exploration_draws])
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
        draw = draw_once(lane, field, rng)
        if draw is not None:
            assert 0.0 < draw.chance <= 1.0 + 1e-12
            assert draw.one != draw.other
            assert frozenset((draw.one, draw.other)) not in {pair for pair, _ in history}
            assert draw.reason


def test_a_choice_multiplies_the_lanes_weight_with_the_draws_chance():
    standing = tiny(6)
    field = EligiblePairs.of(standing, UNSEEN, capped=True, depth=0)
    known = told(drawn(exploration_draws, field, 1500, 6), matchup)
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


# The coverage lane's bounded search against all cells, one by one, in the policy's own words.


def old(seed, *, models, prompts, votes, density=1.0, window=40):
    """An arena with so many votes behind it, by uneven chance, on whatever both have answered."""
    rng = np.random.default_rng(seed)
    answered = rng.random((models, prompts)) < density
    answered[:2, 0] = True
    standing = arena(models, prompts, answered=answered, window=window, contenders=2)
    favour = rng.random(models) + 0.1
    for _ in range(votes):
        a, b = rng.choice(models, 2, replace=False, p=favour / favour.sum()).tolist()
        shared = np.flatnonzero(answered[a] & answered[b])
        if len(shared):
            prompt = int(rng.choice(shared))
            standing.serve(a, b, prompt)
            standing.vote(a, b, prompt, int(rng.choice(4, p=[0.4, 0.35, 0.15, 0.1])))
    standing.rank(believed(standing))
    return standing


def scores(field, anchor):
    """The policy's score of every opponent and prompt, from the bare tallies."""
    standing, policy = field.standing, field.standing.policy
    found = {}
    for opponent in np.flatnonzero(field.opponents(anchor)).tolist():
        met = standing.meetings.cells(anchor, opponent)
        pair = {} if met is None else dict(zip(*(column.tolist() for column in met.attempts()), strict=True))
        for prompt in np.flatnonzero(field.prompts(anchor, opponent)).tolist():
            score = 2.0 * lag(field, opponent) - 0.5 * pair.get(prompt, 0)
            decisive = standing.meetings.decisive[anchor, opponent]
            score += 1.0 if decisive < 2 else 1.0 / (1.0 + standing.meetings.attempts[anchor, opponent])
            for model in (anchor, opponent):
                wins, losses, ties, both_bad = standing.cells.tally[model, prompt].tolist()
                attempts = wins + losses + ties + both_bad
                floor = policy.top_prompt_floor if standing.in_band[model] else policy.prompt_floor
                short = wins + losses < floor and attempts < 3 * floor
                few = 1.0 / (1.0 + attempts)
                score += 1.0 + FEW_ATTEMPTS_WEIGHT * few if short else few
            found[opponent, prompt] = score
    return found


def lag(field, model):
    due, exposures = field.due.target[model], field.exposures[model]
    return min(max((due - exposures) / due, -1.0), 1.0) if due else 0.0


def agrees(field, anchor, seed, draws=40):
    """Every draw is a best cell, and all of the best are counted."""
    naive = scores(field, anchor)
    rng = np.random.default_rng(seed)
    found = [draw_coverage(field, rng, anchor=anchor) for _ in range(draws)]
    if not naive:
        assert found == [None] * draws
        return
    most = max(naive.values())
    # Scores are held in single precision.
    best = {cell for cell, score in naive.items() if score > most - 1e-6 * (4.0 + abs(most))}
    assert {(draw.other, draw.prompt) for draw in found} <= best
    assert all(draw.one == anchor for draw in found)
    assert all(1.0 <= round(1.0 / draw.chance) <= len(best) for draw in found)


@settings(max_examples=sized(8, 30))
@given(
    seed=st.integers(0, 10**6),
    models=st.integers(2, 7),
    prompts=st.integers(1, 6),
    votes=st.integers(0, 150),
    density=st.floats(0.3, 1.0),
)
def test_the_search_finds_what_looking_everywhere_finds(seed, models, prompts, votes, density):
    field = whole(old(seed, models=models, prompts=prompts, votes=votes, density=density))
    for anchor in np.flatnonzero(field.free).tolist():
        agrees(field, anchor, seed, draws=5)


@pytest.mark.no_cover
@settings(max_examples=sized(3, 8))
@given(seed=st.integers(0, 10**6), prompts=st.integers(1, 3), at_once=st.sampled_from([1, 4]))
def test_also_where_every_pair_has_met_on_every_prompt_many_times(seed, prompts, at_once):
    standing = old(seed, models=4, prompts=prompts, votes=400)
    field = EligiblePairs.of(standing, UNSEEN, capped=False, depth=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lanes, "_BLOCK_CELLS", at_once)
        for anchor in range(4):
            agrees(field, anchor, seed, draws=5)


def test_young_arenas_have_every_cell_equal_and_each_is_drawn():
    standing = arena(5, 4, **ASLEEP)
    rng = np.random.default_rng(1)
    found = [draw_coverage(whole(standing), rng, anchor=2) for _ in range(400)]
    assert {(draw.other, draw.prompt) for draw in found} == {(j, p) for j in (0, 1, 3, 4) for p in range(4)}
    assert {draw.chance for draw in found} == {1 / 16}


def test_of_equal_cells_the_seed_alone_chooses(monkeypatch):
    """NumPy puts equal numbers in another order on another processor."""
    field, sort = whole(arena(61, 2, **ASLEEP)), np.argsort

    def drawn():
        draws = [draw_coverage(field, np.random.default_rng(seed), anchor=60) for seed in range(20)]
        return [(draw.other, draw.prompt) for draw in draws]

    def backwards(values, kind=None):
        return sort(values, kind=kind) if kind == "stable" else np.lexsort((-np.arange(len(values)), values))

    here = drawn()
    monkeypatch.setattr(lanes.np, "argsort", backwards)
    assert drawn() == here


def test_where_more_cells_are_equal_than_enough_each_opponent_still_has_its_turn(monkeypatch):
    monkeypatch.setattr(lanes, "_TIED_CELL_LIMIT", 4)
    monkeypatch.setattr(lanes, "_BLOCK_CELLS", 4)
    standing = arena(12, 4, **ASLEEP)
    rng = np.random.default_rng(2)
    found = [draw_coverage(whole(standing), rng, anchor=0) for _ in range(600)]
    counts = np.bincount([draw.other for draw in found], minlength=12)
    assert (counts[1:] > 25).all()


@pytest.mark.parametrize("votes", [0, 200])
def test_the_anchor_is_the_model_that_lacks_most(votes):
    standing = old(3, models=6, prompts=4, votes=votes, window=400)
    field = whole(standing)
    score = []
    for model in range(6):
        tally = standing.cells.tally[model]
        decisive, attempts = tally[:, :2].sum(axis=1), tally.sum(axis=1)
        prompts = np.mean((decisive < 2) & (attempts < 6))
        opponents = np.mean(np.delete(standing.meetings.decisive[model], model) < 2)
        score.append(prompts + opponents + lag(field, model))
    rng = np.random.default_rng(4)
    anchors = {draw_coverage(field, rng).one for _ in range(30)}
    free = np.where(field.free, score, -np.inf)
    assert all(free[anchor] == pytest.approx(free.max()) for anchor in anchors)


def test_an_anchor_that_may_meet_nobody_gives_way_to_the_next():
    answered = np.ones((3, 2), dtype=bool)
    answered[2] = False
    standing = arena(3, 2, answered=answered, **ASLEEP)
    standing.vote(0, 1, 0, Kind.WIN_A)
    found = [draw_coverage(whole(standing), np.random.default_rng(seed)) for seed in range(20)]
    assert all({draw.one, draw.other} == {0, 1} for draw in found)
