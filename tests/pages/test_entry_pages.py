"""Coming in to a private arena in a browser, with scripts and without, on a phone and at a desk."""

import pytest

from support.browsing import SIZES, follow, looks_right
from support.invited import make_link
from support.live_arenas import made_arena
from support.postgres_servers import fresh_database
from support.served import make_operator, served
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
