import math
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import norm, poisson, t

from support.left_out_by_loops import battle_parts, by_loops, fitted
from support.sizes import sized
from support.worlds import batch, counted, drawn, names, rows, table, told
from tiltyard.core.battles import CodedBattles, Table, TableBuilder
from tiltyard.core.battles.cluster_keys import MISSING_KEY
from tiltyard.core.ratings import BradleyTerry, leave_one_out
from tiltyard.core.ratings.bootstrap import _Poisson, cluster_multiplicities, cluster_numbers, uniform_numbers
from tiltyard.core.ratings.comparison import compare_models
from tiltyard.core.ratings.leave_one_out import distinct_keys, two_way_keys
from tiltyard.core.ratings.pairs import Scoring
from tiltyard.core.ratings.ranks import rank_models
from tiltyard.core.ratings.result import basis_text
from tiltyard.core.ratings.variance import critical_value, these_prompts_interval
from tiltyard.errors import CannotRate

UNIT = 400.0 / math.log(10.0)
M = 5


FREE = BradleyTerry(max_share=None)


@pytest.fixture
def exact(monkeypatch):
    """Every cluster is left out exactly, as loops do it."""
    monkeypatch.setattr(leave_one_out, "_EXACT_LEVERAGE_SHARE", 0.0)


def naive_meat(vectors, cluster):
    """Scores summed within each cluster, and squared."""
    meat = np.zeros((vectors.shape[1],) * 2)
    for c in set(cluster):
        total = np.zeros(vectors.shape[1])
        for row, of in enumerate(cluster):
            if of == c:
                total += vectors[row]
        meat += np.outer(total, total)
    return meat


def sandwiched(fit, meat):
    m = len(fit.theta)
    return (fit.bread @ meat @ fit.bread)[:m, :m] * UNIT**2


WORLDS = {
    "half": (BradleyTerry(), {"judged": True}),
    "davidson": (BradleyTerry(ties="davidson"), {"ties": 0.3}),
    "drop": (BradleyTerry(ties="drop"), {}),
    "soft": (BradleyTerry(soft=True), {"soft": True}),
    "weighted": (BradleyTerry(), {"weighted": True}),
    "weighted davidson": (BradleyTerry(ties="davidson"), {"weighted": True}),
    "weighted and soft": (BradleyTerry(soft=True), {"weighted": True, "soft": True}),
}
every_world = pytest.mark.parametrize(("method", "world"), WORLDS.values(), ids=WORLDS)


def halves(uncertainty, level=0.95):
    """Half-widths of intervals from variances and degrees of freedom; NaN below three of these."""
    half = t.ppf((1.0 + level) / 2.0, uncertainty.dof) * np.sqrt(uncertainty.ratings())
    return np.where(uncertainty.dof < 3.0, np.nan, half)


@every_world
def test_the_sandwich_by_battle_is_the_one_that_loops_make(method, world):
    codes = drawn(M, 150, 1, **world)
    scoring = method.scoring()
    fit = fitted(table(codes), davidson=method.ties == "davidson", scoring=scoring)
    used = ~np.isnan(scoring.of(codes))
    vectors = battle_parts(codes, fit, scoring=scoring)[0][used]
    n = int(used.sum())
    expected = sandwiched(fit, naive_meat(vectors, list(range(n))) * n / (n - 1))
    result = method(table(codes))
    np.testing.assert_allclose(result.uncertainty.covariances[0], expected, rtol=0, atol=1e-8)
    assert result.interval.n_clusters == n


@pytest.mark.usefixtures("exact")
@every_world
def test_prompts_are_left_out_as_loops_do_it(method, world):
    codes = drawn(M, 150, 1, prompts=12, **world)
    codes.prompt[::10] = MISSING_KEY
    scoring = method.scoring()
    fit = fitted(table(codes), davidson=method.ties == "davidson", scoring=scoring)
    covariance, dof = by_loops(codes, fit, scoring=scoring)
    result = replace(method, max_share=None)(table(codes))
    expected = covariance[:M, :M] * UNIT**2
    np.testing.assert_allclose(result.uncertainty.covariances[0], expected, rtol=0, atol=1e-6 * UNIT**2)
    np.testing.assert_allclose(result.uncertainty.dof, dof[:M], rtol=1e-6)
    np.testing.assert_allclose(result.interval.high - result.rating, halves(result.uncertainty))
    assert result.interval.n_clusters == 12


