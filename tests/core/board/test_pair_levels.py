"""How alpha is shared among pairs: all of it at most, whatever arrives, and never changed afterwards."""

import numpy as np
import pytest

from tiltyard.core.battles import Kind
from tiltyard.core.board.settled_order import pair_levels
from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.state.standing import Standing


def grown(founders, later, *, unused=0):
    """An arena of so many founders, and so many models that came one vote after the other."""
    names = [f"m{k}" for k in range(founders + later + unused)]
    standing = Standing(Policy(), names, ["p"])
    for model in range(founders):
        standing.enable(model)
    for model in range(founders, founders + later):
        standing.vote(0, 1, 0, Kind.WIN_A)
        standing.enable(model)
    return standing


def total(levels, among=None):
    some = levels if among is None else levels[:among, :among]
    return float(np.triu(some, 1).sum())


@pytest.mark.parametrize("founders", [2, 10, 40])
def test_all_pairs_together_never_exceed_alpha(founders):
    assert total(pair_levels(grown(founders, 0), 0.05)) == pytest.approx(0.04)
    assert total(pair_levels(grown(founders, 60), 0.05)) <= 0.05 + 1e-12
    assert total(pair_levels(grown(2, 400), 0.05)) == pytest.approx(0.05, rel=0.01)


def test_a_level_does_not_change_when_others_arrive_or_wait():
    few, many = pair_levels(grown(4, 2), 0.05), pair_levels(grown(4, 30), 0.05)
    assert many[:6, :6] == pytest.approx(few)
    with_unused = pair_levels(grown(4, 2, unused=3), 0.05)
    assert with_unused[:6, :6] == pytest.approx(pair_levels(grown(4, 2), 0.05))
    assert total(with_unused) <= 0.05


def test_founders_share_alike_and_later_ones_have_less():
    levels = pair_levels(grown(5, 3), 0.05)
    assert len(set(levels[:5, :5].ravel().tolist())) == 1
    assert levels[0, 1] > levels[0, 5] > levels[0, 6] > levels[0, 7]
    assert levels[5, 7] == levels[0, 7]


def test_a_planned_family_shares_evenly_until_it_is_outgrown():
    standing = grown(3, 2)
    assert pair_levels(standing, 0.05, family=10)[0, 4] == pytest.approx(0.005)
    assert pair_levels(standing, 0.05, family=9) == pytest.approx(pair_levels(standing, 0.05))


@pytest.mark.parametrize("models", [0, 1])
def test_fewer_than_two_models_have_no_pairs_to_share_among(models):
    assert pair_levels(grown(models, 0) if models else Standing(Policy(), [], []), 0.05).shape == (
        models,
        models,
    )
