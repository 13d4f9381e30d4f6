"""The board in a terminal."""

import itertools
import json
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from support.command import run
from support.rated_boards import HOSTILE, hostile, rated, shown, small
from support.sizes import sized
from support.worlds import told
from tiltyard.core.battles import Battle, Table
from tiltyard.core.board import make_board
from tiltyard.core.ratings import BradleyTerry, Elo, Glicko2
from tiltyard.core.ratings.ranks import Flip
from tiltyard.report.board_formats import flip_sentence, method_title
from tiltyard.report.escapes import escape_controls
from tiltyard.report.terminal import NameTable, Terminal, interval_bar, short_names

GOLDEN = """\
Bradley–Terry · 25 battles · 5 models · battle-level intervals for these prompts
only

#  model  rating  interval                          ranks  won/lost/tied   bad
1  oak      1592  1467 – 1718          ────●────      1–3         11/5/0    6%
2  elm      1466  1336 – 1596      ────●────          1–3          3/6/2   21%
3  ash      1442  1302 – 1581     ────●─────          1–3          2/5/2   25%
   not comparable with those above:
1  yew      1560  1347 – 1774      ───────●───────    1–2          2/1/0    0%
2  fir      1440  1226 – 1653  ───────●───────        1–2          1/2/0    0%
   no rating
   sloe        –                                                   0/0/0  100%
unrated: sloe took part in no battle that rates skill. Collect battles with
these models.
few-battles: Fewer than 30 battles each: ash (9), elm (11), fir (3), oak (16),
yew (3). Treat their ratings as preliminary.
disconnected: The battles fall into 2 sets of models that never met each other;
ratings are comparable only within a set. Apart from the largest: fir, yew. Add
battles between the sets before comparing across them.
no-prompts: No battle names its prompt, so intervals hold for these prompts
only. Add question_id to see whether the ranking holds for prompts like these.
"""

METHODS = {
    "bradley-terry": BradleyTerry(),
    "no interval": BradleyTerry(interval="none"),
    "elo": Elo(n_permutations=4, n_bootstraps=4),
    "glicko-2": Glicko2(kernel="plain"),
}


def test_a_small_board_in_eighty_columns():
    assert [line.rstrip() for line in shown(small(), 80).splitlines()] == GOLDEN.splitlines()


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_every_model_and_rating_is_there_at_any_width(method):
    one = small(method)
    for width in (60, 80, 120):
        lines = shown(one, width).splitlines()
        assert max(map(len, lines)) <= width
        for row in one.board.rows:
            rating = "–" if row.rating is None else f"{row.rating:.0f}"
            record = f"{row.wins}/{row.losses}/{row.ties}"
            assert any({row.model, rating, record} <= set(line.split()) for line in lines)


def test_prompts_are_counted_in_the_title_and_nobody_has_a_board():
    columns = {"question_id": ["p", "q"] * 3}
    ratings = BradleyTerry()(told("a>b*3 b>a*3", **columns))
    board = make_board(ratings, None)
    title = "intervals for prompts like these: 2 prompts, none above 50%"
    assert title in shown(replace(small(), board=board), 100)
    one = small()
    empty = make_board(BradleyTerry()(Table.from_battles([])), None)
    assert "0 battles · 0 models" in shown(replace(one, board=empty), 80)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_hostile_names_are_shown_and_do_nothing(width):
    one = hostile(name="\x1b[2J[bold]")
    text = shown(one, width)
    assert all(character.isprintable() or character == "\n" for character in text)
    assert max(map(len, text.splitlines())) <= width
    joined = re.sub(r"\s", "", text)
    for part in (r"[red]lou", r"\x1b[31m", r"\u202ee", "</script", ":fire:", "&amp;", r"\x1b[2J[bold]"):
        assert part in joined


def named(names):
    """A board of models with these names."""
    rows = [
        {"model_a": a, "model_b": b, "winner": winner, "question_id": f"q{k % 30}"}
        for a, b in itertools.pairwise(names)
        for k, winner in enumerate(["model_a", "model_b", "tie"] * 15)
    ]
    return rated(Table.from_battles(map(Battle.from_dict, rows)))


LONG = {
    "40 letters": [f"organisation/model-{k}-instruct-{'x' * 18}{k}"[:40] for k in range(4)],
    "60 letters": [f"organisation/model-{k}-{'long-' * 7}instruct-v{k}"[:60] for k in range(4)],
    "CJK": [f"組織/模型{k}号{'長い名前' * 3}版{k}" for k in range(4)],
    "differ in the middle": [f"{'a' * 28}{k}{'b' * 31}" for k in range(4)],
}


@pytest.mark.parametrize(
    ("names", "width"), list(zip(LONG.values(), (60, 80, 100, 200), strict=True)), ids=LONG
)
def test_long_names_leave_the_interval_whole(names, width):
    one = named(names)
    lines = shown(one, width).splitlines()
    assert max(map(cell_len, lines)) <= width
    head = next(line for line in lines if "model" in line and "rating" in line)
    assert "interval" in head
    table = lines[lines.index(head) + 1 :]
    for row in one.board.rows:
        assert sum(f"{row.low:.0f} – {row.high:.0f}" in line for line in table) >= 1
    longest = max(map(cell_len, names))
    assert ("won/lost/tied" in head) == (longest + 53 <= width)
    if longest + 33 <= width:
        assert all(any(name in line for line in table) for name in names)


