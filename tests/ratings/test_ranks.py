from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm, studentized_range, t

from tiltyard.ratings import BradleyTerry, Elo, Glicko2, Ratings
from tiltyard.ratings.pairs import Record
from tiltyard.ratings.ranks import conservative_order, rank_models
from tiltyard.ratings.uncertainty import Uncertainty
from worlds import drawn, names, table, told


def ratings(rating, covariance, group=None, dof=np.inf):
    m = len(rating)
    nobody = np.zeros(m, dtype=np.int64)
    return Ratings(
        method=BradleyTerry(),
        models=names(m),
        rating=np.array(rating, dtype=np.float64),
        group=nobody if group is None else np.array(group),
        record=Record(nobody, nobody, nobody, nobody, nobody),
        uncertainty=Uncertainty((np.array(covariance, dtype=np.float64),), dof),
    )


@st.composite
def any_ratings(draw):
    """Ratings with some covariance, in some groups, some of them absent."""
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    m = draw(st.integers(1, 8))
    group = rng.integers(-1, draw(st.integers(1, 3)), m)
    factor = rng.normal(0.0, draw(st.sampled_from([0.5, 5.0, 50.0])), (m, rng.integers(1, m + 1)))
    rating = np.where(
        group < 0, np.nan, np.round(rng.normal(1500.0, 40.0, m), draw(st.sampled_from([-1, 3])))
    )
    return ratings(rating, factor @ factor.T, group, draw(st.sampled_from([np.inf, 5.0])))


@given(any_ratings())
def test_a_models_own_rank_lies_in_its_range(result):
    ranks = rank_models(result, draws=500)
    for k in range(len(result.models)):
        if result.group[k] < 0:
            assert (ranks.low[k], ranks.high[k], ranks.tier[k]) == (0, 0, 0)
        else:
            peers = result.rating[result.group == result.group[k]]
            best, worst = 1 + (peers > result.rating[k]).sum(), (peers >= result.rating[k]).sum()
            assert 1 <= ranks.low[k] <= best <= worst <= ranks.high[k] <= len(peers)


@given(any_ratings())
def test_what_is_proven_is_a_strict_partial_order_within_groups(result):
    above = rank_models(result, draws=500).above
    assert not (above & above.T).any()
    assert not np.diag(above).any()
    assert not ((above.astype(int) @ above.astype(int) > 0) & ~above).any()
    i, j = np.nonzero(above)
    assert (result.group[i] == result.group[j]).all()
    assert (result.rating[i] > result.rating[j]).all()


@given(any_ratings())
def test_ranges_follow_from_what_is_proven(result):
    ranks = rank_models(result, draws=500)
    rated = result.group >= 0
    peers = np.array([(result.group == g).sum() for g in result.group])
    np.testing.assert_array_equal(ranks.low[rated], 1 + ranks.above.sum(axis=0)[rated])
    np.testing.assert_array_equal(ranks.high[rated], (peers - ranks.above.sum(axis=1))[rated])


@given(any_ratings())
def test_tiers_go_down_one_by_one_from_the_first(result):
    ranks = rank_models(result, draws=500)
    for g in range(result.group.max() + 1):
        order = [k for k in result.order() if result.group[k] == g]
        tiers = ranks.tier[order].tolist()
        assert tiers == sorted(tiers)
        assert sorted(set(tiers)) == list(range(1, len(set(tiers)) + 1))
        heads = [order[tiers.index(tier)] for tier in sorted(set(tiers))]
        assert all(ranks.above[one, other] for one, other in pairwise(heads))
        for tier, head in enumerate(heads, 1):
            assert not any(ranks.above[head, k] for k in order if ranks.tier[k] == tier)


@given(any_ratings())
def test_outranking_is_a_probability_of_two_sides(result):
    outranks = rank_models(result, draws=500).outranks
    same = (
        (result.group[:, None] == result.group)
        & (result.group >= 0)[:, None]
        & ~np.eye(len(result.models), dtype=bool)
    )
    np.testing.assert_array_equal(np.isnan(outranks), ~same)
    np.testing.assert_allclose((outranks + outranks.T)[same], 1.0)


