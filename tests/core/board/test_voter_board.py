"""One voter's own order: it solves its equations, and is no surer than the votes allow."""

import numpy as np
import pytest

from tiltyard.core.battles import Kind
from tiltyard.core.board.voter_board import (
    OWN_METHOD,
    BoardAgreement,
    VoteCount,
    agrees_with_order,
    board_agreement,
    named_votes,
    own_board,
)


def test_the_board_of_own_votes_solves_its_equations():
    """An independent check: at the best ratings, score had less score expected is the pull of the prior."""
    rng = np.random.default_rng(3)
    truth = dict(zip("abcde", (0.0, 0.5, 1.0, 1.5, 2.0), strict=True))
    cast = []
    for _ in range(300):
        a, b = rng.choice(list(truth), 2, replace=False)
        kind = (
            Kind.TIE
            if rng.random() < 0.1
            else Kind(int(rng.random() > 1 / (1 + np.exp(truth[b] - truth[a]))))
        )
        cast.append(VoteCount(str(a), str(b), f"p{rng.integers(40)}", kind))
    cast += [VoteCount("a", "b", "p0", Kind.BOTH_BAD, 5)]
    board = own_board(cast)
    rating = {row.model: row.rating for row in board.rows}
    unit = 400 / np.log(10)
    for name in truth:
        pull = (rating[name] - 1500) / unit / (OWN_METHOD.prior_sd / unit) ** 2
        gap = 0.0
        for one in cast:
            if name in (one.model_a, one.model_b) and one.kind is not Kind.BOTH_BAD:
                other = one.model_b if name == one.model_a else one.model_a
                had = {Kind.TIE: 0.5, Kind.WIN_A: 1.0, Kind.WIN_B: 0.0}[one.kind]
                had = had if name == one.model_a else 1 - had
                gap += had - 1 / (1 + 10 ** ((rating[other] - rating[name]) / 400))
        assert gap == pytest.approx(pull, abs=1e-6)
    assert [row.rank for row in board.rows] == [1, 2, 3, 4, 5]
    assert all(row.low is not None and row.low < row.rating < row.high for row in board.rows)


def test_few_votes_claim_no_more_than_they_show():
    board = own_board([VoteCount("a", "b", "p", Kind.WIN_A), VoteCount("b", "c", "q", Kind.WIN_A)])
    assert [row.model for row in board.rows] == ["a", "b", "c"]
    assert all(row.low is row.high is row.rank_low is row.tier is None for row in board.rows)
    assert any(finding.name == "few-battles" for finding in board.findings)
    board = own_board([VoteCount("a", "b", "p", Kind.WIN_A, 3), VoteCount("c", "d", "p", Kind.WIN_B)])
    assert {row.model: row.group for row in board.rows} == {"a": 0, "b": 0, "c": 1, "d": 1}
    assert any(finding.name == "disconnected" for finding in board.findings)


@pytest.mark.parametrize("cast", [[], [VoteCount("a", "b", "p", Kind.BOTH_BAD, 4)]])
def test_without_a_vote_that_rates_there_is_no_board(cast):
    assert own_board(cast) is None


@pytest.mark.parametrize(
    ("kind", "same"),
    [
        (Kind.WIN_A, True), (Kind.LEAN_A, True), (Kind.WIN_B, False), (Kind.LEAN_B, False),
        (Kind.TIE, None), (Kind.INCONSISTENT, None), (Kind.BOTH_BAD, None),
    ],
)  # fmt: skip
def test_a_vote_agrees_if_it_goes_to_the_higher_rank(kind, same):
    rank = {"a": 1, "b": 2}
    assert agrees_with_order(VoteCount("a", "b", "p", kind), rank) is same
    assert agrees_with_order(VoteCount("b", "a", "p", kind), rank) is (None if same is None else not same)
    assert agrees_with_order(VoteCount("a", "c", "p", kind), rank) is None
    assert agrees_with_order(VoteCount("c", "a", "p", kind), rank) is None
    assert board_agreement([VoteCount("a", "b", "p", kind, 4)], rank) == BoardAgreement(
        4 if same else 0, 0 if same is None else 4
    )


def test_agreement_is_a_share_of_what_decided():
    assert BoardAgreement(3, 4).share == 0.75
    assert BoardAgreement(0, 0).share is None


def test_counts_by_number_become_votes_by_name():
    counts = [(0, 1, 0, 0, 3), (1, 0, 1, 2, 1)]
    assert named_votes(counts, ("a", "b"), ("p", "q")) == (
        VoteCount("a", "b", "p", Kind(0), 3),
        VoteCount("b", "a", "q", Kind(2), 1),
    )