@pytest.mark.parametrize("names", [LONG["40 letters"], LONG["60 letters"], LONG["CJK"]])
def test_short_names_are_different_and_fit(names):
    for width in (27, 35):
        short = short_names(names, width)
        assert len(set(short)) == len(names)
        assert max(map(cell_len, short)) <= width
        assert all("…" in name for name in short if name not in names)
    assert short_names(names, 100) == names


def test_names_that_would_become_the_same_stay_whole():
    alike = ["a" * 30 + "1" + "b" * 30, "a" * 30 + "2" + "b" * 30]
    assert short_names(alike, 10) == alike


@given(st.lists(st.text(st.characters(exclude_categories=["C", "M", "Z"])), unique=True), st.integers(8, 60))
@settings(max_examples=sized(10, 30))
def test_no_two_names_become_one(names, width):
    short = short_names(names, width)
    assert len(set(short)) == len(names)
    assert short == names or max(map(cell_len, short)) <= width


@given(st.text())
def test_only_what_cannot_be_shown_is_spelled_out(text):
    assert escape_controls(text).isprintable()
    assert (escape_controls(text) == text) == text.isprintable()


@pytest.mark.parametrize("name", [name for name in HOSTILE if not name.isprintable()])
def test_the_flip_sentence_is_printable(name):
    sentence = flip_sentence([Flip(name, "b", 3, 1200), Flip(name, name, 2, 30, "prompt")])
    assert sentence.isprintable()
    assert "3 of 1,200 battles" in sentence
    assert "2 of 30 prompts" in sentence
    assert flip_sentence([]) == ""


def test_a_method_of_another_name_is_its_own_title():
    assert (method_title("elo"), method_title("trueskill")) == ("Elo", "trueskill")


ROW = small().board.rows[0]
ends = st.floats(-1e4, 1e4)


@given(st.lists(ends, min_size=3, max_size=3), st.lists(ends, min_size=2, max_size=2), st.integers(1, 60))
def test_a_bar_is_one_dot_on_one_line(three, span, width):
    low, rating, high = sorted(three)
    lowest, highest = min(span + three), max(span + three)
    bar = interval_bar(replace(ROW, low=low, rating=rating, high=high), lowest, highest, width)
    assert len(bar) == width
    assert re.fullmatch(" *─*●─* *", bar)
    if low == lowest:
        assert bar[0] in "─●"
    if high == highest > lowest:
        assert bar[-1] in "─●"


def test_a_rating_outside_its_interval_is_still_drawn():
    assert interval_bar(replace(ROW, low=0.0, rating=9.0, high=4.0), 0.0, 9.0, 10) == "─────    ●"


@pytest.mark.parametrize("absent", ["low", "high", "rating"])
def test_no_interval_no_bar(absent):
    assert interval_bar(replace(ROW, **{absent: None}), 0.0, 1.0, 10) == ""


def test_names_are_no_markup_and_a_reader_who_has_gone_is_an_error(capsys):
    with pytest.raises(BrokenPipeError):
        Terminal().on_broken_pipe()
    Terminal().print("[bold]x[/red] :fire: 3.5")
    assert capsys.readouterr().out == "[bold]x[/red] :fire: 3.5\n"


LONG = ("anthropic/claude-3-5-sonnet-20240620-v2:0", "Qwen/Qwen2.5-72B-Instruct", "Qwen/Qwen2.5-7B-Instruct")


def named_lines(cells, width=80):
    console = Terminal()
    console.width = width
    heads = ("entrant", *(f"dimension {k}" for k in range(cells)))
    with console.capture() as captured:
        console.print(NameTable(heads, [(name, *["1931 [1607, 2255]"] * cells) for name in LONG]))
    return [line.rstrip() for line in captured.get().splitlines()]


@pytest.mark.parametrize("cells", [1, 2, 3, 4, 6])
def test_names_beside_columns_are_never_broken(cells):
    lines = named_lines(cells)
    assert all(cell_len(line) <= 80 for line in lines)
    blocks = " ".join(lines).count("entrant")
    # Every line of a table begins with a name, whole or shortened in its middle, or with the heading.
    starts = [line.partition("  ")[0] for line in lines if line]
    assert len(starts) == blocks * (1 + len(LONG))
    names = set(starts) - {"entrant"}
    assert len(names) == len(LONG)
    for name in names:
        head, _, tail = name.partition("…")
        assert any(whole.startswith(head) and whole.endswith(tail or head[-1]) for whole in LONG)
    assert sum(line.count("1931") for line in lines) == cells * len(LONG)
    assert sum(line.count("dimension") for line in lines) == cells


def test_win_rates_against_a_baseline_do_not_break_names(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    path = tmp_path / "battles.jsonl"
    path.write_text(
        "".join(
            json.dumps({"model_a": a, "model_b": b, "winner": winner}) + "\n"
            for a, b in itertools.permutations(LONG, 2)
            for winner in ("model_a", "model_b", "tie")
        )
    )
    ran = run("rate", path, "--baseline", LONG[1])
    assert ran.code == 0, ran.err
    rates = ran.out.partition("Win rate against")[2]
    starts = [line.partition("  ")[0] for line in rates.splitlines()]
    assert LONG[2] in starts
    assert sum(start.startswith("anthropic/") and "…" in start for start in starts) == 1
