"""Simulated arenas: the same for the same seed, and honest about what happened in them."""

import ast
import math
from collections import Counter
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from support.sizes import sized
from tiltyard.core.policy.state.events import NO_SESSION, Event
from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.policy.state.strengths import Strengths
from tiltyard.core.policy.validity.report import validity_report
from tiltyard.errors import BadOption, NoMatchup
from tiltyard.simulation.simulated_arena import (
    ARENA,
    MATCHMAKERS,
    EvaluationOutcome,
    SimulatedArena,
    SimulatedArenaResult,
    SimulationSettings,
    arena_log,
    batch_strengths,
    first_changes,
    matchmaker_of,
    share_in_order,
    simulate,
)
from tiltyard.simulation.studies import canonical_text, from_plain, run_study, to_plain
from tiltyard.simulation.worlds import WorldSettings

SMALL = SimulationSettings(
    world=WorldSettings(models=6, prompts=5),
    policy=Policy(window=100, evaluated_every=50),
    votes=400,
)
#: Settings are frozen, so that a result is made once for all tests that look at it.
simulated = cache(simulate)


def moment(votes, first):
    return EvaluationOutcome(votes, (), first, None, 1.0, 0.0)


def played(settings, seed=0):
    """An arena at its end, to look into."""
    arena = SimulatedArena(settings, seed)
    while arena.votes < settings.votes:
        arena.step()
    return arena


@pytest.mark.slow(but_every=5)
@pytest.mark.parametrize("matchmaker", list(MATCHMAKERS))
def test_a_seed_is_one_arena(matchmaker):
    settings = replace(SMALL, matchmaker=matchmaker)
    assert simulate(settings, 3) == simulate(settings, 3)
    assert simulate(settings, 3) != simulate(settings, 4)


def test_every_matchmaker_meets_the_same_world():
    worlds = [SimulatedArena(replace(SMALL, matchmaker=name), 7).world for name in MATCHMAKERS]
    for world in worlds:
        assert np.array_equal(world.strength, worlds[0].strength)
        assert np.array_equal(world.effect, worlds[0].effect)


@pytest.mark.slow
def test_many_processes_give_what_one_gives(tmp_path):
    here = run_study(ARENA, SMALL, [0, 1])
    there = run_study(ARENA, SMALL, [0, 1], processes=2, folder=tmp_path)
    assert here == there == run_study(ARENA, SMALL, [0, 1], folder=tmp_path)


def test_results_come_back_from_json_as_they_were():
    settings = replace(SMALL, world=replace(SMALL.world, newcomers=1, newcomers_after=100, dead=0.2))
    result = simulate(settings, 0)
    assert from_plain(SimulatedArenaResult, to_plain(result)) == result
    assert canonical_text(to_plain(from_plain(SimulationSettings, to_plain(settings)))) == canonical_text(
        to_plain(settings)
    )


def test_evaluations_come_when_the_policy_says_and_the_board_is_official_after_three_that_hold():
    policy = replace(SMALL.policy, published_coverage=0.5, published_pairs=0.2)
    result = simulate(replace(SMALL, policy=policy, votes=600), 0)
    assert [one.votes for one in result.moments] == list(range(50, 601, 50))
    run = 0
    at = None
    for one in result.moments:
        run = run + 1 if all(holds for _, _, holds in one.rules) else 0
        at = one.votes if at is None and run == 3 else at
    assert at is not None
    assert result.official_at == at


def test_newcomers_are_served_from_their_moment_on_and_the_retired_never_again():
    world = replace(SMALL.world, newcomers=1, newcomers_after=150, retired=1, retired_after=250)
    arena = SimulatedArena(replace(SMALL, world=world), 0)
    (newcomer,), (retired,) = arena.world.joins, arena.world.leaves
    while arena.votes < 400:
        before = arena.standing.shown[:, 0].copy()
        votes = arena.votes
        arena.step()
        served = np.flatnonzero(arena.standing.shown[:, 0] - before)
        assert newcomer not in served or votes >= 150
        assert retired not in served or votes < 250
    result = arena.result()
    assert newcomer in result.order
    assert retired not in result.order
    assert len(result.order) == 5
    assert arena.standing.shown[newcomer, 0] > 0
    assert 0 < result.newcomer_share < 1


def test_a_newcomers_share_is_that_of_its_first_200_matchups():
    world = replace(SMALL.world, newcomers=1, newcomers_after=100)
    arena = SimulatedArena(replace(SMALL, world=world), 1)
    (newcomer,) = arena.world.joins
    while arena.votes < 300:
        arena.step()
    assert arena.result().newcomer_share == arena.standing.shown[newcomer, 0] / 200


