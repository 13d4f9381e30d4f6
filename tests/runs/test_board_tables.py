"""What a board of `tiltyard.rate` gives besides its rows: pairs, a picture, ratings by date, folders, sites."""

import json

import numpy as np
import pandas as pd
import pytest

import tiltyard
from support.framed_battles import demo_rows
from tiltyard.errors import BadOption, CannotRate
from tiltyard.runs.manifest import BOOTSTRAP
from tiltyard.simulation.demo.demo_roster import demo_battles

ROWS = [battle.to_dict() for battle in demo_battles(800)]


@pytest.fixture(scope="module")
def board():
    return tiltyard.rate(ROWS)


@pytest.mark.parametrize("options", [{}, {"prior_sd": 60.0}, {"level": 0.8}])
def test_pairs_say_what_comparisons_say(options):
    rated = tiltyard.rate(ROWS, **options)
    table = rated.pairwise()
    assert len(table) == len(table.to_pandas()) == len(rated) * (len(rated) - 1) // 2
    for pair in table.to_polars().iter_rows(named=True):
        found = rated.compare(pair["model_a"], pair["model_b"])
        assert pair["win_rate"] == pytest.approx(found.expected_score)
        assert (pair["a_wins"], pair["b_wins"], pair["ties"]) == (found.wins, found.losses, found.ties)
        assert pair["settled"] == found.settled
        ends = [1 / (1 + 10 ** (-end / 400)) for end in (found.low, found.high)]
        assert [pair["win_rate_low"], pair["win_rate_high"]] == pytest.approx(ends)


def test_a_modelled_tie_counts_half_in_win_rates():
    rated = tiltyard.rate(ROWS, ties="davidson")
    pair = rated.pairwise().to_pandas().iloc[0]
    d = np.log(10) * (rated[pair.model_a].rating - rated[pair.model_b].rating) / 400
    tie = rated.ratings.extras["tie_parameter"] * np.exp(d / 2)
    assert pair.win_rate == pytest.approx((np.exp(d) + tie / 2) / (np.exp(d) + 1 + tie))


def test_methods_without_a_scale_or_intervals_leave_cells_empty():
    glicko = tiltyard.rate(ROWS, method="glicko-2").pairwise().to_columns()
    assert {*glicko["win_rate"], *glicko["settled"]} == {None}
    plain = tiltyard.rate(ROWS, intervals="none").pairwise().to_columns()
    assert {*plain["win_rate_low"], *plain["settled"]} == {None}
    assert None not in plain["win_rate"]


def test_a_table_shows_itself(board):
    pairs = board.pairwise()
    assert str(pairs).splitlines()[0].split() == list(pairs.to_columns())
    assert pairs._repr_html_().count("<tr") == len(pairs) + 1
    assert "28 rows" in repr(pairs)


@pytest.mark.parametrize("step", ["day", "week", "month", "quarter", "year"])
def test_the_last_date_is_the_board(board, step):
    frame = board.over_time(step).to_pandas()
    times = pd.to_datetime([row["time"] for row in ROWS], utc=True).tz_localize(None)
    starts = times.to_period({"day": "D", "week": "W", "month": "M", "quarter": "Q", "year": "Y"}[step])
    assert set(frame.date) == set(starts.start_time)
    last = frame[frame.date == frame.date.max()].set_index("model")
    for row in board:
        assert (last.rating[row.model], last.ci_low[row.model]) == (row.rating, row.low)
        assert last.battles[row.model] == row.battles


def test_each_step_alone_and_battles_without_a_time(board):
    rows = [row | {"time": None} if number < 7 else row for number, row in enumerate(ROWS)]
    table = tiltyard.rate(rows).over_time("day", cumulative=False)
    assert sum(table.to_columns()["battles"]) <= 2 * (len(ROWS) - 7)
    assert table.left_out
    assert len(set(table.to_columns()["date"])) > 1


def test_what_has_no_time_or_is_a_group_is_refused(board):
    timeless = [{name: row[name] for name in ("model_a", "model_b", "winner", "category")} for row in ROWS]
    for refused in (
        lambda: board.over_time("fortnight"),
        lambda: tiltyard.rate(timeless).over_time(),
        tiltyard.rate(ROWS, by="category").groups["code"].over_time,
        lambda: tiltyard.rate(ROWS, by="category").groups["code"].write("nowhere"),
    ):
        with pytest.raises(BadOption):
            refused()
    frame = pd.DataFrame(timeless).assign(time=pd.Series([None] * len(ROWS), dtype="datetime64[us]"))
    with pytest.raises(CannotRate):
        tiltyard.rate(frame).over_time()


def test_a_folder_and_a_site_are_those_of_the_command_line(tmp_path):
    rated = tiltyard.rate(ROWS, by="category")
    run = rated.write(tmp_path / "run", arena="Ours")
    assert tiltyard.verify(run).passed
    written = json.loads((run / "elo_ratings.json").read_text())
    assert written["groups"]["Overall"]["ratings"][0]["rating"] == rated.rows[0].rating
    assert (run / BOOTSTRAP).is_file()
    assert "Ours" in (run / "report.html").read_text()
    site = rated.publish(tmp_path / "site", arena="Ours")
    assert tiltyard.verify(site).passed
    tiltyard.rate(demo_rows(), level=0.9).publish(site, arena="Ours", add=True)
    assert len(json.loads((site / "site.json").read_text())["runs"]) == 2


def test_a_check_gives_the_options_that_repair_it(tmp_path):
    messy = [*ROWS[:200], *ROWS[:50], {"model_a": "x", "model_b": "y", "winner": ""}]
    messy += [row | {"model_a": row["model_a"].upper()} for row in ROWS[200:260]]
    checked = tiltyard.check(messy)
    assert {"skip_invalid", "drop_duplicates", "rename"} == set(checked.options)
    again = tiltyard.rate(messy, **checked.options)
    assert len(again) == len(tiltyard.rate(ROWS))
    assert not tiltyard.check(messy, skip_invalid=True).options.get("skip_invalid")
    assert [one["repair"] for one in checked.to_dict()["findings"]][:3] == [
        option for _, option in checked.found
    ][:3]
    with pytest.raises(BadOption):
        tiltyard.check(messy, skip=True)
