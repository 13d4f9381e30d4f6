"""Marks of a whole standing."""

import numpy as np

from tiltyard.battles import Kind
from tiltyard.standing.policy import Policy
from tiltyard.standing.state import Standing
from tiltyard.validity.order_marks import LIKE_THESE, THESE, PairVotes
from tiltyard.validity.order_proven import OrderProven
from tiltyard.validity.proven import proven_orders


def played(votes):
    """An arena of three models and ten prompts; rows are (left, right, kind, on each prompt)."""
    standing = Standing(Policy(), ["a", "b", "c"], [f"p{k}" for k in range(10)])
    for model in range(3):
        standing.enable(model)
    for left, right, kind, times in votes:
        for prompt in range(10):
            for _ in range(times):
                standing.vote(left, right, prompt, kind)
    return standing


def test_without_votes_nothing_is_proven():
    for above in proven_orders(played([])).values():
        assert not above.any()


def test_a_clear_winner_is_proven_above_whom_it_beat_and_above_nobody_else():
    proven = proven_orders(played([(0, 1, Kind.WIN_B, 6), (2, 1, Kind.WIN_A, 1), (1, 2, Kind.WIN_A, 1)]))
    for scope in (THESE, LIKE_THESE):
        assert np.argwhere(proven[scope]).tolist() == [[1, 0]]


def test_served_but_unanswered_pairs_have_no_marks():
    standing = played([])
    standing.serve(0, 1, 0)
    assert not any(above.any() for above in proven_orders(standing).values())


def test_marks_are_those_of_the_rule_over_all_pairs():
    standing = played([(0, 1, Kind.WIN_A, 4), (0, 1, Kind.WIN_B, 1), (1, 2, Kind.TIE, 3)])
    votes = PairVotes.of_pairs([(low, high, cells.tally) for low, high, cells in standing.meetings])
    marks = OrderProven()(votes, THESE, family=3, prompts=10)
    proven = proven_orders(standing)[THESE]
    for k in range(2):
        mark = marks[k]
        other = mark.low + mark.high - (mark.leader if mark.leader is not None else mark.low)
        assert mark.leader is None or bool(proven[mark.leader, other]) == mark.proven


def test_one_model_is_above_nobody():
    assert not any(above.any() for above in proven_orders(Standing(Policy(), ["a"], ["p"])).values())
