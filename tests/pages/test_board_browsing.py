"""The leaderboard in a real browser: the same with and without scripts, at both sizes, by mouse and by keyboard."""

import re

import pytest
from playwright.sync_api import expect

from support.browsing import DESKTOP, PHONE, follow
from support.served import make_token
from support.shown_boards import served_board
from support.voted_arenas import rate_and_show
from tiltyard.web.assets import load_assets

needs_bundle = pytest.mark.skipif(
    load_assets().script() is None, reason="needs the bundle: python hatch_build.py"
)
SCRIPTS = [pytest.param(True, id="scripts", marks=needs_bundle), pytest.param(False, id="plain")]
#: Scripts and sizes, each with the other.
CROSSED = [
    pytest.param(True, DESKTOP, id="scripts-desktop", marks=needs_bundle),
    pytest.param(False, PHONE, id="plain-phone"),
    pytest.param(True, PHONE, id="scripts-phone", marks=[needs_bundle, pytest.mark.slow]),
    pytest.param(False, DESKTOP, id="plain-desktop", marks=pytest.mark.slow),
]


@pytest.fixture(scope="module")
def site(server, template, tmp_path_factory):
    with served_board(server, template, tmp_path_factory.mktemp("responses")) as running:
        yield running


def models(page):
    return [one for one in page.locator("#board tbody th a").all() if one.is_visible()]


def names(page):
    return [one.inner_text() for one in models(page)]


def settle(opened, *, js):
    """Wait until the island is there."""
    if js:
        expect(opened.page.locator("[data-island=board]")).to_have_attribute("data-live", "")


def sorted_names(site, **query):
    rows = site.client().get("/arenas/arena/board.json", params=query).json()["rows"]
    return [row["model"] for row in rows]


@needs_bundle
def test_sorting_in_place_asks_the_server_nothing_and_files_keep_step(visit):
    opened = visit("/arenas/arena")
    settle(opened, js=True)
    opened.page.wait_for_load_state("networkidle")
    before = len(opened.requests)
    opened.page.get_by_role("link", name="Coverage", exact=True).press("Enter")
    expect(opened.page).to_have_url(re.compile(r"\?sort=coverage$"))
    opened.page.get_by_text("Filters", exact=True).click()
    opened.page.get_by_label("Search models").fill("r")
    expect(opened.page).to_have_url(re.compile(r"\?sort=coverage&q=r$"))
    # From time to time an open board asks whether there is a newer one.
    own = ("/favicon", "/newest")
    assert [url for url in opened.requests[before:] if not any(part in url for part in own)] == []
    for link, path in (
        ("CSV", "/board.csv?"),
        ("Over time", "?chart=history&"),
        ("excluded votes", "?excluded=counted&"),
    ):
        address = opened.page.get_by_role("link", name=link).get_attribute("href")
        assert f"/arenas/arena{path}" in address
        assert "sort=coverage&q=r" in address
    expect(opened.page.locator("form.theme [name=next]").first).to_have_value(
        "/arenas/arena?sort=coverage&q=r"
    )
    opened.check()


@pytest.mark.parametrize(("js", "size"), CROSSED)
def test_a_search_leaves_what_it_names(visit, site, size, js):
    opened = visit("/arenas/arena", js=js, size=size)
    page = opened.page
    settle(opened, js=js)
    page.get_by_text("Filters", exact=True).click()
    page.get_by_label("Search models").fill("ER")
    if not js:
        follow(page.get_by_role("button", name="Show", exact=True))
    found = [name for name in sorted_names(site) if "er" in name.lower()]
    expect(page.locator("#board tbody:visible")).to_have_count(len(found))
    assert names(page) == found
    page.reload()
    assert names(page) == found
    opened.check()


