"""Forecasts: numbers that can be worked out from hand-made arenas, and runs that are kept and extended."""

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.arena_results import SETTINGS, moment, official, result
from tiltyard.core.policy.state.policy import Policy
from tiltyard.errors import BadOption
from tiltyard.simulation import arena_forecast as forecasting
from tiltyard.simulation.arena_forecast import (
    Simulation,
    WorldRange,
    default_votes,
    forecast,
    mix_feasible,
    summarise_worlds,
)
from tiltyard.simulation.simulated_arena import ARENA
from tiltyard.simulation.studies import from_plain
from tiltyard.simulation.worlds import WorldSettings

SMALL = replace(SETTINGS, world=WorldSettings(models=4, prompts=6), votes=1000)
QUICK = replace(SMALL, votes=500)


def test_a_range_is_the_middle_and_four_in_five_of_the_worlds():
    assert WorldRange.of([float(value) for value in range(1, 11)]) == WorldRange(5.5, 2.0, 9.0)
    assert WorldRange.of([3.0]) == WorldRange(3.0, 3.0, 3.0)
    assert WorldRange.of([]) == WorldRange(None, None, None)
    assert WorldRange.of([1.0, 2.0, math.inf]) == WorldRange(2.0, 1.0, None)
    assert WorldRange.of([1.0, math.inf, math.inf]) == WorldRange(None, 1.0, None)
    assert WorldRange.of([math.inf]) == WorldRange(None, None, None)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40))
def test_at_most_one_world_in_ten_lies_outside_on_either_side(values):
    found = WorldRange.of(values)
    assert found.low <= found.median <= found.high
    assert sum(value < found.low for value in values) <= len(values) / 10
    assert sum(value > found.high for value in values) <= len(values) / 10
    assert found == WorldRange.of(values[::-1])


def test_a_rule_holds_from_where_its_last_unbroken_run_begins():
    broken = result(
        moment(250, coverage=0.2),
        moment(500, pairs=8),
        moment(750, pairs=7),
        *(moment(votes) for votes in (1000, 1250, 1500)),
        moment(1750, rd=99.0),
        official_at=1500,
    )
    rules = {rule.name: rule for rule in summarise_worlds([broken], SETTINGS).rules}
    assert {name: rule.holds_from.median for name, rule in rules.items()} == {
        "top-rd": 250,
        "top-pairs": 1000,
        "top-coverage": 500,
    }
    assert [rule.last_in for rule in rules.values()] == [0, 1, 0]
    assert [rule.holds_in for rule in rules.values()] == [1, 1, 1]
    assert rules["top-pairs"].short == WorldRange(None, None, None)


def test_a_world_that_is_never_official_says_which_rule_lacks_what():
    worlds = [official(1500), *(result(moment(250), moment(500, coverage=c)) for c in (0.4, 0.6, 0.8))]
    found = summarise_worlds(worlds, SETTINGS)
    assert (found.worlds, found.official_in) == (4, 1)
    assert found.official == WorldRange(None, 1500, None)
    coverage = found.rules[2]
    assert (coverage.last_in, coverage.holds_in) == (4, 1)
    assert coverage.short == WorldRange(0.6, 0.4, 0.8)


def test_what_cannot_be_measured_does_not_hold_and_has_no_value():
    found = summarise_worlds([result(moment(250, coverage=None))], SETTINGS)
    assert found.rules[2].holds_in == 0
    assert found.rules[2].short.median is None
    assert set(found.looks[0].rules) == {"top-rd", "top-pairs"}


def test_bars_and_lanes_are_those_of_the_policy():
    found = summarise_worlds([official(1500)], SETTINGS)
    assert [(rule.name, rule.bar, rule.at_most) for rule in found.rules] == [
        ("top-rd", 75.0, True),
        ("top-pairs", 8, False),
        ("top-coverage", 0.9, False),
    ]
    few = replace(official(1500), order=(2, 0, 1, 3))
    assert summarise_worlds([few], SETTINGS).rules[1].bar == 3
    worlds = [official(1500), result(moment(250))]
    assert summarise_worlds(worlds, SETTINGS).realised == pytest.approx((0.5, 0.2, 0.2, 0.1))
    assert summarise_worlds(worlds, SETTINGS).deviations == (0.1,)
    assert summarise_worlds(worlds, replace(SETTINGS, matchmaker="v1")).realised == ()


