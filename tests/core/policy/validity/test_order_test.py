"""Marks of proven order: what must hold whatever the votes are."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from support.order_votes import SCOPES, cells, even, naive_evidence, pairs
from tiltyard.core.policy.validity.order_marks import LIKE_THESE, THESE, PairVotes
from tiltyard.core.policy.validity.order_test import OrderTest
from tiltyard.errors import BadOption

rule = OrderTest()
scopes = st.sampled_from(SCOPES)
some_prompts = st.sampled_from([None, 3, 50])


def mark(tally, scope=THESE, family=1, prompts=None, by=rule):
    return by(PairVotes.of_pairs([(4, 9, np.asarray(tally))]), scope, family=family, prompts=prompts)[0]


@given(cells, scopes, some_prompts)
def test_swapping_the_two_models_mirrors_the_mark(tally, scope, prompts):
    one = mark(tally, scope, prompts=prompts)
    other = mark(tally[:, [1, 0, 2, 3]], scope, prompts=prompts)
    assert (other.estimate, other.lower, other.upper) == pytest.approx(
        (-one.estimate, -one.upper, -one.lower), nan_ok=True
    )
    assert {one.leader, other.leader} in ({4, 9}, {None})
    assert (one.proven, one.votes, one.prompts) == (other.proven, other.votes, other.prompts)
    assert one.missing == other.missing


@given(cells, scopes, st.randoms(use_true_random=False))
def test_the_order_of_prompts_and_prompts_without_votes_do_not_matter(tally, scope, random):
    shuffled = random.sample(tally.tolist(), len(tally))
    other = np.array([*shuffled, [0, 0, 0, 0]])
    one, two = mark(tally, scope), mark(other, scope)
    assert (one.lower, one.upper) == pytest.approx((two.lower, two.upper), abs=1e-9)


@given(cells, scopes, st.sampled_from([1, 190]), some_prompts)
def test_proven_is_the_same_as_an_interval_without_zero(tally, scope, family, prompts):
    found = mark(tally, scope, family, prompts)
    assert -1.0 <= found.lower <= found.upper <= 1.0
    assume(min(abs(found.lower), abs(found.upper)) > 1e-9)
    assert found.proven == (found.lower > 0.0 or found.upper < 0.0)
    assert not found.proven or found.leader == (4 if found.lower > 0.0 else 9)


@given(st.lists(cells, min_size=1, max_size=6), scopes, some_prompts, st.integers(0, 300))
@settings(max_examples=60)
def test_a_slow_twin_finds_the_same_marks(tallies, scope, prompts, others):
    family = len(tallies) + others
    evidence = np.array([naive_evidence(rule, tally, scope, prompts) for tally in tallies])
    expected, left = np.zeros(len(tallies), dtype=bool), family
    for k in np.argsort(-evidence, kind="stable"):
        bar = math.log(left / rule.alpha)
        assume(abs(evidence[k] - bar) > 1e-9)
        if evidence[k] < bar:
            break
        expected[k], left = True, left - 1
    found = rule(pairs(*tallies), scope, family=family, prompts=prompts)
    np.testing.assert_array_equal(found.proven, expected)
    leaders = rule.leaders(pairs(*tallies), scope, family=family, prompts=prompts)
    np.testing.assert_array_equal(leaders, np.where(found.proven, found.leader, -1))


#: Votes where a bound of the variance decides, which votes drawn at random hardly reach.
BOUNDED = {
    "each prompt of one mind, and they differ": np.array([[10, 0, 0, 0]] * 20 + [[0, 10, 0, 0]] * 12),
    "the same with ties": np.array([[30, 0, 3, 0]] * 20 + [[0, 30, 3, 0]] * 12),
    "prompts alike beyond chance": even(24, 6, 4),
    "one vote on each prompt": np.array([[1, 0, 0, 0]] * 15 + [[0, 1, 0, 0]] * 5),
    "one prompt has most of the votes": np.array([[400, 100, 0, 0]] + [[2, 1, 0, 0]] * 9),
    "few prompts, few votes": np.array([[3, 1, 0, 0], [2, 2, 1, 0]] * 3),
    "prompts that differ a little": np.array([[9, 3, 0, 0], [5, 7, 0, 0]] * 10),
}


@pytest.mark.parametrize("prompts", [None, 32, 500])
@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("tally", BOUNDED.values(), ids=BOUNDED)
def test_a_slow_twin_weighs_the_evidence_alike_where_a_bound_decides(tally, scope, prompts):
    found = rule._evidence(rule._found(pairs(tally), scope, prompts)[1])
    assert found == pytest.approx([naive_evidence(rule, tally, scope, prompts)], rel=1e-6)


def test_prompts_explain_no_more_than_four_fifths_of_the_variance():
    """Of prompts that are of one mind each nothing is left to chance; a fifth is counted all the same."""
    tally = BOUNDED["each prompt of one mind, and they differ"]
    found = rule._found(pairs(tally), THESE, len(tally))[1]
    # 320 votes of equal weight, each of variance 1.
    assert found.within == pytest.approx([0.2 / 320])
    assert found.estimate == pytest.approx([0.25])


@given(st.lists(cells, min_size=1, max_size=6), scopes)
def test_alone_or_among_others_a_pair_that_is_not_stepped_down_to_is_judged_alike(tallies, scope):
    together = rule.leaders(pairs(*tallies), scope, family=20, stepwise=False)
    alone = [
        rule.leaders(PairVotes.of_pairs([(2 * k, 2 * k + 1, one)]), scope, family=20)[0]
        for k, one in enumerate(tallies)
    ]
    assert together.tolist() == alone


@given(cells, scopes, st.integers(2, 5))
def test_more_of_the_same_evidence_never_takes_a_mark_away(tally, scope, times):
    one, many = mark(tally, scope), mark(np.tile(tally, (times, 1)), scope)
    assert many.estimate == pytest.approx(one.estimate, nan_ok=True)
    assert many.proven or not one.proven


@given(st.integers(1, 200), st.integers(0, 50), st.integers(0, 5), scopes)
def test_equal_votes_prove_nothing(k, wins, ties, scope):
    found = mark(even(k, wins, wins, ties), scope)
    assert not found.proven
    assert (found.leader, found.missing) == (None, None)


@given(cells, st.integers(0, 30))
def test_both_bad_counts_as_a_vote_and_as_no_evidence(tally, more):
    assume(len(tally) > 0)
    spoiled = tally + np.array([0, 0, 0, more])
    one, other = mark(tally), mark(spoiled)
    assert other.votes == one.votes + more * len(tally)
    assert (other.lower, other.upper, other.prompts) == (one.lower, one.upper, one.prompts)


@pytest.mark.parametrize("scope", SCOPES)
def test_without_votes_nothing_is_said(scope):
    found = mark(np.zeros((0, 4), dtype=int), scope)
    assert math.isnan(found.estimate)
    assert (found.lower, found.upper, found.proven, found.missing, found.leader) == (
        -1.0,
        1.0,
        False,
        None,
        None,
    )
    assert len(rule(pairs(), scope, family=1)) == 0


@pytest.mark.parametrize("scope", SCOPES)
def test_ties_alone_are_an_estimate_of_zero_and_no_interval(scope):
    found = mark(even(30, 0, 0, 5), scope)
    assert (found.estimate, found.lower, found.upper) == (0.0, -1.0, 1.0)
    assert not found.proven


@pytest.mark.parametrize("scope", SCOPES)
def test_one_prompt_proves_nothing_however_many_votes_it_has(scope):
    assert not mark(even(1, 5000, 100), scope).proven
    assert not mark(even(5, 5000, 100), scope).proven
    assert mark(even(6, 5000, 100), scope).proven


def test_an_arena_of_few_prompts_may_claim_of_these_but_not_of_others_like_them():
    assert mark(even(3, 500, 100), THESE, prompts=3).proven
    few = mark(even(3, 500, 100), LIKE_THESE, prompts=3)
    assert (few.proven, few.missing) == (False, None)


def test_prompts_that_disagree_prove_order_on_themselves_and_not_on_others():
    tally = np.array([[90, 10, 0, 0]] * 20 + [[10, 90, 0, 0]] * 12)
    assert mark(tally, THESE, family=190).proven
    assert not mark(tally, LIKE_THESE, family=190).proven


def test_a_prompt_with_most_of_the_votes_does_not_carry_the_claim():
    tally = np.array([[3000, 1000, 0, 0]] + [[45, 55, 0, 0]] * 29)
    assert mark(tally, THESE).leader == 9
    assert mark(tally, LIKE_THESE).leader == 9


def test_prompts_that_the_pair_has_not_met_on_widen_what_is_said_of_all():
    tally = np.array([[30, 10, 0, 0], [10, 30, 0, 0]] * 5 + [[30, 10, 0, 0]] * 10)
    widths = [mark(tally, THESE, prompts=prompts) for prompts in (20, 40, 400)]
    widths = [one.upper - one.lower for one in widths]
    assert widths == sorted(widths)
    assert widths[0] < widths[1] < widths[2]


@given(st.integers(10, 60), st.integers(1, 9), scopes, st.sampled_from([1, 190]))
def test_missing_votes_prove_the_order_once_they_are_there(k, wins, scope, family):
    found = mark(even(k, wins, 10 - wins), scope, family)
    if found.proven:
        assert found.missing == 0
    elif found.missing is not None:
        grown = round(k * (1.0 + found.missing / found.votes) + 0.5)
        assert mark(even(grown, wins, 10 - wins), scope, family).proven
        less = int(k * (1.0 + 0.9 * found.missing / found.votes))
        assert less < k + 2 or not mark(even(less, wins, 10 - wins), scope, family).proven


def test_where_prompts_run_out_more_votes_may_never_do():
    tally = np.array([[14, 6, 0, 0], [8, 12, 0, 0]] * 10)
    assert mark(tally, LIKE_THESE).missing > 100
    assert mark(tally, LIKE_THESE, prompts=20).missing is None
    assert mark(tally, THESE, prompts=20).missing < 1500


def test_a_pair_below_the_needed_prompts_misses_at_least_those():
    assert mark(even(4, 3000, 1), THESE).missing == 2


def test_levels_step_down_to_the_first_pair_that_falls_short():
    strong, weak = even(40, 30, 10), even(40, 6, 5)
    found = rule(pairs(weak, strong, strong), THESE, family=3)
    assert found.level.tolist() == pytest.approx([0.05, 0.05 / 3, 0.05 / 2])
    assert found.proven.tolist() == [False, True, True]
    alone = rule(pairs(weak), THESE, family=3)
    assert alone.level.tolist() == pytest.approx([0.05 / 3])


def test_a_smaller_alpha_asks_for_more():
    tally = even(40, 7, 5)
    wide, narrow = mark(tally, by=replace(rule, alpha=0.001)), mark(tally, by=replace(rule, alpha=0.2))
    assert wide.lower < narrow.lower < narrow.upper < wide.upper
    assert wide.missing > narrow.missing


def test_many_pairs_are_summed_in_blocks_as_if_at_once(monkeypatch):
    rng = np.random.default_rng(4)
    tallies = [rng.integers(0, 5, (rng.integers(0, 30), 4)) for _ in range(40)]
    whole = rule(pairs(*tallies), LIKE_THESE, family=40)
    monkeypatch.setattr("tiltyard.core.policy.validity.order_test._BLOCK_CELLS", 25)
    parts = rule(pairs(*tallies), LIKE_THESE, family=40)
    for name in ("estimate", "lower", "upper", "missing", "votes"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(parts, name))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"alpha": 0.0}, "alpha is 0.0"),
        ({"spread": 0.0}, "spread is 0.0"),
        ({"gap": -1.0}, "gap is -1.0"),
        ({"between": -0.1}, "between"),
        ({"min_prompts": 1}, "min_prompts"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(change, says):
    with pytest.raises(BadOption, match=says):
        OrderTest(**change)


def test_votes_that_do_not_fit_together_are_refused():
    one, start = np.array([0]), np.array([0, 2])
    with pytest.raises(BadOption, match="higher codes"):
        PairVotes(one, np.array([1, 2]), start, even(2, 1, 1))
    with pytest.raises(BadOption, match="four counts"):
        PairVotes(one, one, start, np.zeros((2, 3), dtype=int))
    with pytest.raises(BadOption, match="rise from 0"):
        PairVotes(one, one, start, even(3, 1, 1))
    with pytest.raises(BadOption, match="count all pairs"):
        rule(pairs(even(2, 1, 1), even(2, 1, 1)), THESE, family=1)
    with pytest.raises(BadOption, match="the scope is 'all'"):
        rule(pairs(), "all", family=1)
    assert len(pairs(even(2, 1, 1))) == 1
