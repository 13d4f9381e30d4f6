"""Columns by which prompts depend on each other: found in files, chosen by name, kept in run folders."""

import csv
import json
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest

import tiltyard
from support.command import run
from support.judged_runs import anchored_run, made_run
from support.judged_runs import document as tournament_document
from support.judged_runs import written as written_tournament
from tiltyard.errors import BadOption, TiltyardError
from tiltyard.files import open_battles, read_battles
from tiltyard.runs.run_verification import verify_run

MODELS = ("ash", "birch", "cedar", "dill")


def rows(n=900, *, topics=6, effect=1.5, prompts=60):
    """Battles whose models are equal on average, and each better at some topics; a topic has a day of its own."""
    rng = np.random.default_rng(5)
    by_topic = rng.normal(0.0, effect, (len(MODELS), topics))
    start = datetime(2026, 1, 1, tzinfo=UTC)
    for _ in range(n):
        a, b = rng.choice(len(MODELS), 2, replace=False)
        prompt = int(rng.integers(prompts))
        topic = prompt % topics
        better = rng.random() < 1.0 / (1.0 + np.exp(by_topic[b, topic] - by_topic[a, topic]))
        yield {
            "model_a": MODELS[a],
            "model_b": MODELS[b],
            "winner": "model_a" if better else "model_b",
            "question_id": f"q{prompt}",
            "repository": 1000 + topic,
            "time": (start + timedelta(days=topic, minutes=int(rng.integers(1000)))).isoformat(),
        }


@pytest.fixture(scope="module")
def battles():
    return list(rows())


@pytest.fixture
def file(battles, tmp_path):
    path = tmp_path / "battles.csv"
    with path.open("w", newline="") as text:
        writer = csv.DictWriter(text, battles[0])
        writer.writeheader()
        writer.writerows(battles)
    return path


def test_times_in_csv_are_those_of_single_rows(tmp_path):
    spelled = [
        "2026-01-01",
        "2026-01-01 23:30",
        "2026-01-01T23:30:00-02:00",
        "2026-01-01T10:00:00.123456Z",
        "",
    ]
    for times in [*([text] for text in spelled), spelled[:2], spelled[2:4], spelled]:
        file = tmp_path / "times.csv"
        file.write_text("model_a,model_b,winner,time\n" + "".join(f"a,b,tie,{text}\n" for text in times))
        read = pa.Table.from_batches(open_battles(file).batches(["time"]))["time"].to_pylist()
        assert read == [battle.time for battle in read_battles(file)]


def found(board):
    return [finding.values["level"] for finding in board.findings if finding.name == "dependent-prompts"]


def half_widths(board):
    return [row.high - row.low for row in board.rows]


def test_days_are_found_and_columns_are_chosen(battles, file):
    for data in (battles, file):
        board = tiltyard.rate(data)
        assert found(board) == ["day"]
        by_prompt, by_day, by_repository = (
            tiltyard.rate(data, cluster=name) for name in ("question_id", "day", "repository")
        )
        assert [one.rated.board.clusters for one in (by_prompt, by_day, by_repository)] == [
            *("prompt", "day", "repository")
        ]
        assert by_repository.rated.board.scope == "repositories like these"
        assert not [*found(by_prompt), *found(by_day), *found(by_repository)]
        np.testing.assert_allclose(half_widths(by_day), half_widths(by_repository))
        assert half_widths(board) >= half_widths(by_day) > half_widths(by_prompt)
        assert board.compare("ash", "birch").high >= by_day.compare("ash", "birch").high


def test_the_command_takes_a_column(file, tmp_path):
    shown = json.loads(run("compare", "ash", "birch", file, "--cluster", "repository", "--json").out)
    assert shown["scope"] == "repositories like these"
    ran = run("rate", file, "--cluster", "repository", "--out", tmp_path / "run", "--json")
    assert json.loads(ran.out)["interval"]["clusters"] == "repository"
    assert verify_run(tmp_path / "run").exact
    assert run("rate", file, "--out", tmp_path / "tested", "--bootstrap").code == 0
    assert verify_run(tmp_path / "tested").exact


def test_groups_are_tested_one_by_one(battles):
    half = [{**row, "language": "en" if k % 2 else "de"} for k, row in enumerate(battles)]
    board = tiltyard.rate(half, by="language", cluster="repository")
    assert {one.rated.board.n_clusters for one in (board, *board.groups.values())} == {6}
    assert all(found(one) == ["day"] for one in tiltyard.rate(half, by="language").groups.values())


@pytest.mark.parametrize(
    "options",
    [
        {"cluster": "team"},
        {"cluster": "auto"},
        {"cluster": "repository", "intervals": "battles"},
        {"cluster": "repository", "method": "elo"},
    ],
)
def test_a_column_that_means_nothing_is_refused(battles, options):
    with pytest.raises(BadOption):
        tiltyard.rate(battles, **options)


def test_columns_that_hold_something_else_are_left_alone_unless_chosen(battles):
    rows = [{**row, "category": [1, 2], "time": "soon"} for row in battles]
    expected = [row.high for row in tiltyard.rate(battles, cluster="prompt").rows]
    assert [row.high for row in tiltyard.rate(pa.Table.from_pylist(rows)).rows] == expected
    for column in ("category", "day"):
        with pytest.raises(TiltyardError):
            tiltyard.rate(pa.Table.from_pylist(rows), cluster=column)


def test_lists_are_no_groups(battles):
    frame = pa.Table.from_pylist([{**row, "team": ["x"]} for row in battles])
    with pytest.raises(BadOption, match="cluster"):
        tiltyard.rate(frame, cluster="team")


def test_a_tournament_is_rated_by_a_field_of_its_bank(tmp_path):
    folder = written_tournament(tmp_path, made_run(cluster="category"))
    groups = tournament_document(folder, "dimension_ratings.json")["groups"].values()
    assert {group["interval"]["clusters"] for group in groups} == {"category"}
    assert verify_run(folder).passed


def test_a_placement_is_rated_by_a_field_too(tmp_path):
    folder = written_tournament(tmp_path, anchored_run(tmp_path, cluster="category"))
    groups = tournament_document(folder, "dimension_ratings.json")["groups"]
    assert {group["interval"]["clusters"] for group in groups.values()} == {"category"}
    assert verify_run(folder).passed
