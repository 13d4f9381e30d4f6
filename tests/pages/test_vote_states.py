"""Every state of the vote page can be read by everybody: axe finds nothing grave, in both themes and sizes."""

import pytest
from playwright.sync_api import expect

from support.ballots import (
    PATIENT,
    SCRIPTS,
    bar,
    gone_on,
    matchup_of,
    named,
    needs_bundle,
    stage,
    start,
    status,
    voted,
)
from support.browsing import AXE, SIZES, readable
from support.postgres_servers import fresh_database
from support.served import served
from support.shown_kinds import APP, fill_arena, png, sound

needs_axe = pytest.mark.skipif(not AXE.is_file(), reason="needs frontend/node_modules: npm ci")
TEXT = "# A title\n\nSome **text** with `code`, a [link](https://example.org) and\n\n```python\nx = 1\n```\n\n> quoted"

#: One long word that would like to be markup, and to run the other way.
HOSTILE = "<img/src=x/onerror=tripwire(1)>" + "W" * 90 + "\u05d0\u05d1'\"{{7*7}}"


@pytest.fixture(scope="module")
def site(server, template, tmp_path_factory):
    store = tmp_path_factory.mktemp("responses")

    def rows(kind, end):
        return [
            {"prompt_id": "p", "prompt": "Why?", "model": f"m{k}", "response": f"{k}{end}", "kind": kind}
            for k in range(3)
        ]

    with fresh_database(server, template) as database:
        fill_arena(database, store, "arena", rows("text", TEXT), settings=PATIENT)
        fill_arena(
            database,
            store,
            "hostile",
            [
                {
                    "prompt_id": "p",
                    "prompt": HOSTILE * 40,
                    "model": f"{k}{HOSTILE}",
                    "response": f"{k} {HOSTILE * 40}",
                }
                for k in range(3)
            ],
            settings=PATIENT,
            title=HOSTILE[:60],
        )
        files = {f"{k}.png": png(70 * k, 90, 90) for k in range(3)}
        files |= {f"{k}.wav": sound(0.3 + k / 10) for k in range(3)}
        files |= {f"{k}.html": f"{APP}<!-- {k} -->".encode() for k in range(3)}
        for kind, end in (("image", ".png"), ("audio", ".wav"), ("app", ".html")):
            fill_arena(database, store, kind, rows(kind, end), files)
        with served(database, folder=store) as running:
            yield running


@pytest.mark.slow(but="phone-dark")
@needs_axe
@needs_bundle
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_every_state_can_be_read(visit, size, theme):
    page = visit("/arenas/arena/vote", size=size, theme=theme, check=False, bypass_csp=True).page
    readable(page, iframes=False)
    start(page)
    expect(page.locator(".stage-ahead")).to_have_count(1)
    readable(page, iframes=False)
    stage(page).get_by_text("Report this matchup").click()
    readable(page, iframes=False)
    bar(page, "A is better").click()
    voted(page, "A is better")
    stage(page).get_by_text("Add a comment").click()
    stage(page).get_by_text("concise").click()
    readable(page, iframes=False)
    bar(page, "Show the names").click()
    named(page)
    readable(page, iframes=False)
    first = matchup_of(page)
    bar(page, "Next").click()
    gone_on(page, first)
    bar(page, "Both bad").click()
    voted(page, "Both bad")
    readable(page, iframes=False)
    bar(page, "Undo").click()
    expect(status(page)).to_have_text("Undone. Vote again.")
    readable(page, iframes=False)
    page.reload()
    expect(bar(page, "Both bad")).to_be_visible()
    readable(page, iframes=False)


@pytest.mark.slow(but="phone-app")
@needs_axe
@pytest.mark.parametrize("kind", ["image", "audio", "app"])
@pytest.mark.parametrize("size", SIZES)
def test_every_kind_can_be_read(visit, size, kind):
    page = visit(f"/arenas/{kind}/vote", size=size, check=False, bypass_csp=True).page
    start(page)
    readable(page, iframes=False)


@pytest.mark.slow
@pytest.mark.parametrize("js", SCRIPTS)
@pytest.mark.parametrize("size", SIZES)
def test_long_and_hostile_texts_stay_in_their_places(visit, size, js):
    opened = visit("/arenas/hostile/vote", size=size, js=js)
    page, width = opened.page, "document.documentElement.scrollWidth"
    page.evaluate("window.tripped = []; window.tripwire = (n) => tripped.push(n)")
    start(page)
    assert page.evaluate(width) <= size[0]
    bar(page, "A is better").click()
    voted(page, "A is better")
    bar(page, "Show the names").click()
    names = named(page)
    assert all("<img/src=x" in name for name in names)
    assert page.evaluate(width) <= size[0], "it scrolls sideways"
    box = stage(page).locator(".bar").bounding_box()
    assert box["height"] <= 0.7 * size[1] + 1, "the bar covers the responses"
    expect(bar(page, "Next")).to_be_visible()
    assert page.locator("img[src=x]").count() == 0
    assert page.evaluate("window.tripped ?? []") == []
    assert "49" not in stage(page).inner_text()
    opened.check()


@pytest.mark.parametrize("size", SIZES)
def test_a_whole_round_is_done_by_keyboard_alone_without_a_script(visit, size):
    page = visit("/arenas/arena/vote", js=False, size=size).page

    def tab_to(word):
        for _ in range(60):
            page.keyboard.press("Tab")
            if word in page.evaluate("document.activeElement.innerText || ''"):
                outlined = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
                assert outlined != "none", "the focus cannot be seen"
                with page.expect_navigation():
                    page.keyboard.press("Enter")
                return
        raise AssertionError(f"no way to {word}")

    tab_to("Start voting")
    matchup = matchup_of(page)
    tab_to("Tie")
    voted(page, "Tie")
    tab_to("Show the names")
    named(page)
    tab_to("Next")
    assert matchup_of(page) != matchup
