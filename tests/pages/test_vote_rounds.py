"""A round with the script: vote, undo against the clock, names by themselves, the next matchup at once."""

import re

import pytest
from playwright.sync_api import expect

from support.ballots import (
    PATIENT,
    VOTE,
    bar,
    clickable,
    endings,
    gone_on,
    intercept,
    matchup_of,
    named,
    needs_bundle,
    ready,
    settled,
    stage,
    start,
    status,
    voted,
)
from support.browsing import SIZES
from support.live_arenas import made_arena
from support.postgres_servers import fresh_database
from support.served import served
from tiltyard.arena.log.event_log import LogKind
from tiltyard.postgres.connections import connect
from tiltyard.settings.arena_settings import ArenaSettings

pytestmark = needs_bundle
#: Milliseconds after which no vote can be taken back.
OVER = 1000 * int(PATIENT.undo_seconds) + 1000


@pytest.fixture(scope="module")
def site(server, template):
    """An arena, and a second one in which a vote is final at once."""
    with fresh_database(server, template) as database:
        made_arena(database, settings=PATIENT)
        made_arena(database, name="final", settings=ArenaSettings(undo_seconds=0.0))
        with served(database) as running:
            yield running


def ready_by_the_clock(visit, **options):
    """A voter before a first matchup, on whose page time can be made to pass."""
    opened = visit(VOTE, **options)
    opened.page.clock.install()
    start(opened.page)
    settled(opened.page)
    return opened


@pytest.mark.slow(but="phone")
@pytest.mark.parametrize("size", SIZES)
def test_undo_before_the_names(site, visit, size):
    page = ready(visit, size=size).page
    matchup = matchup_of(page)
    bar(page, "A is better").click()
    voted(page, "A is better")
    expect(stage(page).locator("[data-slot=left]")).to_have_text(re.compile(r"[1-9]\d?"))
    ahead = page.locator(".stage-ahead").get_attribute("data-matchup")
    bar(page, "Undo").click()
    expect(status(page)).to_have_text("Undone. Vote again.")
    assert endings(site.database, matchup) == [(1, 0, True, False)]
    assert page.get_by_text("model-").count() == 0
    assert matchup_of(page) == matchup
    expect(page.get_by_role("heading", name="Which response is better?")).to_be_visible()
    expect(bar(page, "Undo")).to_be_hidden()
    expect(stage(page).locator("[data-won]")).to_have_count(0)
    expect(page.locator(f".stage[data-matchup='{ahead}']")).to_have_count(0)
    assert endings(site.database, ahead) == [(LogKind.RELEASED, None, False, False)]
    settled(page)
    clickable(page)
    bar(page, "B is better").click()
    voted(page, "B is better")
    assert endings(site.database, matchup) == [(1, 1, False, False)]
    bar(page, "Next").click()
    other = gone_on(page, matchup)
    bar(page, "Tie").click()
    voted(page, "Tie")
    expect(stage(page)).to_have_attribute("data-now", "voted")
    assert endings(site.database, matchup, other) == [(1, 1, False, True), (1, 2, False, False)]


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
def test_names_come_by_themselves_when_the_time_is_over(site, visit, size):
    page = ready_by_the_clock(visit, size=size).page
    matchup = matchup_of(page)
    page.keyboard.press("2")
    voted(page, "B is better")
    expect(page.locator(".named-model")).to_have_count(0)
    page.clock.fast_forward(OVER)
    names = named(page)
    assert len(set(names)) == 2
    expect(bar(page, "Undo")).to_be_hidden()
    page.keyboard.press("u")
    page.keyboard.press("1")
    assert endings(site.database, matchup) == [(1, 1, False, True)]
    expect(stage(page).locator(".why")).to_be_hidden()


