"""Publication rules, and the estimates of what is missing."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from told_arenas import BAD, A, arena, arenas, full_votes, strengthen, uniform_votes

from tiltyard.standing.policy import Lane, Policy
from tiltyard.standing.state import Standing
from tiltyard.validity.evaluation import evaluate
from tiltyard.validity.floors import floor_of
from tiltyard.validity.pace import (
    adjacent_rate,
    coverage_hits,
    decisive_share,
    exposure_rate,
    votes_at,
    votes_to_rd,
)
from tiltyard.validity.publication import (
    pairs_needed,
    publication_rules,
    top_coverage_rule,
    top_pairs_rule,
    top_rd_rule,
)


def by_name(standing):
    return {rule.name: rule for rule in publication_rules(standing)}


@pytest.mark.parametrize(
    ("top", "pairs"), [(10, 8), (9, 7), (6, 4), (5, 4), (4, 3), (3, 2), (2, 1), (1, 0), (16, 12)]
)
def test_four_fifths_of_the_adjacent_pairs_round_up(top, pairs):
    assert pairs_needed(top, 0.8) == pairs


def test_a_settled_arena_meets_every_rule():
    standing = strengthen(arena(3, 10, full_votes(3, 10, 2)), [1700, 1600, 1500])
    rules = by_name(standing)
    assert all(rule.holds for rule in rules.values())
    assert (rules["top-rd"].value, rules["top-pairs"].value, rules["top-coverage"].value) == (60.0, 2.0, 1.0)
    assert {rule.detail for rule in rules.values()} == {""}


@pytest.mark.parametrize("models", [0, 1])
def test_fewer_than_two_models_have_nothing_to_publish(models):
    for rule in publication_rules(arena(models, 3)):
        assert (rule.value, rule.holds, rule.missing) == (None, False, None)
        assert rule.detail == "fewer than two models are enabled"


def test_only_the_top_ten_count():
    standing = strengthen(arena(12, 2), np.arange(12, 0, -1) * 10.0, [60.0] * 10 + [300.0] * 2)
    assert top_rd_rule(standing).holds
    assert top_rd_rule(standing).text == "The median RD of the top 10 is at most 75."


def test_the_median_rd_of_an_even_number_is_the_mean_of_the_two_in_the_middle():
    standing = strengthen(arena(4, 1), [1900, 1800, 1700, 1600], [50.0, 70.0, 90.0, 200.0])
    rule = top_rd_rule(standing)
    assert rule.value == 80.0
    assert rule.detail == "2 of 4 have a larger RD: m2 90, m3 200"


def test_short_pairs_are_named():
    votes = [(0, 1, k % 6, A) for k in range(12)] + [(1, 2, 0, A)] * 3 + [(2, 3, 0, BAD)] * 36
    rule = top_pairs_rule(strengthen(arena(4, 6, votes), [1700, 1600, 1500, 1400]))
    assert (rule.value, rule.bar, rule.holds) == (1.0, 3.0, False)
    assert rule.detail == (
        "2 of 3 adjacent pairs are short: m1–m2 3 of 12 votes and 1 of 6 prompts, "
        "m2–m3 0 of 12 votes and 0 of 6 prompts (indistinguishable so far)"
    )
    assert rule.missing is None


def test_a_pair_without_a_common_prompt_is_named():
    standing = arena(2, 2, answered=np.array([[True, False], [False, True]]))
    assert top_pairs_rule(standing).detail == "1 of 1 adjacent pairs are short: m0–m1 share no prompt"
    rule = top_coverage_rule(standing)
    assert (rule.value, rule.missing) == (None, None)
    assert rule.detail == "no prompt to be compared on: m0, m1"


def test_models_below_the_coverage_bar_are_named():
    rule = top_coverage_rule(strengthen(arena(2, 4, [(0, 1, 0, A)] * 2), [1600, 1500]))
    assert (rule.value, rule.detail) == (0.25, "2 of 2 are below: m0 0.25, m1 0.25")


def naive_holds(standing):
    """The three rules in plain words."""
    policy = standing.policy
    top = [int(k) for k in standing.order[:10]]
    if len(top) < 2:
        return (False,) * 3
    met = sum(floor_of(standing, a, b).met for a, b in pairwise(top))
    coverage = standing.cells.coverage()[top]
    return (
        bool(np.median(standing.strengths.rd[top]) <= policy.published_rd),
        met >= 0.8 * (len(top) - 1) - 1e-9,
        bool(not np.isnan(coverage).any() and coverage.mean() >= 0.9 - 1e-9),
    )


@given(arenas())
def test_the_rules_hold_as_their_words_say(standing):
    assert tuple(rule.holds for rule in publication_rules(standing)) == naive_holds(standing)


def test_before_any_vote_no_number_of_votes_is_given():
    assert [rule.missing for rule in publication_rules(arena(4, 3))] == [None, None, None]


def test_missing_votes_for_rd_are_those_of_the_arena():
    """Both models in every matchup; 8 votes took RD from 350 to 100; 75 needs the rest at that rate."""
    standing = strengthen(arena(2, 4, [(0, 1, p, A) for p in range(4)] * 2), [1600, 1500], 100.0)
    per_vote = (100**-2 - 350**-2) / 8
    assert top_rd_rule(standing).missing == math.ceil((75**-2 - 100**-2) / per_vote)
    assert votes_to_rd(standing, np.array([0]), 120.0).tolist() == [0.0]


def test_missing_votes_for_pairs_are_direct_votes_over_the_share_of_adjacent_meetings():
    """Two models meet in every matchup: 4 of 12 on 4 of 6 prompts, all decisive, 8 more."""
    standing = strengthen(arena(2, 6, [(0, 1, p, A) for p in range(4)]), [1600, 1500])
    assert adjacent_rate(standing, standing.order) == 1.0
    assert top_pairs_rule(standing).missing == 8


def test_half_of_the_contender_lane_counts_for_adjacent_pairs_even_if_the_order_has_changed():
    standing = strengthen(arena(4, 6), [1700, 1600, 1500, 1400])
    for lane in (Lane.CONTENDER, Lane.EXPLORATION):
        standing.serve(0, 3, 0, lane=lane)
    assert adjacent_rate(standing, standing.order) == 0.25
    standing.serve(0, 1, 0)
    assert adjacent_rate(standing, standing.order) == pytest.approx(1 / 3)


def test_exposures_are_even_until_something_was_served():
    standing = arena(4, 1, retired=[3])
    assert exposure_rate(standing).tolist() == [2 / 3] * 3 + [0.0]
    standing.serve(0, 1, 0)
    standing.serve(0, 2, 0)
    assert exposure_rate(standing).tolist() == [1.0, 0.5, 0.5, 0.0]


def test_votes_of_the_coverage_lane_always_hit_a_short_prompt():
    standing = arena(2, 2)
    assert coverage_hits(standing, 0.9, 0.9) == pytest.approx(0.4 + 0.6 * 0.1)
    standing.serve(0, 1, 0, lane=Lane.COVERAGE)
    assert coverage_hits(standing, 0.2, 0.9) == 1.0
    standing.serve(0, 1, 0, lane=Lane.EXPLORATION)
    assert 0.55 < coverage_hits(standing, 0.2, 0.9) < 0.9


def test_where_nothing_is_sought_and_all_must_be_covered_hits_are_taken_as_now():
    standing = Standing(Policy(lane_weights=(0.0, 0.3, 0.2, 0.5)), ["a", "b"], ["p"])
    assert coverage_hits(standing, 0.5, 1.0) == 0.5


def test_votes_at_a_pace():
    assert votes_at(0.0, 0.0) == 0.0
    assert votes_at(3.0, 0.5) == 6.0
    assert math.isinf(votes_at(3.0, 0.0))
    assert math.isinf(votes_at(3.0, math.nan))
    assert math.isnan(decisive_share(arena(2, 1)))


def test_the_estimate_of_missing_votes_is_about_right_for_even_matchmaking():
    """The votes until coverage holds, foretold from a third of the way, are within a third of the truth."""
    votes = uniform_votes(6, 20, 3000, seed=4)
    standing = arena(6, 20)
    estimates, held = {}, None
    for n, (a, b, prompt, kind) in enumerate(votes, 1):
        standing.serve(a, b, prompt)
        standing.vote(a, b, prompt, kind)
        if n % 25 == 0:
            rule = top_coverage_rule(standing)
            if rule.holds:
                held = n
                break
            estimates[n] = n + rule.missing
    early = [estimate for n, estimate in estimates.items() if n > held / 3]
    assert all(held / 1.34 < estimate < held * 1.34 for estimate in early)


def test_an_evaluation_takes_at_most_a_few_milliseconds_at_a_hundred_models():
    """The lab asks thousands of times; the bound is loose, for machines that are busy."""
    import time

    standing = strengthen(
        arena(100, 300, uniform_votes(100, 300, 2000)), np.linspace(1800, 1200, 100), np.full(100, 120.0)
    )
    best = math.inf
    for _ in range(20):
        start = time.perf_counter()
        evaluate(standing)
        best = min(best, time.perf_counter() - start)
    assert best < 0.005
