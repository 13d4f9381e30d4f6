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
    settled,
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


@pytest.mark.slow
@needs_bundle
def test_the_next_images_are_loaded_before_they_are_wanted(visit):
    opened = visit("/arenas/image/vote")
    page = opened.page
    start(page)
    settled(page)
    page.wait_for_function(
        "() => [...document.querySelectorAll('.stage-ahead img')].every(one => one.complete && one.naturalWidth)"
    )
    page.keyboard.press("1")
    voted(page, "A is better")
    page.context.set_offline(True)
    before = matchup_of(page)
    page.keyboard.press("n")
    expect(page.locator(f".stage[data-matchup='{before}']")).to_have_count(0)
    images = stage(page).locator("img")
    assert images.evaluate_all("all => all.map(one => one.complete && one.naturalWidth)") == [240, 240]


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
@needs_bundle
def test_an_app_that_is_shown_next_starts_only_once(visit):
    """The frame is not moved when it comes into view: moved frames start anew."""
    opened = visit("/arenas/app/vote", check=False)
    page = opened.page
    start(page)
    ahead = page.locator(".stage-ahead")
    expect(ahead).to_have_count(1)
    following = ahead.get_attribute("data-matchup")
    for letter in "ab":
        app = page.frame_locator(f"iframe[name='app-{letter}-{following}']")
        expect(app.locator("#out")).to_contain_text("ran")
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.keyboard.press("3")
    voted(page, "Tie")
    page.keyboard.press("n")
    expect(bar(page, "Tie")).to_be_visible()
    assert matchup_of(page) == following
    expect(app.locator("#out")).to_contain_text("ran")
    assert not [url for url in asked if f"/m/{following}" in url]


@pytest.mark.slow
def test_an_app_opened_alone_is_shown_as_its_source(site, visit):
    """Alone it could go to another page, and tell what it knows: nothing around it would say no."""
    opened = visit("/arenas/app/vote", js=True, check=False)
    page = opened.page
    start(page)
    alone = page.context.new_page()
    answered = []
    alone.on("response", lambda answer: answered.append(answer.url))
    answer = alone.goto(f"{site.url}/m/{matchup_of(page)}/a")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["content-security-policy"].startswith("sandbox allow-scripts; default-src 'none'")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.body().startswith(APP.encode())
    expect(alone.locator("#out")).to_have_count(0)
    assert not [url for url in answered if "tripwire" in url or "/api/" in url]


@pytest.mark.slow
def test_a_long_prompt_is_folded_and_opens_without_a_script(visit):
    page = visit("/arenas/long/vote", js=False).page
    start(page)
    whole = stage(page).locator(".prompt-text")
    expect(whole).to_be_hidden()
    expect(stage(page).locator(".excerpt")).to_contain_text("First line. More of it.")
    stage(page).get_by_text("Show all").click()
    expect(whole).to_be_visible()
    expect(stage(page).locator(".excerpt")).to_be_hidden()


@pytest.mark.slow(but="False")
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
