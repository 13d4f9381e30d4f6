"""The report as one page."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from importlib.util import find_spec

import pytest
from rated_boards import HOSTILE, hostile, small

from tiltyard.core.battles import Table
from tiltyard.core.board import make_board, pair_rows
from tiltyard.core.ratings import BradleyTerry, Elo, Glicko2
from tiltyard.core.ratings.ranks import rank_models
from tiltyard.errors import MissingExtra
from tiltyard.report import board_charts
from tiltyard.report.board_page import render_page
from tiltyard.report.terminal_escape import escape_controls
from worlds import drawn, table, told

TAGS = {
    *("html", "head", "meta", "title", "style", "body", "main", "h1", "h2", "p", "div", "footer", "code"),
    *("ul", "li", "b", "i", "table", "thead", "tbody", "tr", "th", "td", "svg", "line", "circle", "small"),
    *("figure", "figcaption", "script", "details", "summary"),
}
ATTRIBUTES = {
    *("lang", "charset", "name", "content", "class", "colspan", "id", "type", "data-spec", "aria-hidden"),
    *("viewbox", "preserveaspectratio", "x1", "x2", "y1", "y2", "cx", "cy", "r", "fill", "stroke"),
    "stroke-width",
}
METHODS = {
    "sandwich": BradleyTerry(),
    "bootstrap": BradleyTerry(interval="bootstrap", n_bootstraps=5),
    "no interval": BradleyTerry(interval="none"),
    "elo": Elo(n_permutations=4, n_bootstraps=4),
    "glicko-2": Glicko2(kernel="plain"),
}


class Page(HTMLParser):
    """Every element, attribute and text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.scripts: list[str] = []
        self.styles: list[str] = []
        self.texts: list[str] = []
        self.comments: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes.update(name for name, _ in attrs)
        if tag != "meta":
            self._open.append(tag)
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if self._open and self._open[-1] == "script":
            self.scripts[-1] += data
        elif self._open and self._open[-1] == "style":
            self.styles.append(data)
        else:
            self.texts.append(data)

    def handle_comment(self, data):
        self.comments.append(data)


@pytest.fixture
def no_plots(monkeypatch):
    monkeypatch.setattr(board_charts, "find_spec", lambda name: None if name == "altair" else find_spec(name))


@pytest.mark.slow(but_every=3)
@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_the_page_is_well_formed_and_holds_every_row(method):
    one = small(method)
    page = Page(render_page("Trees", [one]))
    assert page._open == []
    assert set(page.tags) <= TAGS
    for row in one.board.rows:
        assert row.model in page.texts
        assert row.rating is None or f"{row.rating:.0f}" in page.texts
    assert all(finding.text in "".join(page.texts) for finding in one.board.findings)


def test_the_same_page_every_time():
    assert render_page("Trees", [small()]) == render_page("Trees", [small()])


def test_no_element_stems_from_a_name():
    page = Page(render_page(HOSTILE[3], [hostile(name=HOSTILE[4])]))
    assert set(page.tags) <= TAGS
    assert page.attributes <= ATTRIBUTES
    assert page.comments == []
    assert page._open == []
    for name in HOSTILE:
        assert escape_controls(name) in page.texts
    assert all(character.isprintable() or character == "\n" for text in page.texts for character in text)


def test_no_script_stems_from_a_name():
    page = Page(render_page("x", [hostile()]))
    specs, (library, own) = page.scripts[:-2], page.scripts[-2:]
    assert len(specs) == page.tags.count("figure") == 5
    assert library == board_charts.javascript()
    assert "vegaEmbed(place, spec" in own
    assert "alert(1)" not in library + own
    known = {row["model"] for row in json.loads(specs[0])["data"]["values"]}
    assert known == set(HOSTILE)
    assert not any(character in spec for spec in specs for character in "<>&")


def test_nothing_is_loaded_from_elsewhere():
    text = render_page("Trees", [small(), small(Glicko2(kernel="plain"), name="people")])
    page = Page(text)
    assert not page.attributes & {"src", "href", "srcset", "action", "background", "poster", "style"}
    assert not re.search(r"url\(|@import|expression\(", "".join(page.styles))
    rest = text.replace(board_charts.javascript(), "")
    assert not re.search(r"\b(import|fetch|XMLHttpRequest|importScripts)\b", page.scripts[-1])
    assert set(re.findall(r"\w+://[^\"'\s<]+", rest)) <= set(re.findall(r'"\$schema": "([^"]+)"', rest))


@pytest.mark.usefixtures("no_plots")
def test_without_the_extra_the_page_says_so_once():
    page = Page(text := render_page("Trees", [small(), small(name="people")]))
    assert text.count("pip install 'tiltyard[plots]'") == 1
    assert "script" not in page.tags
    assert set(page.tags) <= TAGS - {"script", "figure", "figcaption"}


@pytest.mark.usefixtures("no_plots")
def test_charts_need_the_extra():
    with pytest.raises(MissingExtra, match=r"pip install 'tiltyard\[plots\]'"):
        board_charts.chart_specs(small())


def test_each_group_has_a_heading():
    page = Page(render_page("Trees", [small(name="people"), small(name="judges")]))
    assert page.tags.count("h2") == 2
    assert {"people", "judges"} <= set(page.texts)


def test_the_level_is_written_out():
    assert "99.5% battle-level intervals for these prompts only" in render_page(
        "x", [small(BradleyTerry(level=0.995))]
    )


def test_a_board_of_nobody_is_a_page():
    nobody = Table.from_battles([])
    one = replace(small(), table=nobody, board=replace(small().board, rows=()), sweep={}, prediction=None)
    assert Page(render_page("x", [one]))._open == []


def test_charts_show_what_a_terminal_can_check():
    one = small()
    specs = board_charts.chart_specs(one)
    assert list(specs) == [
        "Rating with interval",
        "Score of row against column",
        "Battles by pair",
        "Elo under other values of K",
    ]
    shown = specs["Rating with interval"]["data"]["values"]
    assert [(row["model"], row["rating"]) for row in shown] == [
        (row.model, round(row.rating, 2)) for row in one.board.rows if row.group == 0
    ]


def test_a_score_and_its_mirror_add_up_to_one():
    cells = board_charts.chart_specs(small())["Score of row against column"]["data"]["values"]
    scores = {(cell["row"], cell["column"]): cell["score"] for cell in cells}
    assert all(score + scores[b, a] == pytest.approx(1.0) for (a, b), score in scores.items())


def test_a_proven_rank_is_one_number():
    ratings = BradleyTerry()(told("a>b*300 b>a*30"))
    board = make_board(ratings, rank_models(ratings))
    assert [(row.rank_low, row.rank_high) for row in board.rows] == [(1, 1), (2, 2)]
    assert '<td class="n">2</td><td class="n">2</td>' in render_page(
        "x", [replace(small(), board=board, sweep={})]
    )


def test_large_heatmaps_show_the_best_models():
    many = table(drawn(board_charts.HEATMAP_MODELS + 3, 6000))
    board = make_board(BradleyTerry(interval="none")(many), None)
    one = replace(small(), table=many, board=board, sweep={}, prediction=None)
    text = render_page("x", [one])
    assert "Heatmaps show the first 40 models." in text
    assert f"Pairs (200 of {len(pair_rows(many))}, most battles first)" in text
    cells = board_charts.chart_specs(one)["Battles by pair"]["data"]["values"]
    assert {cell["row"] for cell in cells} == {row.model for row in board.rows[:40]}
