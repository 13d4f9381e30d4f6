"""Batch Bradley–Terry beside a published order."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.boarded_arenas import BAD, TIE, A, B, arena, noisy
from support.sizes import sized
from tiltyard.core.battles import Battle, Kind, Table
from tiltyard.core.board.cross_check import batch_ratings, cross_check, votes_table
from tiltyard.core.ratings import BradleyTerry
from tiltyard.core.ratings.ranks import rank_models

OUTCOMES = {Kind.WIN_A: "model_a", Kind.WIN_B: "model_b", Kind.TIE: "tie", Kind.BOTH_BAD: "both_bad"}


def told(names, votes):
    """The same votes, one battle each, as a log would hold them."""
    return Table.from_battles(
        Battle(model_a=names[a], model_b=names[b], winner=OUTCOMES[kind], question_id=f"p{p}")
        for a, b, p, kind in votes
    )


@pytest.mark.no_cover
@settings(max_examples=sized(10, 40))
@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.integers(1, 4), st.integers(0, 5), st.integers(0, 3)),
        min_size=1,
        max_size=150,
    ),
    st.permutations(["zeta", "eta", "alpha", "Beta", "m"]),
)
def test_a_standing_is_rated_like_the_log_it_was_folded_from(drawn, names):
    votes = [(a, (a + step) % 5, p, Kind(kind)) for a, step, p, kind in drawn]
    batch = batch_ratings(arena([1500] * 5, votes, names=names))
    log = BradleyTerry()(told(names, votes))
    ranks = rank_models(log)
    for code, name in enumerate(names):
        if name not in log.models:
            assert batch.group[code] == -1
            assert np.isnan(batch.rating[code])
            continue
        k = log.models.index(name)
        assert batch.rating[code] == pytest.approx(log.rating[k], nan_ok=True)
        assert batch.interval.low[code] == pytest.approx(log.interval.low[k], nan_ok=True, abs=1e-4)
        assert batch.interval.high[code] == pytest.approx(log.interval.high[k], nan_ok=True, abs=1e-4)
        for other, neighbour in enumerate(names):
            if neighbour in log.models:
                at = log.models.index(neighbour)
                assert batch.confidence[code, other] == pytest.approx(
                    ranks.confidence[k, at], nan_ok=True, abs=1e-6
                )


def test_the_table_holds_every_vote_under_its_prompt():
    votes = [(1, 0, 3, A), (0, 1, 3, A), (0, 1, 2, TIE), (1, 0, 0, BAD), (1, 0, 0, BAD), (1, 0, 0, B)]
    table = votes_table(arena([1, 2], votes, names=["z", "a"]))
    log = table.log()
    assert table.models == ("a", "z")
    assert table.n_battles == 6
    assert len(np.unique(log.prompt)) == 3
    assert list(zip(log.a.tolist(), log.kind.tolist(), strict=True)) == [
        (0, Kind.WIN_A),
        (1, Kind.WIN_A),
        (1, Kind.TIE),
        (0, Kind.BOTH_BAD),
        (0, Kind.BOTH_BAD),
        (0, Kind.WIN_B),
    ]
    assert log.voter is None


def test_rows_follow_the_published_order_with_rating_interval_and_places():
    standing = noisy(1, [1.0, 0.0, 0.05, -1.0])
    check = cross_check(standing, batch_ratings(standing))
    assert [row.model for row in check.rows] == ["m0", "m2", "m1", "m3"]
    assert [row.published for row in check.rows] == [1, 2, 3, 4]
    assert [row.group for row in check.rows] == [0] * 4
    assert all(row.low < row.rating < row.high for row in check.rows)
    assert all(row.rank_low <= row.rank <= row.rank_high for row in check.rows)
    assert [(row.rank_low, row.rank_high) for row in check.rows] == [(1, 1), (2, 3), (2, 3), (4, 4)]
    assert (check.level, check.scope, check.n_clusters) == (0.95, "prompts like these", 40)
    assert check.ranks_hold == "at one look"
    first, second, third, last = (row.above_next for row in check.rows)
    assert first > 0.999
    assert 0.01 < second < 0.99
    assert third > 0.999
    assert last is None


def test_an_alarm_names_the_pairs_that_stand_the_other_way_round_widest_first():
    standing = noisy(5, [0.0, 2.0, 1.0], rating=[1900, 1700, 1500])
    check = cross_check(standing, batch_ratings(standing))
    assert [(pair.above, pair.below) for pair in check.disagreements] == [("m0", "m1"), ("m0", "m2")]
    assert check.disagreements[0].gap > check.disagreements[1].gap > 0.0
    assert check.alarm.name == "orders-disagree"
    assert "m1 above m0" in check.alarm.text


def test_retired_models_inform_ratings_and_hold_no_place():
    both = noisy(6, [2.0, 0.5, -0.5])
    without = noisy(6, [2.0, 0.5, -0.5], retired=[0])
    kept, gone = batch_ratings(both), batch_ratings(without)
    assert gone.rating == pytest.approx(kept.rating)
    check = cross_check(without, gone)
    assert [(row.model, row.rank, row.rank_low, row.rank_high) for row in check.rows] == [
        ("m1", 1, 1, 1),
        ("m2", 2, 2, 2),
    ]


def test_models_that_never_met_are_not_compared():
    votes = [(0, 1, p, kind) for p in range(6) for kind in (A, A, B)]
    votes += [(2, 3, p, kind) for p in range(3) for kind in (A, A, B)]
    standing = arena([1700, 1500, 1650, 1450, 1400], votes)
    batch = batch_ratings(standing)
    assert np.isnan(batch.score).tolist() == [False, False, True, True, True]
    check = cross_check(standing, batch)
    rows = {row.model: row for row in check.rows}
    assert [rows[name].group for name in ("m0", "m1", "m2", "m3", "m4")] == [0, 0, 1, 1, None]
    assert [rows[name].rank for name in ("m0", "m1", "m2", "m3", "m4")] == [1, 2, 1, 2, None]
    assert rows["m0"].above_next is None
    assert (rows["m4"].rating, rows["m4"].low, rows["m4"].rank_low, rows["m4"].rank_high) == (None,) * 4
    assert check.alarm is None
    assert {"disconnected", "unrated", "few-prompts"} <= {finding.name for finding in check.findings}


def test_a_method_without_intervals_gives_ratings_alone():
    standing = noisy(7, [2.0, -2.0], n=300, rating=[1400, 1600])
    batch = batch_ratings(standing, BradleyTerry(interval="none"))
    check = cross_check(standing, batch)
    assert (check.scope, check.n_clusters, check.alarm) == (None, None, None)
    assert [row.rank for row in check.rows] == [2, 1]
    assert [(row.low, row.high, row.above_next) for row in check.rows] == [(None, None, None)] * 2


@pytest.mark.parametrize("models", [0, 1, 3])
def test_an_arena_without_votes_has_no_numbers(models):
    standing = arena([1500] * models)
    check = cross_check(standing, batch_ratings(standing))
    assert [(row.rating, row.rank, row.above_next) for row in check.rows] == [(None, None, None)] * models
    assert check.alarm is None


@pytest.mark.no_cover
def test_false_alarms_are_rare_among_equals():
    """Half of these orders are wrong; the alarm may sound for 1 in 20 of the arenas."""
    alarms = 0
    for seed in range(sized(15, 40)):
        standing = noisy(100 + seed, [0.0] * 6, n=900, rating=[1500 - k for k in range(6)])
        alarms += cross_check(standing, batch_ratings(standing)).alarm is not None
    assert alarms <= sized(3, 5)
