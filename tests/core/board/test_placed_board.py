"""A board of human ratings with a model that a judge placed among them."""

from dataclasses import replace

import numpy as np
import pytest

from tiltyard.core.battles import CodedBattles, Kind, Table
from tiltyard.core.board import make_board
from tiltyard.core.board.board_rows import PlacedModel, placed_board
from tiltyard.core.ratings import BradleyTerry, Finding
from tiltyard.core.ratings.judge_placement import JudgePlacement
from tiltyard.core.ratings.ranks import rank_models

NAMES = ("ash", "elm", "new", "oak")


def table(rows):
    """Battles as (index of A, index of B, kind), each on a prompt of its own."""
    a, b, kind = (np.array(column) for column in zip(*rows, strict=True))
    keys = np.arange(len(a), dtype=np.uint64) + np.uint64(3)
    return Table.from_codes(NAMES, CodedBattles(a, b, kind.astype(np.uint8), prompt=keys))


HUMAN = table(
    [(0, 1, Kind.WIN_A)] * 20
    + [(0, 1, Kind.WIN_B)] * 10
    + [(1, 3, Kind.WIN_A)] * 20
    + [(1, 3, Kind.WIN_B)] * 12
)
JUDGED = table(
    [(2, 0, Kind.WIN_B)] * 5 + [(2, 1, Kind.WIN_A)] * 4 + [(1, 2, Kind.TIE), (2, 3, Kind.BOTH_BAD)]
)
FINDING = Finding("not-placed", {"case": "won", "model": "new"})


def board(method=None, **values):
    ratings = (method or BradleyTerry())(HUMAN)
    human = make_board(ratings, rank_models(ratings))
    placement = JudgePlacement("new", 0.95, **{"group": 0, "findings": (FINDING,), **values})
    return human, placed_board(human, PlacedModel(placement, HUMAN, JUDGED))


@pytest.mark.parametrize(
    ("rating", "place"), [(9000.0, 0), (1510.0, 1), (1470.0, 2), (100.0, 3), (np.nan, 3)]
)
def test_it_stands_where_its_rating_belongs(rating, place):
    human, placed = board(rating=rating, group=-1 if np.isnan(rating) else 0)
    assert [row.model for row in placed.rows].index("new") == place
    others = tuple(row for row in placed.rows if row.model != "new")
    assert others == tuple(row for row in human.rows if row.model != "new")


def test_it_has_a_rank_only_with_the_judges_bias():
    _, placed = board(rating=1510.0, low=1400.0, high=1600.0)
    row = placed.rows[1]
    assert row.placed == "judge only"
    assert row.rank is row.rank_low is row.rank_high is row.tier is None
    assert (row.rating, row.low, row.high, row.group) == (1510.0, 1400.0, 1600.0, 0)
    assert [row.rank for row in placed.rows] == [1, None, 2, 3]
    _, placed = board(rating=1510.0, rank=2, rank_low=1, rank_high=4, bias_sd=20.0)
    row = placed.rows[1]
    assert row.placed == "judge, bias added"
    assert (row.rank, row.rank_low, row.rank_high) == (2, 1, 4)


def test_its_record_is_the_judges_and_counts_both_bad_as_the_ratings_do():
    human, placed = board(rating=1510.0)
    row = placed.rows[1]
    assert (row.wins, row.losses, row.ties, row.battles, row.unrated) == (4, 5, 1, 10, 1)
    assert placed.n_battles == human.n_battles + 11
    assert placed.findings == (*human.findings, FINDING)
    human, placed = board(BradleyTerry(both_bad="tie"), rating=1510.0)
    row = placed.rows[1]
    assert (row.wins, row.losses, row.ties, row.battles, row.unrated, row.both_bad) == (4, 5, 2, 11, 0, 1)
    assert placed.n_battles == human.n_battles + 11


def test_it_stands_above_models_that_are_not_comparable():
    ratings = BradleyTerry()(HUMAN)
    human = make_board(ratings, None)
    apart = tuple(
        replace(row, group=None if row.model == "new" else k // 2) for k, row in enumerate(human.rows)
    )
    rows = placed_board(
        replace(human, rows=apart),
        PlacedModel(JudgePlacement("new", 0.95, group=0, rating=100.0), HUMAN, JUDGED),
    ).rows
    assert [row.model for row in rows] == ["ash", "elm", "new", "oak"]