def test_exposures_are_watched_once_the_roster_has_stood_for_a_window():
    assert simulated(SMALL, 0).watched == 301
    world = replace(SMALL.world, newcomers=1, newcomers_after=150)
    assert simulate(replace(SMALL, world=world), 0).watched == (150 - 100) + (401 - 250)
    assert simulate(replace(SMALL, votes=90), 0).watched == 0


def test_what_is_outside_tolerance_is_counted_after_every_matchup():
    settings = replace(SMALL, matchmaker="nearest")
    arena = SimulatedArena(settings, 0)
    outside, largest = 0, 0.0
    shown = []
    while arena.votes < 400:
        before = arena.standing.shown[:, 0].copy()
        arena.step()
        shown.append(arena.standing.shown[:, 0] - before)
        if len(shown) >= 100:
            gone = np.abs(np.sum(shown[-100:], axis=0) - 200 / 6)
            outside += bool((gone > max(0.12 * 200 / 6, 2.0)).any())
            largest = max(largest, float(gone.max() / (200 / 6)))
    result = arena.result()
    assert result.outside == outside > 0
    assert result.largest_deviation == pytest.approx(largest)
    assert simulated(SMALL, 0).outside == 0


def test_lane_shares_are_those_after_the_first_window():
    arena = SimulatedArena(SMALL, 0)
    while arena.standing.window.served < 100:
        arena.step()
    first = arena.standing.lanes.copy()
    while arena.votes < 400:
        arena.step()
    lanes, result = arena.standing.lanes - first, arena.result()
    assert result.lanes == pytest.approx(lanes.sum(axis=0) / 300)
    assert result.nominal == pytest.approx(lanes.sum(axis=1) / 300)
    short = played(replace(SMALL, votes=60))
    assert short.result().lanes == pytest.approx(short.standing.lanes.sum(axis=0) / 60)
    full = played(replace(SMALL, votes=100))
    assert sum(full.result().lanes) == pytest.approx(1.0)


def test_sessions_are_remembered_and_matchups_may_bring_no_vote():
    arena = played(replace(SMALL, skips=0.2, expiries=0.1))
    standing = arena.standing
    assert standing.votes == 400
    assert standing.window.served == 400 + standing.skipped + standing.expired
    assert 0.1 < standing.skipped / standing.window.served < 0.3
    assert 0.04 < standing.expired / standing.window.served < 0.18
    arena = played(replace(SMALL, sessions=7, votes=70))
    assert len(arena.standing.sessions) == 7
    assert len(played(replace(SMALL, votes=70)).standing.sessions) == 0


def test_the_planted_model_is_truly_first_starts_last_and_rises():
    settings = replace(SMALL, planted=400.0, votes=sized(800, 1500))
    arena = SimulatedArena(settings, 2)
    assert arena.planted == arena.world.true_order(these_prompts=True)[0]
    assert arena.standing.order[-1] == arena.planted
    while arena.votes < settings.votes:
        was = arena.planted_top3_at
        arena.step()
        if was is None and arena.planted_top3_at is not None:
            assert arena.planted in arena.standing.order[:3]
            assert arena.planted_top3_at == arena.votes
    assert arena.result().planted_top3_at is not None
    assert simulate(SMALL, 2).planted_top3_at is None


def test_dead_prompts_have_a_share_where_there_are_any():
    settings = replace(SMALL, matchmaker="uniform", world=replace(SMALL.world, dead=0.2))
    assert 0.1 < simulate(settings, 0).dead_share < 0.3
    assert simulated(SMALL, 0).dead_share is None


def test_a_larger_volatility_keeps_the_top_less_certain():
    plain, moving = simulated(SMALL, 0), simulate(replace(SMALL, volatility=0.3), 0)
    uncertain, certain = (
        next(value for name, value, _ in one.moments[-1].rules if name == "top-rd") for one in (moving, plain)
    )
    assert uncertain > certain


def test_first_changes_count_steps_between_evaluations():
    moments = [moment(100, 1), moment(200, 1), moment(300, 2), moment(400, 1), moment(500, 1)]
    assert first_changes(moments, 200, 500) == pytest.approx(2 / 3)
    assert first_changes(moments, 100, 500) == pytest.approx(2 / 4)
    assert first_changes(moments, 400, 500) == 0.0
    assert first_changes(moments, 200, 501) is None
    assert first_changes(moments, 500, 500) is None
    assert first_changes([], 0, 0) is None


def test_pairs_in_order_are_counted_as_one_would_by_hand():
    rng = np.random.default_rng(0)
    score, true_order = rng.normal(size=14), rng.permutation(14)
    pairs = list(combinations(true_order[:10].tolist(), 2))
    assert share_in_order(score, true_order) == sum(score[a] > score[b] for a, b in pairs) / len(pairs)
    assert share_in_order(-np.arange(3.0), np.array([0, 1, 2])) == 1.0
    assert share_in_order(np.arange(3.0), np.array([0, 1, 2])) == 0.0


