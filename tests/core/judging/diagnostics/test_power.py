import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats
from scipy.special import expit

from support.sizes import sized
from tiltyard.core.battles import CodedBattles, Kind, Table
from tiltyard.core.battles.cluster_keys import hash_texts
from tiltyard.core.judging.power_analysis import (
    POINTS_PER_LOGIT,
    PowerAssumptions,
    covariance,
    detectable_difference,
    expected_precision,
    scale_pilot_width,
)
from tiltyard.core.ratings import BradleyTerry
from tiltyard.core.ratings.proportions import (
    estimate_share,
    share_difference,
)
from tiltyard.core.ratings.variance import critical_value
from tiltyard.errors import BadOption, CannotRate

PROMPTS, MODELS = st.integers(2, 200), st.integers(2, 9)
ASSUMED = st.builds(PowerAssumptions, st.floats(0.0, 0.8), st.floats(0.0, 1.5))


def all_pairs_design(models, prompts):
    """The design in which every pair meets once on every prompt."""
    return prompts * (1 - np.eye(models, dtype=np.int64))


def fought(models, prompts, assumptions, rng, *, kept=1.0, strength_sd=60.0):
    """The battles of a plan: strengths and effects normal, ties at their rate. Also its counts."""
    strength = rng.normal(0.0, strength_sd / POINTS_PER_LOGIT, models)
    effect = rng.normal(0.0, assumptions.interaction, (models, prompts))
    i, j = (np.repeat(side, prompts) for side in np.triu_indices(models, 1))
    p = np.tile(np.arange(prompts), len(i) // prompts)
    here = rng.random(len(i)) < kept
    i, j, p = i[here], j[here], p[here]
    odds = strength[i] - strength[j] + effect[i, p] - effect[j, p]
    kind = np.where(rng.random(len(i)) < expit(odds), Kind.WIN_A, Kind.WIN_B)
    kind = np.where(rng.random(len(i)) < assumptions.tie_rate, Kind.TIE, kind).astype(np.uint8)
    keys = hash_texts([f"p{k}" for k in range(prompts)])[p]
    counts = np.zeros((models, models), dtype=int)
    np.add.at(counts, (i, j), 1)
    codes = CodedBattles(i.astype(np.uint16), j.astype(np.uint16), kind, prompt=keys)
    return Table.from_codes(tuple(f"m{k}" for k in range(models)), codes), counts + counts.T


def realised(table):
    """Mean half-width of a rating and of a difference, from the real intervals."""
    ratings = BradleyTerry()(table)
    i, j = np.triu_indices(len(ratings.models), 1)
    uncertainty = ratings.uncertainty
    between = critical_value(0.95, uncertainty.difference_dof()) * np.sqrt(uncertainty.differences())
    return np.mean(ratings.interval.high - ratings.interval.low) / 2.0, np.mean(between[i, j])


@pytest.mark.no_cover
@pytest.mark.slow(but=("3-8-1.0-assumptions0", "8-20-0.5-assumptions1", "5-100-0.3-assumptions2"))
@pytest.mark.parametrize(
    "assumptions", [PowerAssumptions(), PowerAssumptions(0.1, 1.0), PowerAssumptions(0.5, 0.0)]
)
@pytest.mark.parametrize(("prompts", "kept"), [(8, 1.0), (20, 1.0), (100, 1.0), (20, 0.5), (100, 0.3)])
@pytest.mark.parametrize("models", [3, 5, 8])
def test_expected_half_widths_are_those_of_real_intervals(models, prompts, assumptions, kept):
    ratios = []
    for seed in range(20):
        rng = np.random.default_rng([seed, models, prompts])
        table, counts = fought(models, prompts, assumptions, rng, kept=kept)
        found = expected_precision(counts, prompts, assumptions)
        ratios.append((np.array(realised(table)), np.array([found.half_width, found.difference])))
    real, expected = np.mean(ratios, axis=0)
    assert np.all(np.abs(expected / real - 1.0) < 0.15)


@pytest.mark.no_cover
def test_the_detectable_difference_is_detected_as_often_as_promised():
    """Two of four models lie apart by the detectable difference, as the ratings would show it."""
    prompts, assumptions = 30, PowerAssumptions()
    goal = expected_precision(all_pairs_design(4, prompts), prompts, assumptions).detectable
    won = 1.0 / (1.0 + 10.0 ** (-goal / 400.0))
    gap = _gap_that_shows(won, assumptions)
    found = 0
    worlds = sized(100, 200)
    for seed in range(worlds):
        rng = np.random.default_rng(seed)
        effect = rng.normal(0.0, assumptions.interaction, (4, prompts))
        strength = np.array([gap / 2.0, -gap / 2.0, 0.0, 0.0])
        i, j = (np.repeat(side, prompts) for side in np.triu_indices(4, 1))
        p = np.tile(np.arange(prompts), 6)
        odds = strength[i] - strength[j] + effect[i, p] - effect[j, p]
        kind = np.where(rng.random(len(i)) < expit(odds), Kind.WIN_A, Kind.WIN_B)
        kind = np.where(rng.random(len(i)) < assumptions.tie_rate, Kind.TIE, kind).astype(np.uint8)
        keys = hash_texts([str(k) for k in range(prompts)])[p]
        codes = CodedBattles(i.astype(np.uint16), j.astype(np.uint16), kind, prompt=keys)
        ratings = BradleyTerry()(Table.from_codes(tuple("abcd"), codes))
        error = math.sqrt(ratings.uncertainty.differences()[0, 1])
        half = critical_value(0.95, ratings.uncertainty.difference_dof()[0, 1]) * error
        found += ratings.rating[0] - ratings.rating[1] > half
    assert 0.72 <= found / worlds <= 0.88


def _gap_that_shows(won, assumptions):
    """The logits between two models that win ``won`` of their battles, ties and effects included."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(41)
    spread = math.sqrt(2.0) * assumptions.interaction * nodes

    def shows(gap):
        mean = expit(gap + spread) @ weights / weights.sum()
        return assumptions.tie_rate / 2.0 + (1.0 - assumptions.tie_rate) * mean

    gaps = np.linspace(0.0, 4.0, 4001)
    return float(np.interp(won, [shows(gap) for gap in gaps], gaps))


@given(MODELS, PROMPTS, ASSUMED)
def test_more_prompts_show_more_and_document_is_plain(models, prompts, assumptions):
    found = expected_precision(all_pairs_design(models, prompts), prompts, assumptions)
    more = expected_precision(all_pairs_design(models, 2 * prompts), 2 * prompts, assumptions)
    assert more.half_width < found.half_width
    assert more.detectable < found.detectable
    assert found.half_width <= found.difference < found.detectable
    assert found.battles == prompts * models * (models - 1) // 2
    document = found.to_dict()
    assert json.loads(json.dumps(document, allow_nan=False)) == document


@given(MODELS, st.integers(2, 60), ASSUMED)
def test_the_covariance_of_all_pairs_has_a_closed_form(models, prompts, assumptions):
    """L is M·P on contrasts and K is P·L, so V = 4(1 − τ)/(M·P) + 16c²/P·(1 − 2/M), c = (1 − τ)gσ.

    Of two models the last part is nothing: their battles share no prompt.
    """
    decided, sigma = 1.0 - assumptions.tie_rate, assumptions.interaction
    g, _ = integrate.quad(lambda z: stats.norm.pdf(z) / 4 / np.cosh(z * sigma / math.sqrt(2)) ** 2, -12, 12)
    shared = 16.0 * (decided * g * sigma) ** 2 / prompts * (1.0 - 2.0 / models)
    expected = 4.0 * decided / (models * prompts) + shared
    centred = np.eye(models) - 1.0 / models
    v = covariance(all_pairs_design(models, prompts), prompts, assumptions)
    assert np.allclose(v, expected * centred, rtol=1e-6, atol=1e-9 * expected)


@given(MODELS, PROMPTS, PROMPTS)
def test_a_pilot_carries_over_as_the_plan_does(models, pilot, now):
    """Up to the factor for few battles, which a pilot's own half-width already holds."""
    before, after = (
        expected_precision(all_pairs_design(models, p), p, PowerAssumptions(0.3, 1e-3)) for p in (pilot, now)
    )
    scaled = scale_pilot_width(before.half_width, pilot, now)
    few = [1.0 + 8.0 * 0.7 / (models * p) / 4.0 for p in (pilot, now)]
    assert math.isclose(scaled * few[1] / few[0], after.half_width, rel_tol=1e-4)
    assert math.isclose(detectable_difference(after.difference, now), after.detectable, rel_tol=1e-9)
    assert math.isclose(scale_pilot_width(scaled, now, pilot), before.half_width, rel_tol=1e-9)


def test_one_prompt_shows_nothing_of_others():
    assert expected_precision(all_pairs_design(3, 1), 1) is None


@pytest.mark.parametrize(
    ("counts", "prompts", "problem"),
    [
        (np.zeros((2, 3), dtype=int), 5, "shape"),
        (np.zeros((1, 1), dtype=int), 5, "at least 2 models"),
        (np.array([[0, 3], [2, 0]]), 5, "must be symmetric"),
        (np.array([[1, 3], [3, 0]]), 5, "against itself"),
        (np.array([[0, -1], [-1, 0]]), 5, "symmetric"),
        (np.array([[0, 9], [9, 0]]), 5, "9 times"),
    ],
)
def test_designs_that_cannot_be(counts, prompts, problem):
    with pytest.raises(BadOption, match=problem):
        expected_precision(counts, prompts)


def test_a_plan_in_parts_cannot_be_rated():
    counts = np.kron(np.eye(2, dtype=int), all_pairs_design(2, 5))
    with pytest.raises(CannotRate, match="models 2 and 0"):
        expected_precision(counts, 5)


def test_parameters_that_make_no_sense():
    with pytest.raises(BadOption, match="tie_rate is 1"):
        PowerAssumptions(1.0)
    with pytest.raises(BadOption, match="interaction nan"):
        PowerAssumptions(0.3, math.nan)
    with pytest.raises(BadOption, match="power 0"):
        expected_precision(all_pairs_design(2, 5), 5, power=0.2)
    with pytest.raises(BadOption, match="at least 2 prompts"):
        scale_pilot_width(50.0, 1, 10)


CLUSTERS = st.lists(
    st.integers(0, 12).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), min_size=1, max_size=25
)


