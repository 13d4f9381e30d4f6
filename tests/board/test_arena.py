"""The board of a live arena."""

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiltyard.battles import Kind
from tiltyard.board.arena import make_arena_board
from tiltyard.errors import BadOption
from tiltyard.ratings import Finding
from tiltyard.standing.policy import Policy
from tiltyard.standing.state import Standing
from tiltyard.standing.strengths import Strengths
from tiltyard.validity.badges import Badge
from tiltyard.validity.evaluation import History, evaluate

A, B, TIE, BAD = Kind.WIN_A, Kind.WIN_B, Kind.TIE, Kind.BOTH_BAD


def arena(rating, votes=(), *, rd=60.0, prompts=6, retired=()):
    m = len(rating)
    standing = Standing(Policy(), [f"m{k}" for k in range(m)], [f"p{k}" for k in range(prompts)])
    for model in range(m):
        standing.enable(model)
    for a, b, prompt, kind in votes:
        standing.serve(a, b, prompt)
        standing.vote(a, b, prompt, kind)
    for model in retired:
        standing.retire(model)
    rds = np.broadcast_to(np.asarray(rd, dtype=float), (m,)).copy()
    standing.rank(Strengths(np.array(rating, dtype=float), rds, rds, np.full(m, 0.5)))
    return standing


def settled(n=7):
    votes = [(a, b, p, A) for _ in range(n) for a in range(3) for b in range(a + 1, 3) for p in range(6)]
    return arena([1700, 1600, 1500], votes)


def models_of(board):
    return [row.model for row in board.rows]


def test_rows_come_by_conservative_score_with_ranks_from_one():
    board = make_arena_board(arena([1500, 1700, 1600], rd=[60, 200, 60]), History())
    assert models_of(board) == ["m2", "m0", "m1"]
    assert [row.rank for row in board.rows] == [1, 2, 3]
    assert [row.conservative for row in board.rows] == [1480.0, 1380.0, 1300.0]
    assert board.order == "conservative"


@pytest.mark.parametrize(
    ("phase", "order", "first", "shown"),
    [
        (1, "conservative", "m0", "legacy-elo"),
        (2, "bradley-terry", "m0", "legacy-elo"),
        (3, "conservative", "m1", "conservative"),
        (4, "conservative", "m1", "conservative"),
        (3, "bradley-terry", "m2", "bradley-terry"),
        (4, "bradley-terry", "m2", "bradley-terry"),
    ],
)
def test_the_order_follows_the_phase(phase, order, first, shown):
    standing = arena([1500, 1700, 1600])
    board = make_arena_board(
        standing,
        History(),
        phase=phase,
        order=order,
        legacy_elo=np.array([1600.0, 1500.0, 1400.0]),
        bradley_terry=np.array([1400.0, np.nan, 1500.0]),
    )
    assert (board.rows[0].model, board.order, board.phase) == (first, shown, phase)
    found = {row.model: (row.legacy_elo, row.bradley_terry) for row in board.rows}
    assert found == {"m0": (1600.0, 1400.0), "m1": (1500.0, None), "m2": (1400.0, 1500.0)}


def test_a_model_without_a_score_is_last():
    board = make_arena_board(
        arena([1500, 1700, 1600]),
        History(),
        order="bradley-terry",
        bradley_terry=np.array([1.0, np.nan, 2.0]),
    )
    assert models_of(board) == ["m2", "m0", "m1"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"phase": 5}, "phase is 5; expected 1, 2, 3 or 4"),
        ({"order": "elo"}, "order is 'elo'; expected conservative or bradley-terry"),
        ({"phase": 1}, "phase 1 ranks by legacy Elo; pass legacy_elo"),
        ({"order": "bradley-terry"}, "the order is bradley-terry; pass bradley_terry"),
        ({"legacy_elo": np.zeros(2)}, r"legacy_elo has shape \(2,\); expected one rating for each model"),
    ],
)
def test_what_cannot_be_ordered_is_refused(options, message):
    with pytest.raises(BadOption, match=message):
        make_arena_board(arena([1500, 1700, 1600]), History(), **options)


def test_retired_models_are_listed_after_and_unranked():
    board = make_arena_board(arena([1900, 1700, 1600, 1950], retired=[0, 3]), History())
    assert [(row.model, row.rank) for row in board.rows] == [("m1", 1), ("m2", 2), ("m3", None), ("m0", None)]
    gone = board.rows[-1]
    assert (gone.badge, gone.waiting, gone.consistency, gone.pair_coverage) == (None, (), None, None)
    assert gone.rating == 1900.0


