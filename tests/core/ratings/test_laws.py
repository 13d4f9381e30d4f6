"""The laws that every rating method keeps."""

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.sizes import sized
from support.worlds import columns, drawn, mirrored, names, relabelled, rows, split_tables, table, with_rows
from tiltyard.core.battles import CodedBattles, Kind
from tiltyard.core.ratings import BradleyTerry, Elo, Glicko2
from tiltyard.core.ratings.online_bradley_terry import OnlineBradleyTerry

M = 5
BOOT = {"interval": "bootstrap", "n_bootstraps": 5}
SHORT = Elo(n_permutations=6, n_bootstraps=4, n_orders=2)

METHODS = {
    "half": (BradleyTerry(), {"judged": True}),
    "by prompt": (BradleyTerry(), {"prompts": 30}),
    "by prompt and voter": (BradleyTerry(), {"prompts": 30, "voters": 12}),
    "limited shares": (BradleyTerry(max_share=0.05), {"prompts": 30, "voters": 30, "weighted": True}),
    "davidson": (BradleyTerry(ties="davidson"), {"ties": 0.3}),
    "drop": (BradleyTerry(ties="drop"), {"judged": True}),
    "soft": (BradleyTerry(soft=True), {"soft": True}),
    "weighted": (BradleyTerry(), {"weighted": True}),
    "prior": (BradleyTerry(prior_sd=200.0), {}),
    "bootstrap": (BradleyTerry(**BOOT), {}),
    "bootstrap by prompt": (BradleyTerry(**BOOT), {"prompts": 30}),
    "bootstrap davidson": (BradleyTerry(ties="davidson", **BOOT), {"weighted": True}),
    "elo": (SHORT, {"judged": True}),
    "elo by prompt": (SHORT, {"prompts": 30, "weighted": True}),
    "elo soft": (replace(SHORT, soft=True), {"soft": True}),
    "elo in log order": (Elo(n_permutations=0), {"judged": True}),
    "glicko-2": (Glicko2(kernel="plain"), {"judged": True}),
}
every_method = pytest.mark.parametrize(("method", "world"), METHODS.values(), ids=METHODS)
bradley_terry = pytest.mark.parametrize(
    ("method", "world"),
    [value for value in METHODS.values() if value[0].name == "bradley-terry"],
    ids=[key for key, value in METHODS.items() if value[0].name == "bradley-terry"],
)
seeds = given(seed=st.integers(0, 10_000))
few = settings(max_examples=sized(2, 5))


def numbers(result):
    """Everything in a result that is a number."""
    yield result.rating
    yield result.group
    if result.interval is not None:
        yield from (result.interval.low, result.interval.high, result.uncertainty.covariances[0])
    yield from (value for value in result.extras.values() if isinstance(value, np.ndarray))


def rate(method, codes: CodedBattles):
    return method(table(codes, M))


@pytest.mark.no_cover
@every_method
@few
@seeds
def test_relabelling_the_models_permutes_the_ratings(method, world, seed):
    codes = drawn(M, seed=seed, **world)
    to = np.random.default_rng(seed).permutation(M)
    before, after = rate(method, codes), rate(method, relabelled(codes, to))
    np.testing.assert_allclose(after.rating[to], before.rating, rtol=0, atol=1e-6)
    np.testing.assert_array_equal(after.group[to], before.group)


@pytest.mark.no_cover
@every_method
@few
@seeds
def test_exchanging_the_sides_changes_nothing(method, world, seed):
    codes = drawn(M, seed=seed, **world)
    before, after = rate(method, codes), rate(method, mirrored(codes))
    np.testing.assert_allclose(after.rating, before.rating, rtol=0, atol=1e-6)


@every_method
def test_the_same_seed_gives_the_same_bits(method, world):
    first, second = (rate(method, drawn(M, **world)) for _ in range(2))
    for one, other in zip(numbers(first), numbers(second), strict=True):
        np.testing.assert_array_equal(one, other)


@every_method
def test_the_battles_stay_as_they_were(method, world):
    given_table = table(drawn(M, **world), M)
    for column in (*columns(given_table.log()), *columns(given_table.counts)):
        if column is not None:
            column.flags.writeable = False
    assert method(given_table).rating.shape == (M,)


@every_method
def test_the_result_names_its_method_and_all_its_parameters(method, world):
    assert rate(method, drawn(M, **world)).method is method
    assert eval(repr(method)) == method
    assert all(field.name in repr(method) for field in fields(method))


@pytest.mark.no_cover
@every_method
@few
@seeds
def test_both_bad_moves_no_rating(method, world, seed):
    codes = drawn(M, seed=seed, **world)
    before, after = rate(method, codes), rate(method, with_rows(codes, 0, 1, Kind.BOTH_BAD, 7))
    np.testing.assert_array_equal(after.rating, before.rating)
    assert after.record.both_bad.tolist() == [7, 7, 0, 0, 0]
    np.testing.assert_array_equal(after.record.battles, before.record.battles)


