"""How a log would go on; at full size by `python -m lab.backtests`."""

from dataclasses import replace

import numpy as np
import pytest

from support.sizes import sized
from tiltyard.core.battles import CodedBattles, Kind, Table
from tiltyard.errors import CannotRate
from tiltyard.simulation.log_forecast import backtest, current_figures, forecast_log, profile_log
from tiltyard.simulation.worlds import WorldSettings, draw_world_of, hostile_world

KIND = WorldSettings(8, 60, close_top=False, lazy=0.0)


def log(settings=KIND, n=2400, seed=1):
    rng = np.random.default_rng([seed, 77])
    return draw_world_of(settings, rng).table(n, rng)


def test_a_profile_says_what_the_world_was():
    profiles = [profile_log(log(hostile_world("voters", KIND), 6000, seed)) for seed in range(sized(2, 4))]
    first = profiles[0]
    assert (first.battles, first.models) == (6000, 8)
    assert first.both_bad == pytest.approx(0.07, abs=0.02)
    assert first.ties == pytest.approx(0.16 / 0.93, abs=0.03)
    assert (first.prompts.activity.size, first.voters.activity.size) == (60, 20)
    # Ties and the effects themselves make them look smaller than their half logit.
    for name in ("prompts", "voters"):
        seen = np.mean([getattr(profile, name).effect_sd for profile in profiles])
        assert seen == pytest.approx(0.34, abs=0.08)


def test_without_effects_none_are_seen():
    quiet = profile_log(log(replace(KIND, effect_sd=0.0), 6000))
    assert quiet.prompts.effect_sd < 0.15
    assert quiet.voters is None


def test_a_log_whose_battles_name_no_prompts_has_a_forecast_too():
    plain = log()
    codes = replace(plain.log(), prompt=None)
    found = forecast_log(Table.from_codes(plain.models, codes), 4000, futures=6)
    assert found.battles == 4000
    assert profile_log(Table.from_codes(plain.models, codes)).prompts is None


def test_more_battles_make_intervals_narrower_and_settle_more():
    table = log()
    half, claimed = current_figures(table)
    found = forecast_log(table, 7200, futures=10)
    assert found.range_of(found.half_width)[1] < half
    assert found.range_of(found.claimed)[1] >= claimed - 0.1
    assert found.rating.shape == (10, 8)


def test_a_seed_is_one_forecast():
    table = log(n=900)
    one, same = (forecast_log(table, 1500, futures=3, seed=5) for _ in range(2))
    np.testing.assert_array_equal(one.rating, same.rating)
    assert (forecast_log(table, 1500, futures=3, seed=6).rating != one.rating).any()


def test_a_model_that_only_won_can_be_drawn():
    table = log(n=1200)
    codes = table.log()
    best = (codes.a == 0) | (codes.b == 0)
    kind = codes.kind.copy()
    kind[best] = np.where(codes.a[best] == 0, Kind.WIN_A, Kind.WIN_B)
    found = forecast_log(Table.from_codes(table.models, replace(codes, kind=kind)), 2000, futures=4)
    assert np.isfinite(found.half_width).all()


def test_too_short_a_log_is_refused():
    assert backtest(log(n=500)) is None
    with pytest.raises(CannotRate, match="a forecast needs 200"):
        profile_log(log(n=150))
    none = np.empty(0, dtype=np.uint16)
    empty = Table.from_codes(["a", "b"], CodedBattles(none, none, np.empty(0, dtype=np.uint8)))
    with pytest.raises(CannotRate, match="has 0 battles"):
        profile_log(empty)


def test_a_back_test_says_what_came_and_whether_it_was_foreseen():
    found = backtest(log(), futures=20)
    assert (found.made_at, found.battles) == (800, 2400)
    assert len(found.figures) == 2 + 8
    assert all(figure.low <= figure.high for figure in found.figures)
    assert found.held == sum(figure.low <= figure.came <= figure.high for figure in found.figures)
    assert found.held >= len(found.figures) // 2
