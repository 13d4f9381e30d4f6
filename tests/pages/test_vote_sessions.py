"""Where names are told at the end of a session: one matchup after another, then all the names."""

import re

import pytest
from playwright.sync_api import expect

from support.ballots import (
    OUTCOMES,
    SCRIPTS,
    bar,
    endings,
    matchup_of,
    needs_bundle,
    ready,
    seen_both,
    settled,
    stage,
    start,
)
from support.browsing import SIZES
from support.live_arenas import made_arena
from support.operating import signed
from support.postgres_servers import fresh_database
from support.served import make_operator, served
from tiltyard.settings.arena_settings import ArenaSettings

SESSIONS = ArenaSettings(undo_seconds=60.0, session_votes=3)
SESSION = "/arenas/arena/vote"


@pytest.fixture(scope="module")
def site(server, template, tmp_path_factory):
    """An arena whose sessions have three votes, and one that tells no names."""
    with fresh_database(server, template) as database:
        made_arena(database, 4, 8, settings=SESSIONS, reveal="session")
        made_arena(database, name="never", settings=ArenaSettings(undo_seconds=60.0), reveal="never")
        make_operator(database)
        with served(database, folder=tmp_path_factory.mktemp("responses")) as running:
            yield running


def vote(page, button="A is better"):
    """A vote, after which the next matchup is there."""
    before = matchup_of(page)
    seen_both(page)
    bar(page, button).click()
    expect(stage(page)).not_to_have_attribute("data-matchup", before)
    return before


def line(page):
    return page.locator(".session")


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("js", SCRIPTS)
def test_votes_go_on_until_the_names_are_told(site, visit, size, js):
    opened = visit(SESSION, js=js, size=size)
    page = opened.page
    expect(page.get_by_text("All names are shown together after 3 votes")).to_be_visible()
    start(page)
    expect(line(page)).to_contain_text("0 of 3")
    expect(page.get_by_role("button", name="Finish")).to_have_count(0)
    seen = [vote(page, "B is better")]
    expect(line(page)).to_contain_text("Vote counted: B is better")
    expect(line(page)).to_contain_text("1 of 3")
    expect(page.get_by_role("button", name="Finish")).to_be_visible()
    expect(page.get_by_text("model-")).to_have_count(0)
    if js:
        settled(page)
    seen.append(vote(page, "Tie"))
    expect(line(page)).to_contain_text("2 of 3")
    seen.append(matchup_of(page))
    if js:
        settled(page)
    seen_both(page)
    bar(page, "A is better").click()
    expect(page.get_by_role("heading", name="The names")).to_be_visible()
    expect(page.locator(".own-votes li")).to_have_count(3)
    expect(page.locator(".own-votes a[href*='/models/']")).to_have_count(6)
    expect(page.get_by_text("You said: tie")).to_be_visible()
    assert [endings(site.database, one)[0][1] for one in seen] == [
        OUTCOMES["model_b"],
        OUTCOMES["tie"],
        OUTCOMES["model_a"],
    ]
    page.get_by_role("button", name="Next matchup").click()
    expect(line(page)).to_contain_text("0 of 3")
    opened.check()


@pytest.mark.slow(but="script")
@pytest.mark.parametrize("js", SCRIPTS)
def test_finish_tells_the_names_sooner(site, visit, js):
    opened = visit(SESSION, js=js)
    page = opened.page
    start(page)
    vote(page)
    page.get_by_role("button", name="Finish").click()
    expect(page.get_by_role("heading", name="The names")).to_be_visible()
    expect(page.locator(".own-votes li")).to_have_count(1)
    expect(page.get_by_text("It is final now.")).to_be_visible()
    opened.check()


@needs_bundle
def test_a_key_that_is_pressed_twice_votes_once(site, visit):
    opened = ready(visit, SESSION)
    page = opened.page
    first = matchup_of(page)
    page.keyboard.press("1")
    expect(stage(page)).not_to_have_attribute("data-matchup", first)
    page.keyboard.press("1")
    expect(line(page)).to_contain_text("1 of 3")
    second = matchup_of(page)
    assert endings(site.database, second) == []
    page.keyboard.press("u")
    expect(page.get_by_text("Your vote is undone. Vote again.")).to_be_visible()
    assert matchup_of(page) == first
    opened.check()


def test_the_settings_say_how_many_blind_votes_one_voter_has(site):
    client = signed(site)
    for path, said in (
        ("arena/settings", "can cast at least 16 blind votes here"),
        ("arena/settings/review?reveal=vote", "One voter can cast 16 blind votes here"),
        ("arena/settings/review?session_votes=25", "can cast at least 25 blind votes here"),
        ("never/settings", "Names are never shown to people"),
    ):
        page = client.get(f"/operator/arenas/{path}").text
        assert said in " ".join(re.sub(r"<[^>]*>", "", page).split())
