"""What one prompt or one voter can weigh."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from support.sizes import sized
from support.worlds import batch, counted, drawn, rows, styled, table
from tiltyard.core.battles import Kind, Table, TableBuilder
from tiltyard.core.battles.cluster_keys import MISSING_KEY
from tiltyard.core.ratings import BradleyTerry
from tiltyard.core.ratings.bradley_terry import weigh_pairs_evenly
from tiltyard.core.ratings.comparison import compare_models
from tiltyard.core.ratings.pairs import Scoring
from tiltyard.core.ratings.weight_limits import _kept, limit_shares
from tiltyard.errors import BadOption

M = 5
MOST = 0.1


def uneven(seed=0, n=600, *, prompts=40, voters=30, skew=1.0, **options):
    """Prompts and voters with battles in proportion to a power of their number: the last have most of them."""
    rng = np.random.default_rng(seed)

    def keys(count):
        size = np.arange(1, count + 1) ** (4.0 * skew)
        return rng.choice(np.arange(1, count + 1), n, p=size / size.sum()).astype(np.uint64)

    return replace(drawn(M, n, seed, **options), prompt=keys(prompts), voter=keys(voters))


def weights(world):
    log = world.log()
    return np.ones(len(log)) if log.weight is None else log.weight


def shares(world, kind, scoring=None):
    """The share of each cluster in the weight of the battles that count, by loops."""
    log, weight = world.log(), weights(world)
    used = ~np.isnan((scoring or Scoring()).of(log))
    sums = {}
    for key, value, counts in zip(getattr(log, kind).tolist(), weight, used, strict=True):
        if counts and key != MISSING_KEY:
            sums[key] = sums.get(key, 0.0) + value
    return {key: value / weight[used].sum() for key, value in sums.items()}


def limit(count, most=MOST):
    return max(most, 1.3 / count)


def limited(codes, most=MOST, scoring=None):
    return limit_shares(table(codes, M), scoring or Scoring(), most)


# One way


@settings(max_examples=sized(25, 150))
@given(
    st.lists(st.floats(0.001, 1000.0), min_size=1, max_size=40),
    st.floats(0.0, 1000.0),
    st.floats(0.02, 1.0),
)
def test_the_weights_kept_are_those_that_repeated_cuts_end_at(weight, alone, most):
    weight, bound = np.array(weight), limit(len(weight), most)
    slow = weight
    for _ in range(20_000):
        cut = np.minimum(slow, bound * (slow.sum() + alone))
        if np.abs(cut - slow).max() <= 1e-13 * cut.max():
            break
        slow = cut
    np.testing.assert_allclose(_kept(weight, alone, bound), slow, rtol=1e-6)


def test_small_weights_beside_huge_ones_are_still_seen():
    kept = _kept(np.array([1e17, 1.0, 1.0]), 0.0, limit(3))
    np.testing.assert_allclose(kept, [2.0 * limit(3) / (1.0 - limit(3)), 1.0, 1.0])


@pytest.mark.parametrize("most", [0.05, 0.1, 0.3])
def test_a_large_prompt_weighs_the_limit_and_the_others_what_they_did(most):
    codes = drawn(M, 500, 1, prompts=50)
    codes.prompt[:250] = 7
    found = limited(codes, most)
    by_prompt = shares(found.table, "prompt")
    assert max(by_prompt.values()) == pytest.approx(most, rel=1e-3)
    assert by_prompt[7] == pytest.approx(most, rel=1e-3)
    weight = weights(found.table)
    np.testing.assert_array_equal(weight[codes.prompt != 7], 1.0)
    assert len(set(weight[codes.prompt == 7])) == 1


@pytest.mark.parametrize("prompts", [2, 3, 8])
def test_few_prompts_may_each_weigh_somewhat_more_than_the_same_for_all(prompts):
    codes = drawn(M, 400, 1, prompts=prompts)
    codes.prompt[: 400 - 5 * prompts] = 1
    largest = max(shares(limited(codes).table, "prompt").values())
    assert largest == pytest.approx(1.3 / prompts, rel=1e-3)


# Both ways


@pytest.mark.parametrize(
    ("seed", "weighted", "skew"), [(0, False, 0.3), (1, True, 1.0), (2, False, 3.0), (3, True, 3.0)]
)
def test_no_prompt_and_no_voter_exceeds_its_limit(seed, weighted, skew):
    codes = uneven(seed, prompts=40, voters=25, skew=skew, weighted=weighted)
    found = limited(codes)
    for kind in ("prompt", "voter"):
        before, after = shares(table(codes), kind), shares(found.table, kind)
        assert max(after.values()) <= limit(len(after)) * 1.0011
        told_shares = found.shares[kind]
        assert told_shares.count == len(before) == len(after)
        assert told_shares.largest_before == pytest.approx(max(before.values()))
        assert told_shares.largest == pytest.approx(max(after.values()), rel=1e-4)
        assert found.largest[kind] == told_shares.largest


def test_a_battles_factor_is_the_product_of_its_prompts_and_its_voters():
    codes = uneven()
    weight = weights(limited(codes).table)
    light = (codes.prompt < 33) & (codes.voter < 25)
    assert light.any()
    np.testing.assert_array_equal(weight[light], 1.0)
    of_prompt, of_voter = (
        {key: weight[keys == key].max() for key in set(keys.tolist())} for keys in (codes.prompt, codes.voter)
    )
    heavy = (codes.prompt == 40) & (codes.voter == 30)
    assert heavy.sum() > 10
    np.testing.assert_allclose(weight[heavy], of_prompt[40] * of_voter[30], rtol=1e-3)


def test_where_both_limits_cannot_hold_a_wider_one_does_and_little_is_lost():
    """One prompt has every voter but one, who has every other prompt: together they are all battles."""
    n = 400
    codes = drawn(M, n, 3)
    other = np.arange(n) < n // 2
    rng = np.random.default_rng(1)
    prompt = np.where(other, 1, rng.integers(2, 21, n)).astype(np.uint64)
    voter = np.where(other, rng.integers(2, 21, n), 1).astype(np.uint64)
    found = limited(replace(codes, prompt=prompt, voter=voter))
    assert max(shares(found.table, "prompt").values()) == pytest.approx(0.5, abs=0.01)
    assert weights(found.table).min() > 0.5
    assert found.table.n_battles == n


# What counts


def test_battles_without_a_prompt_count_in_the_total_and_are_not_reduced():
    codes = drawn(M, 600, 2, prompts=30)
    codes.prompt[:300] = MISSING_KEY
    codes.prompt[300:500] = 4
    found = limited(codes)
    weight = weights(found.table)
    np.testing.assert_array_equal(weight[:300], 1.0)
    assert weight[codes.prompt == 4].sum() == pytest.approx(MOST * weight.sum(), rel=1e-3)
    parts = TableBuilder()
    parts.add(batch(replace(rows(codes, np.arange(300)), prompt=None), M))
    parts.add(batch(rows(codes, np.arange(300, 600)), M))
    apart = limit_shares(parts.table(), Scoring(), MOST).table
    np.testing.assert_array_equal(weights(apart), weight)


@pytest.mark.parametrize("idle", ["both_bad", "weightless", "with itself", "dropped tie"])
def test_battles_that_do_not_count_make_no_prompt_large(idle):
    codes = drawn(M, 400, 2, prompts=40, ties=0.0)
    codes = replace(codes, weight=np.ones(400))
    mine = np.arange(400) < 200
    codes.prompt[mine] = 99
    if idle == "both_bad":
        codes.kind[mine] = Kind.BOTH_BAD
    elif idle == "weightless":
        codes.weight[mine] = 0.0
    elif idle == "with itself":
        codes.a[mine] = codes.b[mine]
    else:
        codes.kind[mine] = Kind.TIE
    world = table(codes, M)
    found = limit_shares(world, Scoring("drop"), MOST)
    assert found.table is world
    assert found.shares["prompt"].count == 40


def test_a_prompt_with_only_battles_that_do_not_count_is_left_alone_among_limited_ones():
    codes = drawn(M, 400, 2, prompts=40)
    codes.prompt[:100] = 4
    for key in (99, 1 << 40):
        codes.prompt[100:120] = key
        codes.kind[100:120] = Kind.BOTH_BAD
        weight = weights(limited(codes).table)
        assert (weight[:100] < 1.0).all()
        np.testing.assert_array_equal(weight[100:120], 1.0)


@pytest.mark.parametrize(
    "codes",
    [drawn(M, 400), drawn(M, 800, prompts=40), drawn(M, 800, prompts=40, voters=40, weighted=True)],
    ids=["no clusters", "prompts", "prompts and voters"],
)
def test_a_table_within_the_limits_is_returned_as_it_is(codes):
    world = table(codes)
    found = limit_shares(world, Scoring(), MOST)
    assert found.table is world
    assert found.findings() == []


def test_keys_that_are_all_missing_limit_nothing():
    codes = replace(drawn(M, 50), prompt=np.full(50, MISSING_KEY, np.uint64))
    nothing = replace(codes, kind=np.full(50, Kind.BOTH_BAD, np.uint8))
    for world in (table(codes), table(nothing), Table.from_battles([]), counted("a>b*30 b>a*20")):
        found = limit_shares(world, Scoring(), MOST)
        assert (found.table is world, found.shares, found.largest) == (True, {}, {})


def test_without_a_limit_shares_are_told_and_nothing_is_reduced():
    world = table(uneven())
    found = limit_shares(world, Scoring(), None)
    assert found.table is world
    assert found.shares["voter"].largest == max(shares(world, "voter").values())
    assert found.findings() == []


@pytest.mark.parametrize("seed", range(2))
def test_limiting_twice_changes_nothing(seed):
    once = limited(uneven(seed)).table
    assert limit_shares(once, Scoring(), MOST).table is once


# The log


@settings(max_examples=sized(8, 20))
@given(seed=st.integers(0, 10_000))
def test_the_order_of_the_log_changes_no_bit_of_a_weight(seed):
    codes = uneven(seed, n=300, weighted=True)
    order = np.random.default_rng(seed).permutation(300)
    plain, mixed = limited(codes).table, limited(rows(codes, order)).table
    np.testing.assert_array_equal(weights(mixed), weights(plain)[order])
    for one, other in zip(plain.counts.moments().T[[0, 2]], mixed.counts.moments().T[[0, 2]], strict=True):
        np.testing.assert_array_equal(one, other)


def reread(codes, size=70):
    """A table that keeps no log and reads it again at each scan, in parts."""
    parts = [
        batch(rows(codes, np.arange(k, min(k + size, len(codes)))), M) for k in range(0, len(codes), size)
    ]
    builder = TableBuilder(keep_log=False)
    for part in parts:
        builder.add(part)
    return builder.table(reread=lambda: parts)


def test_a_log_that_is_read_again_gives_the_same_as_one_in_memory():
    codes = uneven(weighted=True)
    kept, again = limited(codes), limit_shares(reread(codes), Scoring(), MOST)
    np.testing.assert_array_equal(weights(again.table), weights(kept.table))
    np.testing.assert_array_equal(again.table.counts.moments(), kept.table.counts.moments())
    assert again.shares == kept.shares
    one, other = BradleyTerry()(reread(codes)), BradleyTerry()(table(codes))
    np.testing.assert_array_equal(one.rating, other.rating)
    np.testing.assert_allclose(one.interval.high, other.interval.high, rtol=1e-12)


def test_factors_of_a_log_that_is_read_again_multiply():
    codes = uneven()
    for world in (table(codes), reread(codes)):
        halved = world.reweighted(lambda run: np.full(len(run), 0.5))
        fewer = halved.reweighted(lambda run: np.where(run.prompt == 40, 0.25, 1.0))
        expected = np.where(codes.prompt == 40, 0.125, 0.5)
        np.testing.assert_array_equal(fewer.log().weight, expected)
        assert fewer.counts.moments()[:, 0].sum() == expected.sum()
        np.testing.assert_array_equal(weights(world), 1.0)


# The method


@pytest.mark.parametrize(
    ("method", "options"),
    [
        (BradleyTerry(), {}),
        (BradleyTerry(ties="davidson"), {"ties": 0.3}),
        (BradleyTerry(ties="drop"), {"judged": True}),
        (BradleyTerry(soft=True), {"soft": True, "weighted": True}),
        (BradleyTerry(prior_sd=200.0), {}),
        (BradleyTerry(clusters="battle"), {}),
        (BradleyTerry(interval="bootstrap", n_bootstraps=3), {}),
    ],
)
def test_rating_and_interval_use_the_limited_weights(method, options):
    codes = uneven(4, **options)
    weight = weights(limit_shares(table(codes), method.scoring(), MOST).table)
    explicit = replace(method, max_share=None)(table(replace(codes, weight=weight)))
    found, free = method(table(codes)), replace(method, max_share=None)(table(codes))
    np.testing.assert_array_equal(found.rating, explicit.rating)
    np.testing.assert_array_equal(found.interval.low, explicit.interval.low)
    np.testing.assert_array_equal(found.interval.high, explicit.interval.high)
    np.testing.assert_array_equal(found.uncertainty.covariances, explicit.uncertainty.covariances)
    np.testing.assert_array_equal(found.uncertainty.dof, explicit.uncertainty.dof)
    np.testing.assert_array_equal(found.record.battles, free.record.battles)
    assert (found.rating != free.rating).all()
    assert (np.diag(found.uncertainty.covariances[0]) != np.diag(free.uncertainty.covariances[0])).all()


def test_style_control_uses_the_limited_weights():
    codes = uneven(4)
    covariates = np.random.default_rng(1).normal(size=(len(codes), 2))
    weight = weights(limited(codes).table)
    found = BradleyTerry(style=True)(styled(codes, covariates))
    explicit = BradleyTerry(style=True, max_share=None)(styled(replace(codes, weight=weight), covariates))
    np.testing.assert_array_equal(found.rating, explicit.rating)
    np.testing.assert_array_equal(found.interval.high, explicit.interval.high)


def test_a_comparison_uses_the_limited_weights_and_says_so():
    codes = uneven(4)
    weight = weights(limited(codes).table)
    found = compare_models(table(codes), "aa", "ab")
    explicit = compare_models(table(replace(codes, weight=weight)), "aa", "ab", BradleyTerry(max_share=None))
    assert (found.difference, found.low, found.high) == (explicit.difference, explicit.low, explicit.high)
    assert (found.wins, found.losses) == (explicit.wins, explicit.losses)
    assert "weight-limited" in {finding.name for finding in found.findings}


def test_one_voters_many_votes_move_a_rating_no_more_than_their_limit():
    """A voter who casts half of the votes, all for the last model."""
    codes = drawn(M, 2000, 5, prompts=100)
    codes = replace(codes, voter=np.random.default_rng(1).integers(1, 101, 2000).astype(np.uint64))
    stuffed = np.arange(2000) < 1000
    a = np.where(stuffed, M - 1, codes.a)
    b = np.where(stuffed, np.arange(2000) % (M - 1), codes.b)
    attack = replace(
        codes,
        a=a.astype(np.uint16),
        b=b.astype(np.uint16),
        kind=np.where(stuffed, Kind.WIN_A, codes.kind).astype(np.uint8),
        voter=np.where(stuffed, 999, codes.voter).astype(np.uint64),
    )
    honest = BradleyTerry()(table(rows(codes, np.flatnonzero(~stuffed)))).rating
    held, free = (BradleyTerry(max_share=most)(table(attack)).rating for most in (MOST, None))
    assert held[-1] - honest[-1] < 0.35 * (free[-1] - honest[-1])


@pytest.mark.parametrize("most", [0.0, -0.1, 1.01, float("nan")])
def test_a_share_is_above_nought_and_at_most_one(most):
    with pytest.raises(BadOption, match="max_share"):
        BradleyTerry(max_share=most)


def test_the_bounds_of_a_share_are_accepted():
    world = table(uneven())
    assert BradleyTerry(max_share=1.0).limited(world).table is world
    assert BradleyTerry(max_share=None).limited(world).table is world
    assert BradleyTerry(max_share=1e-6).limited(world).findings()


def test_findings_say_what_was_reduced_and_to_what():
    codes = drawn(M, 400, 1, prompts=40)
    codes.prompt[:100] = 7
    held = [finding for finding in BradleyTerry()(table(codes)).findings if finding.name == "weight-limited"]
    largest = (codes.prompt == 7).mean()
    assert [f"One prompt had {largest:.0%}" in finding.text for finding in held] == [True]
    by_voter = BradleyTerry()(table(replace(codes, prompt=None, voter=codes.prompt)))
    found = next(finding for finding in by_voter.findings if finding.name == "weight-limited")
    assert f"One voter cast {largest:.0%}" in found.text
    assert not [
        finding
        for finding in BradleyTerry(max_share=None)(table(codes)).findings
        if finding.name == "weight-limited"
    ]


# Pairs that met often do not outweigh the others, when asked for.


UNIT = 400.0 / math.log(10.0)


def crowded(n=900, seed=3):
    """Battles of which half are those of one pair, and some have no winner but two bad responses."""
    codes = drawn(4, n, seed)
    half = n // 2
    a, b, kind = codes.a.copy(), codes.b.copy(), codes.kind.copy()
    a[:half], b[:half] = 0, 1
    kind[::7] = Kind.BOTH_BAD
    return replace(codes, a=a, b=b, kind=kind)


def factors(codes, scoring, enough):
    """By loops: one over the battles of the pair, or over what is enough; one in the mean."""
    counted = ~np.isnan(scoring.of(codes))
    keys = [frozenset((int(a), int(b))) for a, b in zip(codes.a, codes.b, strict=True)]
    met = {key: sum(k == key and c for k, c in zip(keys, counted, strict=True)) for key in set(keys)}
    factor = np.array([1.0 / max(met[key], enough) for key in keys])
    return factor / factor[counted].mean()


@pytest.mark.parametrize(("both_bad", "enough"), [("drop", 1), ("tie", 60), ("drop", 10_000)])
def test_every_pair_with_enough_battles_weighs_the_same(both_bad, enough):
    codes, scoring = crowded(), Scoring(both_bad=both_bad)
    even = weigh_pairs_evenly(table(codes), scoring, enough).log()
    counted = ~np.isnan(scoring.of(codes))
    np.testing.assert_allclose(even.weight[counted], factors(codes, scoring, enough)[counted], rtol=2.0**-15)


def test_without_a_pair_nothing_is_weighed():
    nothing = table(replace(crowded(), kind=np.full(900, Kind.BOTH_BAD, np.uint8)))
    assert weigh_pairs_evenly(nothing, Scoring(), 50) is nothing


def test_a_log_that_is_read_again_is_weighed_at_every_scan():
    codes = crowded()
    builder = TableBuilder(keep_log=False)
    builder.add(batch(codes, 4))
    again = builder.table(reread=lambda: [batch(codes, 4)])
    method = BradleyTerry(even_pairs=50, max_share=None)
    np.testing.assert_allclose(method(again).rating, method(table(codes)).rating, rtol=0, atol=1e-9)


def penalised(codes, z, enough, penalty):
    """The maximum of the mean weighted log-likelihood less the penalty, by a library's optimiser."""
    scoring = Scoring(both_bad="tie")
    y, w = scoring.of(codes), factors(codes, scoring, enough)
    z = z - z.mean(axis=0)
    z = z / np.sqrt((z**2).mean(axis=0))

    def loss(x):
        logit = x[codes.a] - x[codes.b] + z @ x[4:]
        return -np.mean(w * (y * logit - np.logaddexp(0.0, logit))) + 0.5 * penalty * (x[4:] @ x[4:])

    found = minimize(loss, np.zeros(4 + z.shape[1]), method="BFGS", options={"gtol": 1e-10}).x
    return UNIT * (found[:4] - found[:4].mean()), found[4:]


