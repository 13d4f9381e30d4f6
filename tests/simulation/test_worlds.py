"""Worlds of the ranking policy: their rates, their truth, and what changes in them."""

import pickle
from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit
from scipy.stats import binomtest

from support.sizes import sized
from tiltyard.core.battles import Kind
from tiltyard.core.battles.cluster_keys import hash_texts
from tiltyard.core.ratings import BradleyTerry
from tiltyard.errors import BadOption
from tiltyard.simulation.studies import canonical_text, to_plain
from tiltyard.simulation.worlds import POINTS_PER_LOGIT, WorldSettings, draw_world, draw_world_of


def drawn(seed=3, **settings):
    return draw_world_of(WorldSettings(**settings), np.random.default_rng(seed))


def plausible(hits, n, share):
    return binomtest(int(hits), int(n), share).pvalue > 1e-4


def one_by_one(world, n, seed=1, at=0):
    """A log as the matchmaker would make it: uniform matchups, vote by vote."""
    rng = np.random.default_rng(seed)
    m, p = world.effect.shape
    a = rng.integers(0, m, n)
    b = (a + rng.integers(1, m, n)) % m
    prompt = rng.integers(0, p, n)
    votes = zip(a.tolist(), b.tolist(), prompt.tolist(), range(at, at + n), strict=True)
    return a, b, prompt, np.array([world.vote(i, j, q, rng, now) for i, j, q, now in votes])


def test_a_plain_world_is_drawn_as_it_always_was():
    rng = np.random.default_rng(8)
    strength = rng.normal(0.0, 150.0 / POINTS_PER_LOGIT, 7)
    effect = rng.normal(0.0, 0.4, (7, 11))
    world = draw_world(7, 11, np.random.default_rng(8), strength_sd=150.0, effect_sd=0.4)
    assert (world.strength == strength).all()
    assert (world.effect == effect).all()
    assert (world.lazy, world.dead, world.rigging, world.drift) == (0.0, frozenset(), None, None)
    assert world.changes() == ()
    a, b, p = rng.integers(0, 7, 500), rng.integers(1, 7, 500), rng.integers(0, 11, 500)
    b = (a + b) % 7
    d = strength[a] - strength[b] + effect[a, p] - effect[b, p] + 0.1
    won, other = rng.random(500) < expit(d), rng.random(500)
    kind = np.where(other < 0.16, 2, np.where(other < 0.23, 3, np.where(won, 0, 1)))
    rng = np.random.default_rng(8)
    codes = draw_world(7, 11, rng, strength_sd=150.0, effect_sd=0.4).codes(500, rng)
    assert (codes.a == a).all()
    assert (codes.b == b).all()
    assert (codes.kind == kind).all()