def of(clusters, level=0.95):
    hits, trials = np.array(clusters).T
    return estimate_share(hits, trials, level)


def twin(clusters, level=0.95):
    """The docstring of `estimate_share` in exact fractions, as far as they go."""
    clusters = [(y, n) for y, n in clusters if n]
    k, total = len(clusters), sum(n for _, n in clusters)
    p = Fraction(sum(y for y, _ in clusters), total)
    if k == 1:
        return float(p), 0.0, 1.0
    alike = Fraction(total**2, sum(n * n for _, n in clusters))
    effective = alike
    if 0 < p < 1:
        variance = Fraction(k, k - 1) * sum((y - p * n) ** 2 for y, n in clusters) / total**2
        effective = total / max(variance / (p * (1 - p) / total), Fraction(1))
    t = stats.t.ppf((1 + level) / 2, float(alike) - 1)
    roots = np.roots([1 + t * t / float(effective), -(2 * p + t * t / float(effective)), float(p * p)])
    low, high = sorted(np.real(roots))
    return float(p), low, high


@given(CLUSTERS.filter(lambda clusters: any(n for _, n in clusters)))
def test_a_share_equals_its_twin_in_fractions(clusters):
    found = of(clusters)
    assert np.allclose([found.value, found.low, found.high], twin(clusters), atol=2e-7)
    assert 0.0 <= found.low <= found.value <= found.high <= 1.0
    assert found.n == sum(n for _, n in clusters)


