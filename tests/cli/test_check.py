"""``tiltyard check``: sixty messy files, each found out, repaired by the command that is printed, and rated as if clean."""

import json
import shlex
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tiltyard
from support.command import run
from support.messy_logs import MESSES, MODELS, SHAPES, log, respelled, with_duplicates, with_winner, write_log


def board(*arguments):
    """What `rate` says of models, and what it finds."""
    done = run(*arguments, "--json")
    assert done.code == 0, done.err
    said = json.loads(done.out)
    return said["ratings"], [finding["name"] for finding in said["findings"]]


def commands(printed):
    return [shlex.split(line)[1:] for line in printed.splitlines() if line.startswith("  tiltyard rate")]


@pytest.fixture(scope="module")
def clean_board(tmp_path_factory):
    """The board of the clean log in a shape, with names of its battles or without."""

    @cache
    def rated(shape, named):
        path = tmp_path_factory.mktemp("clean") / "log"
        write_log(path, shape, log(named=named))
        assert run("check", path).code == 0
        return board("rate", path)

    return rated


@pytest.mark.slow(but_every=5)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("mess", MESSES)
def test_a_messy_file_is_found_out_and_repaired(mess, shape, clean_board, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    finding, change = MESSES[mess]
    rows = log(named=mess != "block")
    write_log(tmp_path / "messy log", shape, change(rows), padded=mess == "headers")
    checked = run("check", "messy log")
    assert f"\n{finding}: " in checked.out, checked.out + checked.err
    pasted = commands(checked.out)
    assert checked.code == (1 if pasted else 0)
    assert bool(pasted) == (finding not in ("outer-spaces", "padded-headers"))
    assert board(*(pasted or [["rate", "messy log"]])[-1]) == clean_board(shape, mess != "block")


CHANGES = {
    "spaces": respelled(5, lambda name: f"\t{name} "),
    "case": respelled(7, str.upper),
    "hyphens": respelled(4, lambda name: name.replace("-", "\u2010")),
    "duplicates": with_duplicates,
    "twice": lambda rows: rows * 2,
    "no winner": with_winner(" "),
}


@settings(max_examples=5, deadline=None)
@given(
    seed=st.integers(0, 99),
    n=st.integers(110, 160),
    mess=st.lists(st.sampled_from(sorted(CHANGES)), max_size=4),
)
def test_a_repaired_log_has_the_board_of_the_clean_one(seed, n, mess):
    rows = log(n, seed)
    messy = rows
    for name in mess:
        messy = CHANGES[name](messy)
    repaired = tiltyard.rate(messy, rename=MODELS, drop_duplicates=True, skip_invalid=True)
    clean = tiltyard.rate(rows)
    assert repaired.rows == clean.rows
    assert repaired.findings == clean.findings


def test_all_repairs_are_one_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = log()
    messy = rows
    for name in ("case", "duplicates", "no winner", "one side"):
        messy = MESSES[name][1](messy)
    write_log(tmp_path / "clean.csv", "csv", rows)
    write_log(tmp_path / "messy.csv", "csv", messy)
    *_, last = commands(run("check", "messy.csv").out)
    assert run(*last, "--out", "run").code == run("verify", "run").code == 0
    assert {"--drop-duplicates", "--skip-invalid", "--rename", "--where"} <= set(last)
    assert board(*last) == board("rate", "clean.csv")


def test_a_winner_in_another_spelling_is_the_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = log()
    named = [{**row, "winner": row.get(row["winner"], "tie")} for row in rows]
    messy = [{**row, "winner": row["winner"].upper()} if k % 9 == 0 else row for k, row in enumerate(named)]
    write_log(tmp_path / "clean.csv", "csv", named)
    write_log(tmp_path / "messy.csv", "csv", messy)
    assert run("rate", "messy.csv").code == 2
    checked = run("check", "messy.csv")
    assert "winner-spellings: " in checked.out
    assert board(*commands(checked.out)[-1]) == board("rate", "clean.csv")


def test_only_invalid_rows_are_an_error(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_log(tmp_path / "messy.csv", "csv", [{**row, "winner": "left"} for row in log(30)])
    done = run("check", "messy.csv")
    assert (done.code, "--outcomes left=" in done.err) == (2, True)


def test_names_with_equals_signs_are_renamed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"argent-70b": "argent t=1", "brioche large": "b=2"}
    rows = [{key: names.get(value, value) for key, value in row.items()} for row in log()]
    write_log(tmp_path / "clean.csv", "csv", rows)
    write_log(tmp_path / "messy.csv", "csv", respelled(7, str.upper)(rows))
    assert board(*commands(run("check", "messy.csv").out)[-1]) == board("rate", "clean.csv")
    told = run("rate", "clean.csv", "--rename", "b=2=c", "--rename", "argent t=1=d")
    assert told.code == 2
    renamed = board("rate", "clean.csv", "--rename", "dunlin_pro=dunlin")
    assert "dunlin" in [row["model"] for row in renamed[0]]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (0, 2, 1)])
def test_models_and_files_come_in_any_order(order, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_log(tmp_path / "votes.csv", "csv", log())
    words = ("argent-70b", "dunlin_pro", "votes.csv")
    done = run("compare", *(words[k] for k in order))
    assert done.out == run("compare", *words).out
    assert done.code == 0, done.err


def test_a_file_with_the_name_of_a_model_comes_last(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_log(tmp_path / "dunlin_pro", "csv", log())
    assert run("compare", "argent-70b", "dunlin_pro", "dunlin_pro").code == 0


def test_findings_as_json_are_those_that_are_printed(tmp_path):
    rows = with_duplicates(log())
    write_log(tmp_path / "messy", SHAPES[0] if isinstance(SHAPES, list | tuple) else next(iter(SHAPES)), rows)
    printed, done = run("check", tmp_path / "messy"), run("check", tmp_path / "messy", "--json")
    said = json.loads(done.out)
    assert done.code == printed.code == 1
    assert all(f"\n{finding['name']}: " in printed.out for finding in said["findings"])
    assert said["repairs"] == ["--drop-duplicates"]
    assert said["findings"][0]["repair"] == "--drop-duplicates"
