from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from support.worlds import table, told
from tiltyard.core.battles import CodedBattles, Kind, Table
from tiltyard.core.ratings import BradleyTerry
from tiltyard.core.ratings.ranks import Flip, votes_to_flip
from tiltyard.core.ratings.scoring import Scoring

POINT = BradleyTerry(interval="none")


def flipped(world, n, first, rival, members):
    """Whether the rival is ahead, and all still comparable, with these cell counts."""
    left = n > 0
    counts = world.counts
    kept = replace(
        counts, a=counts.a[left], b=counts.b[left], kind=counts.kind[left], soft=counts.soft[left], n=n[left]
    )
    result = POINT(Table(world.models, kept))
    together = set(np.flatnonzero(result.group == result.group[first])) == set(members)
    return result.group[first] >= 0 and together and result.rating[rival] > result.rating[first] + 1e-6


def fewest_of_all(world, first):
    """The fewest battles to leave out, by trying every choice of them, smallest first."""
    members = np.flatnonzero(POINT(world).group == 0)
    rivals = [k for k in members if k != first]
    n = world.counts.n
    choices = sorted(product(*(range(k + 1) for k in n)), key=sum)
    for taken in choices[1:]:
        if any(flipped(world, n - np.array(taken), first, rival, members) for rival in rivals):
            return sum(taken)
    return None


def tiny(seed):
    """At most twelve battles of three models, a close race."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(6, 13))
    a = rng.integers(0, 3, n)
    b = (a + rng.integers(1, 3, n)) % 3
    kind = rng.choice([Kind.WIN_A, Kind.WIN_B, Kind.TIE], n, p=[0.4, 0.4, 0.2])
    return table(CodedBattles(a, b, kind.astype(np.uint8)), 3)


@pytest.mark.parametrize("tables", [8, pytest.param(120, marks=pytest.mark.slow)])
def test_the_bound_holds_against_every_subset_and_is_mostly_the_minimum(tables):
    exact = bounded = 0
    for seed in range(tables):
        world = tiny(seed)
        flip = votes_to_flip(world)
        if flip is not None:
            fewest = fewest_of_all(world, world.models.index(flip.first))
            assert flip.votes >= fewest
            bounded += 1
            exact += flip.votes == fewest
    assert bounded >= 0.7 * tables
    assert exact >= 0.9 * bounded


def test_so_many_left_out_really_put_the_rival_first():
    world = told("a>b*10 b>a*8 a=c*4 b=c*4")
    flip = votes_to_flip(world)
    assert flip == Flip("a", "b", 3, 26)
    assert POINT(told("a>b*7 b>a*8 a=c*4 b=c*4")).order()[0] == 1
    assert POINT(told("a>b*8 b>a*8 a=c*4 b=c*4")).rating[0] == pytest.approx(1500.0)
    close, clear = votes_to_flip(told("a>b*50 b>a*49")), votes_to_flip(told("a>b*80 b>a*20"))
    assert (close.votes, clear.votes) == (2, 61)
    world = told("a>b*5 b>a*3 a=b*20")
    assert votes_to_flip(world, Scoring("drop")) == Flip("a", "b", 3, 8)
    assert votes_to_flip(told("a>b*50 b>a*49 c>d*20 d>c*20 e>e*7")) == Flip("a", "b", 2, 99)


@pytest.mark.parametrize(
    "world",
    [
        told("a>b"),
        told("a=b"),
        told("a>b a<b", weight=[1.0, 2.0]),
        told("a>b a<b", pref=[0.7, 0.2]),
        told("a>b b>c c>a"),
    ],
    ids=["nobody to compare", "nothing to take", "weighted", "soft", "each loss needed"],
)
def test_none_where_no_removal_is_found(world):
    assert votes_to_flip(world) is None


def test_battles_beyond_the_first_guess_are_taken():
    flip = votes_to_flip(told("a>b*30 b>a*2 b>c*30 c>b*2 a>c*3 c>a*3"))
    assert (flip.first, flip.rival) == ("a", "b")


@pytest.mark.parametrize("champion", ["0", "z"])
def test_no_first_place_is_named_where_an_unrated_model_won_everything(champion):
    assert votes_to_flip(told(f"a>b*50 b>a*49 {champion}>a*9")) is None
    assert votes_to_flip(told(f"a>b*50 b>a*49 {champion}<a*9")) == Flip("a", "b", 2, 99)
