"""The confidence sequence of differences: its arithmetic, what it withholds, and that looking again does no harm."""

import math

import numpy as np
import pytest

from tiltyard.core.board.settled_order import ConfidenceSequence
from tiltyard.core.ratings.result import Uncertainty
from tiltyard.errors import BadOption

RULE = ConfidenceSequence()


def even(se, m=2, dof=np.inf):
    """Ratings of one variance each, so that every difference has this standard error."""
    return Uncertainty((np.eye(m) * se**2 / 2.0,), np.full(m, dof))


def levels(models):
    """Alpha shared evenly by all pairs."""
    return np.full((models, models), RULE.alpha / math.comb(models, 2))


@pytest.mark.parametrize("se", [3.0, 25.0, 120.0])
def test_the_half_width_is_the_formula(se):
    r = 0.08 * (se / 25.0) ** 2
    z2 = (1 + r) * (2 * math.log(1 / 0.01) + math.log(1 + 1 / r))
    found = RULE.half_width(even(se), np.full((2, 2), 0.01))[0, 1]
    assert found == pytest.approx(se * math.sqrt(z2), rel=1e-12)
    few = RULE.half_width(even(se, dof=12.0), np.full((2, 2), 0.01))[0, 1]
    assert few == pytest.approx(se * math.sqrt(12.0 * (math.exp(z2 / 13.0) - 1.0)), rel=1e-12)
    assert few > found


@pytest.mark.parametrize("uncertainty", [even(0.0), even(5.0, dof=2.9)], ids=["no variance", "few clusters"])
def test_nothing_is_said_without_a_variance_that_can_be_trusted(uncertainty):
    assert np.isinf(RULE.half_width(uncertainty, np.full((2, 2), 0.05))).all()
    group = np.zeros(2, dtype=np.int64)
    assert not RULE.settled(np.array([9000.0, 0.0]), group, uncertainty, np.full((2, 2), 0.05), 5000).any()


def test_models_that_cannot_be_compared_or_have_no_rating_are_not_ordered():
    rating, group = np.array([2000.0, 1000.0, np.nan, 500.0]), np.array([0, 0, -1, 1])
    above = RULE.settled(rating, group, even(20.0, 4), levels(4), 300)
    assert np.argwhere(above).tolist() == [[0, 1]]
    assert not RULE.settled(rating, group, even(20.0, 4), levels(4), 299).any()


def test_what_settled_orders_had_of_alpha_is_shared_by_the_others():
    """Of three models one is far ahead; the gap of the other two lies between the widths before and after."""
    level = levels(3)
    before = RULE.half_width(even(20.0, 3), level)[0, 1]
    after = RULE.half_width(even(20.0, 3), level / (1.0 - 2.0 / 6.0))[0, 1]
    gap = (before + after) / 2.0
    group = np.zeros(3, dtype=np.int64)
    settled = RULE.settled(np.array([2000.0, gap, 0.0]), group, even(20.0, 3), level, 1000)
    assert np.argwhere(settled).tolist() == [[0, 1], [0, 2], [1, 2]]
    alone = RULE.settled(np.array([gap, gap, 0.0]), group, even(20.0, 3), level, 1000)
    assert not alone.any()


def test_what_follows_from_two_orders_is_settled_too():
    """The outer two have so little of alpha that their own difference settles nothing."""
    level = levels(3)
    level[0, 2] = level[2, 0] = 1e-300
    step = RULE.half_width(even(20.0, 3), level)[0, 1] + 1.0
    assert RULE.half_width(even(20.0, 3), level)[0, 2] > 2.0 * step
    rating = np.array([2.0 * step, step, 0.0])
    above = RULE.settled(rating, np.zeros(3, dtype=np.int64), even(20.0, 3), level, 1000)
    assert np.argwhere(above).tolist() == [[0, 1], [0, 2], [1, 2]]


def test_a_walk_that_is_looked_at_at_every_step_is_seldom_called_settled():
    """Sums of coin flips with a known variance; a fixed interval is crossed far more often."""
    rng = np.random.default_rng(5)
    runs, n = 400, 3000
    steps = np.where(rng.random((runs, n)) < 0.5, -1.0, 1.0) * 400.0
    mean = np.cumsum(steps, axis=1) / np.arange(1, n + 1)
    se = 400.0 / np.sqrt(np.arange(1, n + 1))
    half = np.array([RULE.half_width(even(one), np.full((2, 2), 0.05))[0, 1] for one in se])
    looked = slice(50, None)
    sequence = (np.abs(mean) > half)[:, looked].any(axis=1).sum()
    fixed = (np.abs(mean) > 1.96 * se)[:, looked].any(axis=1).sum()
    assert sequence <= 30
    assert fixed > 100


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"alpha": 0.0}, "alpha is 0"),
        ({"alpha": 1.0}, "alpha is 1"),
        ({"reference_ratio": 0.0}, "above 0"),
        ({"reference_se": -1.0}, "above 0"),
        ({"min_votes": -1}, "0 or more"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(wrong, match):
    with pytest.raises(BadOption, match=match):
        ConfidenceSequence(**wrong)
