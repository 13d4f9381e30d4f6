"""Choices where voters write their own prompts: categories may come again at once, pairs may not."""

from itertools import combinations

import numpy as np
import pytest

from tiltyard.core.battles import Kind
from tiltyard.core.policy.matchmaking.lanes import floor_deficit
from tiltyard.core.policy.matchmaking.matchmaker import choose
from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.state.standing import Standing


def arena(models, categories, **changes):
    standing = Standing(Policy(free_prompts=True, **changes), [f"m{k}" for k in range(models)], categories)
    for model in range(models):
        standing.enable(model)
    return standing


def play(standing, votes, session=7, category=None, seed=0):
    """The choices that one voter is served, all voted on; each on a prompt of its own."""
    rng = np.random.default_rng(seed)
    judgeable = None if category is None else np.arange(len(standing.prompts)) == category
    found = []
    for number in range(1, votes + 1):
        one = choose(standing, rng, session=session, judgeable=judgeable)
        standing.serve(one.left, one.right, one.prompt, lane=one.lane, nominal=one.nominal, session=session)
        kind = Kind.WIN_A if rng.random() < 0.5 else Kind.WIN_B
        standing.vote(one.left, one.right, one.prompt, kind, session, number)
        found.append(one)
    return found


@pytest.mark.parametrize(
    ("phase", "categories", "category"),
    [(1, ["any", "coding"], 1), (4, ["any"], None), (4, ["any", "coding"], 1)],
)
def test_one_voter_in_one_category_gives_up_no_rule(phase, categories, category):
    """With ten pairs and the last five withheld, the rule of pairs always leaves some."""
    found = play(arena(5, categories, phase=phase, settling=10**6), 150, category=category)
    assert {one.given_up for one in found} == {()}
    assert {one.prompt for one in found} == {0 if category is None else category}
    pairs = [frozenset((one.left, one.right)) for one in found]
    for k in range(5, len(pairs)):
        assert pairs[k] not in pairs[k - 5 : k]


def test_the_last_pairs_are_given_up_only_where_no_other_is_left():
    found = play(arena(2, ["any"]), 20)
    assert found[0].given_up == ()
    assert all("session" in one.given_up for one in found[1:])


def test_pairs_meet_alike_in_a_category_however_often_they_met_there():
    standing = arena(6, ["any", "coding"])
    for category in (0, 1):
        play(standing, 300, session=-1, category=category, seed=category)
    met = [standing.meetings.attempts[pair] for pair in combinations(range(6), 2)]
    assert min(met) >= 20


def test_the_floor_of_neighbours_counts_prompts_of_one_category():
    standing = arena(3, ["any"])
    one, other = np.array([0]), np.array([1])
    assert floor_deficit(standing, one, other) == 2.0
    for _ in range(12):
        standing.vote(0, 1, 0, Kind.WIN_A, free_prompt=1)
    assert floor_deficit(standing, one, other) == pytest.approx(5 / 6)
    for number in range(2, 7):
        standing.vote(1, 0, 0, Kind.WIN_A, free_prompt=number)
    assert floor_deficit(standing, one, other) == 0.0
    standing.respond(2, 0, present=False)
    assert floor_deficit(standing, one, np.array([2]))[0] == 1.0  # votes only: they share no category
