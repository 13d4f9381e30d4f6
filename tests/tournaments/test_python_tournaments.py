"""Tournaments and comparisons from Python: the same numbers as the folder of the command."""

from __future__ import annotations

import asyncio
import json

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tiltyard
from support.arranged import Arranged, arrange
from support.command import run
from tiltyard.errors import BadOption

PRICES = {"likes-fine": {"input": 3, "output": 15}}


def row(model, number, word=""):
    return {
        "prompt_id": f"q{number}",
        "prompt": f"Question {number}?",
        "model": model,
        "response": f"Reply{word}",
    }


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TILTYARD_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    return tmp_path


def boards(folder):
    groups = json.loads((folder / "dimension_ratings.json").read_bytes())["groups"]
    return {
        name: [(one["model"], one["rating"], one["ci_low"], one["ci_high"]) for one in group["ratings"]]
        for name, group in groups.items()
    }


def shown(result):
    return {
        name: [(one.model, one.rating, one.low, one.high) for one in board.rows]
        for name, board in result.boards.items()
    }


def test_a_configuration_gives_the_numbers_of_the_command(home, billed):
    arranged = arrange(home, judge=billed.judge())
    result = tiltyard.tournament(arranged.config, output_dir="mine", sample_pairs=9)
    arranged.done("run", arranged.config, "--sample-pairs", 9, "--output-dir", "theirs")
    assert billed.since() == 36
    assert shown(result) == boards(home / "theirs") == boards(result.folder)
    assert list(result.boards) == ["factuality", "calibration"]
    assert str(result.folder) == "mine"
    assert result.complete
    assert result.questions == {"ok": 36}
    assert result.cost_usd == float(arranged.document("costs.json", "mine")["actual"]["usd"]) > 0
    stated = arranged.document("diagnostics.json", "mine")["findings"]
    assert [one.to_dict() for one in result.findings] == stated
    written = json.loads(json.dumps(result.to_dict()))
    assert [one["model"] for one in written["boards"]["factuality"]] == [
        one.model for one in result.boards["factuality"].rows
    ]
    arranged.done("verify", "mine")


def test_answers_of_every_kind_and_a_judge_make_the_tournament_of_the_command(home, billed):
    (home / "a.jsonl").write_text("".join(json.dumps(row("a", k)) + "\n" for k in range(3)))
    b = [tiltyard.Answer.from_dict(row("b", k, " fine"), "b") for k in range(3)]
    c = [row("c", k, " poor") for k in range(3)]
    judge = {"model": "likes-fine", "base_url": billed.server.openai, "max_tokens": 512}
    result = tiltyard.tournament(answers=["a.jsonl", *b, *c], judge=judge, prices=PRICES, budget_usd=5)
    assert result.complete
    assert {one.model: one.rank for one in result.boards["preference"].rows}.keys() == {"a", "b", "c"}
    config = result.folder.parent / "tournament.yaml"
    assert "that are compared" in config.read_text()
    assert "max_tokens: 512" in config.read_text()
    asked = billed.since()
    # What was written is enough for the command, and nothing is paid twice.
    arranged = Arranged(home)
    arranged.done("run", config, "--mode", "quick", "--output-dir", "again")
    arranged.done("verify", result.folder)
    assert boards(home / "again") == shown(result)

    async def inside():
        blocking = tiltyard.tournament(answers=["a.jsonl", *b, *c], judge=judge, prices=PRICES, budget_usd=5)
        return blocking, await tiltyard.tournament_async(
            answers=["a.jsonl", *b, *c], judge=judge, prices=PRICES, budget_usd=5
        )

    for found in asyncio.run(inside()):
        assert shown(found) == shown(result)
        assert found.folder == result.folder
    assert billed.since() == asked


