"""Publication rules, and the estimates of what is missing."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.told_arenas import BAD, TIE, A, arena, arenas, cast, full_votes, strengthen, uniform_votes
from tiltyard.core.policy.state.policy import Lane, Policy
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.policy.validity.pair_floors import floor_of
from tiltyard.core.policy.validity.publication import (
    Badge,
    badge_from_rules,
    badge_of,
    established_rules,
    pairs_needed,
    publication_rules,
    stable_rules,
    top_coverage_rule,
    top_pairs_rule,
    top_rd_rule,
)
from tiltyard.core.policy.validity.rules import (
    adjacent_rate,
    check_rule,
    decisive_share,
    exposure_rate,
    float_or_none,
    short_prompt_rate,
    votes_to_gain,
    votes_to_rd,
)

#: No model is provisional, if it has a prompt to be compared on.
ALL_ESTABLISHED = Policy(established_votes=0, established_coverage=0.0, established_rd=1000.0)


def by_name(standing):
    return {rule.name: rule for rule in publication_rules(standing)}


@pytest.mark.parametrize(
    ("top", "pairs"), [(10, 8), (9, 7), (6, 4), (5, 4), (4, 3), (3, 2), (2, 1), (1, 0), (16, 12)]
)
def test_four_fifths_of_the_adjacent_pairs_round_up(top, pairs):
    assert pairs_needed(top, 0.8) == pairs


def test_a_settled_arena_meets_every_rule():
    standing = strengthen(arena(3, 10, full_votes(3, 10, 4)), [1700, 1600, 1500])
    rules = by_name(standing)
    assert all(rule.holds for rule in rules.values())
    assert (rules["top-rd"].value, rules["top-pairs"].value, rules["top-coverage"].value) == (60.0, 2.0, 1.0)
    assert {rule.detail for rule in rules.values()} == {""}


@pytest.mark.parametrize("models", [0, 1])
def test_fewer_than_two_models_have_nothing_to_publish(models):
    for rule in publication_rules(arena(models, 3)):
        assert (rule.value, rule.holds, rule.missing) == (None, False, None)
        assert "fewer than two" in rule.detail


def test_only_the_top_ten_count():
    standing = strengthen(arena(12, 2), np.arange(12, 0, -1) * 10.0, [60.0] * 10 + [300.0] * 2)
    assert top_rd_rule(standing).holds
    assert "top 10" in top_rd_rule(standing).text


def test_rules_name_who_is_short_of_them():
    standing = strengthen(arena(4, 1), [1900, 1800, 1700, 1600], [50.0, 70.0, 90.0, 200.0])
    rule = top_rd_rule(standing)
    assert rule.value == 80.0
    assert rule.detail.endswith("m2 90, m3 200")
    votes = [(0, 1, k % 6, A) for k in range(12)] + [(1, 2, 0, A)] * 3 + [(2, 3, 0, BAD)] * 36
    rule = top_pairs_rule(strengthen(arena(4, 6, votes, policy=ALL_ESTABLISHED), [1700, 1600, 1500, 1400]))
    assert (rule.value, rule.bar, rule.holds) == (1.0, 3.0, False)
    for part in ("m1–m2 3 of 12", "1 of 6 prompts, m2–m3", "(indistinguishable"):
        assert part in rule.detail
    assert rule.missing is None
    standing = arena(2, 2, answered=np.array([[True, False], [False, True]]))
    assert top_pairs_rule(standing).detail_values == {"case": "provisional"}
    halves = np.array([[True, False], [True, False], [False, True], [False, True]])
    apart = strengthen(arena(4, 2, answered=halves, policy=ALL_ESTABLISHED), [1700, 1600, 1500, 1400])
    assert "m1–m2 share no" in top_pairs_rule(apart).detail
    rule = top_coverage_rule(standing)
    assert (rule.value, rule.missing) == (None, None)
    assert rule.detail.endswith("m0, m1")
    rule = top_coverage_rule(strengthen(arena(2, 4, [(0, 1, 0, A)] * 2), [1600, 1500]))
    assert rule.value == 0.25
    assert rule.detail.endswith("m0 0.25, m1 0.25")


def naive_holds(standing):
    """The three rules in plain words."""
    policy = standing.policy
    top = [int(k) for k in standing.order[:10]]
    if len(top) < 2:
        return (False,) * 3
    known = [k for k in standing.order.tolist() if badge_of(standing, k).badge != Badge.PROVISIONAL][:10]
    met = sum(floor_of(standing, a, b).met for a, b in pairwise(known))
    coverage = standing.cells.coverage()[top]
    return (
        bool(np.median(standing.strengths.rd[top]) <= policy.published_rd),
        len(known) > 1 and met >= 0.8 * (len(known) - 1) - 1e-9,
        bool(not np.isnan(coverage).any() and coverage.mean() >= 0.9 - 1e-9),
    )


def test_a_newcomer_is_nobodys_neighbour_while_it_is_provisional():
    """A model with 55 votes came between two others, and took the official status away."""
    standing = arena(4, 10, [vote for vote in full_votes(4, 10, 5) if 3 not in vote[:2]])
    strengthen(standing, [1900, 1700, 1500, 0])
    assert top_pairs_rule(standing).holds
    cast(standing, [(3, k % 3, k % 10, A) for k in range(55)])
    strengthen(standing, [1900, 1700, 1500, 1800])
    rule = top_pairs_rule(standing)
    assert (rule.value, rule.bar, rule.holds) == (2.0, 2.0, True)
    cast(standing, [(3, k % 3, k % 10, BAD if k % 3 < 2 else A) for k in range(120)])
    rule = top_pairs_rule(standing)
    assert badge_of(standing, 3).badge != Badge.PROVISIONAL
    assert (rule.value, rule.bar) == (3.0, 3.0)


def test_where_all_but_one_are_provisional_no_pair_is_known():
    standing = strengthen(
        arena(3, 4, [(0, 1, k % 4, A) for k in range(100)]), [1700, 1600, 1500], [60, 200, 200]
    )
    rule = top_pairs_rule(standing)
    assert (rule.value, rule.holds) == (None, False)
    assert 0 < rule.missing < 1000
    assert [other.holds for other in publication_rules(standing)][1] is False


@given(arenas())
def test_the_rules_hold_as_their_words_say(standing):
    assert tuple(rule.holds for rule in publication_rules(standing)) == naive_holds(standing)


def test_missing_votes_for_rd_are_those_of_the_arena():
    """Both models in every matchup; 8 votes took RD from 350 to 100; 75 needs the rest at that rate."""
    standing = strengthen(arena(2, 4, [(0, 1, p, A) for p in range(4)] * 2), [1600, 1500], 100.0)
    per_vote = (100**-2 - 350**-2) / 8
    assert top_rd_rule(standing).missing == math.ceil((75**-2 - 100**-2) / per_vote)
    assert votes_to_rd(standing, np.array([0]), 120.0).tolist() == [0.0]


def test_missing_votes_for_pairs_are_direct_votes_over_the_share_of_adjacent_meetings():
    """Two models meet in every matchup: 4 of 12 on 4 of 6 prompts, all decisive, 8 more."""
    votes = [(0, 1, p, A) for p in range(4)]
    standing = strengthen(arena(2, 6, votes, policy=ALL_ESTABLISHED), [1600, 1500])
    assert adjacent_rate(standing, standing.order) == 1.0
    assert top_pairs_rule(standing).missing == 8


def test_neighbours_meet_as_often_as_they_were_served_or_in_even_pairs():
    standing = strengthen(arena(10, 6), np.arange(10, 0, -1) * 100.0)
    for lane in (Lane.CONTENDER, Lane.EXPLORATION):
        standing.serve(0, 3, 0, lane=lane)
    assert adjacent_rate(standing, standing.order) == 0.25
    standing.serve(0, 1, 0)
    assert adjacent_rate(standing, standing.order) == pytest.approx(1 / 3)
    # 9 of the 45 pairs of ten models, 3 of the 6 of four.
    assert adjacent_rate(arena(10, 1), np.arange(10)) == pytest.approx(9 / 45)
    standing = arena(4, 1)
    standing.serve(0, 3, 0)
    assert adjacent_rate(standing, standing.order) == 0.5


def test_what_was_served_before_a_newcomer_came_says_nothing_of_its_meetings():
    standing = strengthen(arena(12, 6, retired=[11]), np.arange(12, 0, -1) * 100.0)
    for _ in range(50):
        standing.serve(0, 5, 0)
    standing.enable(11)
    strengthen(standing, [1200, *range(1100, 100, -100), 1250])
    assert standing.order[:2].tolist() == [11, 0]
    for _ in range(4):
        standing.serve(0, 11, 0)
    standing.serve(0, 5, 0)
    assert adjacent_rate(standing, standing.order[:10]) == 0.8


def test_two_models_that_meet_in_every_matchup_miss_what_they_lack_whatever_the_window_holds():
    """A window of 2,000 others; all but m0 retire, m5 comes: 6 of its 12 votes are missing, so 6 votes."""
    standing = arena(6, 6, policy=ALL_ESTABLISHED, retired=[5])
    cast(standing, uniform_votes(5, 6, 2000, shares=(1.0, 0.0, 0.0, 0.0)))
    standing.enable(5)
    for model in range(1, 5):
        standing.retire(model)
    cast(standing, [(0, 5, p, A) for p in range(6)])
    strengthen(standing, [1600, 0, 0, 0, 0, 1500])
    assert top_pairs_rule(standing).missing == 6
    assert exposure_rate(standing) == pytest.approx([1.0, 0.0, 0.0, 0.0, 0.0, 1.0], abs=0.1)


def test_exposures_go_on_as_in_the_window():
    """Even shares would be 200 of 300 each; one more exposure at the even share is added to each."""
    standing = arena(4, 1, retired=[3])
    for _ in range(150):
        standing.serve(0, 1, 0)
        standing.serve(0, 2, 0)
    assert exposure_rate(standing) == pytest.approx(np.array([301 / 201, 151 / 201, 151 / 201, 0.0]) * 2 / 3)


@given(st.lists(st.tuples(st.sampled_from("esr"), st.integers(0, 4), st.integers(0, 4)), max_size=60))
def test_rates_are_shares_whoever_comes_and_goes(told):
    standing = arena(5, 1)
    for what, a, b in told:
        if what == "e":
            standing.enable(a)
        elif what == "r":
            standing.retire(a)
        elif a != b and standing.enabled[[a, b]].all():
            standing.serve(a, b, 0)
    rate = exposure_rate(standing)
    assert ((rate > 0.0) == standing.enabled).all()
    assert (rate <= 1.0).all()
    assert standing.n_enabled < 2 or 0.0 < adjacent_rate(standing, standing.order) <= 1.0


def test_a_model_that_never_played_gives_no_number_whatever_its_rd():
    standing = strengthen(arena(3, 2, [(1, 2, 0, BAD)]), [1600, 1500, 1400], 200.0)
    assert np.isinf(votes_to_rd(standing, np.arange(3), 75.0)).all()
    assert top_rd_rule(standing).missing is None
    assert votes_to_rd(standing, np.array([0]), 200.0).tolist() == [0.0]
    cast(standing, [(1, 2, 0, TIE)])
    assert np.isfinite(votes_to_rd(standing, np.arange(3), 75.0)).tolist() == [False, True, True]


def test_models_with_few_prompts_raise_the_mean_coverage_by_more():
    """Two models are full on 1,000 prompts, eight on half of their 10: 30 more of those cells."""
    answered = np.zeros((10, 1010), dtype=bool)
    answered[:2, :1000], answered[2:, 1000:] = True, True
    standing = arena(10, 1010, answered=answered)
    cast(standing, [(0, 1, p, A) for p in range(1000)] * 2)
    cast(standing, [(k, k + 1, p, A) for k in range(2, 10, 2) for p in range(1000, 1005)] * 2)
    rule = top_coverage_rule(strengthen(standing, np.arange(10, 0, -1) * 100.0))
    assert rule.value == pytest.approx(0.6)
    each = float(exposure_rate(standing)[2:].sum()) * short_prompt_rate(standing, 0.5, 0.5 + 0.3 * 10 / 8)
    assert rule.missing == math.ceil(30 * 2 / each)


def test_coverage_that_exhausted_cells_keep_below_its_bar_gives_no_number():
    rule = top_coverage_rule(strengthen(arena(2, 1, [(0, 1, 0, BAD)] * 6), [1600, 1500]))
    assert (rule.value, rule.missing) == (0.0, None)


def test_votes_of_the_coverage_lane_always_hit_a_short_prompt():
    standing = arena(2, 2)
    assert short_prompt_rate(standing, 0.9, 0.9) == pytest.approx(0.4 + 0.6 * 0.1)
    standing.serve(0, 1, 0, lane=Lane.COVERAGE)
    assert short_prompt_rate(standing, 0.2, 0.9) == 1.0
    standing.serve(0, 1, 0, lane=Lane.EXPLORATION)
    assert 0.55 < short_prompt_rate(standing, 0.2, 0.9) < 0.9


def test_where_nothing_is_sought_and_all_must_be_covered_hits_are_taken_as_now():
    standing = Standing(Policy(lane_weights=(0.0, 0.3, 0.2, 0.5)), ["a", "b"], ["p"])
    assert short_prompt_rate(standing, 0.5, 1.0) == 0.5


def test_votes_at_a_pace():
    assert votes_to_gain(0.0, 0.0) == 0.0
    assert votes_to_gain(3.0, 0.5) == 6.0
    assert math.isinf(votes_to_gain(3.0, 0.0))
    assert math.isinf(votes_to_gain(3.0, math.nan))
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


# Badges, and the rules behind them.


STEPS = list(Badge)


def settled(rd=60.0):
    """Three models, ten prompts, every pair 30 times on 10 prompts."""
    return strengthen(arena(3, 10, full_votes(3, 10, 6)), [1700, 1600, 1500], rd)


@pytest.mark.parametrize(
    ("rd", "badge"), [(350.0, "provisional"), (90.0, "established"), (76.0, "established"), (75.0, "stable")]
)
def test_rd_alone_moves_a_settled_model_through_the_badges(rd, badge):
    assert badge_of(settled(rd), 1).badge == badge


def test_rules_have_names_values_and_bars():
    card = badge_of(settled(), 1)
    assert [(rule.name, rule.value, rule.bar) for rule in (*card.established, *card.stable)] == [
        ("decisive-votes", 120.0, 80.0),
        ("established-coverage", 1.0, 0.8),
        ("established-rd", 60.0, 90.0),
        ("stable-coverage", 1.0, 0.9),
        ("stable-rd", 60.0, 75.0),
        ("neighbour-floors", 2.0, 2.0),
    ]
    assert card.waiting == ()


def test_what_keeps_a_model_from_the_next_badge():
    votes = full_votes(2, 10, 8)
    standing = strengthen(arena(3, 10, votes), [1700, 1600, 1500])
    card = badge_of(standing, 1)
    assert card.badge is Badge.ESTABLISHED
    (waiting,) = card.waiting
    assert (waiting.name, waiting.value, waiting.bar, waiting.missing) == ("neighbour-floors", 1.0, 2.0, 12)
    assert waiting.detail == "too few votes: m2 (0)"
    card = badge_of(strengthen(arena(2, 2, [(0, 1, 0, A)] * 3), [1600, 1500], 300.0), 0)
    assert card.badge is Badge.PROVISIONAL
    assert [rule.name for rule in card.waiting] == [
        "decisive-votes",
        "established-coverage",
        "established-rd",
    ]
    alone = strengthen(arena(1, 3), [1500])
    assert stable_rules(alone, 0)[-1].value is None
    assert badge_of(alone, 0).badge is Badge.PROVISIONAL
    standing = settled()
    standing.retire(1)
    assert badge_of(standing, 1).badge is Badge.ESTABLISHED


def test_missing_votes_worked_by_hand():
    """20 votes, all decisive: 60 more. RD 100 of 350: (1/90² − 1/100²) at (1/100² − 1/350²) per 20 votes."""
    votes = [(0, 1, p, A) for p in range(10)] * 2
    decisive, coverage, rd = established_rules(strengthen(arena(2, 10, votes), [1600, 1500], 100.0), 0)
    assert decisive.missing == 60
    assert coverage.missing == 0
    assert rd.missing == 6
    assert rd.detail == "RD is 100"


@given(arenas(), st.data())
def test_meeting_one_more_rule_never_lowers_a_badge(standing, data):
    if not standing.models:
        return
    model = data.draw(st.integers(0, len(standing.models) - 1))
    card = badge_of(standing, model)
    for rules in (card.established, card.stable):
        for k, rule in enumerate(rules):
            better = (*rules[:k], replace(rule, holds=True), *rules[k + 1 :])
            new = (
                badge_from_rules(better, card.stable)
                if rules is card.established
                else badge_from_rules(card.established, better)
            )
            assert STEPS.index(new) >= STEPS.index(card.badge)


@given(arenas())
def test_a_badge_waits_for_something_unless_it_is_the_last(standing):
    for model in range(len(standing.models)):
        card = badge_of(standing, model)
        assert bool(card.waiting) == (card.badge is not Badge.STABLE)


# A rule: value, bar, what is missing.


@pytest.mark.parametrize(
    ("value", "bar", "at_most", "holds"),
    [
        (75.0, 75.0, True, True),
        (75.1, 75.0, True, False),
        (0.9, 0.9, False, True),
        (0.89, 0.9, False, False),
        (None, 0.0, False, False),
        (math.nan, 0.0, True, False),
        (sum([0.7, 0.8, 0.9, 1.0, 1.0, 1.0, 1.0, 0.8, 0.9, 0.9]) / 10, 0.9, False, True),
    ],
)
def test_a_rule_holds_at_its_bar_and_never_without_a_value(value, bar, at_most, holds):
    assert check_rule("neighbour-floors", {}, value, bar, missing=3.0, at_most=at_most).holds is holds


@pytest.mark.parametrize(
    ("missing", "votes"), [(None, None), (math.inf, None), (math.nan, None), (0.0, 1), (2.1, 3)]
)
def test_what_is_missing_is_a_whole_number_of_votes_or_none(missing, votes):
    assert check_rule("neighbour-floors", {}, 1.0, 2.0, missing=missing).missing == votes


def test_a_rule_that_holds_misses_nothing():
    assert check_rule("neighbour-floors", {}, 2.0, 2.0, missing=None).missing == 0


@given(st.floats())
def test_numbers_are_finite_or_none(value):
    assert float_or_none(value) == (value if math.isfinite(value) else None)
    assert float_or_none(None) is None


@given(arenas())
def test_every_rule_of_every_arena_misses_nothing_exactly_when_it_holds(standing):
    rules = list(publication_rules(standing))
    for model in range(len(standing.models)):
        card = badge_of(standing, model)
        rules += [*card.established, *card.stable]
    for rule in rules:
        assert (rule.missing == 0) == rule.holds
        assert rule.missing is None or rule.missing >= 0
        assert rule.value is None or math.isfinite(rule.value)
        assert isinstance(rule.holds, bool)
        assert "nan" not in rule.detail