@pytest.mark.parametrize(("js", "size"), CROSSED)
def test_details_open_in_place_by_keyboard(visit, size, js):
    opened = visit("/arenas/arena", js=js, size=size)
    page = opened.page
    detail = page.locator("#board .detail").first
    expect(detail).to_be_hidden()
    page.locator("#board summary").first.press("Enter")
    expect(detail).to_be_visible()
    expect(detail).to_contain_text("Legacy Elo")
    expect(detail).to_contain_text("Bradley–Terry, with interval")
    opened.check()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_only_the_chart_that_is_shown_is_loaded_in_the_theme_of_the_page(visit, theme):
    opened = visit("/arenas/arena?chart=history#charts", theme=theme, js=False)
    picture = opened.page.locator(".charts img")
    picture.scroll_into_view_if_needed()
    opened.page.wait_for_function("document.querySelector('.charts img').naturalWidth > 0")
    asked = [url for url in opened.requests if "/charts/" in url]
    assert len(asked) == 1
    assert f"history.svg?theme={theme}" in asked[0]
    opened.check()


def chosen(**cookies):
    """A browser that has these cookies of the site."""
    about = {"domain": "127.0.0.1", "path": "/", "httpOnly": False, "secure": False, "sameSite": "Lax"}
    about["expires"] = -1
    return {
        "cookies": [{"name": f"tiltyard_{name}", "value": value, **about} for name, value in cookies.items()]
    }


def test_a_board_that_is_the_same_for_all_has_the_theme_that_its_reader_chose(visit):
    opened, theme = visit("/arenas/arena", theme="light", storage_state=chosen(theme="dark")), "dark"
    page = opened.page
    expect(page.locator("html")).to_have_attribute("data-theme", theme)
    expect(page.locator("form.theme button[aria-pressed=true]").first).to_have_attribute("value", theme)
    opened.check()


def test_a_board_that_is_the_same_for_all_has_the_language_that_its_reader_chose(visit):
    opened = visit("/arenas/arena?sort=votes", storage_state=chosen(language="fr"))
    expect(opened.page).to_have_url(re.compile(r"\?sort=votes&in=fr$"))
    expect(opened.page.locator("html")).to_have_attribute("lang", "fr")
    opened.page.goto(f"{opened.site}/arenas/arena?in=en")
    expect(opened.page.locator("html")).to_have_attribute("lang", "en")
    opened.check()
    # A language that there is not ends nowhere.
    opened = visit("/arenas/arena", storage_state=chosen(language="xx"))
    expect(opened.page).to_have_url(re.compile(r"\?in=xx$"))
    expect(opened.page.locator("h1")).to_be_visible()


@pytest.fixture
def retiring(site):
    """Retire a model and publish that; it is enabled again afterwards."""
    admin = site.client(make_token(site.database, "admin", name="newer"))

    def changed(act):
        assert admin.post(f"/api/v1/arenas/arena/models/quartz-mini/{act}").status_code == 200
        rate_and_show(site)

    yield lambda: changed("retire")
    changed("enable")


@pytest.mark.slow(but="?sort=votes")
@needs_bundle
@pytest.mark.parametrize("query", ["?sort=votes", "?source=both"])
def test_a_newer_board_is_told_of_and_shown(visit, site, retiring, query):
    opened = visit("/")
    page = opened.page
    page.clock.install()
    page.goto(f"{site.url}/arenas/arena{query}")
    settle(opened, js=True)
    news = page.locator("[data-news]")
    for _ in range(2):  # Had the first look brought news, there would be no second.
        with page.expect_response(re.compile(r"/api/v1/arenas/arena/newest$")) as answer:
            page.clock.fast_forward(20_000)
        assert answer.value.ok
    expect(news).to_be_empty()
    retiring()
    page.clock.fast_forward(20_000)
    expect(news).to_contain_text("A newer board is available.")
    follow(news.get_by_role("link"))
    expect(page.locator("#board tr", has_text="quartz-mini")).to_contain_text("retired")
    assert page.url.endswith(query)
    opened.check()
