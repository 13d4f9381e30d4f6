"""The report as one page."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from support.rated_boards import HOSTILE, hostile, rated, small
from support.worlds import drawn, table, told
from tiltyard.core.battles import Table
from tiltyard.core.board import make_board, pair_rows
from tiltyard.core.ratings import BradleyTerry, Elo, Glicko2
from tiltyard.core.ratings.ranks import rank_models
from tiltyard.errors import MissingExtra
from tiltyard.report import board_charts
from tiltyard.report.board_page import render_page
from tiltyard.report.escapes import escape_controls

TAGS = {
    *("html", "head", "meta", "title", "style", "body", "main", "h1", "h2", "p", "div", "footer", "code"),
    *("ul", "li", "b", "i", "table", "thead", "tbody", "tr", "th", "td", "svg", "line", "circle", "small"),
    *("figure", "figcaption", "script", "details", "summary", "section", "nav", "a", "pre", "label", "input"),
    *("g", "path", "rect", "text"),
}
#: Elements that have no end.
VOID = {"meta", "input"}
ATTRIBUTES = {
    *("lang", "charset", "name", "content", "class", "colspan", "id", "type", "data-spec", "aria-hidden"),
    *("viewbox", "preserveaspectratio", "x1", "x2", "y1", "y2", "cx", "cy", "r", "fill", "stroke"),
    *(
        "stroke-width",
        "aria-label",
        "role",
        "data-name",
        "tabindex",
        "scope",
        "href",
        "title",
        "xmlns",
        "width",
    ),
    *("height", "font-family", "font-size", "text-anchor", "x", "y", "d"),
}
SHORT_ELO = Elo(n_permutations=4, n_bootstraps=4)
METHODS = {
    "sandwich": BradleyTerry(),
    "bootstrap": BradleyTerry(interval="bootstrap", n_bootstraps=5),
    "no interval": BradleyTerry(interval="none"),
    "elo": SHORT_ELO,
    "glicko-2": Glicko2(kernel="plain"),
}


class Page(HTMLParser):
    """Every element, attribute and text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.links: list[str] = []
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
        self.links += [value for name, value in attrs if name == "href"]
        if tag not in VOID:
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
    assert len(specs) == page.tags.count("figure") - 1 == 3
    assert library == board_charts.javascript()
    assert "vegaEmbed(place, spec" in own
    assert "alert(1)" not in library + own
    (models,) = [one["value"] for one in json.loads(specs[0])["params"] if one["name"] == "models"]
    assert set(models) == set(HOSTILE)
    assert not any(character in spec for spec in specs for character in "<>&")


def test_nothing_is_loaded_from_elsewhere():
    text = render_page("Trees", [small(), small(Glicko2(kernel="plain"), name="people")])
    page = Page(text)
    assert not page.attributes & {"src", "srcset", "action", "background", "poster", "style"}
    assert all(link.startswith("#") for link in page.links)
    assert not re.search(r"url\(|@import|expression\(", "".join(page.styles))
    rest = text.replace(board_charts.javascript(), "")
    assert not re.search(r"\b(import|fetch|XMLHttpRequest|importScripts)\b", page.scripts[-1])
    named = set(re.findall(r'"\$schema": ?"([^"]+)"', rest)) | {"http://www.w3.org/2000/svg"}
    assert set(re.findall(r"\w+://[^\"'\s<]+", rest)) <= named


@pytest.mark.usefixtures("no_plots")
def test_without_the_extra_the_page_says_so_once():
    page = Page(text := render_page("Trees", [small(), small(name="people")]))
    assert text.count("tiltyard[plots]") == 1
    assert len(page.scripts) == 1
    assert "vegaEmbed" not in text
    assert page.tags.count("figure") == 2, "the intervals need no extra"


@pytest.mark.usefixtures("no_plots")
def test_charts_need_the_extra():
    with pytest.raises(MissingExtra, match=r"tiltyard\[plots\]"):
        board_charts.chart_specs(small())


def test_levels_proven_ranks_and_nobody_have_their_place_on_a_page():
    assert "99.5% battle-level intervals" in render_page("x", [small(BradleyTerry(level=0.995))])
    nobody = Table.from_battles([])
    one = replace(small(), table=nobody, board=replace(small().board, rows=()), prediction=None)
    assert Page(render_page("x", [one]))._open == []
    ratings = BradleyTerry()(told("a>b*300 b>a*30"))
    board = make_board(ratings, rank_models(ratings))
    assert [(row.rank_low, row.rank_high) for row in board.rows] == [(1, 1), (2, 2)]
    page = render_page("x", [replace(small(), board=board)])
    cells = '<td class="n">2</td><td class="n more">30</td>'
    assert cells in page
    assert "Tier" not in page, "a tier each"


def test_a_page_has_the_charts_that_say_something():
    plain, elo = (list(board_charts.chart_specs(small(method))) for method in (None, SHORT_ELO))
    assert (len(plain), elo[:2]) == (2, plain)
    assert ["values of K" in title for title in elo[2:]] == [True]
    assert board_charts.chart_specs(rated(told("a>b*6 b>a*3"))) == {}, "a heatmap of one pair"


def scores_of(specs):
    spec = next(spec for title, spec in specs.items() if title.startswith("Score of row against column"))
    (models,) = [one["value"] for one in spec["params"] if one["name"] == "models"]
    return {(models[one["a"]], models[one["b"]]): one["score"] for one in spec["data"]["values"]}


def test_heatmaps_and_pairs_count_both_bad_as_the_ratings_do():
    one = rated(told("a>b*11 b>a*5 a!b*55 b>c c>b a!c*4"), BradleyTerry(both_bad="tie"))
    specs = board_charts.chart_specs(one)
    scores = scores_of(specs)
    assert (scores["a", "b"], scores["b", "a"], scores["a", "c"]) == (0.5423, 0.4577, 0.5)
    assert {cell["battles"] for cell in specs["Battles by pair"]["data"]["values"]} == {71, 2, 4}
    row = "".join(f'<td class="n">{cell}</td>' for cell in (11, 5, 55, 0, 55, 0.54))
    assert f">b</td>{row}" in render_page("x", [one])


def test_large_heatmaps_show_the_best_models():
    many = table(drawn(board_charts.HEATMAP_MODELS + 3, 6000))
    board = make_board(BradleyTerry(interval="none")(many), None)
    one = replace(small(), table=many, board=board, ranks=None, prediction=None)
    text = render_page("x", [one])
    assert "first 40 of 43" in text
    assert f"Pairs (200 of {len(pair_rows(many, BradleyTerry()))}, most battles first)" in text
    assert {a for a, _ in scores_of(board_charts.chart_specs(one))} == {row.model for row in board.rows[:40]}
