"""Arenas that are looked at while they run: what they call settled is true, and the page of tables says it."""

from dataclasses import replace

import pytest

from lab.settled import FALSE_CLAIMS, POWER, SettledCell, settled_page
from lab.settled_studies import SettledLook, SettledResult, SettledSettings, study_settled
from support.sizes import sized
from tiltyard.simulation.worlds import WorldSettings, hostile_world


@pytest.mark.slow(but="equal+voters")
@pytest.mark.parametrize("name", ["equal", "equal+voters"])
def test_no_order_of_equal_models_is_called_settled(name):
    """Arenas of 1,500 votes, with a look at every 50."""
    world = hostile_world(name, WorldSettings(10, 60))
    results = [study_settled(SettledSettings(world, votes=1500), seed) for seed in range(sized(3, 6))]
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


def result(**changes):
    looks = tuple(SettledLook(votes, 20, 10, 25) for votes in (2000, 5000, 10_000, 20_000))
    return replace(SettledResult(looks, False, False, True, 80, 4), **changes)


def test_the_page_has_a_row_for_every_kind_of_arena():
    false = [replace(cell, results=[result(), result(these_false=True)]) for cell in FALSE_CLAIMS]
    power = [replace(cell, results=[result(), result(alarms=0)]) for cell in POWER]
    page = settled_page(false, power, "just settled")
    assert "| 10 | equal+voters | 1 of 2 | 0 of 2 | 2 of 2 | 5.0%, 2 of 2 |" in page
    assert "| kind | 5,000 | 20 (0), 11% | 10 (0), 5% | 25 (0), 13% | 40% | 2.5%, 1 of 2 |" in page
    assert (
        settled_page([], [SettledCell("short", SettledSettings(), [result(looks=())])], "x").count("short")
        == 0
    )
