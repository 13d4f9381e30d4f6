"""What an arena can settle is found by simulating arenas of its shape."""

import pytest

from tiltyard.simulation.settling_gap import settling_forecast, settling_gap


@pytest.mark.slow
def test_more_prompts_settle_smaller_differences():
    found = settling_forecast(3, 6, 12, 20)
    assert (found.more_prompts, found.more_people) == (14, 0)
    assert 200 < found.gap < 450
    assert 120 < found.better_gap < 0.8 * found.gap
    assert settling_gap(3, 6, 12, 216) == found.gap


def test_three_prompts_or_few_people_settle_nothing():
    assert settling_gap(3, 3, 12, 40) is None
    assert settling_gap(2, 20, 8, 40) is None


def test_a_large_arena_has_no_forecast():
    assert settling_forecast(20, 100, 400, 20) is None
