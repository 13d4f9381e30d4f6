"""The board of an arena."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.boarded_arenas import BAD, TIE, A, arena, noisy, settled
from tiltyard.core.board.arena_board import CrowdChange, make_arena_board, with_crowd_changes
from tiltyard.core.board.cross_check import batch_ratings
from tiltyard.core.integrity.vote_groups import VOTE_GROUPS
from tiltyard.core.policy.validity.publication import Badge, EvaluationHistory, evaluate
from tiltyard.errors import BadOption

LOOKS = (250, 500, 750)


def batch_of(standing, rating):
    """Batch ratings that say what they are told to."""
    rating = np.array(rating, dtype=float)
    return replace(batch_ratings(standing), rating=rating, group=np.where(np.isnan(rating), -1, 0))


def held(standing):
    """A history in which the rules held three times in a row."""
    history = EvaluationHistory()
    for votes in LOOKS:
        history = history.after(replace(evaluate(standing), votes=votes, holds=True))
    return history


def named(board):
    return [finding.name for finding in board.findings]


def models_of(board):
    return [row.model for row in board.rows]


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
def test_the_order_follows_the_phase_of_the_policy(phase, order, first, shown):
    standing = arena([1500, 1700, 1600], phase=phase)
    board = make_arena_board(
        standing,
        EvaluationHistory(),
        order=order,
        legacy_elo=np.array([1600.0, 1500.0, 1400.0]),
        batch=batch_of(standing, [1400.0, np.nan, 1500.0]),
    )
    assert (board.rows[0].model, board.order, board.phase) == (first, shown, phase)
    assert {row.model: row.legacy_elo for row in board.rows} == {"m0": 1600.0, "m1": 1500.0, "m2": 1400.0}
    found = {row.model: row.bradley_terry for row in board.rows}
    hidden = dict.fromkeys(("m0", "m1", "m2"))
    assert found == (hidden if phase == 1 else {"m0": 1400.0, "m1": None, "m2": 1500.0})


def test_phase_1_shows_what_a_board_showed_before_and_nothing_new():
    standing = settled(phase=1)
    board = make_arena_board(
        standing,
        held(standing),
        legacy_elo=np.array([1500.0, 1510.0, 1490.0]),
        batch=batch_ratings(standing),
    )
    assert models_of(board) == ["m1", "m0", "m2"]
    assert (board.status, board.official_since, board.rules, board.band_coverage) == (None, None, (), None)
    assert (board.serving, board.cross_check, board.findings) == (None, None, ())
    old = {"rank", "model", "enabled", "record", "form", "consistency", "spread", "average_score"}
    for row in board.rows:
        values = {field.name: getattr(row, field.name) for field in fields(row)}
        assert all(values.pop(name) is not None for name in (*old, "legacy_elo"))
        assert all(value in (None, (), False) for value in values.values())


def test_phase_1_still_says_that_the_family_was_outgrown():
    standing = arena([1, 2, 3], phase=1)
    board = make_arena_board(standing, EvaluationHistory(), legacy_elo=np.zeros(3), family=2)
    assert named(board) == ["family-outgrown"]
    assert not make_arena_board(standing, EvaluationHistory(), legacy_elo=np.zeros(3), family=3).findings


def test_phase_2_keeps_the_old_order_and_shows_diagnostics():
    standing = settled(phase=2)
    elo = np.array([1500.0, 1510.0, 1490.0])
    board = make_arena_board(standing, held(standing), legacy_elo=elo, batch=batch_ratings(standing))
    assert (models_of(board), board.order) == (["m1", "m0", "m2"], "legacy-elo")
    assert [row.badge for row in board.rows] == [Badge.STABLE] * 3
    assert all(row.coverage.strict == 1.0 and row.conservative is not None for row in board.rows)
    assert board.serving is not None
    assert [row.model for row in board.cross_check.rows] == ["m1", "m0", "m2"]


def test_a_model_without_a_score_has_no_rank_and_comes_after_those_that_have():
    standing = arena([1500, 1700, 1600, 1400], [(0, 1, 0, BAD)], retired=[3])
    board = make_arena_board(
        standing,
        EvaluationHistory(),
        order="bradley-terry",
        batch=batch_of(standing, [1.0, np.nan, 2.0, 9.0]),
    )
    assert [(row.model, row.rank, row.enabled) for row in board.rows] == [
        ("m2", 1, True),
        ("m0", 2, True),
        ("m1", None, True),
        ("m3", None, False),
    ]
    assert board.rows[2].badge is Badge.PROVISIONAL


@pytest.mark.parametrize(
    ("policy", "options", "named"),
    [
        ({}, {"order": "elo"}, "elo"),
        ({"phase": 1}, {}, "legacy_elo"),
        ({"phase": 2}, {}, "legacy_elo"),
        ({}, {"order": "bradley-terry"}, "batch"),
        ({}, {"legacy_elo": np.zeros(2)}, "legacy_elo"),
        ({}, {"batch": batch_ratings(arena([1, 2]))}, "batch"),
    ],
)
def test_what_cannot_be_ordered_is_refused(policy, options, named):
    with pytest.raises(BadOption, match=named):
        make_arena_board(arena([1500, 1700, 1600], **policy), EvaluationHistory(), **options)


def test_a_board_without_votes_has_no_ranks_and_no_caveats():
    for phase in (1, 4):
        standing = arena([1500, 1700, 1600], phase=phase)
        board = make_arena_board(
            standing, EvaluationHistory(), legacy_elo=np.arange(3.0), batch=batch_ratings(standing)
        )
        assert {(row.rank, row.rank_low, row.rank_high, row.tier) for row in board.rows} == {(None,) * 4}
        assert (board.cross_check.findings if board.cross_check else ()) == ()
        assert len(board.rows) == 3
    assert board.settled.values["case"] == "nothing"
    assert {(row.rank, row.rank_low, row.tier) for row in board.cross_check.rows} == {(None,) * 3}


def test_retired_models_are_listed_after_and_unranked():
    board = make_arena_board(
        arena([1900, 1700, 1600, 1950], [(1, 2, 0, BAD)], retired=[0, 3]), EvaluationHistory()
    )
    assert [(row.model, row.rank) for row in board.rows] == [("m1", 1), ("m2", 2), ("m3", None), ("m0", None)]
    gone = board.rows[-1]
    assert (gone.badge, gone.waiting, gone.consistency, gone.pair_coverage) == (None, (), None, None)
    assert not gone.enabled
    assert gone.rating == 1900.0


def test_a_row_holds_everything_that_is_shown_of_a_model():
    votes = [(0, 1, p, A) for p in range(6)] + [(1, 0, 0, A), (0, 1, 1, TIE), (0, 1, 2, BAD)]
    row = make_arena_board(arena([1600, 1500], votes, rd=70.0), EvaluationHistory()).rows[0]
    assert (row.rank, row.model, row.rating, row.rd) == (1, "m0", 1600.0, 70.0)
    assert row.conservative == 1460.0
    assert row.confidence == 140.0
    assert row.rating - row.confidence == row.conservative
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
    assert (row.delta, row.settled, row.legacy_elo, row.bradley_terry) == (None, (), None, None)


def test_a_board_is_calibrating_until_the_rules_have_held_in_a_row():
    standing = settled()
    history = EvaluationHistory()
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


@pytest.mark.parametrize("phase", [2, 3, 4])
def test_a_top_in_other_places_than_the_rules_looked_at_is_not_official(phase):
    standing = settled(phase=phase)
    history = held(standing)
    scores = np.array([1500.0, 1510.0, 1490.0])
    board = make_arena_board(
        standing, history, order="bradley-terry", legacy_elo=scores, batch=batch_of(standing, scores)
    )
    assert (board.status, board.official_since) == ("calibrating", None)
    assert all(rule.holds for rule in board.rules)
    assert "official-withheld" in named(board)
    assert not any(row.official for row in board.rows)
    scores = np.array([1520.0, 1510.0, 1490.0])
    board = make_arena_board(
        standing, history, order="bradley-terry", legacy_elo=scores, batch=batch_of(standing, scores)
    )
    assert (board.status, board.official_since) == ("official", 750)
    assert "official-withheld" not in named(board)


def test_only_the_published_top_must_stand_as_the_rules_saw_it():
    standing = settled(published_top=2, rating=(1700, 1600, 1500))
    board = make_arena_board(
        standing, held(standing), order="bradley-terry", batch=batch_of(standing, [3.0, 2.0, np.nan])
    )
    assert board.status == "official"
    assert [(row.rank, row.official) for row in board.rows] == [(1, True), (2, True), (None, False)]


def test_a_provisional_model_is_shown_and_never_official():
    standing = settled(established_rd=65.0)
    history = held(standing)
    assert [row.official for row in make_arena_board(standing, history).rows] == [True] * 3
    rd = np.array([60.0, 60.0, 70.0])
    standing.rank(replace(standing.strengths, rd=rd))
    board = make_arena_board(standing, history)
    assert board.status == "official"
    assert [(row.rank, row.badge, row.official) for row in board.rows] == [
        (1, Badge.STABLE, True),
        (2, Badge.STABLE, True),
        (3, Badge.PROVISIONAL, False),
    ]


def test_a_rule_that_fails_now_ends_the_status_before_the_next_evaluation():
    standing = settled()
    history = held(standing)
    standing.rank(replace(standing.strengths, rd=np.full(3, 80.0)))
    board = make_arena_board(standing, history)
    assert (board.status, board.official_since) == ("calibrating", None)
    assert [rule.name for rule in board.rules if not rule.holds] == ["top-rd"]


def test_delta_is_against_an_evaluation_ago():
    standing = settled()
    now = evaluate(standing)
    before = replace(now, votes=now.votes - 250, rating=now.rating - 12.0)
    board = make_arena_board(standing, EvaluationHistory((before, now)))
    assert [row.delta for row in board.rows] == [12.0] * 3


def test_an_order_that_the_batch_settles_against_the_board_is_a_finding():
    standing = noisy(8, [0.0, 2.0, 1.0], rating=[1900, 1700, 1500])
    board = make_arena_board(standing, EvaluationHistory(), batch=batch_ratings(standing))
    assert "orders-disagree" in named(board)
    assert [pair.below for pair in board.cross_check.disagreements] == ["m1", "m2"]
    assert board.settled.values["case"] == "contradicted"


def test_findings_of_quality_and_of_others_are_shown():
    board = make_arena_board(arena([1, 2, 3], [(0, 1, 0, BAD)] * 20), EvaluationHistory(), family=1)
    assert named(board) == ["both-bad-models", "both-bad-prompts", "family-outgrown"]


@given(st.data())
def test_every_model_has_one_row_and_no_number_is_nan(data):
    m = data.draw(st.integers(0, 4))
    votes = []
    if m > 1:
        vote = st.tuples(st.integers(0, m - 1), st.integers(1, m - 1), st.integers(0, 5), st.integers(0, 3))
        votes = [(a, (a + d) % m, p, k) for a, d, p, k in data.draw(st.lists(vote, max_size=40))]
    rating = data.draw(st.lists(st.floats(1000, 2000), min_size=m, max_size=m))
    retired = data.draw(st.sets(st.integers(0, m - 1))) if m else ()
    board = make_arena_board(arena(rating, votes, retired=retired), EvaluationHistory())
    assert sorted(models_of(board)) == [f"m{k}" for k in range(m)]
    ranked = m - len(retired) if votes else 0
    assert [row.rank for row in board.rows if row.rank] == list(range(1, ranked + 1))
    for row in board.rows:
        for field in fields(row):
            value = getattr(row, field.name)
            assert value == value


@pytest.fixture
def official():
    votes = [(a, b, p, A) for _ in range(7) for a in range(3) for b in range(a + 1, 3) for p in range(6)]
    standing = arena([1700, 1600, 1500], votes)
    history = EvaluationHistory((replace(evaluate(standing), holds=True),) * 3)
    board = make_arena_board(standing, history)
    assert board.status == "official"
    return board


def test_a_board_says_what_changed_and_keeps_its_status(official):
    said = with_crowd_changes(official, [CrowdChange("m2", "new-voters"), CrowdChange("m0", "all")])
    assert (said.status, said.rows) == ("official", official.rows)
    assert said.findings[0].name == "crowd-changed"
    assert all(name in said.findings[0].text for name in ("m2 (", "m0 ("))
    assert with_crowd_changes(official, []) is official


def test_a_board_without_a_policy_to_show_says_nothing(official):
    unseen = replace(official, status=None)
    assert with_crowd_changes(unseen, [CrowdChange("m1", "all")]) is unseen


def test_every_group_has_words(official):
    for group in VOTE_GROUPS:
        assert "m1 (" in with_crowd_changes(official, [CrowdChange("m1", group)]).findings[0].text
