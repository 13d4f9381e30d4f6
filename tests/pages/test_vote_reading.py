"""The vote page is made for reading: buttons under their responses, and everything that helps to see both."""

import pytest
from playwright.sync_api import expect

from support.ballots import (
    bar,
    clickable,
    endings,
    gone_on,
    matchup_of,
    needs_bundle,
    settled,
    stage,
    start,
    unfold,
    voted,
)
from support.browsing import axe
from support.page_layout import resize
from support.postgres_servers import fresh_database
from support.served import served
from support.shown_kinds import fill_arena
from tiltyard.postgres.connections import connect
from tiltyard.settings.arena_settings import ArenaSettings

LONG = "A sentence that goes on for a while and explains it. " * 12
CODE = "```python\n" + "\n".join(f"value_{k} = {k} * {'x' * 200}" for k in range(3)) + "\n```"
TABLE = "| " + " | ".join(f"column {k}" for k in range(20)) + " |\n|" + "---|" * 20 + "\n|" + " 1 |" * 20
ARENAS = {
    "short": "**Yes.**",
    "long": "\n\n".join([LONG] * 12),
    "wide": f"{CODE}\n\n{TABLE}",
}


@pytest.fixture(scope="module")
def site(server, template, tmp_path_factory):
    """An arena of short, of long and of wide responses."""
    store = tmp_path_factory.mktemp("responses")
    with fresh_database(server, template) as database:
        for name, text in ARENAS.items():
            rows = [
                {
                    "prompt_id": f"p{p}",
                    "prompt": f"What of {p}?",
                    "model": f"model-{m}",
                    "response": f"{text}\n\n{p} and {m}",
                }
                for p in range(4)
                for m in range(3)
            ]
            settings = ArenaSettings(undo_seconds=60.0, reveal="vote")
            fill_arena(database, store, name, rows, {}, settings=settings)
        with served(database, folder=store) as running:
            yield running


def box(page, selector):
    return stage(page).locator(selector).bounding_box()


def middle(one):
    return one["x"] + one["width"] / 2


@pytest.mark.slow(but="long")
@pytest.mark.parametrize("name", ["short", "long"])
def test_every_button_stands_under_what_it_is_about(visit, name):
    """A under A, B under B, tie and both bad between; in view, and near the text however high the window is."""
    page = visit(f"/arenas/{name}/vote", js=False).page
    start(page)
    for size in ((1280, 800), (1920, 1080), (2560, 1440)):
        resize(page, size)
        page.evaluate("scrollTo(0, 0)")
        a, b = box(page, ".side-a"), box(page, ".side-b")
        buttons = [box(page, f"[value={value}]") for value in ("model_a", "tie", "both_bad", "model_b")]
        assert buttons == sorted(buttons, key=lambda one: one["x"])
        assert buttons[0]["x"] == pytest.approx(a["x"], abs=1)
        assert middle(buttons[0]) < a["x"] + a["width"]
        assert middle(buttons[3]) > b["x"]
        assert buttons[3]["x"] + buttons[3]["width"] == pytest.approx(b["x"] + b["width"], abs=1)
        assert all(one["y"] + one["height"] <= size[1] for one in buttons)
        if name == "short":
            assert buttons[0]["y"] - a["y"] < 760, size
        text = box(page, ".side-a .response-text")
        assert text["width"] <= 46 * 16


@pytest.mark.parametrize(
    "js", [pytest.param(True, id="script", marks=needs_bundle), pytest.param(False, id="plain")]
)
def test_one_response_fills_the_screen_and_the_vote_stays_in_reach(visit, js):
    page = visit("/arenas/long/vote", js=js).page
    start(page)
    if js:
        settled(page)
    whole = stage(page).get_by_label("Response B on the whole screen")
    whole.check()
    shown = box(page, ".side-b")
    assert (shown["x"], shown["y"], shown["width"]) == (0, 0, 1280)
    clickable(page)
    expect(bar(page, "B is better")).to_be_in_viewport()
    if js:
        page.keyboard.press("Escape")
        expect(whole).not_to_be_checked()
    else:
        whole.uncheck()
    assert box(page, ".side-b")["width"] < 1000


@needs_bundle
def test_a_response_is_shown_as_it_was_written(visit):
    opened = visit("/arenas/short/vote")
    page = opened.page
    start(page)
    settled(page)
    expect(stage(page).locator(".side-a strong")).to_have_text("Yes.")
    raw = stage(page).get_by_label("Raw text of response A")
    raw.click()
    expect(stage(page).locator(".side-a .raw")).to_contain_text("**Yes.**")
    expect(stage(page).locator(".side-a strong")).to_be_hidden()
    expect(raw).to_have_text("Rendered")
    raw.click()
    expect(stage(page).locator(".side-a strong")).to_be_visible()
    expect(stage(page).locator(".side-b .raw")).to_have_count(0)
    opened.check()


@pytest.mark.slow
@needs_bundle
def test_the_text_size_is_kept_in_the_browser(visit):
    page = visit("/arenas/short/vote").page
    start(page)
    settled(page)

    def size():
        return stage(page).locator(".side-a .response-text").evaluate("one => getComputedStyle(one).fontSize")

    assert size() == "16px"
    page.get_by_role("button", name="Larger text").click()
    assert size() == "18px"
    page.reload()
    settled(page)
    assert size() == "18px"
    for _ in range(9):
        page.get_by_role("button", name="Smaller text").click()
    assert size() == "14px"


@pytest.mark.parametrize(
    "js", [pytest.param(True, id="script", marks=needs_bundle), pytest.param(False, id="plain")]
)
def test_a_skip_has_a_reason_and_who_knows_a_model_is_not_counted(site, visit, js):
    page = visit("/arenas/short/vote", js=js).page
    start(page)
    if js:
        settled(page)
    first = matchup_of(page)
    stage(page).get_by_text("Why?").click()
    bar(page, "The prompt is unclear").click()
    second = gone_on(page, first)
    if js:
        settled(page)
    stage(page).get_by_label("I know one of these models").check()
    clickable(page)
    bar(page, "B is better").click()
    voted(page, "B is better")
    clickable(page)
    bar(page, "Show the names").click()
    expect(stage(page).get_by_text("Not counted: you knew")).to_be_visible()
    name = stage(page).locator(".named-model").first
    assert float(name.evaluate("one => parseFloat(getComputedStyle(one).fontSize)")) >= 20
    assert [row[0] for row in endings(site.database, first, second)] == [2, 1]
    with connect(site.database) as connection:
        found = connection.execute(
            "SELECT e.kind, e.detail - 'shown', e.blind FROM events e JOIN endings n USING (arena, position)"
            " WHERE e.detail IS NOT NULL ORDER BY e.at DESC, e.position DESC LIMIT 2"
        ).fetchall()
    assert found == [(1, {"recognized": True}, False), (2, {"reason": "unclear-prompt"}, None)]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nothing_is_hidden_from_those_who_cannot_see(visit, theme):
    """With the list of reasons open, and at 200 % as well."""
    page = visit("/arenas/wide/vote", theme=theme, size=(640, 400), bypass_csp=True).page
    start(page)
    unfold(page)
    stage(page).get_by_text("Why?").press("Enter")
    assert axe(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 640
    expect(bar(page, "A is better")).to_be_in_viewport()