def test_what_a_budget_leaves_is_said(home, billed):
    arranged = arrange(home, judge=billed.judge(max_tokens=1024))
    part = tiltyard.tournament(arranged.config, output_dir="out", budget_usd=0.09)
    assert not part.complete
    assert part.questions["unasked"] + part.questions["ok"] == 48
    assert 0 < part.cost_usd <= 0.09
    assert tiltyard.tournament(arranged.config, output_dir="out", budget_usd=5).complete


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            {"config": "t.yaml", "bugdet_usd": 1},
            "tournament has no option 'bugdet_usd'; did you mean budget_usd",
        ),
        ({}, "needs either a configuration, or answers and a judge"),
        ({"config": "t.yaml", "answers": ["a"]}, "needs either a configuration, or answers and a judge"),
        ({"config": "t.yaml", "judge": "x"}, "the configuration has its own"),
        ({"config": "t.yaml"}, "t.yaml"),
        ({"answers": [row("a", 1), row("b", 1)]}, "answers need a judge"),
        ({"answers": [row("a", 1)], "judge": "x"}, "answers of a; a tournament needs those of two"),
        (
            {"answers": [row("a", 1), 3], "judge": "x"},
            "answer 2 is int; expected a path, an Answer or a mapping",
        ),
        ({"answers": [{"model": "a"}], "judge": "x"}, "row 1"),
        ({"answers": "nowhere.jsonl", "judge": "x"}, "nowhere.jsonl"),
        ({"answers": [row("a", 1), row("b", 1)], "judge": {"name": "x"}}, "need the field model"),
        (
            {"answers": [row("a", 1), row("b", 1)], "judge": {"model": "x", "tokens": 3}},
            "tokens",
        ),
        ({"answers": [row("a", 1), row("b", 1)], "judge": "x", "mode": "pilot"}, "mode goes with"),
        ({"answers": [row("a", 1)], "judge": "x", "prices": {"x": {"input": -1}}}, "prices"),
    ],
)
def test_what_is_wrong_is_said(home, arguments, said):
    with pytest.raises(tiltyard.TiltyardError, match=said):
        tiltyard.tournament(**arguments)


def test_importing_a_module_of_the_package_hides_nothing():
    import tiltyard.tournaments.tournament_run

    with pytest.raises(tiltyard.TiltyardError, match="needs either"):
        tiltyard.tournament()


# Comparisons.


def scored(model, *scores, response="Reply"):
    return [
        {
            "prompt_id": f"q{k}",
            "prompt": f"Question {k}?",
            "model": model,
            "response": response,
            "scores": {"acc": score},
        }
        for k, score in enumerate(scores)
    ]


def test_rows_are_answers():
    found = tiltyard.ab(scored("old", *[0.0, 1.0] * 20), scored("new", *[1.0] * 40))
    assert (found.decision, found.compared) == ("better", 40)


def test_what_is_no_answer_is_named():
    with pytest.raises(BadOption, match="answer 2"):
        tiltyard.ab([scored("old", 1.0)[0], 7], scored("new", 1.0))


def test_a_judge_may_be_its_settings_and_its_folder_is_verified(home, billed):
    judge = {"model": "likes-fine", "base_url": billed.server.openai, "max_tokens": 512}
    prices = {"likes-fine": {"input": 3, "output": 15}}
    sides = scored("old", *[0.0] * 40), scored("new", *[0.0] * 40, response="Reply fine")
    found = tiltyard.ab(*sides, judge=judge, prices=prices, budget_usd=5.0)
    assert found.decision == "better"
    assert found.details["spent"].startswith("$")
    (folder,) = (home / "runs").iterdir()
    assert "max_tokens: 512" in (folder / "tournament.yaml").read_text()
    # The folder that `ab` names will do: the run is inside.
    assert run("verify", folder).code == 0
    assert "Reply fine" in run("read", folder).out
    assert tiltyard.verify(folder).passed


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"bugdet_usd": 1.0}, "ab has no option 'bugdet_usd'; did you mean budget_usd?"),
        ({"jury": "x"}, "ab has no option 'jury'; it has"),
    ],
)
def test_a_mistyped_option_is_refused(options, said):
    with pytest.raises(BadOption, match=said):
        tiltyard.ab(scored("old", 1.0), scored("new", 1.0), **options)


FRAMES = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "arrow": pa.Table.from_pylist,
    "dicts": list,
}


@pytest.mark.parametrize("kind", FRAMES)
def test_frames_and_dicts_without_ids_are_read_as_tables(kind):
    def side(name, wins):
        rows = [
            {"question": f"What is {k}?", "answer": "yes", "model": name, "score": float(k % 10 < wins)}
            for k in range(200)
        ]
        return FRAMES[kind](rows)

    found = tiltyard.ab(side("old", 5), side("new", 8))
    assert (found.decision, found.compared, found.name_b) == ("better", 200, "new")
    assert found.difference == pytest.approx(0.3)


def test_a_function_judges_a_tournament(home):
    answers = [row(model, number, word) for model, word in (("a", "!"), ("b", "")) for number in range(4)]
    result = tiltyard.tournament(
        answers=answers,
        judge=lambda _prompt, first, second: "A" if first > second else "B",
        judge_version="1",
        rubric=["preference", "code"],
    )
    assert result.complete
    assert result.cost_usd is None
    assert {row.model: row.wins for row in result.boards["preference"].rows} == {"a": 4, "b": 0}
    assert tiltyard.verify(result.folder).passed