def test_ratings_and_coefficients_are_those_of_the_penalised_likelihood():
    codes = crowded()
    z = np.random.default_rng(5).normal(0.3, 2.0, (len(codes), 2))
    longer = np.random.default_rng(6).random(len(codes)) < 0.5
    kind = np.where(longer, np.where(z[:, 0] > 0, Kind.WIN_A, Kind.WIN_B), codes.kind).astype(np.uint8)
    codes = replace(codes, kind=kind)
    for penalty in (0.0, 1.0):
        method = BradleyTerry(
            both_bad="tie",
            max_share=None,
            even_pairs=50,
            style=True,
            style_penalty=penalty,
            style_centred=True,
        )
        found = method(styled(codes, z))
        rating, coefficients = penalised(codes, z, 50, penalty)
        np.testing.assert_allclose(found.rating - 1500.0, rating, rtol=0, atol=0.02)
        np.testing.assert_allclose(list(found.extras["style"].values()), coefficients, rtol=0, atol=1e-4)


def test_a_log_that_is_read_again_is_centred_at_every_scan():
    codes = crowded(n=300)
    z = np.random.default_rng(5).normal(0.3, 2.0, (len(codes), 2))
    world = styled(codes, z)
    np.testing.assert_allclose(world.centred().log().covariates.mean(axis=0), 0.0, atol=1e-12)
    again = replace(world, _log=None, _reread=lambda: [batch(replace(codes, covariates=z), 4)])
    np.testing.assert_allclose(again.centred().log().covariates, z - z.mean(axis=0), atol=1e-12)
    weighed = again.centred().reweighted(lambda run: np.full(len(run), 2.0)).log()
    np.testing.assert_allclose(weighed.covariates, z - z.mean(axis=0), atol=1e-12)
    assert weighed.weight.tolist() == [2.0] * 300


