import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.worlds import drawn, rows, table, told
from tiltyard.core.battles import Kind
from tiltyard.core.ratings import Elo
from tiltyard.core.ratings.bootstrap import cluster_multiplicities
from tiltyard.core.ratings.elo import _seeds
from tiltyard.core.ratings.kernels import elo as kernels
from tiltyard.core.ratings.kernels.elo import (
    pack_battles,
    play_in_log_order,
    play_shuffled_loop,
    play_shuffled_vectors,
)
from tiltyard.core.ratings.pairs import Scoring
from tiltyard.errors import BadOption, CannotRate

SHORT = {"n_permutations": 10, "n_bootstraps": 8, "n_orders": 3}
PLAIN = {"kernel": "plain"}


def splitmix64(seed):
    """The stream of Steele, Lea and Flood, OOPSLA 2014, in whole numbers."""
    state = seed
    while True:
        state = (state + 0x9E3779B97F4A7C15) % 2**64
        z = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        yield z ^ (z >> 31)


def shuffle(n, seed):
    """The order in which a permutation plays its battles: Durstenfeld's shuffle, last place first."""
    stream, order, played = splitmix64(seed), list(range(n)), []
    for left in range(n, 0, -1):
        place = (next(stream) >> 32) * left >> 32
        order[place], order[left - 1] = order[left - 1], order[place]
        played.append(order[left - 1])
    return played


def play(codes, order, k=16.0, start=1500.0, spread=400.0):
    """Elo by the textbook, one battle after another."""
    score = Scoring().of(codes)
    rating = dict.fromkeys(range(int(max(codes.a.max(), codes.b.max())) + 1), start)
    for game in order:
        if math.isnan(score[game]):
            continue
        i, j = int(codes.a[game]), int(codes.b[game])
        weight = 1.0 if codes.weight is None else codes.weight[game]
        change = k * weight * (score[game] - 1.0 / (1.0 + 10.0 ** ((rating[j] - rating[i]) / spread)))
        rating[i], rating[j] = rating[i] + change, rating[j] - change
    return np.array(list(rating.values()))


def test_the_first_number_of_the_stream_is_the_published_one():
    assert next(splitmix64(0)) == 0xE220A8397B1DCDAF


@pytest.mark.parametrize("world", [{"judged": True}, {"weighted": True}], ids=["judged", "weighted"])
def test_permutations_are_the_naive_ones(world):
    codes = drawn(5, 80, 2, **world)
    runs = Elo(n_permutations=7, seed=3, interval="none", **PLAIN)(table(codes)).extras["per_permutation"]
    for run, seed in zip(runs, _seeds(3, 0, 7).tolist(), strict=True):
        np.testing.assert_allclose(run, play(codes, shuffle(80, seed)), rtol=0, atol=1e-9)


def test_the_rating_is_the_mean_over_orders_and_the_noise_its_standard_error_if_any():
    result = Elo(n_permutations=20, interval="none")(table(drawn()))
    runs = result.extras["per_permutation"]
    np.testing.assert_array_equal(result.rating, runs.mean(axis=0))
    np.testing.assert_allclose(result.extras["order_noise"], runs.std(axis=0, ddof=1) / math.sqrt(20))
    result = Elo(**SHORT | {"n_permutations": 1})(table(drawn()))
    assert np.isnan(result.extras["order_noise"]).all()
    assert np.isfinite(result.interval.low).all()
    assert np.isfinite(result.uncertainty.covariances[0]).all()


def test_log_order_is_the_naive_one():
    codes = drawn(6, 200, 4, judged=True, weighted=True)
    result = Elo(n_permutations=0, k=24.0, spread=300.0, start=1000.0)(table(codes))
    np.testing.assert_allclose(result.rating, play(codes, range(200), 24.0, 1000.0, 300.0), rtol=0, atol=1e-9)
    assert (result.interval, result.uncertainty) == (None, None)