@pytest.mark.no_cover
@every_method
@few
@seeds
def test_a_judges_flag_moves_no_rating(method, world, seed):
    codes = drawn(M, seed=seed, **world)
    flags = np.array([kind.with_flag for kind in Kind], dtype=np.uint8)
    before, after = rate(method, codes), rate(method, replace(codes, kind=flags[codes.kind]))
    np.testing.assert_array_equal(after.rating, before.rating)
    np.testing.assert_array_equal(after.record.battles, before.record.battles)
    np.testing.assert_array_equal(after.record.both_bad, before.record.battles + before.record.unrated)


@pytest.mark.no_cover
@every_method
@few
@seeds
def test_a_battle_of_a_model_with_itself_moves_nothing(method, world, seed):
    codes = drawn(M, seed=seed, **world)
    before, after = rate(method, codes), rate(method, with_rows(codes, 2, 2, Kind.WIN_A, 7))
    np.testing.assert_array_equal(after.rating, before.rating)
    np.testing.assert_array_equal(after.record.battles, before.record.battles)


@every_method
def test_a_model_that_never_fought_has_no_rating_and_moves_none(method, world):
    codes = drawn(M, **world)
    before, after = rate(method, codes), method(table(codes, M + 1))
    np.testing.assert_array_equal(after.rating, [*before.rating, np.nan])
    assert after.group[M] == -1
    assert after.models == names(M + 1)
    assert "unrated" in {finding.name for finding in after.findings}


@bradley_terry
@few
@seeds
def test_the_order_of_the_log_does_not_matter(method, world, seed):
    codes = drawn(M, seed=seed, **world)
    order = np.random.default_rng(seed).permutation(len(codes))
    np.testing.assert_array_equal(rate(method, rows(codes, order)).rating, rate(method, codes).rating)


@bradley_terry
@few
@seeds
def test_parts_counted_apart_and_merged_in_any_order_rate_to_the_same_bits(method, world, seed):
    rng = np.random.default_rng(seed)
    codes = drawn(M, seed=seed, **world)
    parts = split_tables(codes, M, rng.integers(0, 6, len(codes)))
    merged = parts.pop(int(rng.integers(len(parts))))
    while parts:
        merged = merged.merge(parts.pop(int(rng.integers(len(parts)))))
    np.testing.assert_array_equal(method(merged).rating, rate(method, codes).rating)


@bradley_terry
@few
@given(seed=st.integers(0, 10_000), winner=st.integers(0, M - 1), step=st.integers(1, M - 1))
def test_one_more_win_never_lowers_the_winner(method, world, seed, winner, step):
    method = replace(method, interval="none")
    codes = drawn(M, seed=seed, **world)
    if codes.pref is not None:
        codes.pref[0] = 1.0
    more = with_rows(codes, winner, (winner + step) % M, Kind.WIN_A)
    assert rate(method, more).rating[winner] > rate(method, codes).rating[winner]


@bradley_terry
def test_the_mean_of_a_group_is_the_base(method, world):
    assert rate(replace(method, base=1000.0), drawn(M, **world)).rating.mean() == pytest.approx(1000.0)


@bradley_terry
def test_an_anchor_shifts_all_by_one_constant_and_leaves_the_widths_alone(method, world):
    codes = drawn(M, **world)
    free = rate(method, codes)
    held = rate(replace(method, anchor="ac", anchor_rating=1200.0), codes)
    assert held.rating[2] == pytest.approx(1200.0, abs=1e-9)
    np.testing.assert_allclose(held.rating - free.rating, 1200.0 - free.rating[2], atol=1e-8)
    before, after = free.interval, held.interval
    np.testing.assert_allclose(after.high - after.low, before.high - before.low, rtol=0, atol=1e-8)
    np.testing.assert_allclose(held.uncertainty.covariances[0], free.uncertainty.covariances[0], rtol=1e-12)


@bradley_terry
def test_the_scale_stretches_differences(method, world):
    codes = drawn(M, **world)
    prior_sd = None if method.prior_sd is None else 2.0 * method.prior_sd
    wide = replace(method, scale=800.0, prior_sd=prior_sd)
    before, after = rate(method, codes), rate(wide, codes)
    np.testing.assert_allclose(after.rating - 1500.0, 2.0 * (before.rating - 1500.0), atol=1e-6)
    np.testing.assert_allclose(
        after.uncertainty.covariances[0], 4.0 * before.uncertainty.covariances[0], rtol=1e-6
    )


@pytest.mark.parametrize("level", [0.01, 0.99])
@pytest.mark.parametrize(("lean", "inconsistent"), [(0.5, 0.0), (1.0, 1.0)])
def test_options_are_accepted_up_to_their_bounds(level, lean, inconsistent):
    scores, tiny = {"lean": lean, "inconsistent": inconsistent}, 0.01
    Elo(k=tiny, spread=tiny, level=level, n_permutations=0, n_bootstraps=2, n_orders=2, **scores)
    BradleyTerry(scale=tiny, level=level, n_bootstraps=2, prior_sd=tiny, **scores).scoring()
    Glicko2(initial_rd=tiny, initial_volatility=tiny, tau=tiny, rd_floor=0.0, **scores)
    OnlineBradleyTerry(prior_sd=tiny, scale=tiny, refit_after=1, **scores)
