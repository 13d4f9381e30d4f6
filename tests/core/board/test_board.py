"""Rows of a board, and its pairs."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.worlds import drawn, names, table, told
from tiltyard.core.battles import Battle, Kind, Table
from tiltyard.core.board import PairRow, Row, make_board, pair_rows
from tiltyard.core.board.win_rates import baseline_win_rates
from tiltyard.core.ratings import BradleyTerry, Elo, Finding, Glicko2
from tiltyard.core.ratings.ranks import rank_models

BARE = BradleyTerry(interval="none")


def board_of(some: Table, method=None):
    ratings = (method or BradleyTerry())(some)
    return make_board(ratings, rank_models(ratings))


def test_a_row_is_its_models_entry_in_the_ratings():
    ratings = BradleyTerry()(table(drawn(4, 200, judged=True)))
    ranks = rank_models(ratings)
    for row in make_board(ratings, ranks).rows:
        k = ratings.models.index(row.model)
        assert (row.rating, row.low, row.high) == (
            ratings.rating[k],
            ratings.interval.low[k],
            ratings.interval.high[k],
        )
        assert (row.rank_low, row.rank_high, row.tier) == (ranks.low[k], ranks.high[k], ranks.tier[k])
        assert row.battles == row.wins + row.losses + row.ties == ratings.record.battles[k]


def test_win_rates_against_a_baseline_are_further_columns():
    some = table(drawn(4, 200))
    rates = baseline_win_rates(some, some.models[0], "battles", BradleyTerry())
    columns = replace(board_of(some), baseline=rates).to_columns()
    assert set(columns) - set(board_of(some).to_columns()) == {
        *("win_rate", "win_rate_low", "win_rate_high", "baseline_battles", "baseline_prompts")
    }
    by_model = dict(zip(columns["model"], columns["win_rate"], strict=True))
    assert by_model == {some.models[0]: None, **{row.model: row.win_rate for row in rates.rows}}


def test_each_group_has_its_own_ranks():
    board = board_of(told("a>b*3 b>a*2 x>y*2 y>x"), BARE)
    assert [(row.model, row.group, row.rank) for row in board.rows] == [
        ("a", 0, 1),
        ("b", 0, 2),
        ("x", 1, 1),
        ("y", 1, 2),
    ]


def test_what_the_battles_do_not_support_is_none():
    board = board_of(told("a>b*3 b>a*2 a!z"))
    unrated = board.rows[-1]
    assert unrated == Row(None, "z", *[None] * 7, wins=0, losses=0, ties=0, both_bad=1, battles=0, unrated=1)


def test_findings_of_the_method_come_before_those_of_other_checks():
    ratings = BARE(told("a>b b>a"))
    other = Finding("other", {}, "It rained.", "Wait.")
    findings = make_board(ratings, None, findings=(other,)).findings
    assert findings == (*ratings.findings, other)
    assert len(findings) > 1


@pytest.mark.parametrize(
    ("battles", "unrated", "both_bad", "rate"),
    [(0, 0, 0, None), (3, 1, 1, 0.25), (0, 2, 2, 1.0), (5, 0, 0, 0.0), (4, 0, 3, 0.75), (3, 1, 2, 0.5)],
)
def test_both_bad_rate_is_a_share_of_all_battles(battles, unrated, both_bad, rate):
    row = board_of(told("a>b b>a"), BARE).rows[0]
    assert replace(row, battles=battles, unrated=unrated, both_bad=both_bad).both_bad_rate == rate


def test_a_judges_flag_counts_as_both_bad_and_changes_no_rating():
    rows = [
        {"model_a": "a", "model_b": "b", "winner": winner, "question_id": str(k), "judge_model": "j"}
        for k, winner in enumerate(["model_a"] * 6 + ["model_b"] * 2 + ["tie"] * 2)
    ]
    plain = board_of(Table.from_battles([Battle.from_dict(row) for row in rows]))
    flagged = board_of(Table.from_battles([Battle.from_dict(row | {"both_bad": True}) for row in rows]))
    for one, other in zip(plain.rows, flagged.rows, strict=True):
        assert other == replace(one, both_bad=10)
        assert (one.both_bad_rate, other.both_bad_rate) == (0.0, 1.0)
    assert (plain.n_battles, flagged.n_battles) == (10, 10)


def naive_pairs(some: list[Battle], both_bad: str = "drop") -> list[PairRow]:
    cells = Counter()
    for battle in some:
        if battle.model_a == battle.model_b:
            continue
        a, b = sorted((battle.model_a, battle.model_b))
        winner = {"model_a": battle.model_a, "model_b": battle.model_b}.get(battle.winner)
        column = {a: "a_wins", b: "b_wins"}.get(winner) or {
            Kind.TIE: "ties",
            Kind.INCONSISTENT: "inconsistent",
            Kind.BOTH_BAD: "both_bad",
        }[battle.kind.plain]
        cells[a, b, column] += 1
        cells[a, b, "both_bad"] += column != "both_bad" and bool(battle.both_bad)
        cells[a, b, "ties"] += column == "both_bad" and both_bad == "tie"
    columns = ("a_wins", "b_wins", "ties", "inconsistent", "both_bad")
    pairs = sorted({(a, b) for a, b, _ in cells})
    return [PairRow(a, b, *(cells[a, b, column] for column in columns)) for a, b in pairs]


KINDS = [
    ("model_a", None),
    ("model_a", "lean"),
    ("model_b", None),
    ("model_b", "lean"),
    ("tie", None),
    ("tie", "inconsistent"),
    ("both_bad", None),
]
rows = st.builds(
    lambda a, b, kind, flag: Battle.from_dict(
        {"model_a": a, "model_b": b, "winner": kind[0], "label": kind[1], "both_bad": flag}
    ),
    st.sampled_from(names(4)),
    st.sampled_from(names(4)),
    st.sampled_from(KINDS),
    st.sampled_from([None, False, True]),
)


@given(st.lists(rows, max_size=40), st.sampled_from(["drop", "tie"]))
def test_pairs_are_those_of_counting_by_hand(some, both_bad):
    assert pair_rows(Table.from_battles(some), BradleyTerry(both_bad=both_bad)) == naive_pairs(some, both_bad)


#: Three of four battles end as both_bad.
MOSTLY_BAD = "a>b*11 b>a*5 a!b*35 b!a*20"


def test_where_both_bad_is_a_tie_pairs_and_rows_are_those_that_the_ratings_rest_on():
    some, method = told(MOSTLY_BAD), BradleyTerry(both_bad="tie")
    (pair,) = pair_rows(some, method)
    assert (pair.battles, pair.a_wins, pair.b_wins, pair.ties, pair.both_bad) == (71, 11, 5, 55, 55)
    assert pair.a_score == (11 + 55 / 2) / 71
    board = board_of(some, method)
    first, second = board.rows
    assert 1 / (1 + 10 ** ((second.rating - first.rating) / 400)) == pytest.approx(pair.a_score)
    assert [(row.battles, row.wins, row.losses, row.ties) for row in board.rows] == [
        (71, 11, 5, 55),
        (71, 5, 11, 55),
    ]
    assert [(row.both_bad, row.unrated, row.both_bad_rate) for row in board.rows] == [(55, 0, 55 / 71)] * 2
    assert board.n_battles == 71
    assert "few-battles" not in {finding.name for finding in board.findings}


@pytest.mark.parametrize(
    "method", [BradleyTerry(), BradleyTerry(both_bad="tie", ties="drop"), Elo(), Glicko2()]
)
def test_where_both_bad_rates_nobody_pairs_and_rows_leave_it_out(method):
    some = told(MOSTLY_BAD)
    (pair,) = pair_rows(some, method)
    assert (pair.battles, pair.a_score, pair.both_bad) == (16, 11 / 16, 55)
    board = board_of(some, method)
    assert [(row.battles, row.unrated, row.both_bad) for row in board.rows] == [(16, 55, 55)] * 2
    assert board.n_battles == 71
    assert "few-battles" in {finding.name for finding in board.findings}


def test_an_inconsistent_result_counts_half_as_a_tie_does():
    pair = PairRow("a", "b", a_wins=2, b_wins=1, ties=2, inconsistent=3, both_bad=0)
    assert (pair.battles, pair.a_score) == (8, 4.5 / 8)


def test_columns_are_the_fields_of_the_rows():
    board = board_of(table(drawn(4, 200)))
    columns = board.to_columns()
    assert columns["model"] == [row.model for row in board.rows]
    assert columns["ci_low"] == [row.low for row in board.rows]
    assert columns["rank_high"] == [row.rank_high for row in board.rows]
    assert {"rd", "placed"}.isdisjoint(columns)
    bare = board_of(table(drawn(4, 200)), Glicko2(kernel="plain")).to_columns()
    assert {"ci_low", "ci_high", "rank_low", "rank_high", "tier"}.isdisjoint(bare)
    assert all(value > 0 for value in bare["rd"])
