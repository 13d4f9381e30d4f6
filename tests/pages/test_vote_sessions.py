"""Where names are told at the end of a session: one matchup after another, then all the names."""

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
from support.browsing import SIZES, sign_in
from support.live_arenas import made_arena
from support.postgres_servers import fresh_database
from support.served import make_operator, served
from tiltyard.settings.arena_settings import ArenaSettings

SESSIONS = ArenaSettings(undo_seconds=60.0, session_votes=3)
SESSION = "/arenas/arena/vote"
NEVER = "/arenas/never/vote"


@pytest.fixture(scope="module")
def site(server, template, tmp_path_factory):
    """An arena whose sessions have three votes, one that tells no names, and one with two responses."""
    with fresh_database(server, template) as database:
        made_arena(database, 4, 8, settings=SESSIONS, reveal="session")
        made_arena(database, name="never", settings=ArenaSettings(undo_seconds=60.0), reveal="never")
        made_arena(database, 2, 1, name="tiny", settings=SESSIONS, reveal="session")
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


@pytest.mark.slow(but="script")
@pytest.mark.parametrize("js", SCRIPTS)
def test_a_vote_on_a_response_that_is_known_by_name_is_not_called_counted(visit, js):
    page = visit("/arenas/tiny/vote", js=js).page
    start(page)
    vote(page)
    expect(line(page)).to_contain_text("Vote counted: A is better")
    page.get_by_role("button", name="Finish").click()
    page.get_by_role("button", name="Next matchup").click()
    vote(page)
    expect(line(page)).to_contain_text("Not counted: you knew a model's name. A is better")


@pytest.mark.slow
def test_your_own_votes_promise_no_names_where_none_are_told(visit, site):
    page = visit(NEVER, js=False).page
    start(page)
    vote(page)
    page.goto(f"{site.url}/arenas/never/mine")
    expect(
        page.get_by_text("This arena never shows names, so your votes cannot be shown here.")
    ).to_be_visible()


@pytest.mark.slow
@pytest.mark.parametrize("js", SCRIPTS)
def test_the_vote_before_can_be_undone_from_the_next_matchup(site, visit, js):
    opened = visit(SESSION, js=js)
    page = opened.page
    start(page)
    first = vote(page)
    line(page).get_by_role("button", name="Undo").click()
    expect(page.get_by_text("Your vote is undone. Vote again.")).to_be_visible()
    assert matchup_of(page) == first
    vote(page, "Tie")
    expect(line(page)).to_contain_text("Vote counted: Tie")
    expect(line(page)).to_contain_text("1 of 3")
    opened.check()


@pytest.mark.slow
@pytest.mark.parametrize("js", SCRIPTS)
def test_why_is_said_on_the_page_of_the_vote_and_names_are_not(site, visit, js):
    opened = visit(SESSION, js=js)
    page = opened.page
    start(page)
    vote(page)
    line(page).get_by_role("link", name="Give a reason").click()
    expect(stage(page)).to_contain_text("You voted:")
    expect(page.get_by_role("button", name="Show the names")).to_have_count(0)
    stage(page).get_by_text("creative").click()
    bar(page, "Next").click()
    expect(line(page)).to_contain_text("1 of 3")
    expect(page.get_by_text("model-")).to_have_count(0)
    opened.check()


@pytest.mark.slow
@pytest.mark.parametrize("js", SCRIPTS)
def test_an_arena_that_tells_no_names_goes_on_for_ever(site, visit, js):
    opened = visit(NEVER, js=js)
    page = opened.page
    start(page)
    expect(line(page)).to_contain_text("This arena shows no names for now.")
    for _ in range(2):
        vote(page)
        expect(line(page)).to_contain_text("Vote counted: A is better")
        expect(page.get_by_role("button", name="Finish")).to_have_count(0)
        if js:
            settled(page)
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


def test_the_settings_say_how_many_blind_votes_one_voter_has(site, visit):
    opened = visit("/operator", js=False)
    sign_in(opened)
    page = opened.page
    page.goto(f"{site.url}/operator/arenas/arena/settings")
    expect(page.get_by_text("can cast at least 16 blind votes here")).to_be_visible()
    page.goto(f"{site.url}/operator/arenas/arena/settings/review?reveal=vote")
    expect(page.get_by_text("One voter can cast 16 blind votes here")).to_be_visible()
    page.goto(f"{site.url}/operator/arenas/arena/settings/review?session_votes=25")
    expect(page.get_by_text("can cast at least 25 blind votes here")).to_be_visible()
    page.goto(f"{site.url}/operator/arenas/never/settings")
    expect(page.get_by_text("Names are never shown to people")).to_be_visible()