def test_batch_strengths_are_bradley_terrys_if_there_are_any():
    points = np.zeros((4, 4))
    points[0, 1], points[1, 0] = 3.0, 1.0
    strengths = batch_strengths(points)
    assert strengths[0] - strengths[1] == pytest.approx(np.log(3.0))
    assert np.isnan(strengths[2:]).all()
    points = np.zeros((3, 3))
    assert batch_strengths(points) is None
    points[0, 1] = 2.0
    assert batch_strengths(points) is None


def test_the_published_order_and_the_batch_order_are_held_against_the_truth():
    arena = played(replace(SMALL, votes=400))
    last = arena.moments[-1]
    order = arena.standing.order.tolist()
    true = arena.world.true_order(these_prompts=True).tolist()
    right = [order.index(a) < order.index(b) for a, b in combinations(true, 2)]
    assert last.in_order_published == pytest.approx(np.mean(right))
    assert last.first == order[0]
    assert 0.0 <= last.in_order <= 1.0


def test_the_truth_follows_models_that_drift_and_leave():
    world = replace(SMALL.world, drifting=1, drift=3000.0, drift_after=200)
    arena = played(replace(SMALL, world=world))
    (mover,) = arena.world.drift.models
    assert arena.truth.order(400)[0] == mover
    assert arena.truth.order(0).tolist() == arena.world.true_order(these_prompts=True).tolist()


def test_everything_a_result_comes_from_is_among_what_it_depends_on():
    """Follow imports from the module of the study; what only names types, checks settings, or runs or keeps studies, moves no number."""
    beside = {"tiltyard.errors", "tiltyard.simulation.studies"}
    foundation = ("arrays", "compiled_kernels", "field_definitions", "option_names")
    beside |= {f"tiltyard.foundation.{name}" for name in foundation}
    seen, ahead = set(), ["tiltyard.simulation.simulated_arena"]
    while ahead:
        name = ahead.pop()
        if name in seen or name in beside:
            continue
        seen.add(name)
        for node in ast.walk(ast.parse(Path(find_spec(name).origin).read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in {"lab", "tiltyard"}:
                ahead += [_module(node.module, alias.name) for alias in node.names]
    assert not {
        name for name in seen if not any(name == one or name.startswith(f"{one}.") for one in ARENA.depends)
    }


def _module(package, name):
    """What an import loads: the module of that name in the package, or else the package itself."""
    try:
        return package if find_spec(f"{package}.{name}") is None else f"{package}.{name}"
    except ModuleNotFoundError:
        return package


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"matchmaker": "elo"}, "matchmaker is 'elo'"),
        ({"votes": 0}, "votes is 0"),
        ({"rank_every": 0}, "rank_every 0"),
        ({"sessions": -1}, "sessions -1"),
        ({"skips": 0.6, "expiries": 0.4}, "leave some votes"),
        ({"skips": -0.1}, "skips is -0.1"),
    ],
)
def test_nonsense_settings_are_refused(wrong, said):
    with pytest.raises(BadOption, match=said):
        SimulationSettings(**wrong)


# Logs of simulated arenas.


SETTINGS = SimulationSettings(
    world=WorldSettings(models=6, prompts=5, newcomers=1, newcomers_after=200, retired=1, retired_after=300),
    policy=Policy(window=200),
    votes=450,
    skips=0.05,
    expiries=0.05,
    sessions=9,
)


@pytest.fixture(scope="module")
def log():
    return arena_log(SETTINGS, 3, votes_per_day=100)


@pytest.mark.slow
def test_the_log_is_that_of_the_simulated_arena(log):
    standing = Standing(SETTINGS.policy, log.models, log.prompts)
    standing.fold(log.events)
    result = simulate(SETTINGS, 3)
    assert standing.votes == 450
    assert sorted(np.flatnonzero(standing.enabled)) == sorted(result.order)
    assert len(log.given_up) == result.given_up
    assert standing.skipped > 0
    assert standing.expired > 0


def test_a_log_is_in_order_names_its_matchups_and_can_be_reported(log):
    events = log.events
    served = {row["serial"]: row for row in events[events.event == Event.SERVED].rows()}
    for vote in events[events.event == Event.VOTE].rows():
        matchup = served[vote["serial"]]
        assert all(vote[name] == matchup[name] for name in ("a", "b", "prompt"))
    assert (np.diff(log.events.time) >= 0).all()
    assert log.events.time[-1] == 1_704_067_200 + 450 * 86_400 // 100
    events = log.events
    joined = np.flatnonzero(events.event == Event.ENABLE)[-1]
    assert (events.event[:joined] == Event.VOTE).sum() == 200
    report = validity_report(log.events, log.models, log.prompts, SETTINGS.policy, given_up=log.given_up)
    assert report.matchups.votes == 450


