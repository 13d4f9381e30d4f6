"""A report written once and shown three ways."""

import io

import pytest
from rich.console import Console
from test_board_page import TAGS, Page

from support.rated_boards import HOSTILE
from tiltyard.report import board_charts
from tiltyard.report.escapes import escape_controls, markdown_text
from tiltyard.report.report_parts import (
    Report,
    ReportSection,
    ReportTable,
    report_markdown,
    report_page,
    report_terminal,
)

HEIGHTS = ReportTable(("tree", "height"), (("oak", "30"), ("elm", "25")))
AGES = ReportTable(("age", "trees"), (("900", "1"),), words=0)
REPORT = Report(
    "Trees",
    ("Oaks are tall.", "Elms less so."),
    (ReportSection("heights", "How tall", HEIGHTS, ("In metres.",)), ReportSection("ages", "How old", AGES)),
)
SPEC = {"mark": "bar"}


def terminal(report):
    out = io.StringIO()
    Console(file=out, width=2000, highlight=False, markup=False, emoji=False).print(report_terminal(report))
    return [line.rstrip() for line in out.getvalue().splitlines()]


def hostile(name):
    table = ReportTable((name, name), ((name, name),))
    return Report(name, (name, name), (ReportSection("x", name, table, (name,)),))


def test_a_terminal_shows_everything():
    assert terminal(REPORT) == [
        *("Trees", "", "Oaks are tall.", "Elms less so.", ""),
        *("How tall", "tree  height", "oak       30", "elm       25", "In metres.", ""),
        *("How old", "age  trees", "900      1"),
    ]


def test_markdown_shows_everything():
    assert report_markdown(REPORT).split("\n\n") == [
        "# Trees",
        "**Oaks are tall.**",
        "Elms less so.",
        "## How tall",
        "| tree | height |\n|:--|--:|\n| oak | 30 |\n| elm | 25 |",
        "In metres.",
        "## How old",
        "| age | trees |\n|--:|--:|\n| 900 | 1 |\n",
    ]


def test_a_page_puts_charts_below_the_tables():
    text = report_page(REPORT, {"heights": {"Drawn": SPEC}, "nowhere": {"Lost": SPEC}}, footer="a < b")
    page = Page(text)
    assert page._open == []
    order = ["Oaks are tall.", "How tall", "height", "In metres.", "Drawn", "How old"]
    places = [page.texts.index(one) for one in order]
    assert places == sorted(places)
    assert page.tags.count("figure") == 1
    assert "a &lt; b</footer>" in text


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_steers_any_of_the_three(name):
    page = Page(report_page(hostile(name), {"x": {name: {"title": name}}}, footer=name))
    assert page._open == []
    assert set(page.tags) <= TAGS | {"section", "h3"}
    assert page.comments == []
    shown = "\n".join(terminal(hostile(name)))
    assert all(character.isprintable() or character == "\n" for character in shown)
    assert shown.count(escape_controls(name)) >= 5
    assert "<" not in report_markdown(hostile(name))


def test_without_the_extra_a_page_says_so_once(monkeypatch):
    monkeypatch.setattr(board_charts, "find_spec", lambda _name: None)
    text = report_page(REPORT, {}, footer="")
    assert text.count("tiltyard[plots]") == 1
    assert len(Page(text).scripts) == 1, "buttons, and no library"


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a|b", "a&#124;b"),
        ("<b>", "&#60;b&#62;"),
        ("a_b*", r"a\_b\*"),
        ("www.x.y", "www&#46;x.y"),
        ("a\nb", r"a\\nb"),
    ],
)
def test_markdown_text_is_harmless(name, shown):
    assert markdown_text(name) == shown
