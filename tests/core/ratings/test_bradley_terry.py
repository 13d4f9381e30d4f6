import math
from contextlib import suppress
from dataclasses import astuple
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from support.sizes import sized
from support.worlds import drawn, table, told
from tiltyard.core.battles import CodedBattles, Kind, Table
from tiltyard.core.ratings import BradleyTerry, newton
from tiltyard.core.ratings import pairs as pair_sums
from tiltyard.core.ratings.pairs import Scoring, comparable_groups, score_pairs
from tiltyard.errors import BadOption, CannotRate

UNIT = 400.0 / math.log(10.0)
POINT = BradleyTerry(interval="none")


def logits(result):
    return (result.rating - 1500.0) / UNIT


def table_of_wins(models, wins):
    """A table where row model beat column model so many times."""
    wins = np.array(wins)
    order = np.argsort(models)
    a, b = np.nonzero(wins)
    place = np.argsort(order)
    times = wins[a, b]
    codes = CodedBattles(
        np.repeat(place[a], times), np.repeat(place[b], times), np.zeros(times.sum(), np.uint8)
    )
    return Table.from_codes(sorted(models), codes)


# Published examples


def test_baseball_1987_as_in_agresti():
    """Agresti, Categorical Data Analysis (2002), table 10.10; estimates as BradleyTerry2 prints them."""
    teams = ["Milwaukee", "Detroit", "Toronto", "New York", "Boston", "Cleveland", "Baltimore"]
    wins = [
        [0, 7, 9, 7, 7, 9, 11],
        [6, 0, 7, 5, 11, 9, 9],
        [4, 6, 0, 7, 7, 8, 12],
        [6, 8, 6, 0, 6, 7, 10],
        [6, 2, 6, 7, 0, 7, 12],
        [4, 4, 5, 6, 6, 0, 6],
        [2, 4, 1, 3, 1, 7, 0],
    ]
    published = {
        "Boston": 1.1077,
        "Cleveland": 0.6839,
        "Detroit": 1.4364,
        "Milwaukee": 1.5814,
        "New York": 1.2476,
        "Toronto": 1.2945,
    }
    result = POINT(table_of_wins(teams, wins))
    theta = dict(zip(result.models, logits(result), strict=True))
    for team, estimate in published.items():
        assert theta[team] - theta["Baltimore"] == pytest.approx(estimate, abs=5e-5)


# Naive twins


@pytest.mark.parametrize(
    ("method", "world"),
    [
        (POINT, {"judged": True}),
        (BradleyTerry(interval="none", ties="drop"), {"judged": True}),
        (BradleyTerry(interval="none", soft=True), {"soft": True, "weighted": True}),
        (BradleyTerry(interval="none", lean=0.6, inconsistent=0.3), {"judged": True, "weighted": True}),
    ],
    ids=["half", "drop", "soft and weighted", "lean"],
)
def test_newton_finds_what_minorisation_finds(method, world):
    world = table(drawn(6, 300, 3, **world))
    scoring = Scoring(
        "drop" if method.ties == "drop" else "half", method.lean, method.inconsistent, method.soft
    )
    pairs = score_pairs(world.counts, 6, scoring)
    m = pairs.n_models
    met = list(zip(pairs.i.tolist(), pairs.j.tolist(), pairs.weight, pairs.score, strict=True))
    won = [0.0] * m
    for i, j, weight, score in met:
        won[i] += score
        won[j] += weight - score
    gamma = [1.0] * m
    for _ in range(20_000):
        shared = [0.0] * m
        for i, j, weight, _ in met:
            shared[i] += weight / (gamma[i] + gamma[j])
            shared[j] += weight / (gamma[i] + gamma[j])
        before, gamma = gamma, [won[k] / shared[k] for k in range(m)]
        mean = math.exp(sum(map(math.log, gamma)) / m)
        gamma = [g / mean for g in gamma]
        if max(abs(new - old) for new, old in zip(gamma, before, strict=True)) < 1e-14:
            break
    twin = np.log(gamma)
    np.testing.assert_allclose(logits(method(world)), twin, atol=1e-9)


def davidson_outcomes(codes):
    """How many battles i won, lost and tied against j, as a list of rows."""
    pairs = []
    for i, j in combinations(range(int(max(codes.a.max(), codes.b.max())) + 1), 2):
        for a, b, flip in ((i, j, 1), (j, i, -1)):
            rows = (codes.a == a) & (codes.b == b)
            wins, losses = (int((codes.kind[rows] == kind).sum()) for kind in (Kind.WIN_A, Kind.WIN_B))
            pairs.append((i, j, *(wins, losses)[::flip], int((codes.kind[rows] == Kind.TIE).sum())))
    return pairs