@given(models=st.integers(2, 40), seed=st.integers(0, 99))
def test_the_top_stands_at_small_gaps_and_the_rest_below(models, seed):
    world = drawn(seed, models=models, prompts=2)
    plain_world = drawn(seed, models=models, prompts=2, close_top=False)
    top = min(8, models // 2)
    order = np.argsort(-world.strength)
    gaps = -np.diff(world.strength[order]) * POINTS_PER_LOGIT
    assert ((gaps[: top - 1] >= 4.0) & (gaps[: top - 1] <= 25.0)).all()
    assert (order == np.argsort(-plain_world.strength)).all()
    assert (world.strength[order[top - 1 :]] == plain_world.strength[order[top - 1 :]]).all()


@pytest.mark.parametrize("bulk", [True, False])
def test_votes_come_at_the_stated_rates(bulk):
    world = drawn(models=6, prompts=20, strength_sd=0.0, close_top=False, effect_sd=0.0, position_bias=0.3)
    n = 40_000 if bulk else sized(4_000, 10_000)
    kind = world.codes(n, np.random.default_rng(5)).kind if bulk else one_by_one(world, n)[3]
    assert plausible((kind == Kind.TIE).sum(), n, 0.16)
    assert plausible((kind == Kind.BOTH_BAD).sum(), n, 0.07)
    decisive = kind < Kind.TIE
    won = 0.025 + 0.95 / (1.0 + np.exp(-0.3))
    assert plausible((kind[decisive] == Kind.WIN_A).sum(), decisive.sum(), won)


EVERYTHING = {
    "models": 5,
    "prompts": 4,
    "lazy": 0.2,
    "dead": 0.25,
    "riggers": 0.3,
    "drifting": 2,
    "drift": 300.0,
    "drift_after": 5000,
    "drift_over": 9000,
}


@pytest.mark.parametrize("at", [0, 20_000])
def test_one_by_one_and_in_bulk_matchups_end_alike(at):
    world, n = drawn(**EVERYTHING), sized(6_000, 20_000)
    a, b, prompt, kind = one_by_one(world, n, at=at)
    bulk = world.kinds(a, b, prompt, np.random.default_rng(9), at)
    cell = (a * 5 + b) * 4 + prompt
    for one in range(4):
        here, there = (np.bincount(cell[kinds == one], minlength=100) for kinds in (kind, bulk))
        tried = np.bincount(cell, minlength=100)
        share = (here + there) / np.maximum(2 * tried, 1)
        spread = np.sqrt(np.maximum(2 * tried * share * (1 - share), 1.0))
        assert (np.abs(here - there) < 5 * spread).all()


def test_of_dead_prompts_comes_nothing_but_both_bad():
    world = drawn(models=4, prompts=20, dead=0.1, riggers=0.5)
    assert len(world.dead) == 2
    _, _, prompt, kind = one_by_one(world, 3000)
    codes = world.codes(3000, np.random.default_rng(4))
    dead_keys = hash_texts([f"prompt-{p}" for p in world.dead])
    assert (kind[np.isin(prompt, list(world.dead))] == Kind.BOTH_BAD).all()
    assert (codes.kind[np.isin(codes.prompt, dead_keys)] == Kind.BOTH_BAD).all()
    assert (codes.kind[~np.isin(codes.prompt, dead_keys)] != Kind.BOTH_BAD).mean() > 0.9


def test_those_who_rig_vote_for_the_target_and_against_its_rivals():
    world = drawn(models=9, prompts=3, riggers=1.0, rigged_rank=5)
    order = np.argsort(-world.strength).tolist()
    target, rivals = order[4], world.rigging.rivals
    assert world.rigging.target == target
    farthest = max(abs(world.strength[k] - world.strength[target]) for k in rivals)
    strangers = set(range(9)) - rivals - {target}
    assert len(rivals) == 3
    assert all(abs(world.strength[k] - world.strength[target]) >= farthest for k in strangers)
    a, b, prompt, kind = one_by_one(world, 4000)
    for found in (kind, world.kinds(a, b, prompt, np.random.default_rng(2))):
        winner = np.where(found == Kind.WIN_A, a, b)
        assert (found < Kind.TIE).all()
        with_target = (a == target) | (b == target)
        assert (winner[with_target] == target).all()
        one_rival = ~with_target & (np.isin(a, list(rivals)) != np.isin(b, list(rivals)))
        assert not np.isin(winner[one_rival], list(rivals)).any()
        coin = ~with_target & ~one_rival
        assert plausible((found[coin] == Kind.WIN_A).sum(), coin.sum(), 0.5)


def test_the_truth_is_that_of_the_population_without_dead_prompts_and_riggers():
    world = drawn(models=7, prompts=9, clones=True)
    truth, here = world.truth(), world.truth(these_prompts=True)
    np.testing.assert_allclose(truth[0:6:2], truth[1:6:2], atol=1e-6)
    assert not np.allclose(here[0:6:2], here[1:6:2], atol=1e-6)
    world = drawn(models=5, prompts=10, dead=0.3, riggers=0.2)
    alive = [p for p in range(10) if p not in world.dead]
    other = replace(world, effect=world.effect[:, alive], dead=frozenset(), rigging=None)
    np.testing.assert_allclose(world.truth(these_prompts=True), other.truth(these_prompts=True), atol=1e-9)


def test_endless_votes_give_the_truth_with_lazy_voters_and_dead_prompts():
    world = drawn(models=5, prompts=20, lazy=0.3, dead=0.2, effect_sd=1.0)
    ratings = BradleyTerry(clusters="battle")(world.table(200_000, np.random.default_rng(5)))
    error = np.sqrt(np.diag(ratings.uncertainty.covariances[0]))
    found = ratings.rating - ratings.rating.mean()
    assert error.max() < 2.5
    assert (np.abs(found - world.truth(these_prompts=True)) < 4 * error).all()
    assert (np.abs(found - replace(world, lazy=0.0).truth(these_prompts=True)) > 4 * error).any()


def test_models_come_go_and_drift_each_in_its_own_way():
    world = drawn(models=8, prompts=3, newcomers=2, newcomers_after=300, retired=1, retired_after=500)
    assert world.changes() == (300, 500)
    assert [len(world.present(at)) for at in (0, 299, 300, 499, 500)] == [6, 6, 8, 8, 7]
    codes = world.codes(900, np.random.default_rng(1), at=100)
    for start, end, moment in ((0, 200, 100), (200, 400, 300), (400, 900, 600)):
        seen = np.union1d(codes.a[start:end], codes.b[start:end])
        assert set(seen.tolist()) == set(world.present(moment).tolist())
    assert len(codes) == 900
    assert (codes.a != codes.b).all()
    world = drawn(models=6, prompts=2, newcomers=2, retired=2, drifting=2, drift=10.0)
    assert sorted([*world.joins, *world.leaves, *world.drift.models]) == list(range(6))


def test_the_truth_of_a_moment_speaks_of_those_present():
    world = drawn(models=6, prompts=3, newcomers=2, newcomers_after=10)
    early, late = world.truth(at=9), world.truth(at=10)
    assert set(np.flatnonzero(np.isnan(early))) == set(world.joins)
    assert abs(np.nanmean(early)) < 1e-9
    np.testing.assert_array_equal(late, world.truth())
    order = world.true_order(at=9)
    assert set(order.tolist()) == set(world.present(9).tolist())
    assert (np.diff(early[order]) <= 0).all()
    assert world.true_order(these_prompts=True)[0] == np.argmax(world.truth(these_prompts=True))


@pytest.mark.parametrize(("over", "halfway"), [(0, 200.0), (100, 100.0)])
def test_drifting_models_move_at_once_or_evenly(over, halfway):
    world = drawn(models=4, prompts=3, drifting=1, drift=200.0, drift_after=50, drift_over=over)
    (model,) = world.drift.models
    moved = [
        (world.strengths(at) - world.strength)[model] * POINTS_PER_LOGIT for at in (0, 49, 100, 150, 999)
    ]
    np.testing.assert_allclose(moved, [0.0, 0.0, halfway, 200.0, 200.0])
    assert all(
        world.drift.of(model, at) == pytest.approx((world.strengths(at) - world.strength)[model])
        for at in range(0, 200, 7)
    )
    others = np.arange(4) != model
    assert (world.strengths(999)[others] == world.strength[others]).all()
    later = replace(world, strength=world.strengths(999), drift=None)
    np.testing.assert_array_equal(world.truth(at=999), later.truth())


def test_a_world_and_its_settings_travel():
    settings = WorldSettings(**EVERYTHING)
    world = draw_world_of(settings, np.random.default_rng(1))
    again = pickle.loads(pickle.dumps(world))
    votes = [[w.vote(0, 1, 2, np.random.default_rng(k), k) for k in range(50)] for w in (world, again)]
    assert votes[0] == votes[1]
    assert eval(repr(settings)) == settings == WorldSettings(**asdict(settings))
    assert canonical_text(to_plain(settings)) == canonical_text(to_plain(WorldSettings(**EVERYTHING)))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"models": 1}, "1 models"),
        ({"prompts": 0}, "0 prompts"),
        ({"lazy": 1.5}, "lazy is 1.5"),
        ({"ties": 0.6, "both_bad": 0.4}, "decisive"),
        ({"dead": 0.999}, "none of 100 prompts"),
        ({"rigged_rank": 21}, "rigged_rank is 21"),
        ({"newcomers": -1}, "newcomers is -1"),
        ({"models": 4, "newcomers": 3}, "too many newcomers (3)"),
        ({"models": 4, "newcomers": 1, "drifting": 4}, "drifting models (4) for 4"),
    ],
)
def test_settings_that_make_no_world_are_refused(wrong, said):
    with pytest.raises(BadOption) as caught:
        WorldSettings(**wrong)
    assert said in str(caught.value)