def test_two_bad_responses_are_a_tie_only_where_asked_for():
    codes = crowded()
    tied = replace(codes, kind=np.where(codes.kind == Kind.BOTH_BAD, Kind.TIE, codes.kind).astype(np.uint8))
    asked = BradleyTerry(both_bad="tie")(table(codes))
    np.testing.assert_array_equal(asked.rating, BradleyTerry()(table(tied)).rating)
    assert asked.record.both_bad.sum() == 2 * np.count_nonzero(codes.kind == Kind.BOTH_BAD)
    dropped = Table.from_codes(("a", "b", "c", "d"), codes)
    assert BradleyTerry(both_bad="tie", ties="drop")(dropped).rating.tolist() == (
        BradleyTerry(ties="drop")(dropped).rating.tolist()
    )
    flagged = replace(codes, kind=np.array([Kind(k).with_flag for k in codes.kind], np.uint8))
    np.testing.assert_array_equal(BradleyTerry(both_bad="tie")(table(flagged)).rating, asked.rating)


@pytest.mark.parametrize(
    "bad", [{"both_bad": "half"}, {"even_pairs": 0}, {"style_penalty": -1.0}, {"style_penalty": math.inf}]
)
def test_impossible_parameters_are_refused(bad):
    with pytest.raises(BadOption):
        BradleyTerry(**bad)(table(crowded(n=50)))
