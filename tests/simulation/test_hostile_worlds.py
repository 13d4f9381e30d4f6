"""Worlds that are not kind: what each setting does, and what stays true in it."""

from dataclasses import replace

import numpy as np
import pytest

from tiltyard.core.battles import Kind
from tiltyard.core.ratings import BradleyTerry
from tiltyard.errors import BadOption
from tiltyard.simulation.simulated_arena import SimulatedArena, SimulationSettings
from tiltyard.simulation.worlds import HOSTILE, POINTS_PER_LOGIT, WorldSettings, draw_world_of, hostile_world

KIND = WorldSettings(6, 40, close_top=False, lazy=0.0)


def world(name="", seed=1, **changes):
    settings = hostile_world(name, KIND) if name else KIND
    return draw_world_of(replace(settings, **changes), np.random.default_rng(seed))


def largest_share(keys):
    return np.unique(keys, return_counts=True)[1].max() / len(keys)


def test_equal_models_have_one_truth_and_unused_settings_change_nothing():
    plain, other = world(), world(voter_sd=2.0, voter_pareto=1.1)
    np.testing.assert_array_equal(plain.effect, other.effect)
    assert plain.prompt_shares is plain.crowd is other.crowd is None
    assert plain.codes(50, np.random.default_rng(2)).voter is None
    assert np.ptp(world("equal").truth()) < 1e-9


def test_some_prompts_and_some_voters_have_most_battles():
    rng = np.random.default_rng(2)
    even, uneven = world().codes(4000, rng), world("uneven", prompt_pareto=0.7).codes(4000, rng)
    assert largest_share(even.prompt) < 0.05
    assert largest_share(uneven.prompt) > 0.1
    codes = world("heavy-voters").codes(4000, np.random.default_rng(2))
    assert len(np.unique(codes.voter)) > 50
    assert largest_share(codes.voter) > 0.1
    assert largest_share(world("voters").codes(4000, np.random.default_rng(2)).voter) < 0.07


def test_a_voter_prefers_the_same_models_again():
    some = world("equal+voters", voter_sd=3.0)
    assert some.crowd is not None
    voter = 3
    liked, disliked = int(some.crowd.effect[:, voter].argmax()), int(some.crowd.effect[:, voter].argmin())
    rng = np.random.default_rng(4)
    votes = [some.vote(liked, disliked, k % 40, rng, voter=voter) for k in range(300)]
    assert votes.count(Kind.WIN_A) > 4 * votes.count(Kind.WIN_B)
    n = 300
    kinds = some.kinds(
        np.full(n, liked), np.full(n, disliked), np.arange(n) % 40, rng, voter=np.full(n, voter)
    )
    assert (kinds == Kind.WIN_A).sum() > 4 * (kinds == Kind.WIN_B).sum()


def test_tastes_of_voters_shrink_true_gaps_as_effects_of_prompts_do():
    both = world("voters", effect_sd=0.3, voter_sd=0.4)
    alone = replace(both, crowd=None, effect_sd=0.5)
    np.testing.assert_allclose(both.truth(), alone.truth(), atol=1e-9)
    on_these = replace(both, crowd=None).truth(these_prompts=True)
    assert np.ptp(both.truth(these_prompts=True)) < np.ptp(on_these)


def test_endless_votes_of_many_voters_would_give_the_truth():
    some = world("heavy-voters", prompts=4000, voters=4000, voter_pareto=0.0)
    ratings = BradleyTerry()(some.table(150_000, np.random.default_rng(5)))
    error = np.sqrt(ratings.uncertainty.ratings())
    assert error.max() < 4.0
    assert (np.abs(ratings.rating - ratings.rating.mean() - some.truth()) < 4 * error).all()


def test_the_truth_of_these_prompts_follows_their_weights():
    some = world()
    one = np.zeros(40)
    one[7] = 1.0
    alone = replace(some, effect=some.effect[:, 7:8])
    np.testing.assert_allclose(
        some.truth(these_prompts=True, prompt_weights=one), alone.truth(these_prompts=True), atol=1e-9
    )


def test_a_runaway_model_loses_one_decisive_vote_in_fifty():
    some = replace(world("near-separated"), position_bias=0.0)
    best = int(some.strength.argmax())
    rng = np.random.default_rng(3)
    others = np.delete(np.arange(6), best)
    b = rng.choice(others, 20_000)
    kinds = some.kinds(np.full(len(b), best), b, rng.integers(0, 40, len(b)), rng)
    decisive = kinds[(kinds == Kind.WIN_A) | (kinds == Kind.WIN_B)]
    assert (decisive == Kind.WIN_B).mean() == pytest.approx(0.02, abs=0.01)
    assert (some.strength[best] - some.strength[others].mean()) * POINTS_PER_LOGIT > 400


def test_names_combine_and_unknown_ones_are_refused():
    both = hostile_world("equal+heavy-voters", KIND)
    assert (both.strength_sd, both.voters, both.voter_pareto) == (0.0, 200, 1.1)
    with pytest.raises(BadOption, match="world 'lazy'"):
        hostile_world("equal+lazy", KIND)
    assert all(hostile_world(name, KIND) != KIND for name in HOSTILE)


def test_in_an_arena_each_voter_is_a_session():
    arena = SimulatedArena(SimulationSettings(hostile_world("voters", KIND), votes=200), 1)
    seen = []
    choose = arena.choose
    arena.choose = lambda standing, chance, session: seen.append(session) or choose(standing, chance, session)
    arena.run()
    assert set(seen) <= set(range(20))
    assert len(set(seen)) > 15
    with pytest.raises(BadOption, match="one of"):
        SimulationSettings(hostile_world("voters", KIND), sessions=3)
