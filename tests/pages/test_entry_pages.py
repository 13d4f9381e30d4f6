"""Coming in to a private arena in a browser, with scripts and without, on a phone and at a desk."""

import pytest

from support.browsing import SIZES, follow, looks_right, readable, sign_in
from support.invited import make_link, make_passcode, revoke
from support.live_arenas import made_arena
from support.postgres_servers import fresh_database
from support.served import make_operator, served
from tiltyard.postgres.connections import connect
from tiltyard.settings.arena_settings import ArenaSettings

LONG = "Which of our assistants answers customers best? Autumn pilot with a long title"


@pytest.fixture(scope="module")
def site(server, template, tmp_path_factory):
    with fresh_database(server, template) as database:
        made_arena(database, settings=ArenaSettings(entry="invitation"))
        made_arena(database, name="coded", settings=ArenaSettings(entry="passcode"))
        make_operator(database)
        with served(database, folder=tmp_path_factory.mktemp("responses")) as running:
            running.context.access.entry_throttle._seconds = 0.0
            yield running


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("js", [pytest.param(True, id="script"), pytest.param(False, id="plain")])
def test_a_colleague_comes_in_by_the_link_and_votes(visit, site, size, js):
    link, _ = make_link(site.database)
    opened = visit("/arenas/arena", js=js, size=size)
    page = opened.page
    assert page.get_by_role("heading", name="is private").is_visible()
    looks_right(page)
    page.goto(site.url + link)
    assert page.get_by_role("heading", name="You are invited").is_visible()
    looks_right(page)
    follow(page.get_by_role("button", name="Join"))
    assert page.url == f"{site.url}/arenas/arena/vote"
    follow(page.get_by_role("button", name="Start voting"))
    assert page.get_by_role("button", name="Tie").first.is_visible()
    opened.check()
    stranger = visit(link, js=js, size=size).page
    assert stranger.get_by_role("heading", name="does not work").is_visible()
    looks_right(stranger)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("js", [pytest.param(True, id="script"), pytest.param(False, id="plain")])
def test_a_passcode_is_asked_for_and_leads_on(visit, site, size, js):
    shown, _ = make_passcode(site.database, "coded")
    opened = visit("/arenas/coded/mine", js=js, size=size)
    page = opened.page
    looks_right(page)
    page.get_by_label("Passcode").fill("not this one")
    follow(page.get_by_role("button", name="Join"))
    assert page.get_by_role("alert").is_visible()
    looks_right(page)
    page.get_by_label("Passcode").fill(shown)
    follow(page.get_by_role("button", name="Join"))
    assert page.url == f"{site.url}/arenas/coded/mine"
    opened.check()


@pytest.mark.parametrize("js", [pytest.param(True, id="script"), pytest.param(False, id="plain")])
def test_whoever_is_out_while_voting_is_told(visit, site, js):
    link, number = make_link(site.database)
    page = visit(link, js=js).page
    follow(page.get_by_role("button", name="Join"))
    follow(page.get_by_role("button", name="Start voting"))
    revoke(site.database, number)
    site.context.access.forget()
    page.get_by_role("button", name="Tie").first.click()
    page.get_by_role("heading", name="is private").wait_for()


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_everybody_can_read_the_pages(visit, site, size, theme):
    link, _ = make_link(site.database)
    for path in ("/arenas/arena", "/arenas/coded", link, "/join/0-x"):
        page = visit(path, size=size, theme=theme, check=False, bypass_csp=True).page
        readable(page)


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
def test_the_operator_makes_a_link_and_revokes_it(visit, site, size):
    opened = visit("/operator/sign-in", size=size, check=False, bypass_csp=True)
    page, path = opened.page, "/operator/arenas/arena/invitations"
    sign_in(opened, path)
    page.get_by_text("One link for several").click()
    page.get_by_label("Batch").fill("pilot team")
    page.get_by_label("People").fill("20")
    follow(page.get_by_role("button", name="Make a link"))
    link = page.locator("[data-invitation]").inner_text()
    assert "/join/0-" in link
    readable(page)
    inside = visit(link.partition(":0")[2] or link, size=size, check=False).page
    follow(inside.get_by_role("button", name="Join"))
    page.goto(site.url + path)
    follow(page.get_by_role("link", name="Revoke pilot team…").first)
    readable(page)
    follow(page.get_by_role("button", name="Revoke"))
    assert page.get_by_role("status").first.is_visible()
    inside.goto(f"{site.url}/arenas/arena")
    assert inside.get_by_role("heading", name="is private").is_visible()


@pytest.mark.slow
def test_a_long_title_fits_on_a_phone(visit, site):
    with connect(site.database) as connection:
        connection.execute("UPDATE arenas SET title = %s WHERE name = 'arena'", (LONG,))
    page = visit(make_link(site.database)[0], size=(320, 640)).page
    assert page.get_by_role("heading", name=LONG[:30]).is_visible()
    looks_right(page)