@pytest.mark.parametrize("m", [2, 3, 10])
@pytest.mark.parametrize("dof", [np.inf, 8.0])
def test_the_critical_value_of_equal_independent_ratings_is_tukeys(m, dof):
    ranks = rank_models(ratings(np.zeros(m), np.eye(m) * 9.0, dof=dof), draws=200_000)
    tukey = studentized_range.ppf(0.95, m, 1e6 if np.isinf(dof) else dof) / np.sqrt(2.0)
    assert ranks.critical == pytest.approx(tukey, rel=0.01)


def test_the_critical_value_is_the_quantile_of_the_largest_difference():
    covariance = np.array([[4.0, 1.0, 0.0], [1.0, 9.0, 2.0], [0.0, 2.0, 1.0]])
    draws = np.random.default_rng(1).multivariate_normal(np.zeros(3), covariance, 200_000)
    largest = np.zeros(len(draws))
    for i, j in ((0, 1), (0, 2), (1, 2)):
        error = np.sqrt(covariance[i, i] + covariance[j, j] - 2.0 * covariance[i, j])
        largest = np.maximum(largest, np.abs(draws[:, i] - draws[:, j]) / error)
    ranks = rank_models(ratings(np.zeros(3), covariance), level=0.9, draws=200_000)
    assert ranks.critical == pytest.approx(np.quantile(largest, 0.9), rel=0.01)


def test_groups_apart_are_drawn_together_but_never_compared():
    apart = rank_models(ratings([0.0, 50.0, 0.0, 50.0], np.eye(4), [0, 0, 1, 1]), draws=50_000)
    assert apart.low.tolist() == [2, 1, 2, 1]
    assert np.isnan(apart.outranks[0, 2])
    one_pair = norm.ppf(0.975)
    assert one_pair < apart.critical < studentized_range.ppf(0.95, 4, 1e6) / np.sqrt(2.0)


@pytest.mark.parametrize(("gap", "settled"), [(1.0, False), (100.0, True)])
def test_two_models_are_ordered_or_they_are_not(gap, settled):
    ranks = rank_models(ratings([gap, 0.0], np.eye(2) * 25.0))
    assert ranks.low.tolist() == ([1, 2] if settled else [1, 1])
    assert ranks.high.tolist() == ([1, 2] if settled else [2, 2])
    assert ranks.tier.tolist() == ([1, 2] if settled else [1, 1])
    assert ranks.outranks[0, 1] == pytest.approx(norm.cdf(gap / np.sqrt(50.0)))


def test_outranking_has_the_tails_of_its_degrees_of_freedom():
    ranks = rank_models(ratings([10.0, 0.0], np.eye(2) * 50.0, dof=4.0))
    assert ranks.outranks[0, 1] == pytest.approx(t.cdf(1.0, 4))


def test_equal_models_have_wide_ranges():
    codes = drawn(6, 600, 1)
    rng = np.random.default_rng(2)
    codes.kind[:] = rng.integers(0, 2, 600)
    ranks = rank_models(BradleyTerry()(table(codes)))
    assert (ranks.high - ranks.low >= 4).all()


def test_ratings_without_spread_prove_nothing():
    ranks = rank_models(ratings([100.0, 0.0], np.zeros((2, 2))))
    assert not ranks.above.any()
    assert ranks.high.tolist() == [2, 2]


def test_no_covariance_no_ranks():
    assert rank_models(BradleyTerry(interval="none")(told("a>b b>a"))) is None
    assert rank_models(Glicko2()(told("a>b b>a"))) is None


def test_nobody_to_rank():
    assert rank_models(BradleyTerry()(told("a>b"))).tier.tolist() == [0, 0]


def test_the_same_seed_gives_the_same_ranks():
    result = Elo(n_permutations=5, n_bootstraps=5, n_orders=2)(table(drawn()))
    assert rank_models(result, seed=3).critical == rank_models(result, seed=3).critical


def test_the_conservative_order_takes_off_what_is_not_known():
    result = ratings([1500.0, 1510.0, np.nan], np.diag([1.0, 100.0, 1.0]), [0, 0, -1])
    assert conservative_order(result).tolist() == [0, 1, 2]
    assert conservative_order(result, errors=0.0).tolist() == [1, 0, 2]
    glicko = Glicko2(kernel="plain")(told("a>b*3 c>b"))
    expected = np.argsort(-(glicko.rating - 2.0 * glicko.extras["rd"]))
    assert conservative_order(glicko).tolist() == expected.tolist()
    plain = BradleyTerry(interval="none")(told("b>a*2 a>b"))
    assert conservative_order(plain).tolist() == [1, 0]