def test_an_official_world_keeps_its_values_while_others_go_on():
    found = summarise_worlds([official(1000), official(1500)], SETTINGS)
    assert [look.votes for look in found.looks] == [250, 500, 750, 1000, 1250, 1500]
    assert [look.official for look in found.looks] == [0, 0, 0, 0.5, 0.5, 1]
    assert found.looks[1].rules["top-coverage"] == WorldRange(0.725, 0.5, 0.95)
    assert found.looks[-1].rules["top-coverage"] == WorldRange(0.95, 0.95, 0.95)
    assert found.looks[0].in_order_fitted.median is None
    assert found.in_order == WorldRange(0.9, 0.9, 0.9)
    assert found.in_order_fitted == WorldRange(0.95, 0.95, 0.95)


def test_how_far_to_look_and_which_mix_is_feasible_follow_from_the_size():
    assert next(models for models in range(2, 60) if not mix_feasible(Policy(), models)) == 33
    assert not mix_feasible(Policy(fairness="scoped"), 40)
    assert [default_votes(*size) for size in ((4, 6), (20, 100), (1000, 1000))] == [5_000, 8_000, 50_000]


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("TILTYARD_HOME", str(tmp_path))


@pytest.mark.usefixtures("home")
def test_more_seeds_run_only_what_is_missing(monkeypatch):
    ran = []

    def counted(settings, seed):
        ran.append(seed)
        return official(1000)

    monkeypatch.setattr(forecasting, "ARENA", replace(ARENA, run=counted))
    few = forecast(SMALL, {"seeds": 2, "processes": 0})
    heard = []
    more = forecast(SMALL, {"seeds": 5, "processes": 0}, lambda *done: heard.append(done))
    assert ran == [0, 1, 2, 3, 4]
    assert (few.forecasts[0].worlds, more.forecasts[0].worlds) == (2, 5)
    assert heard[0] == (2, 5)
    assert heard[-1] == (5, 5)


@pytest.mark.usefixtures("home")
def test_all_matchmakers_see_the_same_worlds_to_the_last_vote(monkeypatch):
    seen = []

    def noted(settings, seed):
        seen.append((settings.matchmaker, settings.policy.fairness, settings.votes, seed))
        return official(1000)

    monkeypatch.setattr(forecasting, "ARENA", replace(ARENA, run=noted))
    heard = []
    options = {"seed": 7, "seeds": 2, "processes": 0, "compare": True}
    found = forecast(replace(SMALL, matchmaker="v1"), options, lambda *n: heard.append(n))
    assert [one.matchmaker for one in found.forecasts] == ["v1", "policy", "uniform", "nearest", "thompson"]
    assert {(votes, seed) for _, _, votes, seed in seen} == {(SMALL.votes, 7), (SMALL.votes, 8)}
    assert heard[-1] == (10, 10)
    assert [done for done, _ in heard] == sorted(done for done, _ in heard)


@pytest.mark.usefixtures("home")
def test_the_other_fairness_stands_beside_the_one_asked_for(monkeypatch):
    monkeypatch.setattr(forecasting, "ARENA", replace(ARENA, run=lambda _settings, _seed: official(1000)))
    many = replace(SMALL, world=WorldSettings(models=40, prompts=6))
    options = {"seeds": 1, "processes": 0}
    for settings, stated, kinds in (
        (many, {}, ["strict", "scoped"]),
        (many, {"fairness": "strict"}, ["strict"]),
        (SMALL, {}, ["strict"]),
    ):
        assert [one.fairness for one in forecast(settings, options | stated).forecasts] == kinds


def test_a_forecast_needs_a_world():
    with pytest.raises(BadOption, match="world"):
        forecast(SMALL, {"seeds": 0})


@pytest.mark.usefixtures("home")
def test_a_small_arena_is_forecast_and_survives_json(tmp_path, monkeypatch):
    found = forecast(QUICK, {"seeds": 2, "processes": 0})
    assert found.forecasts[0].worlds == 2
    assert found.forecasts[0].looks
    assert from_plain(Simulation, json.loads(json.dumps(found.to_dict(), allow_nan=False))) == found
    monkeypatch.setenv("TILTYARD_HOME", str(tmp_path / "other"))
    assert forecast(QUICK, {"seeds": 2, "processes": 2}) == found
