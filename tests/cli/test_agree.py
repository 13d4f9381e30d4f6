"""``tiltyard agree``: the sheet, and what it tells."""

from __future__ import annotations

import asyncio
import csv
import json

import pytest

from support.command import run
from support.judged_runs import made_run
from support.panelled import finish_panel
from tiltyard.arena.content.arenas import find_arena
from tiltyard.arena.operators.panels import find_panel
from tiltyard.postgres.connections import open_pool
from tiltyard.runs.tournament_files import write_judged_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("agree") / "run"
    write_judged_run(place, made_run(prompts=30))
    return place


def test_a_sheet_is_written_filled_in_and_read(folder, tmp_path):
    sheet, page = tmp_path / "labels.csv", tmp_path / "page.html"
    done = run("agree", folder, "--labels", 40, "--to", sheet)
    assert done.code == 0, done.err
    assert f"agree {folder} {sheet}" in done.out
    # It may hold labels: nothing overwrites it.
    assert run("agree", folder, "--to", sheet).code == 2
    assert run("agree", folder, sheet).code == 2
    with sheet.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    with sheet.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(row | {"better": "12"[k % 2]} for k, row in enumerate(rows))
    shown = run("agree", folder, sheet, "--page", page)
    assert shown.code == 0, shown.err
    assert page.stat().st_size > 1_000
    document = json.loads(run("agree", folder, sheet, "--json").out)
    assert document["labelled"] == 40
    assert f"{100 * document['overall']['agreed']['value']:.0f} %" in shown.out


def test_a_result_needs_sheets(folder):
    assert run("agree", folder, "--json").code == 2


def test_a_folder_that_is_no_tournament_is_refused(tmp_path):
    assert run("agree", tmp_path).code != 0


@pytest.mark.slow
def test_people_vote_in_an_arena_instead(folder, tmp_path, database, monkeypatch):
    monkeypatch.setenv("DATABASE_URL", database)
    # An arena asks one question.
    assert run("agree", folder, "--labels", 20, "--arena", "two", "--rater", "Ada", "--overlap", 1).code == 2
    folder = tmp_path / "run"
    write_judged_run(folder, made_run(prompts=30, dimensions=("factuality",)))
    people = ("--rater", "Ada", "--rater", "Ben", "--base-url", "https://arena.example.org")
    # What cannot be leaves no arena behind, whose name would be taken.
    assert run("agree", folder, "--labels", 20, "--arena", "experts", *people, "--overlap", 3).code == 2
    opened = run("agree", folder, "--labels", 20, "--arena", "experts", *people)
    assert opened.code == 0, opened.err
    assert [line.split("\t")[0] for line in opened.out.splitlines()] == ["Ada", "Ben"]
    assert "20 matches, 40 votes" in opened.err
    assert run("agree", folder, "--arena", "experts").code == 2

    async def vote():
        async with open_pool(database, most=2) as pool, pool.connection() as connection:
            arena = await find_arena(connection, "experts")
            _, raters = await find_panel(connection, arena, "labels")
        await finish_panel(database, arena, raters, 0.5)

    asyncio.run(vote())
    document = json.loads(run("agree", folder, "--arena", "experts", "--json").out)
    assert document["labelled"] == 20
    assert document["raters"] == ["Ada", "Ben"]
    assert document["people"]["matches"] == 20
