"""On LMArena's files, and by its preset, ratings are those of LMArena's own program."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tiltyard
from support.command import run
from support.lmarena_worlds import WORLDS, write_world
from tiltyard.core.ratings import BradleyTerry
from tiltyard.errors import BadOption
from tiltyard.files import open_battles
from tiltyard.runs.battle_rating import RateSettings, preset_parameters, rate_files, rate_settings

#: Written by bench/peers/rate_lmarena.py with arena-rank 0.1.1, from the files of `lmarena_worlds`.
THEIRS = json.loads((Path(__file__).parent / "lmarena_ratings.json").read_text(encoding="utf-8"))
STYLES = {"plain": (), "style": ("length", "markdown")}


@pytest.fixture(scope="module", params=WORLDS)
def world(request, tmp_path_factory):
    return write_world(tmp_path_factory.mktemp("lmarena"), request.param)


def ours(path, kind, **settings):
    method = BradleyTerry(**preset_parameters("lmarena", style=kind == "style"), style=kind == "style")
    chosen = RateSettings(method=method, style=STYLES[kind], **settings)
    return {
        group.name: dict(zip(group.ratings.models, group.ratings.rating.tolist(), strict=True))
        for group in rate_files([open_battles(path)], chosen)
    }


@pytest.mark.parametrize("kind", STYLES)
def test_ratings_are_within_a_tenth_of_a_point(world, kind):
    assert ours(world, kind)[None] == pytest.approx(THEIRS[world.name][kind], abs=0.1)


@pytest.mark.slow(but=("100k.jsonl-plain", "140k-sides.jsonl-style"))
@pytest.mark.parametrize("kind", STYLES)
def test_categories_overlap_as_theirs_do(world, kind):
    found = ours(world, kind, by="category", overlapping=True)
    for name, ratings in THEIRS[world.name]["by"].items():
        assert found[name] == pytest.approx(ratings[kind], abs=0.1), name
    assert set(found) - set(THEIRS[world.name]["by"]) <= {"Overall", "(none)"}


def test_options_beside_the_preset_win():
    settings = rate_settings({"preset": "lmarena", "both_bad": "drop", "style": "length"})
    assert (settings.method.both_bad, settings.method.max_share, settings.method.base) == (
        "drop",
        None,
        1000.0,
    )
    assert (settings.method.even_pairs, settings.method.style_penalty) == (50, 1.0)
    assert settings.overlapping
    assert not rate_settings({"preset": "lmarena", "by": "category", "overlapping": False}).overlapping


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"preset": "elsewhere"}, "'elsewhere'"),
        ({"preset": "lmarena", "method": "elo"}, "preset="),
        ({"both_bad": "tie", "method": "glicko-2"}, "both_bad="),
        ({"both_bad": "half"}, "'half'"),
        ({"overlapping": True}, "overlapping="),
    ],
)
def test_what_cannot_be_is_refused(options, said):
    with pytest.raises(BadOption, match=said):
        rate_settings(options)


def test_what_a_run_counts_is_what_its_ratings_rest_on(tmp_path):
    winners = ["model_a"] * 11 + ["model_b"] * 5 + ["both_bad"] * 55
    path = tmp_path / "mostly_bad.csv"
    path.write_text("model_a,model_b,winner\n" + "".join(f"x,y,{winner}\n" for winner in winners))
    ran = run("rate", path, "--preset", "lmarena", "--out", tmp_path / "run")
    assert ran.code == 0, ran.err
    assert "few-battles" not in ran.err + ran.out
    pairs = (tmp_path / "run" / "pairs.csv").read_text().splitlines()
    assert pairs[1:] == [f",x,y,11,5,55,0,55,{(11 + 55 / 2) / 71!r}"]
    found = json.loads((tmp_path / "run" / "elo_ratings.json").read_text())
    assert (found["n_battles"], found["n_both_bad"]) == (71, 55)
    assert [entry["n_battles"] for entry in found["ratings"]] == [71, 71]
    assert "| 71 |" in (tmp_path / "run" / "board.md").read_text()
    assert run("verify", tmp_path / "run").code == 0


def test_overlapping_groups_are_verified(tmp_path):
    path = tmp_path / "few.jsonl"
    lines = write_world(tmp_path, "140k.jsonl").read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:400]))
    ran = run("rate", path, "--preset", "lmarena", "--by", "category", "--out", tmp_path / "run")
    assert ran.code == 0, ran.err
    checked = run("verify", tmp_path / "run")
    assert checked.code == 0, checked.out
    overall, *groups = rate_files(
        [open_battles(path)], rate_settings({"preset": "lmarena", "by": "category"})
    )
    board = tiltyard.rate(path, preset="lmarena", by="category")
    assert board.rows == overall.board.rows
    assert [one.rows for one in board.groups.values()] == [one.board.rows for one in groups]
