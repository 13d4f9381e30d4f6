"""What a phone shows first, what it folds away, and what scrolls by itself; and how a wide screen uses its room."""

import pytest
from playwright.sync_api import expect

from support.browsing import DESKTOP, PHONE, axe
from support.shown_boards import served_board

BOARD = "/arenas/arena"


@pytest.fixture(scope="module")
def site(server, template, tmp_path_factory):
    with served_board(server, template, tmp_path_factory.mktemp("responses")) as running:
        yield running


def box(page, selector, nth=0):
    return page.locator(selector).nth(nth).bounding_box()


def fits(page):
    return page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize(("query", "models"), [("", 5), ("?source=llm-judge&category=maths&retired=hide", 4)])
def test_a_phone_shows_models_on_its_first_screen(visit, query, models):
    page = visit(BOARD + query, js=False, size=PHONE).page
    last = box(page, "#board tbody", models - 1)
    assert last["y"] + last["height"] <= PHONE[1]
    assert fits(page)


def test_a_phone_gives_each_rule_a_line_and_tells_the_rest_when_asked(visit):
    opened = visit(BOARD, js=False, size=PHONE, bypass_csp=True)
    page = opened.page
    for line in page.locator(".rules li").all():
        assert line.bounding_box()["height"] < 32
    expect(page.locator(".rules")).not_to_contain_text("cannot be estimated", use_inner_text=True)
    told = page.locator(".rule-missing")
    expect(told.first).to_be_hidden()
    page.get_by_text("What this means").press("Enter")
    expect(told).to_have_count(3)
    expect(told.last).to_be_visible()
    expect(page.get_by_text("Not official yet:")).to_be_visible()
    expect(page.locator(".rule-brief").first).to_be_hidden()


def test_filters_are_folded_on_a_phone_and_say_what_is_chosen(visit):
    page = visit(f"{BOARD}?source=llm-judge&language=de", js=False, size=PHONE).page
    chosen = page.locator(".filter-fold summary")
    expect(chosen).to_have_text("Filters: LLM judges, de")
    expect(page.get_by_label("Language")).to_be_hidden()
    chosen.press("Enter")
    page.get_by_label("Language").select_option("")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(chosen).to_have_text("Filters: LLM judges")
    expect(page.get_by_label("Language")).to_be_hidden()
    page.get_by_role("link", name="Clear").click()
    expect(chosen).to_have_text("Filters")


@pytest.mark.slow(but="win-rates")
@pytest.mark.parametrize("chart", ["win-rates", "battle-counts"])
def test_a_heatmap_on_a_phone_is_a_table_whose_names_stay(visit, chart):
    opened = visit(f"{BOARD}?chart={chart}", size=PHONE, theme="dark", bypass_csp=True)
    page, region = opened.page, opened.page.locator(".heatmap .table-region")
    expect(page.locator(".charts figure")).to_be_hidden()
    expect(region).to_be_visible()
    assert fits(page)
    cells = region.locator("td:not(:empty)")
    assert len(set(cells.evaluate_all("all => all.map(one => getComputedStyle(one).backgroundColor)"))) > 2
    edge = "one => getComputedStyle(one, '::after').visibility"
    name, cell = region.locator("tbody th").first, region.locator("tbody td").first
    before, moved = name.bounding_box()["x"], cell.bounding_box()["x"]
    assert region.evaluate(edge) == "visible"
    region.evaluate("one => one.scrollLeft = one.scrollWidth")
    assert name.bounding_box()["x"] == pytest.approx(before, abs=1)
    assert cell.bounding_box()["x"] < moved - 100
    page.wait_for_function(f"one => ({edge})(one) === 'hidden'", arg=region.element_handle())
    assert axe(page) == []
    assert [url for url in opened.requests if "/charts/" in url] == [], "an unseen picture was loaded"


@pytest.mark.slow(but="size1")
@pytest.mark.parametrize("size", [PHONE, DESKTOP])
def test_a_long_title_ends_with_an_ellipsis_at_the_top_of_every_page(visit, size):
    page = visit(BOARD, js=False, size=size).page
    title = page.locator(".masthead-arena a")
    title.evaluate("one => one.textContent = 'A title that is much longer than there is room for '.repeat(4)")
    found = title.evaluate(
        "one => ({cut: one.scrollWidth > one.clientWidth, how: getComputedStyle(one).textOverflow, "
        "lines: one.getClientRects().length, kind: getComputedStyle(one).display})"
    )
    assert found == {"cut": True, "how": "ellipsis", "lines": 1, "kind": "block"}
    beside = page.locator(".masthead nav").bounding_box()
    ends = title.bounding_box()
    assert ends["x"] + ends["width"] <= (size[0] if size == PHONE else beside["x"])
    assert fits(page)
