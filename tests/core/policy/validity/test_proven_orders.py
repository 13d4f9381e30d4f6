"""Marks of a whole standing."""

import numpy as np

from tiltyard.core.battles import Kind
from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.policy.validity.order_marks import LIKE_THESE, THESE, PairVotes
from tiltyard.core.policy.validity.order_test import OrderTest
from tiltyard.core.policy.validity.proven_orders import proven_orders


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
    marks = OrderTest()(votes, THESE, family=3, prompts=10)
    proven = proven_orders(standing)[THESE]
    for k in range(2):
        mark = marks[k]
        other = mark.low + mark.high - (mark.leader if mark.leader is not None else mark.low)
        assert mark.leader is None or bool(proven[mark.leader, other]) == mark.proven


def test_one_model_is_above_nobody():
    assert not any(above.any() for above in proven_orders(Standing(Policy(), ["a"], ["p"])).values())


def shrunk(live, votes, bad=()):
    """Fifty prompts, of which only ``live`` can still be served; votes are (prompt, times), all won by a.

    On the prompts of ``bad`` there is a vote that both are bad.
    """
    standing = Standing(Policy(), ["a", "b"], [f"p{k}" for k in range(50)])
    for model in range(2):
        standing.enable(model)
    for prompt, times in votes:
        for _ in range(times):
            standing.vote(0, 1, prompt, Kind.WIN_A)
    for prompt in bad:
        standing.vote(0, 1, prompt, Kind.BOTH_BAD)
    for prompt in set(range(50)) - set(live):
        standing.respond(0, prompt, present=False)
    return proven_orders(standing)


def test_prompts_that_nobody_can_be_served_on_are_not_waited_for():
    votes = [(prompt, 50) for prompt in range(5)]
    assert shrunk(range(5), votes)[THESE][0, 1]
    assert not shrunk(range(50), votes)[THESE][0, 1]
    assert not shrunk(range(5), votes)[LIKE_THESE][0, 1]


def test_votes_on_withdrawn_prompts_alone_prove_nothing_of_the_one_that_is_left():
    assert not shrunk([7], [(0, 250)])[THESE].any()
    assert shrunk([7], [(0, 250), (7, 250)])[THESE][0, 1]


def test_a_vote_that_both_are_bad_is_no_meeting_on_its_prompt():
    assert not shrunk([7], [(0, 250)], bad=[7])[THESE].any()


def test_what_was_proven_on_enough_prompts_stays_when_all_are_withdrawn():
    assert shrunk([], [(prompt, 30) for prompt in range(12)])[THESE][0, 1]


def test_a_larger_family_asks_for_more():
    standing = played([(0, 1, Kind.WIN_A, 6), (0, 1, Kind.WIN_B, 1)])
    few, many = (proven_orders(standing, family=family) for family in (3, 10**12))
    assert np.array_equal(few[THESE], proven_orders(standing)[THESE])
    assert few[THESE][0, 1]
    assert not many[THESE].any()


def test_a_family_smaller_than_the_arena_is_all_pairs():
    standing = played([(0, 1, Kind.WIN_A, 6), (0, 1, Kind.WIN_B, 1)])
    assert np.array_equal(proven_orders(standing, family=1)[THESE], proven_orders(standing)[THESE])
