"""Each kind of response is shown as what it is: texts in their direction, images, sounds, apps behind a wall."""

import json
from urllib.parse import urljoin

import pytest
from playwright.sync_api import expect

from support.ballots import (
    SCRIPTS,
    bar,
    clickable,
    intercept,
    matchup_of,
    needs_bundle,
    stage,
    start,
    status,
    voted,
)
from support.browsing import SIZES
from support.postgres_servers import fresh_database
from support.served import served
from support.shown_kinds import APP, fill_arena, png, sound

ARABIC = "الجواب هو Python لأنه بسيط.\n\n- أولاً\n- ثانياً"
HEBREW = "התשובה היא Python כי היא פשוטה.\n\n1. ראשית\n2. שנית"


def rows(kind, responses, **more):
    return [
        {"prompt_id": "p", "prompt": "Well?", "model": f"model-{k}", "response": one, "kind": kind, **more}
        for k, one in enumerate(responses)
    ]


@pytest.fixture(scope="module")
def site(server, template, tmp_path_factory):
    """An arena for each kind."""
    store = tmp_path_factory.mktemp("responses")
    numbers = range(3)
    with fresh_database(server, template) as database:
        made = {
            "arabic": (rows("text", [f"{ARABIC} {k}" for k in numbers], language="ar"), {}),
            "hebrew": (rows("text", [f"{HEBREW} {k}" for k in numbers], language="he"), {}),
            "image": (
                rows("image", [f"{k}.png" for k in numbers]),
                {f"{k}.png": png(80 * k, 90, 160) for k in numbers},
            ),
            "audio": (
                rows("audio", [f"{k}.wav" for k in numbers]),
                {f"{k}.wav": sound(1 + k / 10) for k in numbers},
            ),
            "app": (
                rows("app", [f"{k}.html" for k in numbers]),
                {f"{k}.html": f"{APP}<!-- {k} -->".encode() for k in numbers},
            ),
            "long": (
                [row | {"prompt": "First line.\n\n" + "More of it. " * 200} for row in rows("text", "abc")],
                {},
            ),
            "endless": (rows("text", ["<b>so</b> " * 30_000 + f"the end {k}" for k in numbers]), {}),
        }
        for name, (answers, files) in made.items():
            fill_arena(database, store, name, answers, files)
        with served(database, folder=store) as running:
            yield running


@pytest.mark.slow(but="arabic-ar-phone")
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("arena", "language"), [("arabic", "ar"), ("hebrew", "he")])
def test_texts_run_from_right_to_left_where_their_language_does(visit, size, arena, language):
    opened = visit(f"/arenas/{arena}/vote", js=False, size=size)
    page = opened.page
    start(page)
    shown = stage(page).locator(".side-a .response-text")
    assert shown.get_attribute("lang") == language
    assert shown.evaluate("one => getComputedStyle(one).direction") == "rtl"
    blocks = shown.locator("p, li")
    assert set(blocks.evaluate_all("all => all.map(one => getComputedStyle(one).direction)")) == {"rtl"}
    box, first = shown.bounding_box(), shown.locator("p").first
    end = first.evaluate(
        "one => { const range = document.createRange(); range.selectNodeContents(one);"
        " return Math.max(...[...range.getClientRects()].map(part => part.right)); }"
    )
    assert abs(end - (box["x"] + box["width"])) < 4, "the line begins at the right edge"
    prompt, rest = stage(page).locator(".prompt"), stage(page).locator(".sides").bounding_box()
    around = prompt.bounding_box()
    assert around["x"] + around["width"] == pytest.approx(rest["x"] + rest["width"], abs=1)
    assert prompt.evaluate("one => parseFloat(getComputedStyle(one).borderRightWidth)") > 0
    opened.check()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("js", SCRIPTS)
def test_images_show_before_the_vote_and_after_it(visit, size, js):
    opened = visit("/arenas/image/vote", js=js, size=size)
    page = opened.page
    start(page)
    first = matchup_of(page)
    loaded = "all => all.map(one => one.complete && one.naturalWidth)"
    for _ in range(2):
        images = stage(page).locator(".response-image img")
        expect(images).to_have_count(2)
        page.wait_for_load_state("networkidle")
        assert images.evaluate_all(loaded) == [240, 240]
        assert images.evaluate_all("all => all.map(one => one.alt)") == ["Response A", "Response B"]
        if first == matchup_of(page) and bar(page, "Tie").is_visible():
            bar(page, "Tie").click()
            voted(page, "Tie")
    opened.check()


@needs_bundle
def test_no_vote_is_taken_before_an_image_has_come(visit):
    page = visit("/arenas/image/vote", check=False).page
    intercept(page, "**/m/*/b", lambda _route: None)
    start(page)
    expect(bar(page, "Tie")).to_be_disabled()
    clickable(page)
    bar(page, "Tie").click(force=True)
    told = "Response B is still loading. Wait for it, or skip this matchup."
    expect(status(page)).to_have_text(told)
    expect(bar(page, "Skip")).to_be_enabled()


def test_sounds_can_be_played(visit):
    opened = visit("/arenas/audio/vote")
    page = opened.page
    start(page)
    sounds = stage(page).locator("audio")
    expect(sounds).to_have_count(2)
    for k in range(2):
        handle = sounds.nth(k).element_handle()
        page.wait_for_function("one => one.readyState >= 1 && one.duration > 0.9", arg=handle)
        assert handle.evaluate("one => one.controls")
    opened.check()


@pytest.mark.parametrize("size", SIZES)
def test_apps_run_and_reach_nothing(site, visit, size):
    opened = visit("/arenas/app/vote", size=size, check=False)
    page, answered = opened.page, []
    page.on("response", lambda answer: answered.append(answer.url))
    start(page)
    matchup = matchup_of(page)
    for letter in "ab":
        if size[0] < 500:
            stage(page).locator(".tabs").get_by_text(f"Response {letter.upper()}").click()
        app = page.frame_locator(f"iframe[name='app-{letter}-{matchup}']")
        expect(app.locator("#out")).to_contain_text("ran")
        told = json.loads(app.locator("#out").inner_text())
        assert told == {
            "parent": "refused",
            "cookie": "refused",
            "storage": "refused",
            "rtc": "refused",
            "top": told["top"],
            "fetch": "refused",
            "image": "refused",
            "ran": "yes",
        }
    assert page.url.endswith("/arenas/app/vote"), "an app took the page elsewhere"
    assert not [url for url in answered if "tripwire" in url or "/api/v1/me" in url or "stolen" in url]
    assert stage(page).locator("iframe").evaluate_all("all => all.map(one => one.sandbox.value)") == [
        "allow-scripts",
        "allow-scripts",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("js", [True, False])
def test_of_an_endless_response_the_whole_is_a_click_away(visit, js):
    opened = visit("/arenas/endless/vote", js=js)
    page = opened.page
    start(page)
    expect(stage(page).get_by_text("too long to show here")).to_have_count(2)
    link = stage(page).locator(".side-a").get_by_role("link", name="whole response")
    answer = page.request.get(urljoin(page.url, link.get_attribute("href")))
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-security-policy"].startswith("sandbox")
    assert answer.text().startswith("<b>so</b> ")
    assert "the end" in answer.text()
    opened.check()
