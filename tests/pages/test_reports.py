"""The report of `tiltyard rate --out`, opened from disk in a real browser, and printed."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from playwright.sync_api import expect

from support.browsing import DESKTOP, PHONE, Visit, axe
from support.pdf_text import pdf_text
from support.report_worlds import MANY, REPORTS, write_report

TABLET, WIDE = (768, 1024), (1920, 1080)
#: Battles that are enough for a page to look as it does with all.
MOST_BATTLES = 2500
SVG = "{http://www.w3.org/2000/svg}"
#: Visible elements that reach out of the window, unless a box around them scrolls.
TOO_WIDE = """() => [...document.querySelectorAll('body *')]
  .filter(one => one.checkVisibility() && !one.closest('.wide, svg'))
  .filter(one => { const box = one.getBoundingClientRect(); return box.left < -1 || box.right > innerWidth + 1; })
  .map(one => one.outerHTML.slice(0, 100))"""
#: What of the visible chart of intervals is outside of its picture, and whether that is as wide as its place.
CHART = """() => {
  const shown = [...document.querySelectorAll('figure.intervals svg')].filter(one => one.checkVisibility());
  return shown.map(svg => {
    const frame = svg.getBoundingClientRect();
    const out = [...svg.querySelectorAll('text, path, circle')].filter(one => {
      const box = one.getBoundingClientRect();
      return box.left < frame.left - 1 || box.right > frame.right + 1 || box.bottom > frame.bottom + 1;
    });
    const letters = parseFloat(getComputedStyle(svg.querySelector('.rows text')).fontSize);
    const scale = frame.width / svg.viewBox.baseVal.width;
    return {out: out.map(one => one.outerHTML.slice(0, 100)), inside: frame.right <= innerWidth + 1, letters: letters * scale};
  });
}"""


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """Every report, written when it is first asked for."""
    place, known = tmp_path_factory.mktemp("reports"), {}

    def get(name):
        if name not in known:
            known[name] = write_report(name, place, MOST_BATTLES)
        return known[name]

    return get


@pytest.fixture
def opened(browser, reports):
    """Open a report; nothing may be asked of others, and nothing may break."""
    visits = []

    def go(name, size=DESKTOP, scheme="light", **options):
        context = browser.new_context(
            viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, **options
        )
        folder = reports(name)
        visit = Visit(context.new_page(), folder.as_uri())
        visit.watch()
        visit.page.goto(f"{folder.as_uri()}/report.html")
        visits.append(visit)
        return visit.page

    yield go
    for visit in visits:
        visit.check()
        visit.page.context.close()


@pytest.mark.slow(but="islands")
@pytest.mark.parametrize("name", REPORTS)
def test_a_phone_shows_all_of_it(name, opened):
    page = opened(name, PHONE)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate(TOO_WIDE) == []
    charts = page.evaluate(CHART)
    assert charts
    for chart in charts:
        assert chart["out"] == []
        assert chart["inside"]
        assert chart["letters"] >= 11
    board = page.locator("table.board").first
    assert board.evaluate("one => one.scrollWidth <= one.parentElement.clientWidth + 1")
    board.locator("thead").scroll_into_view_if_needed()
    # A phone has the interval below the rating.
    expect(board.get_by_role("columnheader", name="95% interval")).to_be_hidden()
    assert board.locator("small.slim:visible").count() == board.locator("small.slim").count()
    for head in ("Rating", "Ranks"):
        expect(board.get_by_role("columnheader", name=head, exact=True)).to_be_in_viewport(ratio=1)
    expect(board.get_by_role("columnheader", name="Won")).to_be_hidden()
    page.get_by_label("All columns").first.check()
    expect(board.get_by_role("columnheader", name="Won")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.slow(but="tablet-plain")
@pytest.mark.parametrize("name", REPORTS)
@pytest.mark.parametrize("size", [TABLET, DESKTOP, WIDE], ids=["tablet", "desktop", "wide"])
def test_every_screen_shows_the_board_and_its_chart_whole(name, size, opened):
    page = opened(name, size)
    assert page.evaluate(TOO_WIDE) == []
    for chart in page.evaluate(CHART):
        assert (chart["out"], chart["inside"]) == ([], True)
    board, chart = page.locator("table.board").first, page.locator("figure.intervals").first
    assert board.evaluate("one => one.scrollWidth <= one.parentElement.clientWidth + 1")
    beside = chart.bounding_box()["x"] > board.bounding_box()["x"] + 300
    assert beside is (size[0] > 1000)
    assert page.locator("p.settled").first.bounding_box()["width"] <= 800


@pytest.mark.slow(but=("light-small-plain", "dark-large-islands"))
@pytest.mark.parametrize("name", ["plain", "islands", "many"])
@pytest.mark.parametrize("size", [PHONE, WIDE], ids=["small", "large"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(name, size, scheme, opened):
    page = opened(name, size, scheme, bypass_csp=True)
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert axe(page) == []


def test_without_scripts_the_first_screen_is_the_same(opened):
    page = opened("plain", java_script_enabled=False)
    expect(page.locator("p.settled")).to_contain_text("pairs of models")
    expect(page.locator("figure.intervals svg.broad")).to_be_in_viewport()
    expect(page.locator("button")).to_have_count(0)
    expect(page.locator("#methods pre")).to_contain_text("@misc{tiltyard-")


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_charts_are_saved_in_the_colours_of_a_light_page(scheme, opened, reports, tmp_path):
    page = opened("plain", scheme=scheme)
    expect(page.locator(".chart svg").first).to_be_visible()
    figures = page.locator("figure")
    assert figures.count() == 4
    for k in range(figures.count()):
        for kind in ("SVG", "PNG"):
            with page.expect_download() as started:
                figures.nth(k).get_by_role("button", name=f"Save as {kind}").click()
            saved = tmp_path / started.value.suggested_filename
            started.value.save_as(saved)
            if kind == "PNG":
                assert saved.read_bytes().startswith(b"\x89PNG")
                width, height = (int.from_bytes(saved.read_bytes()[at : at + 4]) for at in (16, 20))
            else:
                picture = ET.fromstring(saved.read_text())
                size = [float(one) for one in picture.get("viewBox").split()][2:]
                colours = {one.get("fill") for one in picture.iter(f"{SVG}text")}
                assert "#e4e7e9" not in colours
        assert (width, height) == pytest.approx([2 * one for one in size], abs=2)
    saved = ET.fromstring((tmp_path / "intervals-board-0.svg").read_text())
    drawn = ET.fromstring((reports("plain") / "figures" / "intervals.svg").read_text())
    assert [one.text for one in saved.iter(f"{SVG}text")] == [one.text for one in drawn.iter(f"{SVG}text")]


@pytest.mark.slow(but_every=2)
@pytest.mark.parametrize("size", [PHONE, WIDE], ids=["small", "large"])
def test_the_matrix_keeps_its_head_and_its_names_in_sight(size, opened):
    page = opened("many", size)
    box = page.locator(".matrix .box")
    box.evaluate("one => one.scrollTo(one.scrollWidth, one.scrollHeight)")
    expect(page.locator(".matrix thead th").last).to_be_in_viewport(ratio=0.9)
    last = page.locator(".matrix tbody tr").last
    expect(last.locator("th")).to_be_in_viewport(ratio=0.9)
    assert last.locator("th").bounding_box()["x"] == pytest.approx(box.bounding_box()["x"], abs=2)
    assert page.locator(".matrix tbody tr").count() == len(MANY)
    page.locator(".matrix thead a", has_text="law").click()
    expect(page.locator("h2", has_text="law")).to_be_in_viewport()


@pytest.mark.slow(but="dark-plain")
@pytest.mark.parametrize("name", ["plain", "names", "islands"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_board_is_on_the_first_page_of_paper(name, scheme, opened):
    page = opened(name, scheme=scheme)
    models = page.locator("table.board td.m").all_inner_texts()
    settled = page.locator("p.settled").inner_text()
    text = pdf_text(page.pdf(format="A4", page_ranges="1"))
    joined = "".join(text.split())
    assert "".join(settled.split()) in joined
    for words in (*models, "Rating", "95% interval", "Both bad"):
        assert "".join(words.split()) in joined
    for button in ("PNG", "All columns", "Copy"):
        assert button not in text


@pytest.mark.slow
def test_paper_is_black_on_white_with_heads_on_every_page(opened):
    page = opened("many", scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    style = page.evaluate(
        "() => { const s = getComputedStyle(document.body); return [s.backgroundColor, s.color]; }"
    )
    assert style == ["rgb(255, 255, 255)", "rgb(0, 0, 0)"]
    text = pdf_text(page.pdf(format="A4"))
    assert text.count("95% interval") > len(set(page.locator(".rated > h2").all_inner_texts()))
