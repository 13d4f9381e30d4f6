"""A board in Markdown, LaTeX, CSV and as a fragment for notebooks."""

import csv
import io
import itertools
import re
from dataclasses import replace

import pytest

from support.rated_boards import HOSTILE, hostile, rated, small
from support.worlds import battles, told
from tiltyard.core.battles import Table
from tiltyard.core.ratings import Glicko2
from tiltyard.core.ratings.comparison import compare_models
from tiltyard.report.board_formats import (
    board_fragment,
    board_latex,
    board_markdown,
    boards_csv,
    boards_latex,
    boards_markdown,
    groups_fragment,
    preferred_sentence,
    settled_sentence,
    title_parts,
)
from tiltyard.report.escapes import csv_text
from tiltyard.report.terminal import rated_text


def test_tables_have_a_row_for_each_model_and_columns_for_what_there_is():
    board = small().board
    lines = board_markdown(board).splitlines()
    assert lines[0] == "| Rank | Model | Rating | 95% interval | Ranks | Tier | Group | Battles |"
    assert lines[1] == "| --: | --- | --: | --: | --: | --: | --: | --: |"
    assert [line.split(" | ")[1] for line in lines[2:]] == [row.model for row in board.rows]
    board = small(Glicko2(kernel="plain")).board
    assert board_markdown(board).startswith("| Rank | Model | Rating | RD | Group | Battles |")
    assert "interval" not in board_latex(board)
    assert "RD</th>" in board_fragment(small(Glicko2(kernel="plain")))
    assert "Interval" not in board_fragment(small(Glicko2(kernel="plain")))


def test_latex_is_a_table_of_booktabs_with_nothing_active_in_it():
    text = board_latex(hostile().board)
    assert text.startswith("% \\usepackage{booktabs}\n\\begin{tabular}{rlrrrrr}\n\\toprule\n")
    assert text.endswith("\\bottomrule\n\\end{tabular}\n")
    body = text.split("\\midrule\n")[1].split("\\bottomrule")[0]
    known = r"\\textbackslash\{\}|\\textasciicircum\{\}|\\textasciitilde\{\}|\\text(less|greater|bar|quotedbl)\{\}|\\[{}$&#%_]"
    for line in body.splitlines():
        assert line.endswith(" \\\\")
        bare = re.sub(known, "", line.removesuffix(" \\\\"))
        assert not set(bare) & set('\\{}$#%_^~<>|"')
        assert bare.count("&") == 6


def test_one_battle_is_singular():
    board = small().board
    assert title_parts(replace(board, n_battles=1, rows=board.rows[:1]))[1:] == ["1 battle", "1 model"]


def test_csv_is_unrounded_and_names_groups_first():
    board = small().board
    rows = list(csv.DictReader(io.StringIO(boards_csv([small()]))))
    assert [row["model"] for row in rows] == [row.model for row in board.rows]
    for read, row in zip(rows, board.rows, strict=True):
        assert read["rating"] == ("" if row.rating is None else repr(row.rating))
    first, second = small(name="a,b"), small(name="(none)")
    text = boards_csv([first, second])
    rows = list(csv.DictReader(io.StringIO(text)))
    assert text.splitlines()[0] == (
        "by,rank,model,rating,ci_low,ci_high,rank_low,rank_high,tier,group,battles,wins,losses,ties,both_bad"
    )
    assert [row["by"] for row in rows] == ["a,b"] * len(first.board.rows) + ["(none)"] * len(
        second.board.rows
    )
    assert [row["model"] for row in rows] == [row.model for row in first.board.rows] * 2
    assert not boards_csv([small()]).startswith("by,")


def test_groups_are_tables_with_headings():
    first, second = small(name="a_b"), small(name="<c>")
    assert boards_markdown([small()]) == board_markdown(small().board)
    assert boards_latex([small()]) == board_latex(small().board)
    table = board_markdown(first.board)
    assert boards_markdown([first, second]) == f"## a\\_b\n\n{table}\n## &#60;c&#62;\n\n{table}"
    text = boards_latex([first, second])
    assert text.count("\\begin{table}") == text.count("\\end{table}\n") == 2
    assert "\\caption{a\\_b}\n% \\usepackage{booktabs}\n\\begin{tabular}" in text
    assert "\\caption{\\textless{}c\\textgreater{}}" in text


