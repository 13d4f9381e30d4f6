"""Voters who came on one day: what they settle where everybody may vote, and where people were invited."""

from dataclasses import replace

import numpy as np
import pytest

from support.sizes import sized
from tiltyard.core.board.arena_board import make_arena_board
from tiltyard.core.board.cross_check import batch_ratings
from tiltyard.core.board.settled_order import LIKE_THESE, THESE, settled_orders
from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.policy.validity.publication import EvaluationHistory

MODELS, PROMPTS, VOTES, SESSION_VOTES = 6, 40, 3000, 8
EQUAL, SPREAD = np.zeros(MODELS), np.linspace(1.0, -1.0, MODELS)


def crowd(seed, effect, *, communities=6, days=6, strengths=EQUAL):
    """Voters who come one community after the other: each has tastes of its own, and each voter too."""
    rng = np.random.default_rng([36, seed])
    voter = np.arange(VOTES) // SESSION_VOTES
    voters = int(voter[-1]) + 1
    taste = rng.normal(0.0, 0.5, (MODELS, voters))
    taste += rng.normal(0.0, effect, (MODELS, communities))[:, np.arange(voters) * communities // voters]
    on_prompt = rng.normal(0.0, 0.5, (MODELS, PROMPTS))
    prompt, a = rng.integers(PROMPTS, size=VOTES), rng.integers(MODELS, size=VOTES)
    b = (a + rng.integers(1, MODELS, VOTES)) % MODELS
    worth = strengths[:, None] + on_prompt[:, prompt] + taste[:, voter]
    row = np.arange(VOTES)
    wins = 1.0 / (1.0 + np.exp(worth[b, row] - worth[a, row]))
    tied = rng.random(VOTES) < 1.2 * wins * (1.0 - wins)
    kind = np.where(tied, 2, rng.random(VOTES) > wins).astype(np.uint8)
    standing = Standing(Policy(), [f"m{k}" for k in range(MODELS)], [f"p{k}" for k in range(PROMPTS)])
    for model in range(MODELS):
        standing.enable(model)
    session = rng.permutation(10**6)[:voters][voter]
    standing.vote_log.add_many(a, b, prompt, session, kind, 20_000 + voter * days // voters)
    standing.votes = VOTES
    return standing


def settled_pairs(standing, least_days, strengths, batch=None):
    """Which pairs are settled, and whether one is false."""
    batch = batch_ratings(standing) if batch is None else batch
    above = settled_orders(standing, replace(batch, least_days=least_days))[LIKE_THESE]
    return above, bool((above & (strengths[:, None] <= strengths[None, :])).any())


def test_communities_that_come_day_by_day_settle_nothing_false():
    false = {None: 0, 4: 0}
    for seed in range(sized(4, 8)):
        standing = crowd(seed, 1.0)
        for least_days in false:
            false[least_days] += settled_pairs(standing, least_days, EQUAL)[1]
    assert false[None] >= sized(3, 6)
    assert false[4] == 0


def test_without_communities_days_take_little():
    before = after = 0
    for seed in range(sized(3, 6)):
        standing = crowd(seed, 0.0, days=12, strengths=SPREAD)
        before += settled_pairs(standing, None, SPREAD)[0].sum()
        after += settled_pairs(standing, 4, SPREAD)[0].sum()
    assert after >= 0.8 * before > 0


@pytest.mark.parametrize(("days", "least_days", "names"), [(3, 4, ["few-days"]), (3, 0, []), (6, None, [])])
def test_where_everybody_may_vote_nothing_is_settled_on_few_days(days, least_days, names):
    standing = crowd(1, 1.0, days=days, strengths=SPREAD)
    batch = replace(batch_ratings(standing), least_days=least_days)
    board = make_arena_board(standing, EvaluationHistory(), batch=batch)
    found = settled_orders(standing, batch)
    assert batch.days == days
    assert all(found[scope].any() != bool(names) for scope in (THESE, LIKE_THESE))
    assert [one.name for one in board.findings if one.name in ("few-days", "days-differ")] == names


def test_a_board_says_that_days_differ():
    standing = crowd(1, 1.0, strengths=SPREAD)
    batch = replace(batch_ratings(standing), least_days=4)
    board = make_arena_board(standing, EvaluationHistory(), batch=batch)
    assert [one.values["days"] for one in board.findings if one.name == "days-differ"] == [6]
    for wider, own in zip(batch.across_days, (batch.uncertainty, batch.these_prompts), strict=True):
        assert (wider.differences() >= own.differences()).all()
        assert (wider.dof <= own.dof).all()


def test_a_voter_came_on_the_day_of_the_first_vote():
    """People who come back every day are no more days than they were."""
    standing = crowd(1, 0.0, days=6)
    votes = standing.vote_log.columns()
    votes["session"][:] = np.arange(VOTES) % 20
    assert batch_ratings(standing).days == 1
    votes["session"][-1] = 20
    assert batch_ratings(standing).days == 2


def test_days_that_are_not_known_change_nothing():
    standing = crowd(1, 1.0, strengths=SPREAD)
    by_voter = settled_pairs(standing, None, SPREAD)[0]
    standing.vote_log.columns()["day"][:] = 0
    assert (settled_pairs(standing, 4, SPREAD)[0] == by_voter).all()
    standing.vote_log.columns()["session"][:] = -1
    assert batch_ratings(standing).days == 0


LOOKS = range(500, VOTES + 1, 250)


def measured(worlds, effect, **world):
    """Shares of worlds with a false claim at any look, and of pairs settled at any look: by voter, by day."""
    strengths = world.get("strengths", EQUAL)
    false, ever = np.zeros((2, 2))
    for seed in range(worlds):
        standing = crowd(seed, effect, **world)
        batches = [batch_ratings(standing, votes=votes) for votes in LOOKS]
        for k, least_days in enumerate((None, 4)):
            looks = [settled_pairs(standing, least_days, strengths, batch) for batch in batches]
            false[k] += any(wrong for _, wrong in looks)
            ever[k] += np.any([above for above, _ in looks], axis=0).sum()
    return false / worlds, ever / worlds / (MODELS * (MODELS - 1) / 2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("effect", "world", "least_ratio"),
    [
        (0.5, {}, None),
        (0.25, {}, None),
        (0.25, {"communities": 12, "days": 12}, None),
        (0.25, {"strengths": SPREAD}, None),
        (0.0, {"strengths": SPREAD}, 0.9),
        (0.0, {"strengths": SPREAD, "days": 30}, 0.9),
    ],
    ids=["half", "quarter", "twelve", "quarter-spread", "none-6", "none-30"],
)
def test_what_days_do_to_what_is_settled(effect, world, least_ratio, capsys):
    worlds = sized(100, 300)
    false, ever = measured(worlds, effect, **world)
    with capsys.disabled():
        print(f"\n{effect} {world}: false {false}, settled at any look {ever}")
    # Two Monte-Carlo errors above 6 %.
    assert false[1] <= 0.06 + 2.0 * (0.06 * 0.94 / worlds) ** 0.5
    if least_ratio is not None:
        assert ever[1] >= least_ratio * ever[0]
