"""An expert panel in a browser: opened by the operator, finished by its raters with scripts and without, and closed."""

import pytest

from support.ballots import bar, clickable, gone_on, matchup_of, seen_both
from support.browsing import SIZES, follow, looks_right, readable, sign_in
from support.live_arenas import made_arena
from support.postgres_servers import fresh_database
from support.served import make_operator, served
from tiltyard.postgres.connections import connect
from tiltyard.settings.arena_settings import ArenaSettings


@pytest.fixture
def site(server, template, tmp_path):
    with fresh_database(server, template) as database:
        made_arena(database, 2, 5, settings=ArenaSettings(entry="invitation"), reveal="session")
        make_operator(database)
        with served(database, folder=tmp_path) as running:
            yield running


def vote_plainly(page, choices):
    """Vote on a whole list by forms alone."""
    for choice in choices:
        follow(page.get_by_role("button", name=choice).first)


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
def test_a_panel_from_its_links_to_its_names(visit, site, size):
    operator = visit("/operator", size=size, check=False, bypass_csp=True)
    sign_in(operator)
    desk = operator.page
    desk.goto(f"{site.url}/operator/arenas/arena/panels")
    looks_right(desk)
    desk.get_by_label("Name").fill("Experts")
    desk.get_by_label("Raters").fill("Ada\nBen")
    follow(desk.get_by_role("button", name="Open the panel"))
    looks_right(desk)
    links = desk.locator("[data-rater-link]").all_inner_texts()
    ada, ben = ("/join/" + link.partition("/join/")[2] for link in links)

    first = visit(ben, js=False, size=size)
    page = first.page
    assert page.get_by_text("invited as Ben").is_visible()
    follow(page.get_by_role("button", name="Join"))
    assert page.url == f"{site.url}/arenas/arena/panel"
    assert page.get_by_text("5 of 5 items").is_visible()
    assert "model-" not in page.content()
    looks_right(page)
    follow(page.get_by_role("button", name="Start voting"))
    vote_plainly(page, ["Tie", "A is better"])

    # On another device, the same list goes on where it was.
    other = visit(ben, js=False, size=size).page
    follow(other.get_by_role("button", name="Join"))
    vote_plainly(other, ["B is better", "Both bad", "Tie"])
    assert other.url == f"{site.url}/arenas/arena/panel"
    assert other.get_by_text("list is finished").is_visible()

    second = visit(ada, size=size, check=False, bypass_csp=True)
    page = second.page
    follow(page.get_by_role("button", name="Join"))
    follow(page.get_by_role("button", name="Start voting"))
    for left in range(4, -1, -1):
        before = matchup_of(page)
        seen_both(page)
        clickable(page)
        bar(page, "A is better").click()
        if left:
            gone_on(page, before)
    page.wait_for_url(f"{site.url}/arenas/arena/panel")
    assert page.get_by_text("list is finished").is_visible()
    assert "model-" not in page.content()

    desk.goto(f"{site.url}/operator/arenas/arena/panels")
    follow(desk.get_by_role("link", name="Experts", exact=True))
    assert desk.get_by_text("10 of 10 votes").is_visible()
    looks_right(desk)
    desk.get_by_text("Adjudicate", exact=True).first.click()
    desk.get_by_label("Better response").first.select_option("1")
    desk.get_by_label("Why, and who decided").first.fill("Dora: no difference")
    follow(desk.get_by_role("button", name="Record").first)
    assert desk.get_by_text("Dora: no difference").is_visible()
    follow(desk.get_by_role("button", name="Close the panel for good"))
    assert desk.get_by_role("heading", name="Board").is_visible()
    readable(desk)

    page.reload()
    assert page.get_by_text("are the names").is_visible()
    assert "model-1" in page.content()
    readable(page)
    with connect(site.database) as connection:
        rows = connection.execute("SELECT count(*) FROM endings WHERE kind = 1").fetchone()
        told = connection.execute("SELECT count(*) FROM endings WHERE revealed_at IS NOT NULL").fetchone()
    assert (rows, told) == ((10,), (0,))


def test_a_list_is_shown_to_its_rater_only(visit, site):
    page = visit("/arenas/arena/panel", js=False).page
    assert page.get_by_role("heading", name="is private").is_visible()