def test_davidson_maximises_its_likelihood():
    codes = drawn(4, 300, 5, ties=0.3)
    outcomes = davidson_outcomes(codes)

    def loss(x):
        theta, nu = np.append(x[:-1], 0.0), math.exp(x[-1])
        total = 0.0
        for i, j, wins, losses, ties in outcomes:
            pi, pj = math.exp(theta[i]), math.exp(theta[j])
            level = nu * math.sqrt(pi * pj)
            every = pi + pj + level
            total -= (
                wins * math.log(pi / every) + losses * math.log(pj / every) + ties * math.log(level / every)
            )
        return total

    best = minimize(loss, np.zeros(4), method="BFGS", options={"gtol": 1e-7})
    theta = np.append(best.x[:-1], 0.0)
    result = BradleyTerry(ties="davidson")(table(codes))
    np.testing.assert_allclose(logits(result), theta - theta.mean(), atol=1e-5)
    assert result.extras["tie_parameter"] == pytest.approx(math.exp(best.x[-1]), rel=1e-5)


def test_a_prior_is_a_penalty_in_rating_points():
    world = table(drawn(4, 60, 7))
    pairs = score_pairs(world.counts, 4, Scoring())

    def loss(rating):
        d = (rating[pairs.i] - rating[pairs.j]) / UNIT
        likelihood = pairs.score @ -np.logaddexp(0.0, -d) + (pairs.weight - pairs.score) @ -np.logaddexp(
            0.0, d
        )
        return -likelihood + 0.5 * np.sum((rating / 150.0) ** 2)

    best = minimize(loss, np.zeros(4), method="BFGS", options={"gtol": 1e-9}).x
    found = BradleyTerry(prior_sd=150.0, interval="none")(world).rating
    np.testing.assert_allclose(found - 1500.0, best, atol=1e-3)


@given(st.floats(-800.0, 800.0), st.floats(-50.0, 50.0))
def test_expectations_are_probabilities_however_far_apart(d, log_tie):
    plain = newton.expected_score(np.array([d, -d]), None)
    tied = newton.expected_score(np.array([d, -d]), log_tie)
    for found in (plain, tied):
        assert found.score.sum() == pytest.approx(1.0)
        assert ((found.score >= 0.0) & (found.score <= 1.0) & (found.variance() >= -1e-15)).all()
    assert ((tied.tie >= 0.0) & (tied.tie <= 1.0)).all()


# Oracles


def oracle(pairs):
    """statsmodels' binomial regression on the pair design, last model as reference."""
    import statsmodels.api as sm

    design = np.zeros((len(pairs.i), pairs.n_models))
    rows = np.arange(len(pairs.i))
    design[rows, pairs.i], design[rows, pairs.j] = 1.0, -1.0
    outcome = np.stack([pairs.score, pairs.weight - pairs.score], axis=1)
    model = sm.GLM(outcome, design[:, :-1], family=sm.families.Binomial())
    with np.errstate(invalid="ignore"):
        theta = np.append(model.fit(maxiter=8, tol=1e-14).params, 0.0)
    return UNIT * (theta - theta.mean())


def banded(m, times, seed, reach=3):
    """Each model met only those up to three places away."""
    rng = np.random.default_rng(seed)
    strength = rng.normal(0.0, 0.5, m)
    i, j = (
        np.array([(i, i + k) for i in range(m) for k in range(1, reach + 1) if i + k < m]).repeat(times, 0).T
    )
    won = rng.random(len(i)) < 1.0 / (1.0 + np.exp(strength[j] - strength[i]))
    kind = np.where(rng.random(len(i)) < 0.2, Kind.TIE, np.where(won, Kind.WIN_A, Kind.WIN_B))
    return table(CodedBattles(i, j, kind.astype(np.uint8)), m)


def worst(world):
    pairs = score_pairs(world.counts, len(world.models), Scoring())
    assert comparable_groups(pairs, prior=False).max() == 0
    return np.abs(POINT(world).rating - 1500.0 - oracle(pairs)).max()


@pytest.mark.no_cover
@pytest.mark.parametrize(("m", "n"), [(2, 30), (30, 2000)])
def test_statsmodels_agrees_on_dense_graphs(m, n):
    assert worst(table(drawn(m, n, m), m)) < 1e-6


@pytest.mark.parametrize("times", [20])
def test_statsmodels_agrees_where_models_met_their_neighbours_only(times):
    assert worst(banded(100, times, 1)) < 1e-3


def test_choix_agrees():
    import choix

    world = table(drawn(20, 4000, 9), 20)
    pairs = score_pairs(world.counts, 20, Scoring())
    wins = np.zeros((20, 20))
    wins[pairs.i, pairs.j], wins[pairs.j, pairs.i] = pairs.score, pairs.weight - pairs.score
    theta = choix.ilsr_pairwise_dense(wins, max_iter=1000, tol=1e-12)
    assert np.abs(POINT(world).rating - 1500.0 - UNIT * (theta - theta.mean())).max() < 1e-6


# What a fit does at its edges


@pytest.mark.no_cover
@settings(max_examples=sized(12, 100))
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 6)), min_size=1, max_size=40))
def test_whatever_the_battles_a_rating_is_moderate_or_absent(battles):
    a, b, kind = np.array(battles).T
    for method in (BradleyTerry(), BradleyTerry(prior_sd=300.0), BradleyTerry(ties="drop")):
        result = method(table(CodedBattles(a, b, kind.astype(np.uint8)), 5))
        assert not np.isinf(result.rating).any()
        np.testing.assert_array_equal(np.isnan(result.rating), result.group < 0)
        assert np.abs(result.rating[result.group >= 0] - 1500.0).max(initial=0.0) < 8000.0
        assert "not-converged" not in {finding.name for finding in result.findings}
        absent = np.isnan(result.interval.low)
        assert absent[result.group < 0].all()
        spread = "no-spread" in {finding.name for finding in result.findings}
        assert absent[result.group >= 0].any() == spread


