"""Battles of JudgeArena go in and come out as its own tools read them."""

from collections import Counter
from pathlib import Path

import pytest

from support.arranged import read_lines, write_lines
from support.command import run
from support.judgearena import ARENA, CANDIDATE, JUDGE, human_rows, judged_rows, rated_again, read_strictly
from support.run_folders import copied, edit_json, failed, rehash
from tiltyard.files import read_battles, write_battles
from tiltyard.files.parquet_tables import read_columns
from tiltyard.runs.run_verification import verify_run

NAMED = ("--arena", ARENA, "--model", CANDIDATE)
AS_JUDGEARENA = ("--write-as", "judgearena")


def rate(tmp_path, *options, both_bad="tie (bothbad)", name="battles.jsonl"):
    path = tmp_path / name
    if not path.exists():
        write_lines(path, [*human_rows(120, both_bad), *judged_rows(24)])
    ran = run("rate", path, "--out", tmp_path / "run", *NAMED, *options)
    assert ran.code == 0, ran.err
    return tmp_path / "run"


@pytest.mark.parametrize("options", [(), AS_JUDGEARENA], ids=["as read", "as judgearena"])
def test_its_words_come_out_as_they_went_in(tmp_path, options):
    folder = rate(tmp_path, *options)
    battles, report = read_strictly(folder)
    asked = [*human_rows(120), *judged_rows(24)]
    for name in ("model_a", "model_b", "winner", "source", "question_id", "judge_model"):
        assert [battle[name] for battle in battles] == [row[name] for row in asked]
    columns = read_columns(folder / "battles.parquet")
    assert columns["winner"] == [row["winner"] for row in asked]
    assert (report["arena"], report["model"], report["judge_model"]) == (ARENA, CANDIDATE, JUDGE)
    assert {entry["model"]: entry["source"] for entry in report["ratings"]}[CANDIDATE] == "evaluated"
    assert Counter(entry["source"] for entry in report["ratings"]) == {"human": 4, "evaluated": 1}
    assert verify_run(folder).exact


def test_written_as_judgearena_counts_and_centres_as_it_does(tmp_path):
    battles, report = read_strictly(rate(tmp_path, *AS_JUDGEARENA, both_bad="both_bad"))
    assert sum(battle["winner"] == "tie (bothbad)" for battle in battles) == 18
    expected = rated_again(battles)
    assert {entry["model"]: entry["rating"] for entry in report["ratings"]} == pytest.approx(
        expected, abs=1e-6
    )
    assert sum(entry["n_battles"] for entry in report["ratings"]) == 2 * len(battles)
    assert sum(entry["rating"] for entry in report["ratings"]) / 5 == pytest.approx(1000.0)


def test_other_spellings_stay_ours(tmp_path):
    folder = rate(tmp_path, both_bad="Both Bad")
    winners = Counter(battle["winner"] for battle in read_lines(folder / "battles.jsonl"))
    assert winners["both_bad"] == 18
    assert not winners["tie (bothbad)"]


def test_options_beside_it_win(tmp_path):
    folder = rate(tmp_path, *AS_JUDGEARENA, "--both-bad", "drop", "--anchor", "oak=1234")
    battles, report = read_strictly(folder)
    assert sum(entry["n_battles"] for entry in report["ratings"]) == 2 * (len(battles) - 18)
    assert {entry["model"]: entry["rating"] for entry in report["ratings"]}["oak"] == pytest.approx(1234.0)


def test_it_needs_a_folder_and_its_own_method(tmp_path):
    write_lines(tmp_path / "battles.jsonl", human_rows(30))
    for options in ((), ("--out", tmp_path / "run", "--method", "elo")):
        ran = run("rate", tmp_path / "battles.jsonl", *AS_JUDGEARENA, *options)
        assert ran.code == 2
    assert not (tmp_path / "run").exists()


def test_with_bootstrap_the_rating_is_the_mean_over_the_refits(tmp_path):
    folder = rate(tmp_path, *AS_JUDGEARENA, "--bootstrap")
    report = read_strictly(folder)[1]
    assert report["n_bootstraps"] == 100
    columns = read_columns(folder / "bootstrap_ratings.parquet")
    for entry in report["ratings"]:
        refits = sorted(
            rating
            for model, rating in zip(columns["model"], columns["rating"], strict=True)
            if model == entry["model"]
        )
        assert len(refits) == 100
        assert entry["rating"] == pytest.approx(sum(refits) / 100, abs=1e-9)
        # The 2.5th and 97.5th percentile of a hundred numbers, between the third and fourth from either end.
        assert entry["ci_low"] == pytest.approx(refits[2] + 0.475 * (refits[3] - refits[2]), abs=1e-9)
        assert entry["ci_high"] == pytest.approx(refits[96] + 0.525 * (refits[97] - refits[96]), abs=1e-9)
        assert entry["estimate"] != entry["rating"]
    assert verify_run(folder).exact


@pytest.mark.parametrize(
    "options", [(), AS_JUDGEARENA, ("--bootstrap",)], ids=["plain", "as judgearena", "drawn"]
)
def test_a_forged_number_is_found(tmp_path, options):
    folder = rate(tmp_path, *options)
    for field in ("rating", "ci_low", "n_battles"):
        forged = copied(folder, tmp_path / field)
        edit_json(
            forged / "elo_ratings.json",
            lambda document, field=field: document["ratings"][1].update(
                {field: document["ratings"][1][field] + 1}
            ),
        )
        rehash(forged)
        assert failed(verify_run(forged)) == ["elo_ratings.json"]


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
def test_battles_keep_the_spelling_through_every_kind_of_file(tmp_path, ending):
    write_lines(tmp_path / "in.jsonl", human_rows(30))
    path = tmp_path / f"out.{ending}"
    write_battles(path, read_battles(tmp_path / "in.jsonl"))
    assert [battle.to_dict()["winner"] for battle in read_battles(path)] == [
        row["winner"] for row in human_rows(30)
    ]


def test_an_lmarena_file_keeps_its_spelling(tmp_path):
    path = Path(__file__).parents[1] / "files" / "fixtures" / "lmarena_100k.jsonl"
    ran = run("rate", path, "--out", tmp_path / "run")
    assert ran.code == 0, ran.err
    spelled = Counter(row["winner"] for row in read_lines(path))["tie (bothbad)"]
    written = Counter(row["winner"] for row in read_lines(tmp_path / "run" / "battles.jsonl"))
    assert written["tie (bothbad)"] == spelled > 0
