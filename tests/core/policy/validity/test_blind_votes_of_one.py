"""How many blind votes one voter has: by formula, and by serving one voter until nothing is blind."""

import numpy as np
import pytest

from tiltyard.core.policy.matchmaking.matchmaker import choose
from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.policy.validity.rules import blind_votes_of_one


@pytest.mark.parametrize(
    ("prompts", "models", "each", "session"),
    [(1, 2, 1, 1), (3, 5, 6, 20), (10, 4, 20, 20), (50, 9, 200, 200)],
)
def test_the_table(prompts, models, each, session):
    assert blind_votes_of_one([models] * prompts, 1) == each == prompts * (models // 2)
    assert blind_votes_of_one([models] * prompts, 20) == session


def test_prompts_differ_in_who_has_answered_them():
    assert blind_votes_of_one([0, 1, 2, 3, 7], 1) == 1 + 1 + 3
    assert blind_votes_of_one([], 1) == 0
    assert blind_votes_of_one([1, 1], 20) == 0
    assert blind_votes_of_one([4, 4], None) is None, "without names there is no end"


def served_blind(models, prompts, told_after, seed):
    """Blind votes of one voter who is served until something that it knows comes."""
    standing = Standing(Policy(), [f"m{k}" for k in range(models)], [f"p{k}" for k in range(prompts)])
    for model in range(models):
        standing.enable(model)
    rng = np.random.default_rng(seed)
    told, pending, blind = set(), [], 0
    while True:
        choice = choose(standing, rng, session=1, told=sorted(told))
        cells = {(choice.left, choice.prompt), (choice.right, choice.prompt)}
        assert bool(cells & told) == ("blind" in choice.given_up)
        if cells & told:
            return blind
        standing.serve(choice.left, choice.right, choice.prompt, lane=choice.lane, session=1)
        standing.vote(choice.left, choice.right, choice.prompt, int(rng.integers(2)))
        blind += 1
        pending.append(cells)
        if len(pending) == told_after:
            told |= set().union(*pending)
            pending = []


@pytest.mark.parametrize(("models", "prompts"), [(2, 1), (3, 2), (4, 5), (5, 3), (9, 6)])
def test_one_voter_is_served_as_many(models, prompts):
    for seed in range(3):
        exact = blind_votes_of_one([models] * prompts, 1)
        assert served_blind(models, prompts, 1, seed) == exact
        assert served_blind(models, prompts, 7, seed) >= blind_votes_of_one([models] * prompts, 7)
