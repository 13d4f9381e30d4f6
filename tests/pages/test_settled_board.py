"""What a board settles, as it is seen: ranges, lines between tiers, bars, and what a phone shows of them."""

import asyncio
import time

import pytest
from playwright.sync_api import expect

from support.browsing import PHONE
from support.live_arenas import make_arena
from support.postgres_servers import fresh_database
from support.served import served
from support.voted_arenas import close_window, lay_votes, rate
from tiltyard.postgres.connections import connect
from tiltyard.web.assets import load_assets

needs_bundle = pytest.mark.skipif(
    load_assets().script() is None, reason="needs the bundle: python hatch_build.py"
)
BOARD = "/arenas/arena"
#: In logits: two models tie for first, two the next, and the last is an outlier.
STRENGTHS = (0.8, 0.8, 0.0, 0.0, -5.0)


@pytest.fixture(scope="module")
def site(server, template, tmp_path_factory):
    with fresh_database(server, template) as database:
        arena = asyncio.run(make_arena(database, len(STRENGTHS), 24))
        with connect(database) as connection:
            connection.execute("UPDATE prompts SET category = 'maths' WHERE prompt < 20")
        lay_votes(database, arena.arena, 2000, len(STRENGTHS), 24, sessions=150, strengths=STRENGTHS)
        close_window(database, arena.arena)
        rate(database)
        with served(database, folder=tmp_path_factory.mktemp("responses")) as running:
            yield running


def ranks(page):
    cells = page.locator("#board tbody tr:not(.detail) > td:first-child")
    return [cell.inner_text().split("\n")[0] for cell in cells.all() if cell.is_visible()]


def lines(page):
    """Before which of the rows that are seen a line stands."""
    bodies = [body for body in page.locator("#board tbody").all() if body.is_visible()]
    return [k for k, body in enumerate(bodies) if "tier-line" in (body.get_attribute("class") or "")]


def expect_lines(page, wanted):
    """The page draws them when it gets to it."""
    until = time.monotonic() + 10.0
    while lines(page) != wanted and time.monotonic() < until:
        page.wait_for_timeout(50)
    assert lines(page) == wanted


@pytest.mark.slow(but="/arenas/arena")
@pytest.mark.parametrize("path", [BOARD, f"{BOARD}?category=maths"])
def test_shared_ranks_are_ranges_and_lines_stand_between_tiers(visit, path):
    opened = visit(path)
    page = opened.page
    expect(page.locator("main p").first).to_contain_text(
        "Pairs settled: 8 of all 10; neighbouring ones: 2 of 4."
    )
    expect(page.locator("main p").first).to_contain_text("tie for first")
    assert ranks(page) == ["1–2", "1–2", "3–4", "3–4", "5"]
    assert lines(page) == [2, 4]
    marked = [
        k for k, cell in enumerate(page.locator("#board tbody th").all())
        if cell.get_by_text("settled above the next", exact=True).count()
    ]  # fmt: skip
    assert marked == [1, 3]
    line, plain = (
        page.locator("#board tbody").nth(k).locator("tr > td").first.evaluate(
            "one => parseFloat(getComputedStyle(one).borderTopWidth)"
        )
        for k in (2, 1)
    )  # fmt: skip
    assert line > plain
    opened.check()


@needs_bundle
def test_lines_follow_what_is_seen_and_stand_in_the_order_of_ranks_only(visit):
    page = visit(BOARD).page
    expect(page.locator("[data-island=board]")).to_have_attribute("data-live", "")
    headings = page.get_by_role("columnheader")
    headings.get_by_role("link", name="Votes", exact=True).click()
    expect_lines(page, [])
    headings.get_by_role("link", name="Rank", exact=True).click()
    expect_lines(page, [2, 4])
    names = [one.inner_text() for one in page.locator("#board tbody th > a").all()]
    page.get_by_text("Filters", exact=True).click()
    page.get_by_label("Search models").fill(names[4])
    expect_lines(page, [])
    page.get_by_label("Search models").fill("")
    expect_lines(page, [2, 4])


@pytest.mark.slow(but="/arenas/arena")
@pytest.mark.parametrize("path", [BOARD, f"{BOARD}?category=maths"])
def test_a_phone_shows_rank_model_and_rating_and_the_rest_on_request(visit, path):
    page = visit(path, js=False, size=PHONE).page
    seen = [one.inner_text() for one in page.locator("#board thead th").all() if one.is_visible()]
    assert seen == ["Rank", "Model", "Rating"]
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    region = page.locator(".board-region")
    assert region.evaluate("one => one.scrollWidth <= one.clientWidth"), "the table is wider than the screen"
    detail = page.locator("#board tr.detail").first
    expect(detail).to_be_hidden()
    page.locator("#board summary").first.press("Enter")
    for word in ("Confidence", "Coverage", "Consistency", "Spread", "Avg score", "Record", "Votes"):
        expect(detail.get_by_text(word, exact=True)).to_be_visible()