@given(CLUSTERS, st.randoms(use_true_random=False))
def test_the_order_of_clusters_does_not_matter_to_the_last_bit(clusters, rng):
    assert of(clusters) == of(rng.sample(clusters, len(clusters)))


@given(CLUSTERS.filter(lambda clusters: any(n for _, n in clusters)))
def test_misses_mirror_hits(clusters):
    found, mirrored = of(clusters), of([(n - y, n) for y, n in clusters])
    assert math.isclose(found.low, 1.0 - mirrored.high, abs_tol=1e-12)
    assert math.isclose(found.high, 1.0 - mirrored.low, abs_tol=1e-12)


@given(CLUSTERS.filter(lambda clusters: sum(n > 0 for _, n in clusters) > 1), st.integers(2, 5))
def test_repeating_the_same_trials_in_each_cluster_shows_nothing_new(clusters, times):
    """Trials copied within their prompt must not narrow the interval below that of one cluster each."""
    copied = of([(y * times, n * times) for y, n in clusters])
    once = of(clusters)
    hits, trials = (sum(part) for part in zip(*clusters, strict=True))
    if all(y in (0, n) for y, n in clusters) and 0 < hits < trials:
        assert math.isclose(copied.high - copied.low, once.high - once.low, rel_tol=1e-9)
    assert copied.value == once.value


