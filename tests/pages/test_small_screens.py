"""What a phone shows first, what it folds away, and what scrolls by itself; and how a wide screen uses its room."""

import pytest
from playwright.sync_api import expect

from support.ballots import start, unfold
from support.browsing import DESKTOP, PHONE, axe
from support.shown_boards import NAMES, served_board

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


@pytest.mark.slow
def test_a_rule_that_holds_is_marked_by_more_than_a_colour(visit):
    page = visit(BOARD, size=PHONE).page
    marks = page.locator(".rules li").evaluate_all(
        "all => all.map(li => [li.className, getComputedStyle(li, '::before').content])"
    )
    assert {mark[0] for mark in marks} <= {"holds", "waits"}
    assert all(("✓" in content) == (state == "holds") for state, content in marks)
    for state, line in zip((state for state, _ in marks), page.locator(".rules li").all(), strict=True):
        expect(line.locator(".rule-brief")).to_contain_text("holds" if state == "holds" else "not yet")


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


@pytest.mark.slow
def test_only_filters_are_folded_away_on_a_wide_screen(visit):
    page = visit(BOARD, js=False).page
    for hidden in ("#f-source", ".rules-more", ".rule-brief"):
        expect(page.locator(hidden).first).to_be_hidden()
    for shown in (".filter-fold summary", ".rule-label", ".rule-missing", ".board-status p"):
        expect(page.locator(shown).first).to_be_visible()


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


@pytest.mark.slow(but="opponents")
@pytest.mark.parametrize("section", ["confidence", "opponents"])
def test_a_wide_screen_has_a_chart_and_its_table_side_by_side(visit, section):
    page = visit(f"{BOARD}/models/{NAMES[1]}", js=False).page
    beside = page.locator(f"section[aria-labelledby={section}] .beside")
    chart, table = beside.locator("figure").bounding_box(), beside.locator("table").bounding_box()
    assert chart["x"] + chart["width"] <= table["x"]
    assert abs(chart["y"] - table["y"]) < 60
    assert table["x"] + table["width"] <= DESKTOP[0]
    assert fits(page)


@pytest.mark.slow(but="history-beside")
@pytest.mark.parametrize(("chart", "table"), [("history", "beside"), ("win-rates", "beneath")])
def test_a_wide_screen_folds_no_table_of_the_boards_charts(visit, chart, table):
    page = visit(f"{BOARD}?chart={chart}", js=False).page
    picture, numbers = box(page, ".charts figure"), box(page, ".charts details .table-region")
    expect(page.locator(".charts summary")).to_be_hidden()
    if table == "beside":
        assert picture["x"] + picture["width"] <= numbers["x"]
    else:
        assert picture["y"] + picture["height"] <= numbers["y"]
    assert numbers["height"] <= DESKTOP[1]
    assert fits(page)


@pytest.mark.slow
def test_the_table_of_a_chart_is_folded_where_there_is_no_room(visit):
    page = visit(f"{BOARD}/models/{NAMES[1]}", js=False, size=PHONE).page
    folded = page.locator("section[aria-labelledby=confidence] details")
    expect(folded.locator("table")).to_be_hidden()
    folded.locator("summary").press("Enter")
    expect(folded.locator("table")).to_be_visible()


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


def test_a_phone_says_on_a_line_of_its_own_that_a_vote_of_who_knows_does_not_count(visit):
    page = visit(f"{BOARD}/vote", js=False, size=PHONE).page
    start(page)
    unfold(page)
    note, label = page.locator(".recognized-note"), page.locator("label.recognized")
    expect(note).to_have_text("(the vote will not count)")
    inside, around = note.bounding_box(), label.bounding_box()
    assert inside["y"] > around["y"]
    assert inside["y"] + inside["height"] <= around["y"] + around["height"] + 1
    assert inside["x"] + inside["width"] <= PHONE[0]
    assert inside["height"] < 32, "it is one line"
    assert fits(page)