# Matchmakers: who may meet whom, how often, and on which side.


EVERY = pytest.mark.parametrize("name", list(MATCHMAKERS))


def arena(ratings, prompts=3, se=1e-9, off=()):
    """Models at these ratings, those in ``off`` not enabled."""
    m = len(ratings)
    standing = Standing(Policy(), [f"m{k}" for k in range(m)], [f"p{k}" for k in range(prompts)])
    for model in range(m):
        if model not in off:
            standing.enable(model)
    alike = np.full(m, 50.0)
    standing.rank(Strengths(np.array(ratings, dtype=float), alike, np.full(m, se), np.full(m, 0.1)))
    return standing


def chosen(name, standing, n, seed=0):
    rng = np.random.default_rng(seed)
    return [matchmaker_of(name)(standing, rng, NO_SESSION) for _ in range(n)]


def pair_of(choice):
    return frozenset((choice.left, choice.right))


@EVERY
@settings(max_examples=sized(10, 30))
@given(models=st.integers(2, 9), prompts=st.integers(1, 5), seed=st.integers(0, 2**32 - 1), data=st.data())
def test_two_enabled_models_meet_on_a_prompt_there_is(name, models, prompts, seed, data):
    off = data.draw(st.sets(st.integers(0, models - 1), max_size=models - 2))
    standing = arena(np.random.default_rng(seed).normal(1500, 200, models), prompts, 50.0, off)
    for choice in chosen(name, standing, 3, seed):
        assert choice.left != choice.right
        assert {choice.left, choice.right}.isdisjoint(off)
        assert 0 <= choice.prompt < prompts


@EVERY
def test_the_same_generator_makes_the_same_choices(name):
    standing = arena([1500, 1600, 1700, 1450], se=40.0)
    assert repr(chosen(name, standing, 20, 5)) == repr(chosen(name, standing, 20, 5))
    assert repr(chosen(name, standing, 20, 5)) != repr(chosen(name, standing, 20, 6))


@EVERY
def test_sides_are_even(name):
    choices = chosen(name, arena([1500, 1600, 1700, 1450], se=40.0), 600)
    assert abs(sum(one.left < one.right for one in choices) - 300) < 75


@EVERY
@pytest.mark.parametrize("left", [0, 1])
def test_one_model_has_nobody_to_meet(name, left):
    with pytest.raises(NoMatchup, match="enable"):
        chosen(name, arena([1500, 1600], off=range(left, 2)), 1)


@pytest.mark.parametrize("name", ["v1", "uniform", "nearest"])
def test_choices_come_as_often_as_their_propensity_says(name):
    n = 4000
    choices = chosen(name, arena([1500, 1600, 1700, 1450], prompts=2), n)
    seen = Counter((pair_of(one), one.prompt) for one in choices)
    said = {(pair_of(one), one.prompt): one.propensity for one in choices}
    assert sum(said.values()) == pytest.approx(1.0)
    expected = [n * said[cell] for cell in seen]
    assert stats.chisquare(list(seen.values()), expected).pvalue > 1e-4


def test_each_matchmaker_meets_whom_it_says():
    standing = arena([1500] * 4, prompts=1)
    for _ in range(50):
        standing.serve(0, 1, 0)
    shown = Counter(model for one in chosen("v1", standing, 200) for model in pair_of(one))
    assert min(shown[2], shown[3]) > 5 * max(shown[0], shown[1])
    choices = chosen("nearest", arena([1500, 1600, 1700, 1450]), 300)
    assert {pair_of(one) for one in choices} == {frozenset(pair) for pair in ((2, 1), (1, 0), (0, 3))}
    near = {frozenset(pair) for pair in ((2, 1), (1, 0), (0, 3))}
    certain = chosen("thompson", arena([1500, 1600, 1700, 1450]), 300)
    assert {pair_of(one) for one in certain} == near
    assert all(math.isnan(one.propensity) for one in certain)
    open_ = chosen("thompson", arena([1500, 1600, 1700, 1450], se=1e4), 300)
    assert len({pair_of(one) for one in open_}) == 6


def test_an_unknown_matchmaker_is_refused():
    with pytest.raises(BadOption, match="'elo'"):
        matchmaker_of("elo")


def test_what_is_settled_is_looked_at_at_every_evaluation():
    world = WorldSettings(models=4, prompts=12, strength_sd=400.0, effect_sd=0.2, close_top=False)
    apart = simulate(SimulationSettings(world=world, votes=1_500), 0)
    assert apart.moments[0].settled == 0.0
    assert apart.moments[-1].settled > 0.0
    equal = simulate(SimulationSettings(world=replace(world, strength_sd=0.0, effect_sd=0.0), votes=1_500), 0)
    assert equal.official_at is not None
    assert {moment.settled for moment in equal.moments} == {0.0}