def test_a_row_holds_everything_that_is_shown_of_a_model():
    votes = [(0, 1, p, A) for p in range(6)] + [(1, 0, 0, A), (0, 1, 1, TIE), (0, 1, 2, BAD)]
    row = make_arena_board(arena([1600, 1500], votes, rd=70.0), History()).rows[0]
    assert (row.rank, row.model, row.rating, row.rd) == (1, "m0", 1600.0, 70.0)
    assert row.conservative == 1460.0
    assert row.confidence == pytest.approx(80.0)
    assert (row.coverage.strict, row.coverage.adjusted, row.coverage.exhausted) == (1 / 6, 1 / 6, 0)
    assert row.pair_coverage == pytest.approx(7 / 12)
    assert (row.record.wins, row.record.losses, row.record.ties) == (6, 1, 1)
    assert (row.votes, row.both_bad, row.quality.rate) == (9, 1, 1 / 9)
    assert row.average_score == pytest.approx((0.5 + 0.75) / 2)
    assert row.spread is None
    assert row.consistency == 100.0
    assert row.form.letters == "WWWWWWLTB"
    assert row.badge is Badge.PROVISIONAL
    assert [rule.name for rule in row.waiting] == ["decisive-votes", "established-coverage"]
    assert (row.delta, row.proven, row.legacy_elo, row.bradley_terry) == (None, (), None, None)


def test_a_board_is_calibrating_until_the_rules_have_held_in_a_row():
    standing = settled()
    history = History()
    one = evaluate(standing)
    assert one.holds
    for votes in (250, 500):
        history = history.after(replace(one, votes=votes))
    board = make_arena_board(standing, history)
    assert (board.status, board.official_since) == ("calibrating", None)
    assert all(rule.holds for rule in board.rules)
    board = make_arena_board(standing, history.after(replace(one, votes=750)))
    assert (board.status, board.official_since) == ("official", 750)
    assert [row.badge for row in board.rows] == [Badge.STABLE] * 3
    assert board.band_coverage == 1.0
    assert board.votes == 126


def test_delta_is_against_an_evaluation_ago():
    standing = settled()
    now = evaluate(standing)
    before = replace(now, votes=now.votes - 250, rating=now.rating - 12.0)
    board = make_arena_board(standing, History((before, now)))
    assert [row.delta for row in board.rows] == [12.0] * 3


def test_marks_say_which_places_are_proven():
    above = np.zeros((3, 3), dtype=bool)
    above[0, 1] = above[0, 2] = True
    board = make_arena_board(
        settled(), History(), proven={"these prompts": above, "prompts like these": np.zeros_like(above)}
    )
    assert [row.proven for row in board.rows] == [("these prompts",), (), ()]


def test_findings_of_quality_and_of_others_are_shown():
    mine = Finding("x", "X.", "Do.")
    board = make_arena_board(arena([1, 2], [(0, 1, 0, BAD)] * 20), History(), findings=(mine,))
    assert [finding.name for finding in board.findings] == ["both-bad-models", "both-bad-prompts", "x"]


def test_an_arena_without_models_has_an_empty_board():
    board = make_arena_board(arena([]), History())
    assert (board.rows, board.status, board.band_coverage) == ((), "calibrating", None)


@given(st.data())
def test_every_model_has_one_row_and_no_number_is_nan(data):
    m = data.draw(st.integers(0, 4))
    votes = []
    if m > 1:
        vote = st.tuples(st.integers(0, m - 1), st.integers(1, m - 1), st.integers(0, 5), st.integers(0, 3))
        votes = [(a, (a + d) % m, p, k) for a, d, p, k in data.draw(st.lists(vote, max_size=40))]
    rating = data.draw(st.lists(st.floats(1000, 2000), min_size=m, max_size=m))
    retired = data.draw(st.sets(st.integers(0, m - 1))) if m else ()
    board = make_arena_board(arena(rating, votes, retired=retired), History())
    assert sorted(models_of(board)) == [f"m{k}" for k in range(m)]
    assert [row.rank for row in board.rows if row.rank] == list(range(1, m - len(retired) + 1))
    for row in board.rows:
        for field in fields(row):
            value = getattr(row, field.name)
            assert value == value
