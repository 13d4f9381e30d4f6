"""Worlds in which voters write their own prompts: what is typed, how it is voted on, and what is true."""

from collections import Counter

import numpy as np
import pytest

from lab.live_worlds import LiveWorldSettings, SimulatedLiveArena, draw_live_world
from support.sizes import sized
from tiltyard.core.battles import CodedBattles, Table
from tiltyard.core.policy.state.events import Event
from tiltyard.core.ratings import BradleyTerry
from tiltyard.errors import BadOption


def world_of(seed=0, **settings):
    return draw_live_world(LiveWorldSettings(**settings), np.random.default_rng(seed))


def test_numbers_are_dense_and_a_prompt_typed_again_keeps_its_own():
    world, rng = world_of(popular_share=0.5, categories=3, popular=20), np.random.default_rng(1)
    typed = [world.type(rng) for _ in range(2000)]
    numbers = {one.number for one in typed}
    assert numbers == set(range(1, world.n_prompts + 1))
    assert len({(one.number, one.category) for one in typed}) == len(numbers)
    shared = Counter(number for number, _ in {(one.number, one.voter) for one in typed})
    assert sum(voters > 1 for voters in shared.values()) == 20
    again = [one.number for one in typed if shared[one.number] == 1]
    assert 0.02 < 1.0 - len(set(again)) / len(again) < 0.2


def test_equal_models_and_clones_are_equal_over_all_and_not_in_each_category():
    world = world_of(equal=True, categories=5, category_sd=0.5, own_sd=0.5, popular_share=0.3)
    assert np.abs(world.truth()).max() < 1e-6
    assert np.ptp(world.category_effect + world.strength[:, None], axis=0).min() > 0.5
    truth = world_of(clones=True, categories=2, category_sd=0.5, models=6).truth()
    np.testing.assert_allclose(truth[::2], truth[1::2], atol=1e-9)
    assert np.ptp(truth) > 50.0


@pytest.mark.slow
def test_many_votes_come_to_the_truth():
    """With as many voters and prompts as votes, a fit of all votes is near the ratings that are called true."""
    settings = LiveWorldSettings(
        models=4,
        voters=5000,
        categories=3,
        category_sd=0.5,
        own_sd=0.4,
        popular_share=0.3,
        popular=3000,
        zipf=0.0,
    )
    world = draw_live_world(settings, np.random.default_rng(3))
    votes = world.votes(sized(20_000, 40_000), np.random.default_rng(4))
    assert set(votes.event.tolist()) == {Event.VOTE}
    codes = CodedBattles(votes.a.astype(np.uint16), votes.b.astype(np.uint16), votes.kind)
    found = BradleyTerry(clusters="battle")(Table.from_codes(world.models, codes)).rating
    assert np.abs(found - found.mean() - world.truth()).max() < sized(17, 12)


@pytest.mark.parametrize(
    "wrong",
    [
        *({"heavy_share": 1.5}, {"models": 1}, {"categories": 0}, {"own_taste": 2}),
        {"ties": 0.5, "both_bad": 0.5},
    ],
)
def test_nonsense_is_refused(wrong):
    with pytest.raises(BadOption):
        LiveWorldSettings(**wrong)


def test_an_arena_is_played_in_the_categories_of_what_is_typed():
    arena = SimulatedLiveArena(LiveWorldSettings(models=6, categories=3, popular_share=0.3), 5)
    for _ in range(200):
        arena.step()
    standing = arena.standing
    assert standing.votes == 200
    assert arena.given_up <= 4
    assert np.unique(standing.vote_log.columns()["prompt"]).size == arena.world.n_prompts
    assert standing.cells.tally.sum(axis=(0, 2)).tolist() == sorted(
        standing.cells.tally.sum(axis=(0, 2)).tolist(), reverse=True
    )
    assert standing.cells.coverage().min() == 1.0
