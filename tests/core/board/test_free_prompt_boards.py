"""Boards of arenas in which voters write their own prompts: the clusters are the prompts, not the categories."""

import numpy as np

from tiltyard.core.battles import Kind
from tiltyard.core.board.arena_board import make_arena_board
from tiltyard.core.board.cross_check import batch_ratings, votes_table
from tiltyard.core.board.settled_order import LIKE_THESE, THESE, settled_orders
from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.policy.validity.publication import EvaluationHistory


def standing_of(votes=3000, prompts=None, categories=("any", "coding"), free=True, chance=0.8):
    """Votes of 60 voters on two models, of which the first wins with this chance; ``prompts`` numbers, or all different."""
    rng = np.random.default_rng(4)
    standing = Standing(Policy(free_prompts=free), ["ada", "bob", "cy"], categories)
    for model in range(3):
        standing.enable(model)
    for k in range(votes):
        a, b = rng.permutation(3)[:2].tolist()
        kind = Kind.WIN_A if (a < b) == (rng.random() < chance) else Kind.WIN_B
        number = k + 1 if prompts is None else int(rng.integers(prompts)) + 1
        standing.vote(a, b, int(rng.integers(len(categories))), kind, int(rng.integers(60)), number)
    return standing


def test_clusters_are_what_was_written():
    found = batch_ratings(standing_of(prompts=500))
    assert "prompt" in found.interval.clusters
    assert 400 < len(np.unique(votes_table(standing_of(prompts=500)).log().prompt)) <= 500
    assert "few-prompts" not in {one.name for one in found.findings}
    assert not found.prompts_lacking


def test_one_prompt_typed_a_thousand_times_settles_nothing():
    standing = standing_of(votes=1500, prompts=1)
    found = batch_ratings(standing)
    assert found.prompts_lacking
    assert {one.name: one.values for one in found.findings}["few-prompts"]["case"] == "one"
    assert not settled_orders(standing, found)[LIKE_THESE].any()


def test_categories_are_no_clusters():
    """Of two categories nothing could be said; of thousands of prompts in them, much can."""
    fixed = standing_of(free=False)
    settled = settled_orders(fixed, batch_ratings(fixed))
    assert set(settled) == {THESE, LIKE_THESE}
    assert not settled[LIKE_THESE].any()
    free = standing_of()
    settled = settled_orders(free, batch_ratings(free))
    assert list(settled) == [LIKE_THESE]
    assert settled[LIKE_THESE].sum() == 3


def test_a_board_claims_prompts_like_these_and_nothing_else():
    standing = standing_of()
    board = make_arena_board(
        standing,
        EvaluationHistory.under(standing.policy),
        order="bradley-terry",
        batch=batch_ratings(standing),
    )
    assert [row.model for row in board.rows] == ["ada", "bob", "cy"]
    assert [row.settled for row in board.rows] == [(LIKE_THESE,), (LIKE_THESE,), ()]
    assert board.cross_check.n_clusters > 50
    assert "orders-disagree" not in {one.name for one in board.findings}
