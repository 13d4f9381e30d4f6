"""``tiltyard arena panel``: from the links of raters to their agreement, disagreements, board and table."""

import asyncio
import csv
import re

import pyarrow.parquet as pq
import pytest

from support.command import run
from support.live_arenas import make_arena
from support.panelled import finish_panel
from tiltyard.arena.operators.panels import find_panel
from tiltyard.postgres.connections import connect, open_pool

RATERS = ("Ada", "Ben", "Cleo")
OPEN = [
    "arena",
    "panel",
    "open",
    "arena",
    "experts",
    "--base-url",
    "https://arena.example.org",
    "--seed",
    "3",
]


@pytest.fixture
def arena(database, monkeypatch):
    monkeypatch.setenv("DATABASE_URL", database)
    return asyncio.run(make_arena(database, 3, 6))


def opened():
    done = run(*OPEN, *(word for name in RATERS for word in ("--rater", name)))
    assert done.code == 0, done.err
    return done


def vote(database, arena, noise=0.5):
    async def inside():
        async with open_pool(database, most=2) as pool, pool.connection() as connection:
            _, raters = await find_panel(connection, arena, "experts")
        await finish_panel(database, arena, raters, noise)

    asyncio.run(inside())


def test_a_panel_from_its_links_to_its_table(database, arena, tmp_path):
    links = opened()
    assert re.fullmatch(r"(?:(?:Ada|Ben|Cleo)\thttps://arena\.example\.org/join/0-[\w-]{32}\n){3}", links.out)
    assert "18 items and" in links.err
    assert run("arena", "panel", "list", "arena").out == "experts  18 items  36 votes asked for  open\n"
    assert run("arena", "panel", "progress", "arena", "experts").out.splitlines()[-1].split() == [
        "all",
        "0",
        "0",
        "36",
    ]
    assert "– (no votes)" in run("arena", "panel", "agreement", "arena", "experts").out
    refused = run("arena", "panel", "board", "arena", "experts")
    assert refused.code == 2
    assert "panel close arena" in refused.err

    vote(database, arena)
    rows = run("arena", "panel", "progress", "arena", "experts").out.splitlines()
    assert rows[1].split() == ["Ada", "12", "0", "0"]
    shown = run("arena", "panel", "agreement", "arena", "experts").out
    assert re.search(
        r"^all +-?0\.\d\d \(-?0\.\d\d to 0\.\d\d\) +0\.\d\d \(0\.\d\d to 0\.\d\d\) +18$", shown, re.MULTILINE
    )
    assert [line.split()[0] for line in shown.splitlines()[1:]] == ["all"] + ["rater"] * 3 + ["model"] * 3
    assert run("arena", "panel", "agreement", "arena", "experts", "--scale", "ordinal").code == 0
    split = run("arena", "panel", "disagreements", "arena", "experts").out.splitlines()
    item = split[1].split()[0]
    done = run(
        "arena", "panel", "adjudicate", "arena", "experts", item, "tie", "--note", "Dora: no difference"
    )
    assert done.out == f"Item {item} is adjudicated: tie. The votes stay as they are.\n"
    assert run("arena", "panel", "disagreements", "arena", "experts").out.splitlines()[-1].endswith("tie")

    assert run("arena", "panel", "close", "arena", "experts").out == "The panel experts is closed.\n"
    board = run("arena", "panel", "board", "arena", "experts")
    assert "model-2" in board.out
    assert " closed " in run("arena", "panel", "list", "arena").out
    for name in ("table.csv", "table.parquet"):
        assert run("arena", "panel", "export", "arena", "experts", str(tmp_path / name)).code == 0
    with (tmp_path / "table.csv").open() as file:
        written = list(csv.DictReader(file))
    assert len(written) == 36
    assert {row["rater"] for row in written} == set(RATERS)
    decided = [row for row in written if row["item"] == item]
    assert {row["adjudication"] for row in decided} == {"tie"}
    assert len({row["vote"] for row in decided}) > 1
    assert pq.read_table(tmp_path / "table.parquet").num_rows == 36


@pytest.mark.slow(but_every=3)
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("agreement", "arena", "experts", "--scale", "odd"), "expected nominal or ordinal"),
        (("adjudicate", "arena", "experts", "0", "maybe", "--note", "x"), "expected model_a"),
        (("adjudicate", "arena", "experts", "999", "tie", "--note", "x"), "no item 999"),
        (("progress", "arena", "other"), "tiltyard arena panel list arena"),
        (("progress", "nowhere", "other"), "no such arena"),
        (("export", "arena", "experts", "table.xlsx"), "expected .csv or .parquet"),
    ],
)
def test_what_is_wrong_is_said_with_what_to_do(arena, words, said):
    opened()
    done = run("arena", "panel", *words)
    assert done.code == 2
    assert said in done.err
    assert "Traceback" not in done.err


def test_a_second_panel_of_the_same_name_is_refused(database, arena):
    opened()
    assert "choose another name" in run(*OPEN, "--rater", "Zoe", "--overlap", "1").err
    with connect(database) as connection:
        assert connection.execute("SELECT count(*) FROM invitations").fetchone() == (3,)


def test_a_panel_without_votes_has_no_board(arena):
    opened()
    run("arena", "panel", "close", "arena", "experts")
    assert "vote that rates" in run("arena", "panel", "board", "arena", "experts").err


def test_names_of_raters_cannot_steer_the_terminal(arena):
    done = run(*OPEN, "--rater", "A\x1b[31m", "--overlap", "1")
    assert "\x1b" not in done.out + done.err