def test_evalica_agrees_in_log_order():
    import evalica

    codes = drawn(20, 3000, 5)
    winners = np.array([evalica.Winner.X, evalica.Winner.Y, evalica.Winner.Draw])[codes.kind]
    oracle = evalica.elo(
        codes.a.tolist(), codes.b.tolist(), winners.tolist(), initial=1500.0, base=10.0, scale=400.0, k=16.0
    ).scores
    result = Elo(n_permutations=0)(table(codes))
    assert np.abs(result.rating - oracle.sort_index().to_numpy()).max() < 1e-9


# Kernels


def games(n=150, m=6, **world):
    codes = drawn(m, n, 6, **world)
    weight = np.ones(n) if codes.weight is None else codes.weight
    return pack_battles(codes.a, codes.b, np.arange(n)), Scoring().of(codes), 0.09 * weight


@pytest.mark.parametrize("world", [{}, {"weighted": True}], ids=["plain", "weighted"])
def test_one_loop_many_abreast_and_compiled_agree(world, monkeypatch):
    monkeypatch.setattr(kernels, "_PERMUTATION_LIMIT", 3)
    monkeypatch.setattr(kernels, "_RANDOM_STEP_COUNT", 64)
    seeds = _seeds(1, 0, 5)
    given_games = (*games(**world), 6)
    abreast = play_shuffled_vectors(*given_games, seeds)
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(
            play_shuffled_loop(*given_games, seeds[:2]), abreast[:2], rtol=0, atol=1e-9
        )


def test_no_permutations_give_no_rows():
    assert play_shuffled_vectors(*games(), 6, _seeds(0, 0, 0)).shape == (0, 6)


def test_more_models_than_a_word_holds_are_refused():
    with pytest.raises(CannotRate, match="262,144 models"):
        pack_battles(np.array([1 << 18]), np.array([0]), np.array([0]))


@pytest.mark.slow
@pytest.mark.parametrize("world", [{}, {"weighted": True}], ids=["plain", "weighted"])
@pytest.mark.parametrize("n_permutations", [0, 20])
def test_the_compiled_kernel_gives_the_same_numbers(world, n_permutations):
    world = table(drawn(8, 400, 7, prompts=40, **world))
    plain, fast = (
        Elo(**SHORT | {"n_permutations": n_permutations}, kernel=kernel)(world)
        for kernel in ("plain", "compiled")
    )
    assert (plain.extras["kernel"], fast.extras["kernel"]) == ("plain", "compiled")
    np.testing.assert_allclose(fast.rating, plain.rating, rtol=0, atol=1e-9)
    if n_permutations:
        np.testing.assert_allclose(
            fast.uncertainty.covariances[0], plain.uncertainty.covariances[0], rtol=0, atol=1e-7
        )


def test_a_run_starts_from_the_ratings_it_is_given():
    words, score, step = games()
    half, whole = np.zeros(6), np.zeros(6)
    play_in_log_order(words[:70], score, step, half)
    play_in_log_order(words[70:], score, step, half)
    play_in_log_order(words, score, step, whole)
    np.testing.assert_array_equal(half, whole)


# Uncertainty


def naive_replicates(codes, method, cluster):
    """Each replicate by writing its battles out again and playing them."""
    means, within = [], []
    for k in range(method.n_bootstraps):
        times = cluster_multiplicities(method.seed, cluster.max() + 1)(k)
        drawn_rows = [
            row
            for c in range(cluster.max() + 1)
            for row in np.flatnonzero(cluster == c)
            for _ in range(times[c])
        ]
        again = rows(codes, np.array(drawn_rows))
        runs = [
            play(again, shuffle(len(again), seed))
            for seed in _seeds(method.seed, k + 1, method.n_orders).tolist()
        ]
        means.append(np.mean(runs, axis=0))
        within.append(np.cov(np.array(runs), rowvar=False))
    return np.array(means), np.mean(within, axis=0)