@settings(max_examples=sized(20, 100))
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 6)), min_size=1, max_size=25))
def test_davidson_rates_or_says_why_it_cannot(battles):
    a, b, kind = np.array(battles).T
    with suppress(CannotRate):
        result = BradleyTerry(ties="davidson")(table(CodedBattles(a, b, kind.astype(np.uint8)), 4))
        assert "not-converged" not in {finding.name for finding in result.findings}
        assert np.abs(result.rating[result.group >= 0] - 1500.0).max(initial=0.0) < 20_000.0


@pytest.mark.parametrize(
    ("story", "exists"),
    [
        ("a>b*3 b>a*2", False),
        ("a=b*5", False),
        ("a>b*3 a=b*2", False),
        ("a>b b>a a=b", True),
        ("a>b b>c c>a a=b", True),
        ("a>b b>c c=a", True),
        ("a>b b=c c=a", False),
        ("a>b a=b b>c b=c a>c", False),
    ],
)
def test_davidson_needs_a_ring_with_more_wins_than_ties(story, exists):
    method = BradleyTerry(ties="davidson")
    if exists:
        assert np.isfinite(method(told(story)).extras["tie_parameter"])
    else:
        with pytest.raises(CannotRate, match="half wins"):
            method(told(story))


def test_with_a_prior_davidson_needs_one_tie_and_one_win():
    method, enough = BradleyTerry(ties="davidson", prior_sd=200.0), told("a>b a=b")
    assert method(enough).extras["tie_parameter"] > 0.0
    for story in ("a=b", "a>b"):
        with pytest.raises(CannotRate):
            method(told(story))


def test_davidson_on_battles_that_compare_nobody_rates_nobody():
    result = BradleyTerry(ties="davidson")(told("a>b", question_id=["q"]))
    assert np.isnan(result.rating).all()
    assert "tie_parameter" not in result.extras


@pytest.mark.parametrize("world", [{}, {"weighted": True}], ids=["plain", "weighted"])
def test_pairs_sorted_are_pairs_laid_out(world, monkeypatch):
    codes = drawn(7, 200, 3, **world)
    codes.kind[::20] = Kind.BOTH_BAD
    counts = table(codes).counts
    whole = score_pairs(counts, 7, Scoring())
    monkeypatch.setattr(pair_sums, "_DENSE_MODEL_LIMIT", 6)
    for one, other in zip(astuple(score_pairs(counts, 7, Scoring())), astuple(whole), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_an_information_that_rounding_made_indefinite_is_nudged():
    information = np.array([[1.0, 1.0], [1.0, 1.0 - 1e-15]])
    assert newton.cholesky(information) is None
    factor = np.tril(newton.regularised_cholesky(information))
    np.testing.assert_allclose(factor @ factor.T, information, atol=1e-8)


def test_long_steps_are_halved_until_they_gain():
    pairs = score_pairs(told("a>b*3 b>a*2").counts, 2, Scoring())
    for start in ([6.0, -6.0], [3.0, 2.0]):
        assert newton.fit_pairs(pairs, start=np.array(start)).theta == pytest.approx(
            [math.log(1.5) / 2, -math.log(1.5) / 2]
        )


@pytest.mark.parametrize(
    "options",
    [
        {"ties": "thirds"},
        {"interval": "exact"},
        {"level": 0.0},
        {"level": 1.0},
        {"scale": 0.0},
        {"n_bootstraps": 1},
        {"prior_sd": 0.0},
        {"prior_sd": float("nan")},
        {"level": 95},
        {"level": "0.9"},
        {"max_share": "all"},
        {"soft": True, "ties": "davidson"},
        {"style": True, "ties": "davidson"},
        {"style": True, "interval": "bootstrap"},
    ],
)
def test_options_that_make_no_sense_are_refused_by_name(options):
    with pytest.raises(BadOption, match="|".join(options)):
        BradleyTerry(**options)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"lean": 0.4}, "lean"),
        ({"inconsistent": 1.5}, "inconsistent"),
        ({"clusters": "voter"}, "auto, prompt or battle"),
        ({"anchor": "z"}, "anchor 'z'"),
        ({"style": True}, "style columns"),
    ],
)
def test_options_are_refused_when_they_meet_the_table(options, problem):
    with pytest.raises(BadOption, match=problem):
        BradleyTerry(**options)(told("a>b b>a"))


def test_an_anchor_needs_a_rating():
    with pytest.raises(CannotRate, match="anchor 'c'"):
        BradleyTerry(anchor="c")(told("a>b b>a a>c"))


def test_scoring_refuses_ties_it_does_not_know():
    with pytest.raises(BadOption, match="half or drop"):
        Scoring(ties="davidson")