@pytest.mark.parametrize("method", [None, Glicko2(kernel="plain")])
def test_hostile_names_stay_text_in_notebooks(method):
    text = board_fragment(hostile(method))
    assert not re.search(r"<script|<img|<b>first|\x1b|\u202e", text)
    assert "&lt;script&gt;" in text
    assert re.findall(r"<style|class=|\bon[a-z]+=\"", text) == []
    assert len(re.findall(r"<tr", text)) >= len(HOSTILE)
    colours = re.findall(r"(?:color|background|stroke|fill)[:=]\"?([a-zA-Z#0-9]+)", text)
    assert set(colours) <= {"inherit", "transparent", "currentColor"}


def test_a_fragment_says_what_is_settled_and_what_is_found():
    rated = small()
    text = board_fragment(rated, ["votes.csv: 3 left"])
    assert "votes.csv: 3 left" in text
    assert "not comparable" in text
    assert "no rating" in text
    assert all(f"<b>{finding.name}</b>" in text for finding in rated.board.findings)
    assert "<summary>c&lt;d · " in groups_fragment([small(name="c<d")])
    assert groups_fragment([]) == ""


def test_long_boards_are_cut_and_counted():
    names = [f"m{k:03}" for k in range(130)]
    story = " ".join(f"{a}>{b}*2 {b}>{a}" for a, b in itertools.pairwise(names))
    text = board_fragment(small_of(story))
    assert text.count("<tr") == 101
    assert "30 more models" in text


def small_of(story):
    return rated(told(story))


def test_the_sentence_about_what_is_settled():
    clear = small_of("oak>elm*400 elm>oak*100 elm>ash*300 ash>elm*200 oak>ash*400 ash>oak*100")
    assert re.match(r"The order of 3 of 3 .* settled.* 95%.*: oak\.", settled_sentence(clear))
    level = small_of("oak>elm*10 elm>oak*10")
    assert re.match("No order is settled: none of 1 ", settled_sentence(level))
    ring = " ".join(f"{x}>{y}*50" for x in "abcde" for y in "abcde" if x != y)
    last = " ".join(f"{x}>z*80 z>{x}*10" for x in "abcde")
    assert settled_sentence(small_of(f"{ring} {last}")).endswith(
        " 5 of 15 pairs of models is settled, all at once at 95%. First place is not settled between a, b, c and 2 more."
    )
    assert settled_sentence(small(Glicko2(kernel="plain"))) == ""


def test_plain_text_is_what_the_command_prints():
    text = rated_text(small())
    assert text.startswith("Bradley–Terry · ")
    assert "\x1b" not in text
    assert all(f"{finding.name}: " in text for finding in small().board.findings)


@pytest.mark.parametrize(
    ("voters", "clear"), [(1, True), (3, True), (3, False), (9, True), (12, True), (0, True)]
)
def test_a_few_people_prefer_and_claim_no_order_for_others(voters, clear):
    times = (12, 3) if clear else (8, 8)
    story = f"oak>elm*{25 * times[0]} elm>oak*{25 * times[1]}"
    rows = battles(story, question_id=[f"q{k * k % 41}" for k in range(25 * sum(times))])
    if voters:
        rows = [replace(row, voter=f"v{k % voters}") for k, row in enumerate(rows)]
    one = rated(Table.from_battles(rows))
    said, compared = preferred_sentence(one), compare_models(one.table, "oak", "elm").sentence
    few = 0 < voters < 5
    assert bool(said) == few
    assert ("oak" in said) == (few and clear)
    assert ("prefer" in compared) == (few and clear)
    assert (settled_sentence(one) == said) == few
    for shown in (boards_markdown([one]), rated_text(one, width=200), board_fragment(one, [])):
        assert (" prefer " in shown) == few


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_no_spreadsheet_runs_a_text_of_a_csv_file(start):
    name, cells = f'{start}HYPERLINK("http://evil.example")', ["a=b", -0.5, 3, None, "x"]
    (found,) = list(csv.reader(io.StringIO(csv_text(["name", *"abcde"], [[name, *cells]]), newline="")))[1:]
    assert found == [f"'{name}", "a=b", "-0.5", "3", "", "x"]
