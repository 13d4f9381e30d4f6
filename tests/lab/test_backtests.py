"""Back-tests of forecasts, at a small size."""

from dataclasses import replace

from lab.backtests import SHAPES, count_backtest


def test_every_shape_can_be_tested():
    for name, settings in SHAPES.items():
        small = replace(settings, battles=900, world=replace(settings.world, models=4, prompts=30))
        found = count_backtest(small, 1)
        assert found.ratings == 4, name
        assert 0.0 <= found.share <= 1.0
