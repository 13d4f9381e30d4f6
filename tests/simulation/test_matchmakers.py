"""Matchmakers: who may meet whom, how often, and on which side."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from support.sizes import sized
from tiltyard.core.policy.state.events import NO_SESSION
from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.policy.state.strengths import Strengths
from tiltyard.errors import BadOption, NoMatchup
from tiltyard.simulation.simulated_arena import MATCHMAKERS, matchmaker_of

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
