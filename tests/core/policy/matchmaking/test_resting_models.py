"""Models that cannot answer at present are passed over, and never served, whatever else is given up."""

from collections import Counter

import numpy as np
import pytest

from tiltyard.core.policy.matchmaking.eligible_pairs import voter_need
from tiltyard.core.policy.matchmaking.matchmaker import choose
from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.state.standing import Standing
from tiltyard.errors import NoMatchup


def arena(models=5, **policy):
    standing = Standing(Policy(**policy), [f"m{k}" for k in range(models)], ["code", "poems"])
    for model in range(models):
        standing.enable(model)
    return standing


def test_needs_of_resting_models_are_none():
    standing = arena()
    need = voter_need(standing, [], None, [1, 3])
    assert (need[[1, 3]] == -np.inf).all()
    assert np.isfinite(need[[0, 2, 4]]).all()
    assert np.isfinite(standing.cells.need).all()


@pytest.mark.parametrize(("phase", "free_prompts"), [(1, True), (4, False), (4, True)])
def test_who_rests_is_not_served_and_the_others_all_are(phase, free_prompts):
    standing, rng = (
        arena(phase=phase, free_prompts=free_prompts, window=20, settling=1),
        np.random.default_rng(2),
    )
    met = Counter()
    for k in range(80):
        choice = choose(
            standing,
            rng,
            session=k % 3,
            judgeable=np.array([True, False]),
            resting=[0, 2],
            told=[(1, 0)][: k % 2],
        )
        standing.serve(choice.left, choice.right, choice.prompt, session=k % 3, serial=k)
        assert choice.prompt == 0
        assert 0 < choice.propensity <= 1
        met.update((choice.left, choice.right))
    assert set(met) == {1, 3, 4}
    assert min(met.values()) > 12


def test_with_one_model_left_the_voter_is_told_to_come_back():
    with pytest.raises(NoMatchup, match="few minutes"):
        choose(arena(models=3), np.random.default_rng(1), resting=[0, 1])