def one_way_and_two_way(codes):
    """Covariances by prompt, by voter, and by both with their overlap taken off; the fewer degrees of freedom."""
    fit = fitted(table(codes))
    cells = list(zip(codes.prompt.tolist(), codes.voter.tolist(), strict=True))
    overlap = sandwiched(fit, naive_meat(battle_parts(codes, fit)[0], cells))
    by_prompt, dof = by_loops(codes, fit)
    by_voter, other = by_loops(codes, fit, keys=codes.voter)
    by_prompt, by_voter = by_prompt * UNIT**2, by_voter * UNIT**2
    return [by_prompt, by_voter, by_prompt + by_voter - overlap], np.minimum(dof, other)


@pytest.mark.usefixtures("exact")
def test_two_ways_of_clustering_add_and_their_overlap_comes_off():
    codes = drawn(M, 200, 2, prompts=25, voters=12)
    (by_prompt, by_voter, both), dof = one_way_and_two_way(codes)
    result = FREE(table(codes))
    for found, expected in zip(result.uncertainty.covariances, (both, by_prompt, by_voter), strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
    assert (result.interval.clusters, result.interval.n_clusters) == ("prompt × voter", 25)
    np.testing.assert_allclose(result.uncertainty.dof, dof[:M], rtol=1e-6)


@pytest.mark.usefixtures("exact")
def test_two_way_variances_never_fall_below_a_one_way_variance():
    codes = drawn(M, 200, 2, prompts=25, voters=12)
    covariances, dof = one_way_and_two_way(codes)
    result = FREE(table(codes))
    pairs = list(combinations(range(M), 2))
    differences = np.array([np.eye(M)[i] - np.eye(M)[j] for i, j in pairs])
    contrasts = [np.eye(M) - 1.0 / M, differences]
    one, other, both = (
        np.concatenate([np.einsum("ki,ij,kj->k", c, v, c) for c in contrasts]) for v in covariances
    )
    assert (both < np.maximum(one, other)).any()
    largest = np.maximum(both, np.maximum(one, other))
    dof = np.concatenate([dof, [min(dof[i], dof[j]) for i, j in pairs]])
    half = t.ppf(0.975, dof) * np.sqrt(largest)
    np.testing.assert_allclose(result.interval.high - result.rating, half[:M], rtol=1e-6)
    for (i, j), expected in zip(pairs, half[M:], strict=True):
        found = compare_models(table(codes), names(M)[i], names(M)[j], FREE)
        assert found.high - found.difference == pytest.approx(expected)


def test_two_way_keys_tell_pairs_of_prompt_and_voter_apart():
    codes = drawn(M, 300, 3, prompts=10, voters=10)
    codes.prompt[0], codes.voter[1] = MISSING_KEY, MISSING_KEY
    keys = two_way_keys(codes)
    assert keys[:2].tolist() == [MISSING_KEY, MISSING_KEY]
    pairs = set(zip(codes.prompt[2:].tolist(), codes.voter[2:].tolist(), strict=True))
    assert len(set(keys[2:].tolist())) == len(pairs)
    assert two_way_keys(drawn(M, 3)) is None


def test_sums_by_cluster_may_be_sparse(monkeypatch):
    world = table(drawn(M, 200, 4, prompts=30, voters=12))
    dense = BradleyTerry(ties="davidson")(world).uncertainty.covariances
    monkeypatch.setattr(leave_one_out, "_DENSE_SUM_LIMIT", 0)
    used, squared = [], leave_one_out._SparseSums.squared
    monkeypatch.setattr(leave_one_out._SparseSums, "squared", lambda sums: used.append(sums) or squared(sums))
    sparse = BradleyTerry(ties="davidson")(world).uncertainty.covariances
    assert len(used) == 1
    np.testing.assert_allclose(sparse, dense, rtol=1e-9)


def test_distinct_keys_are_sorted_and_none_is_missing():
    keys = np.array([5, 3, 0, 5, 9], dtype=np.uint64)
    codes = CodedBattles(*np.zeros((2, 5), np.uint16), np.zeros(5, np.uint8), prompt=keys)
    world = Table.from_codes(["a"], codes)
    assert distinct_keys(world, lambda run: run.prompt).tolist() == [3, 5, 9]
    assert distinct_keys(world, lambda run: run.voter).tolist() == []
    assert distinct_keys(world, None).tolist() == []
    every = np.arange(1, (1 << 20) + 3, dtype=np.uint64)
    many = CodedBattles(*np.zeros((2, len(every)), np.uint16), np.zeros(len(every), np.uint8), prompt=every)
    assert len(distinct_keys(Table.from_codes(["a"], many), lambda run: run.prompt)) == len(every)


# Oracle


def regression(codes, **options):
    """statsmodels' binomial regression on one row per battle, last model as reference."""
    import statsmodels.api as sm

    design = np.zeros((len(codes), M))
    design[np.arange(len(codes)), codes.a] = 1.0
    design[np.arange(len(codes)), codes.b] = -1.0
    y = Scoring().of(codes)
    return sm.GLM(y, design[:, :-1], family=sm.families.Binomial()).fit(tol=1e-14, **options)


def contrasts(covariance):
    """Covariance of mean-zero contrasts, in points, from one with the last model at nought."""
    full = np.zeros((M, M))
    full[:-1, :-1] = covariance
    centre = np.eye(M) - 1.0 / M
    return centre @ full @ centre * UNIT**2


def test_statsmodels_agrees_battle_by_battle():
    codes = drawn(M, 400, 6)
    oracle = contrasts(regression(codes, cov_type="HC0").cov_params())
    result = BradleyTerry(clusters="battle")(table(codes))
    np.testing.assert_allclose(result.uncertainty.covariances[0], oracle * 400 / 399, rtol=1e-9)


@pytest.mark.usefixtures("exact")
@pytest.mark.filterwarnings("ignore")
def test_statsmodels_agrees_by_prompt():
    """Its regression without one prompt, one step of Newton's from the fit to all: the shift of each prompt."""
    codes = drawn(M, 400, 7, prompts=30)
    every = regression(codes).params
    shifts = [
        regression(rows(codes, np.flatnonzero(codes.prompt != prompt)), start_params=every, maxiter=1).params
        - every
        for prompt in range(1, 31)
    ]
    oracle = contrasts(np.transpose(shifts) @ shifts * 29 / 30)
    result = BradleyTerry()(table(codes))
    np.testing.assert_allclose(result.uncertainty.covariances[0], oracle, rtol=1e-6)


# What the interval says of itself


def test_an_interval_by_prompt_has_students_tails_and_speaks_of_prompts_like_these():
    for level in (0.8, 0.95):
        result = BradleyTerry(level=level)(table(drawn(M, prompts=25)))
        assert (result.uncertainty.dof < 24.0).all()
        np.testing.assert_allclose(result.interval.high - result.rating, halves(result.uncertainty, level))
        np.testing.assert_allclose(result.rating - result.interval.low, halves(result.uncertainty, level))
        assert (result.interval.scope, result.interval.clusters) == ("prompts like these", "prompt")


def test_quantiles_are_those_of_the_normal_and_of_student():
    assert critical_value(0.95, np.inf) == pytest.approx(norm.ppf(0.975))
    assert critical_value(0.9, 7.0) == pytest.approx(t.ppf(0.95, 7))
    found = critical_value(0.95, np.array([np.inf, 3.0, 4.5, 1.0]))
    np.testing.assert_allclose(found, [norm.ppf(0.975), *t.ppf(0.975, [3.0, 4.5, 3.0])])


@pytest.mark.parametrize("method", [BradleyTerry(), BradleyTerry(interval="bootstrap", n_bootstraps=5)])
def test_no_interval_is_given_below_three_degrees_of_freedom(method):
    result = method(table(drawn(M, 200, 1, prompts=3)))
    assert (result.uncertainty.dof < 3.0).all()
    assert np.isfinite(result.rating).all()
    assert np.isnan(result.interval.low).all()
    assert np.isnan(result.interval.high).all()
    assert "interval-withheld" in {finding.name for finding in result.findings}
    assert "no-spread" not in {finding.name for finding in result.findings}


@pytest.mark.parametrize("world", [told("a>b b>a"), counted("a>b b>a")])
def test_clustering_by_prompt_needs_prompts(world):
    with pytest.raises(CannotRate, match="question_id"):
        BradleyTerry(clusters="prompt")(world)


def test_one_prompt_cannot_speak_of_prompts_like_it():
    world = told("a>b*30 b>a*20", question_id=["q"] * 50)
    result = BradleyTerry()(world)
    assert result.interval.scope == "these prompts only"
    np.testing.assert_array_equal(
        result.uncertainty.covariances[0], BradleyTerry(clusters="battle")(world).uncertainty.covariances[0]
    )
    with pytest.raises(CannotRate, match="one prompt"):
        BradleyTerry(clusters="prompt")(world)


@pytest.mark.parametrize("method", [BradleyTerry(), BradleyTerry(interval="bootstrap", n_bootstraps=5)])
def test_battles_without_a_prompt_add_neither_clusters_nor_degrees_of_freedom(method):
    codes = drawn(M, 180, 4, prompts=6)
    codes.prompt[30:] = MISSING_KEY
    result = method(table(codes))
    assert (result.interval.clusters, result.interval.n_clusters) == ("prompt", 6)
    assert (result.uncertainty.dof < 5.0).all()
    found = next(finding for finding in result.findings if finding.name == "without-prompt")
    assert (found.values["without"], found.values["battles"]) == (150, 180)
    assert "few-prompts" in {finding.name for finding in result.findings}


@pytest.mark.parametrize("method", [BradleyTerry(), BradleyTerry(interval="bootstrap", n_bootstraps=5)])
@pytest.mark.parametrize(("named", "finding"), [(0, "no-prompts"), (40, "few-prompts")])
def test_without_two_prompts_intervals_are_battle_level_and_say_so(method, named, finding):
    codes = drawn(M, 150, 4, prompts=1)
    codes.prompt[named:] = MISSING_KEY
    result = method(table(codes))
    assert (result.interval.clusters, result.interval.n_clusters) == ("battle", 150)
    assert result.interval.scope == "these prompts only"
    assert result.uncertainty.dof.tolist() == [np.inf] * M
    assert "these prompts only" in next(said.text for said in result.findings if said.name == finding)
    with pytest.raises(CannotRate, match="prompt needs"):
        replace(method, clusters="prompt")(table(codes))


@pytest.mark.usefixtures("exact")
def test_battles_without_a_voter_add_no_voters():
    codes = drawn(M, 200, 2, prompts=25, voters=12)
    codes.voter[::3] = MISSING_KEY
    result = FREE(table(codes))
    fit = fitted(table(codes))
    expected, dof = by_loops(codes, fit, keys=codes.voter)
    np.testing.assert_allclose(result.uncertainty.covariances[2], expected * UNIT**2, rtol=0, atol=1e-5)
    np.testing.assert_allclose(result.uncertainty.dof, np.minimum(dof, by_loops(codes, fit)[1]), rtol=1e-6)


def test_batches_without_battles_name_no_prompt():
    codes = drawn(M, 30, prompts=1)
    builder = TableBuilder()
    for part in (np.arange(0), np.arange(30)):
        builder.add(batch(rows(codes, part), M))
    assert BradleyTerry()(builder.table()).interval.clusters == "battle"


def test_variances_that_are_nought_are_not_less():
    result = BradleyTerry()(told("a=b a=c c>b c<b"))
    assert (np.diag(result.uncertainty.covariances[0]) >= 0.0).all()
    assert np.isnan(result.interval.low).tolist() == [True, False, False]
    assert "no-spread" in {finding.name for finding in result.findings}


def test_battles_that_are_all_ties_leave_no_spread_to_build_on():
    result = BradleyTerry()(told("a=b*40"))
    assert np.isnan(result.interval.low).all()
    ranks = rank_models(result)
    assert (ranks.low.tolist(), ranks.high.tolist()) == ([1, 1], [2, 2])


# Bootstrap


def replicate_by_hand(codes, method, times):
    """The rating of the log with every row written so many times."""
    again = rows(codes, np.repeat(np.arange(len(codes)), times))
    return replace(method, interval="none", max_share=None)(table(again, M)).rating


@every_world
def test_prompts_are_drawn_again_as_a_whole(method, world):
    codes = drawn(M, 150, 8, prompts=20, **world)
    codes.prompt[:5] = MISSING_KEY
    method = replace(method, interval="bootstrap", n_bootstraps=4, seed=9, max_share=None)
    result = method(table(codes))
    used = np.flatnonzero(~np.isnan(Scoring("drop" if method.ties == "drop" else "half").of(codes)))
    clusters_of = cluster_numbers(codes.prompt, used)
    assert result.interval.n_clusters == clusters_of.keyed == 20
    for k, replicate in enumerate(result.extras["replicates"]):
        times = np.zeros(len(codes), dtype=int)
        times[used] = cluster_multiplicities(9, clusters_of.drawn)(k)[clusters_of.number]
        np.testing.assert_allclose(replicate, replicate_by_hand(codes, method, times), rtol=0, atol=1e-6)


def test_battles_are_drawn_again_cell_by_cell():
    """Cells are a score and a pair, in that order; each is drawn by scipy's own inverse here."""
    codes = drawn(M, 200, 9)
    method = BradleyTerry(interval="bootstrap", n_bootstraps=4, seed=2)
    result = method(table(codes))
    first = np.minimum(codes.a, codes.b)
    pair = first * M + np.maximum(codes.a, codes.b)
    y = Scoring().of(codes)
    y = np.where(codes.a == first, y, 1.0 - y)
    pairs = np.unique(pair)
    n = np.array([[np.sum((y == score) & (pair == p)) for p in pairs] for score in (0.0, 0.5, 1.0)])
    kind = np.repeat(np.array([1, 2, 0], np.uint8), len(pairs))
    cells = CodedBattles(np.tile(pairs // M, 3), np.tile(pairs % M, 3), kind)
    for k, replicate in enumerate(result.extras["replicates"]):
        times = poisson.ppf(uniform_numbers(2, k, n.size), n.ravel()).astype(int) * (n.ravel() > 0)
        np.testing.assert_allclose(replicate, replicate_by_hand(cells, method, times), rtol=0, atol=1e-6)
    assert (result.interval.clusters, result.interval.n_clusters) == ("battle", 200)


@pytest.mark.parametrize("mean", [1, 60, 256, 4000])
def test_drawn_counts_have_the_mean_and_variance_of_poisson(mean):
    drawn_counts = _Poisson(np.full(40_000, mean)).draw(uniform_numbers(3, 0, 40_000))
    assert drawn_counts.mean() == pytest.approx(mean, abs=5 * np.sqrt(mean / 40_000))
    assert drawn_counts.var() == pytest.approx(mean, rel=0.05)


@pytest.mark.no_cover
def test_cells_large_and_small_are_drawn_side_by_side():
    means = np.array([0, 3, 900, 1, 300])
    drawn_counts = np.array(
        [_Poisson(means).draw(uniform_numbers(4, k, 5)) for k in range(sized(1500, 4000))]
    )
    np.testing.assert_allclose(
        drawn_counts.mean(axis=0), means, atol=sized(12, 8) / 100 * np.sqrt(means.max())
    )
    np.testing.assert_array_equal(drawn_counts[:, 0], 0.0)


def test_weighted_battles_are_drawn_again_one_by_one():
    codes = drawn(M, 100, 10, weighted=True)
    method = BradleyTerry(interval="bootstrap", n_bootstraps=3)
    for k, replicate in enumerate(method(table(codes)).extras["replicates"]):
        times = cluster_multiplicities(0, 100)(k)
        np.testing.assert_allclose(replicate, replicate_by_hand(codes, method, times), rtol=0, atol=1e-6)


def test_the_interval_holds_the_percentiles_of_the_replicates():
    result = BradleyTerry(interval="bootstrap", n_bootstraps=40, level=0.8)(table(drawn(M)))
    low, high = np.quantile(result.extras["replicates"], [0.1, 0.9], axis=0)
    np.testing.assert_allclose(result.interval.low, low)
    np.testing.assert_allclose(result.interval.high, high)
    assert result.interval.made_by == "bootstrap"
    plain = BradleyTerry(level=0.8)(table(drawn(M))).uncertainty
    np.testing.assert_array_equal(result.uncertainty.covariances, plain.covariances)


def test_bootstrap_and_sandwich_say_about_the_same():
    result = BradleyTerry(interval="bootstrap", n_bootstraps=300)(table(drawn(4, 2000, 11, prompts=200)))
    replicated = result.extras["replicates"].std(axis=0, ddof=1)
    np.testing.assert_allclose(replicated, np.sqrt(result.uncertainty.ratings()), rtol=0.2)


def test_davidson_replicates_without_ties_are_set_aside():
    result = BradleyTerry(ties="davidson", interval="bootstrap", n_bootstraps=40)(told("a>b*30 b>a*20 a=b"))
    failed = np.isnan(result.extras["replicates"]).any(axis=1).sum()
    assert 5 < failed < 30
    assert f"{failed} of 40" in next(f.text for f in result.findings if f.name == "failed-replicates")


@pytest.mark.parametrize(
    ("keys", "numbers", "keyed"),
    [(None, [0, 1, 2], 3), ([7, 7, 0, 3, 0], [1, 2, 0], 2), ([0] * 5, [0, 1, 2], 0)],
)
def test_clusters_are_numbered_by_key_and_the_keyless_alone(keys, numbers, keyed):
    keys = None if keys is None else np.array(keys, dtype=np.uint64)
    found = cluster_numbers(keys, np.array([1, 2, 3]))
    assert (found.drawn, found.keyed, found.alone) == (3, keyed, 3 - keyed)
    assert found.number.tolist() == numbers


def test_a_prior_keeps_davidson_replicates_that_have_no_ring_of_wins():
    method = BradleyTerry(ties="davidson", interval="bootstrap", n_bootstraps=20, prior_sd=200.0)
    result = method(told("a>b*12 a=b*12"))
    assert np.isfinite(result.extras["replicates"]).all()


@pytest.mark.parametrize(
    ("interval", "basis"),
    [
        (
            ("prompt × voter", 120, 150, {"prompt": 0.02, "voter": 0.1}),
            "120 prompts × 150 voters, none above 10%",
        ),
        (("prompt", 1200, None, {"prompt": 0.034, "voter": 0.21}), "1,200 prompts, none above 4%"),
        (("voter", 40, 40, {"prompt": 1.0, "voter": 0.05}), "40 voters, none above 5%"),
        (("prompt", 9000, None, {"prompt": 0.0004}), "9,000 prompts, none above 1%"),
        (("prompt", 900, None, {"prompt": 0.1001}), "900 prompts, none above 10%"),
        (("prompt × voter", 30, 40, {}), "30 prompts × 40 voters"),
        (("prompt", 1, None, {}), "1 prompt"),
        (("battle", 3000, None, {"prompt": 0.2}), "3,000 battles"),
    ],
)
def test_an_interval_says_what_it_rests_on(interval, basis):
    assert basis_text(*interval) == basis


def test_on_these_prompts_voters_alone_are_a_sample():
    codes = drawn(4, 2000, 3, prompts=30)
    by_prompt = BradleyTerry()(table(codes))
    low, high = these_prompts_interval(by_prompt)
    battles = BradleyTerry(clusters="battle", max_share=None)(table(codes))
    np.testing.assert_allclose(low, battles.interval.low, rtol=1e-12)
    np.testing.assert_allclose(high, battles.interval.high, rtol=1e-12)
    assert these_prompts_interval(battles) is None
    assert these_prompts_interval(BradleyTerry(interval="none")(table(codes))) is None
    voted = replace(codes, voter=np.random.default_rng(1).integers(1, 40, 2000).astype(np.uint64))
    both = BradleyTerry()(table(voted))
    as_prompts = BradleyTerry()(table(replace(codes, prompt=voted.voter)))
    np.testing.assert_allclose(these_prompts_interval(both)[0], as_prompts.interval.low, rtol=1e-9)
    few = BradleyTerry()(
        table(replace(voted, voter=np.where(voted.voter < 30, voted.voter % 2 + 1, voted.voter)))
    )
    assert (np.isnan(these_prompts_interval(few)[0]) == (few.these_prompts.dof < 3.0)).all()
