"""Arenas that are looked at while they run: what they call settled is true, and the page of tables says it."""

import pytest

from lab.settled_studies import SettledSettings, study_settled
from support.sizes import sized
from tiltyard.simulation.worlds import WorldSettings, hostile_world


@pytest.mark.slow
@pytest.mark.parametrize("name", ["equal", "equal+voters"])
def test_no_order_of_equal_models_is_called_settled(name):
    """Arenas of 1,500 votes, with a look at every 50."""
    world = hostile_world(name, WorldSettings(10, 60))
    results = [study_settled(SettledSettings(world, votes=1500), seed) for seed in range(sized(2, 6))]
    assert sum(one.like_these_false or one.these_false for one in results) <= sized(0, 1)
    assert all([look.votes for look in one.looks] == [1000, 1500] for one in results)
    assert {one.evaluations for one in results} == {7}


def test_a_clear_order_is_called_settled_and_truly_so():
    world = WorldSettings(4, 60, strength_sd=400.0, close_top=False)
    found = study_settled(SettledSettings(world, votes=2000, every=500), 1)
    assert not found.these_false
    assert not found.like_these_false
    assert found.looks[-1].like_these >= 3
    assert found.looks[-1].these >= found.looks[-1].like_these
