"""Both responses have been on screen before a vote is taken, and the log keeps when."""

import pytest
from playwright.sync_api import expect

from support.ballots import (
    VOTE,
    bar,
    clickable,
    gone_on,
    matchup_of,
    needs_bundle,
    patient_site,
    ready,
    settled,
    stage,
    start,
    status,
    voted,
)
from support.browsing import PHONE
from support.matchup_texts import stored_id
from tiltyard.postgres.connections import connect

VOTES = ("A is better", "B is better", "Tie", "Both bad")


@pytest.fixture(scope="module")
def site(server, template):
    with patient_site(server, template) as running:
        yield running


def logged(site, matchup):
    """What the log says of the votes on a matchup, besides the outcome."""
    with connect(site.database) as connection:
        rows = connection.execute(
            "SELECT e.detail FROM events e JOIN matchups m USING (arena, source, serial) "
            "WHERE e.kind = 1 AND m.matchup = %s ORDER BY e.position",
            (stored_id(matchup),),
        ).fetchall()
    return [row[0] for row in rows]


def tab(page, letter):
    return stage(page).locator(".tabs").get_by_text(f"Response {letter}")


@needs_bundle
def test_a_phone_takes_no_vote_before_both_were_on_screen(site, visit):
    opened = visit(VOTE, size=PHONE)
    page = opened.page
    start(page, look=False)
    settled(page)
    matchup = matchup_of(page)
    for name in VOTES:
        expect(bar(page, name)).to_have_attribute("aria-disabled", "true")
    expect(bar(page, "Skip")).to_be_enabled()
    expect(stage(page).locator(".side-b")).to_be_hidden()
    clickable(page)
    bar(page, "A is better").click(force=True)
    expect(status(page)).to_have_text("View response B first, then vote.")
    expect(stage(page).locator(".side-b")).to_be_visible()
    assert logged(site, matchup) == []
    tab(page, "A").click()
    for name in VOTES:
        expect(bar(page, name)).to_be_enabled()
    bar(page, "A is better").click()
    voted(page, "A is better")
    (detail,) = logged(site, matchup)
    shown = detail["shown"]
    assert shown["a"] > shown["b"] > 0, "A was on screen first"
    opened.check()


@needs_bundle
def test_a_response_below_the_screen_has_not_been_shown(site, visit):
    """A prompt that is unfolded and fills the screen: neither response can be seen behind it."""
    opened = ready(visit)
    page = opened.page
    bar(page, "Tie").click()
    voted(page, "Tie")
    before = matchup_of(page)
    page.evaluate("for (const one of document.querySelectorAll('.prompt')) one.style.minHeight = '200vh'")
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    bar(page, "Next").click()
    matchup = gone_on(page, before)
    clickable(page)
    bar(page, "Tie").click(force=True)
    expect(status(page)).to_have_text("View response A first, then vote.")
    expect(stage(page).locator(".side-a .response")).to_be_in_viewport()
    assert logged(site, matchup) == []
    bar(page, "Tie").click()
    voted(page, "Tie")
    assert len(logged(site, matchup)) == 1


def test_without_a_script_both_stand_on_the_page(site, visit):
    opened = visit(VOTE, js=False, size=PHONE)
    page = opened.page
    start(page)
    matchup = matchup_of(page)
    expect(stage(page).locator(".tabs")).to_be_hidden()
    sides = [stage(page).locator(f".side-{letter}") for letter in "ab"]
    for side, name in zip(sides, ("Response A", "Response B"), strict=True):
        expect(side.get_by_role("heading", name=name)).to_be_visible()
        expect(side.locator(".response")).to_be_visible()
    boxes = [side.bounding_box() for side in sides]
    assert boxes[0]["y"] + boxes[0]["height"] <= boxes[1]["y"]
    bar(page, "A is better").click()
    voted(page, "A is better")
    assert logged(site, matchup) == [None], "nobody watched, so nothing is claimed"
    opened.check()
