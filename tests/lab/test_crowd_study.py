"""The study of changes of the crowd at a small size; `just crowd-study` runs it at full size."""

import pytest

from lab.crowd_study import CROWDS, Attack, HonestCrowd, attacked_arena, false_holds


@pytest.mark.slow(but_every=3)
@pytest.mark.parametrize("name", CROWDS)
def test_of_a_stable_crowd_nobody_is_held(name):
    held, sessions = false_holds(CROWDS[name], 8, 3000, seed=1)
    assert held == 0 < sessions


@pytest.mark.slow(but="True")
@pytest.mark.parametrize("counted", [True, False])
def test_an_attack_is_noticed_before_a_hundred_votes(counted):
    for attack in (Attack(10, 100, 0, 1.0), Attack(100, 3, 5, 1.0)):
        noticed = attacked_arena(attack, HonestCrowd(), 8, 2, counted=counted)
        assert noticed is not None
        assert noticed.votes < 100
        # Those who did it are held, and hardly anybody else.
        assert noticed.caught > 2 * noticed.honest


def test_an_attack_that_is_too_small_is_not_noticed():
    assert attacked_arena(Attack(2, 1, 0, 0.5), HonestCrowd(), 8, 3, counted=True) is None
