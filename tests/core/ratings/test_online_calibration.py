"""P(misorder) against what happened, in worlds whose truth is known."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.special import expit

from support.sizes import sized
from tiltyard.core.battles import CodedBattles, Kind
from tiltyard.core.ratings.online_bradley_terry import OnlineBradleyTerry

UNIT = 400.0 / math.log(10.0)
MODELS, WORLDS, STEPS = 12, sized(50, 150), (12, 60, 300)


def claims(prior_sd, ties=0.0):
    """Every pair of every world at each step, as placed by rating: P(misorder), and whether it was."""
    rng = np.random.default_rng(11)
    method = OnlineBradleyTerry(prior_sd=prior_sd)
    low, high = np.triu_indices(MODELS, 1)
    said, wrong = [], []
    for _ in range(WORLDS):
        strength = rng.normal(0.0, 200.0 / UNIT, MODELS)
        state = method.initial(MODELS)
        for more in np.diff((0, *STEPS)):
            a = rng.integers(0, MODELS, more)
            b = (a + rng.integers(1, MODELS, more)) % MODELS
            kind = np.where(rng.random(more) < expit(strength[a] - strength[b]), Kind.WIN_A, Kind.WIN_B)
            kind = np.where(rng.random(more) < ties, Kind.TIE, kind)
            method.fold_many(
                state, CodedBattles(a.astype(np.uint16), b.astype(np.uint16), kind.astype(np.uint8))
            )
            up = state.mean[low] >= state.mean[high]
            above, below = np.where(up, low, high), np.where(up, high, low)
            said.append(state.misorder(above, below))
            wrong.append(strength[above] < strength[below])
    return np.array(said), np.array(wrong)


@pytest.mark.no_cover
@pytest.mark.slow(but="350.0")
@pytest.mark.parametrize("prior_sd", [200.0, 350.0])
def test_a_stated_chance_of_misorder_comes_true_that_often(prior_sd):
    """Whether the prior is the world's own (SD 200) or the wider default."""
    said, wrong = claims(prior_sd)
    edges = np.array([0.0, 0.02, 0.1, 0.2, 0.3, 0.4, 0.501])
    for low, high in pairwise(edges):
        inside = (said >= low) & (said < high)
        assert inside.sum() > 20 * WORLDS
        assert wrong[inside].mean() == pytest.approx(said[inside].mean(), abs=0.035)


@pytest.mark.no_cover
def test_ties_make_it_cautious_never_bold():
    """A half-tie varies less than the coin it is taken for, so order is right more often than claimed."""
    said, wrong = claims(200.0, ties=0.3)
    late = slice(2, None, 3)
    assert wrong[late].mean() < said[late].mean() + 0.005
