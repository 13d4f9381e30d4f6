"""Intervals of win rates hold the truth: a few of the worlds of `just baselines`."""

import pytest

from lab.baseline_coverage import BaselineWorld, baseline_coverage


@pytest.mark.slow(but="0.02")
@pytest.mark.parametrize("rate", [0.02, 0.5, 0.98])
def test_intervals_hold_the_truth(rate):
    for world in (
        BaselineWorld(20, rate),
        BaselineWorld(30, rate, strong=True),
        BaselineWorld(30, rate, battles=3, tail=1.1, alike=0.4),
    ):
        found = baseline_coverage(world, 30, seed=1)
        assert found.covered >= 0.86
        assert found.refused == 0.0
        assert 0.0 < found.width < 0.7