def test_many_single_trials_give_the_interval_of_wilson():
    from statsmodels.stats.proportion import proportion_confint

    found = of([(1, 1)] * 3000 + [(0, 1)] * 7000)
    low, high = proportion_confint(3000, 10000, method="wilson")
    assert math.isclose(found.low, low, abs_tol=1e-5)
    assert math.isclose(found.high, high, abs_tol=1e-5)


def test_without_trials_nothing_is_said_and_one_prompt_says_nothing_of_others():
    assert of([(0, 0), (0, 0)]) is None
    assert estimate_share(np.empty(0, dtype=int), np.empty(0, dtype=int)) is None
    only = of([(3, 4), (0, 0)])
    assert (only.value, only.low, only.high, only.clusters) == (0.75, 0.0, 1.0, 1)


def test_one_prompt_that_outweighs_all_others_leaves_everything_open():
    found = of([(5_000_000, 10_000_000), (1, 1)])
    assert (found.low, found.high) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("prompts", "centre", "alike"), [(6, 0.5, 0.15), (12, 0.3, 0.3), (40, 0.8, 0.2), (6, 0.8, 0.2)]
)
def test_intervals_cover_in_clustered_worlds_where_naive_ones_do_not(prompts, centre, alike):
    """Each prompt has its own share, beta with intraclass correlation ``alike``; sizes differ."""
    from statsmodels.stats.proportion import proportion_confint

    rng = np.random.default_rng([prompts, int(100 * centre)])
    worlds, covered, naive = 300, 0, 0
    for _ in range(worlds):
        trials = rng.integers(12, 30, prompts)
        own = rng.beta(centre * (1 / alike - 1), (1 - centre) * (1 / alike - 1), prompts)
        hits = rng.binomial(trials, own)
        found = estimate_share(hits, trials)
        covered += found.low <= centre <= found.high
        low, high = proportion_confint(hits.sum(), trials.sum(), method="wilson")
        naive += low <= centre <= high
    assert covered / worlds >= 0.92
    assert naive / worlds < 0.85


@given(CLUSTERS, CLUSTERS)
def test_a_difference_mirrors_and_holds_its_value(one, other):
    one, other = of([*one, (1, 2)]), of([*other, (1, 2)])
    found, mirrored = share_difference(one, other), share_difference(other, one)
    assert -1.0 <= found.low <= found.value <= found.high <= 1.0
    assert (found.low, found.value) == (-mirrored.high, -mirrored.value)
    assert found.excludes(found.low - 0.1)
    assert not found.excludes(found.value)