def test_battles_without_a_prompt_add_no_clusters():
    codes = drawn(4, 60, 8, prompts=12)
    codes.prompt[30:] = 0
    result = Elo(n_permutations=5, n_bootstraps=4, n_orders=2)(table(codes, 4))
    assert result.interval.n_clusters == len(np.unique(codes.prompt[:30]))
    assert result.uncertainty.dof.tolist() == [0.0] * 4
    assert {"without-prompt", "interval-withheld"} <= {finding.name for finding in result.findings}


@pytest.mark.parametrize("prompts", [0, 30])
def test_the_covariance_comes_from_clusters_drawn_again(prompts):
    """By prompt, with the factor that makes up for the pull of each prompt's battles on the rating."""
    codes = drawn(4, 60, 8, prompts=prompts)
    method = Elo(n_permutations=10, n_bootstraps=6, n_orders=3, seed=5)
    result = method(table(codes, 4))
    cluster = np.unique(codes.prompt, return_inverse=True)[1] if prompts else np.arange(60)
    means, within = naive_replicates(codes, method, cluster)
    expected = np.cov(means, rowvar=False) - within / 3
    np.fill_diagonal(expected, np.clip(np.diag(expected), 0.0, None))
    expected = expected + within / 10
    sizes, dof = np.bincount(cluster), np.inf
    if prompts:
        expected *= len(sizes) / (len(sizes) - 1) / (1.0 - sizes.max() / 60) ** 2
        dof = (sizes**2).sum() ** 2 / (sizes**4).sum() - 1.0
    np.testing.assert_allclose(result.uncertainty.covariances[0], expected, rtol=0, atol=1e-7)
    assert result.interval.clusters == ("prompt" if prompts else "battle")
    assert result.interval.n_clusters == (cluster.max() + 1)
    np.testing.assert_allclose(result.uncertainty.dof, dof)
    centre = (result.interval.low + result.interval.high) / 2.0
    np.testing.assert_allclose(centre, result.rating)


@settings(max_examples=5)
@given(st.integers(0, 1000))
def test_tiny_logs_survive_draws_of_nothing(seed):
    result = Elo(**SHORT, seed=seed)(told("a>b", question_id=["q"]))
    assert result.rating.tolist() == [1508.0, 1492.0]
    assert np.isfinite(result.uncertainty.covariances[0]).all()


def test_no_battles_no_interval():
    assert Elo(**SHORT)(told("a!b")).interval is None
    assert Elo(**SHORT, interval="none")(told("a>b")).interval is None


# Choices


def test_a_sweep_rates_with_every_k():
    world = table(drawn())
    method = Elo(n_permutations=5, interval="none")
    sweep = method.sweep(world, [4, 32.0])
    assert {k: result.method.k for k, result in sweep.items()} == {4.0: 4.0, 32.0: 32.0}
    np.testing.assert_array_equal(
        sweep[4.0].rating, Elo(k=4.0, n_permutations=5, interval="none")(world).rating
    )


def test_ties_may_be_dropped_and_inconsistent_results_count_what_is_said():
    result = Elo(ties="drop", n_permutations=3, interval="none")(told("a>b b=c*40"))
    assert np.isnan(result.rating[2])
    assert result.group.tolist() == [0, 0, -1]
    codes = drawn(2, 1)
    codes.kind[:] = Kind.INCONSISTENT
    result = Elo(inconsistent=1.0, n_permutations=0)(table(codes))
    assert sorted(result.rating) == [1492.0, 1508.0]


@pytest.mark.parametrize(
    "options",
    [
        {"k": 0.0},
        {"spread": 0.0},
        {"level": 1.0},
        {"n_permutations": -1},
        {"n_bootstraps": 1},
        {"n_orders": 1},
        {"interval": "sandwich"},
        {"ties": "davidson"},
        {"lean": 0.2},
    ],
)
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(BadOption):
        Elo(**options)
