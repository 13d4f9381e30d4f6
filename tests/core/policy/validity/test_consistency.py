"""Consistency: even models score high however few the votes, erratic ones low."""

import numpy as np
import pytest
from hypothesis import given
from scipy.special import expit
from scipy.stats import rankdata

from support.told_arenas import BAD, TIE, A, B, arena, arenas, cast, full_votes
from tiltyard.core.policy.state.events import Event, Events
from tiltyard.core.policy.validity.consistency import _variances, consistency_scores


def world(votes, *, effect=0.0, erratic=None, seed=0, models=12, prompts=50):
    """Even pairs on even prompts; the erratic model is far the best on half of them and the worst on the rest."""
    rng = np.random.default_rng(seed)
    strength = np.linspace(1.2, -1.2, models)
    shift = effect * rng.standard_normal((models, prompts))
    if erratic is not None:
        shift[erratic] = np.where(np.arange(prompts) % 2, 5.0, -5.0)
    a = rng.integers(0, models, votes)
    b = (a + rng.integers(1, models, votes)) % models
    p = rng.integers(0, prompts, votes)
    won = rng.random(votes) < expit(strength[a] + shift[a, p] - strength[b] - shift[b, p])
    kind = np.where(rng.random(votes) < 0.16, TIE, np.where(won, A, B)).astype(np.uint8)
    none = np.zeros(votes, dtype=np.int64)
    small = none.astype(np.uint8)
    standing = arena(models, prompts)
    standing.fold(
        Events(np.full(votes, Event.VOTE, dtype=np.uint8), a, b, p, kind, small, small, none, none - 1, none)
    )
    return standing, strength[:, None] + shift


@pytest.mark.parametrize(("votes", "seed"), [(300, 1), (1000, 2), (10_000, 3)])
def test_models_that_are_equally_good_everywhere_score_near_100_even_with_few_votes(votes, seed):
    scores = consistency_scores(world(votes, seed=seed)[0])
    assert np.mean(scores) > 95
    assert min(scores) > 75


@pytest.mark.parametrize("seed", [1, 2])
def test_a_model_that_is_best_on_half_of_the_prompts_and_worst_on_the_rest_scores_low(seed):
    scores = consistency_scores(world(3000, erratic=6, seed=seed)[0])
    assert scores[6] < 15
    assert np.mean([score for k, score in enumerate(scores) if k != 6]) > 75


def test_more_votes_bring_the_score_near_the_truth():
    standing, strength = world(60_000, effect=0.7, seed=5)
    places = np.sort(100.0 * (rankdata(strength, axis=0) - 1.0) / 11.0, axis=1)
    truth = 100.0 - places[:, -10:].mean(axis=1) + places[:, :10].mean(axis=1)
    assert np.abs(np.array(consistency_scores(standing)) - truth).mean() < 8


def test_without_five_rated_prompts_or_a_place_there_is_no_score():
    votes = [(0, 1, p, A) for p in range(4)] + [(1, 0, p, A) for p in range(4)]
    assert consistency_scores(arena(2, 10, votes)) == (None, None)
    standing = arena(2, 10, votes)
    cast(standing, [(0, 1, 4, A)])
    assert consistency_scores(standing) == (100.0, 100.0)
    standing = arena(4, 6, full_votes(3, 6, 2), retired=[0])
    scores = consistency_scores(standing)
    assert scores[0] is None
    assert scores[3] is None
    assert scores[1] is not None


@pytest.mark.parametrize("models", [0, 1])
def test_a_model_alone_has_none(models):
    assert consistency_scores(arena(models, 6)) == (None,) * models


@given(arenas())
def test_scores_lie_within_0_and_100(standing):
    for score in consistency_scores(standing):
        assert score is None or 0.0 <= score <= 100.0


def test_the_side_a_model_stood_on_does_not_matter():
    standing, _ = world(1500, effect=0.5, seed=9)
    turned = arena(12, 50)
    for low, high, cells in standing.meetings:
        for prompt, counts in zip(cells.prompts.tolist(), cells.tally.tolist(), strict=True):
            for kind, n in zip((B, A, TIE, BAD), counts, strict=True):
                cast(turned, [(high, low, prompt, kind)] * n)
    assert consistency_scores(turned) == pytest.approx(consistency_scores(standing))


def test_variances_equal_those_of_a_slow_twin():
    rng = np.random.default_rng(3)
    known, noise = rng.uniform(1.0, 5.0, (6, 30)), 1.3
    weight = known**2 * rng.uniform(0.5, 0.9, known.shape)
    together = np.array([[0.0], [0.0], [0.1], [2.0], [3.0], [5.0]]) * weight
    expected = slow_variances(together.tolist(), known.tolist(), weight.tolist(), noise)
    assert len({round(value, 6) for value in expected}) == 6, "each model has its own"
    assert _variances(together, known, weight, noise) == pytest.approx(expected, rel=1e-12)


def slow_variances(together, known, weight, noise):
    """Step 3 of the module's method, model by model."""
    w = [sum(row) for row in weight]
    own = [sum(row) / total + noise / sum(k) for row, total, k in zip(together, w, known, strict=True)]
    pooled = sum(a * b for a, b in zip(w, own, strict=True)) / sum(w)
    error = [
        2.0 * sum((noise + k * pooled) ** 2 * v for k, v in zip(ks, vs, strict=True)) / total**2
        for ks, vs, total in zip(known, weight, w, strict=True)
    ]
    common = pooled - 2.0 * sum(a**2 * e for a, e in zip(w, error, strict=True)) ** 0.5 / sum(w)
    stray = sum(a * ((o - pooled) ** 2 - e) for a, o, e in zip(w, own, error, strict=True)) / sum(w)
    beyond = stray - 2.0 * sum(2.0 * a**2 * e**2 for a, e in zip(w, error, strict=True)) ** 0.5 / sum(w)
    assert min(common, beyond) > 0.0
    return [max(common + beyond / (beyond + e) * (o - common), 0.0) for o, e in zip(own, error, strict=True)]