@pytest.mark.slow
def test_names_wait_for_a_comment_that_is_being_written(site, visit):
    opened = ready_by_the_clock(visit)
    page = opened.page
    bar(page, "A is better").click()
    voted(page, "A is better")
    stage(page).get_by_text("well written").click()
    stage(page).get_by_text("Add a comment").click()
    stage(page).get_by_label("Comment", exact=True).press_sequentially("it is the clearer one")
    page.clock.fast_forward(OVER)
    expect(bar(page, "Undo")).to_be_hidden()
    page.clock.run_for(1000)
    assert not [url for url in opened.requests if url.endswith("/reveal")]
    bar(page, "Show the names").click()
    named(page)
    with connect(site.database) as connection:
        assert connection.execute(
            "SELECT tags, comment FROM remarks ORDER BY made_at DESC LIMIT 1"
        ).fetchone() == (["well-written"], "it is the clearer one")


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
def test_names_that_nobody_waited_for_are_told_beside_the_next_matchup(visit, size):
    """Quietly: nothing moves, nothing is announced, and no later matchup is called the last one."""
    opened = ready(visit, size=size)
    page, last, held = opened.page, opened.page.locator("[data-slot=last]"), []

    def hold(route):
        held.append(route)

    intercept(page, "**/reveal", hold)
    for key, word in (("1", "A is better"), ("2", "B is better")):
        matchup = matchup_of(page)
        page.keyboard.press(key)
        voted(page, word)
        expect(last).to_be_hidden()
        with page.expect_request("**/reveal"):
            page.keyboard.press("n")
        gone_on(page, matchup)
        expect(last).to_be_empty()
        top = stage(page).bounding_box()["y"]
        held.pop().continue_()
        settled(page)
        expect(last.get_by_role("link")).to_have_count(2)
        links = [one.get_attribute("href") for one in last.get_by_role("link").all()]
        answer = page.request.get(f"{opened.site}/matchups/{matchup}").text()
        assert all(f'class="named-model" href="{href}"' in answer for href in links)
        expect(last).to_have_text(
            re.compile(
                rf"^You voted for {word[0]}: model-\d against model-\d\s+· this pair needs about \d+ more"
            )
        )
        expect(last.get_by_text("this pair needs about")).to_be_in_viewport()
        assert stage(page).bounding_box()["y"] == pytest.approx(top, abs=0.5)
    assert last.get_attribute("aria-live") == "off"
    expect(status(page)).to_have_text("The next matchup is here.")


def test_the_next_matchup_shows_before_any_request(visit):
    """Not even a connection is needed: it is there with everything in it, and time to paint it comes first."""
    opened = ready_by_the_clock(visit)
    page = opened.page
    for _ in range(2):
        matchup = matchup_of(page)
        page.keyboard.press("1")
        voted(page, "A is better")
        page.clock.pause_at(page.evaluate("Date.now()") / 1000 + 1)
        page.context.set_offline(True)
        before = len(opened.requests)
        page.keyboard.press("n")
        gone_on(page, matchup)
        expect(stage(page).locator(".response-text", has_text="Answer")).to_have_count(2)
        page.clock.run_for(1)
        asked = [url for url in opened.requests[before:] if "/favicon-" not in url]
        assert asked == [], "something was asked for first"
        page.context.set_offline(False)
        page.clock.resume()
        settled(page)
    opened.check()


@pytest.mark.slow
def test_a_page_that_is_loaded_again_after_the_vote_shows_what_became_of_it(site, visit):
    page = ready(visit).page
    matchup = matchup_of(page)
    page.keyboard.press("1")
    voted(page, "A is better")
    page.reload()
    voted(page, "A is better")
    settled(page)
    assert matchup_of(page) == matchup
    expect(stage(page).locator("[data-slot=left]")).to_have_text(re.compile(r"[1-9]\d?"))
    page.keyboard.press("u")
    expect(status(page)).to_have_text("Undone. Vote again.")
    expect(bar(page, "Tie")).to_be_visible()
    assert endings(site.database, matchup) == [(1, 0, True, False)]
