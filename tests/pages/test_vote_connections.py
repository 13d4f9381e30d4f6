"""One vote, never two and never none without a word: clicks, tabs, lost connections, busy servers."""

import pytest
from playwright.sync_api import expect

from support.ballots import (
    SCRIPTS,
    VOTE,
    bar,
    clickable,
    endings,
    gone_on,
    intercept,
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
from support.browsing import SIZES

pytestmark = needs_bundle


@pytest.fixture(scope="module")
def site(server, template):
    with patient_site(server, template) as running:
        yield running


@pytest.mark.slow(but="phone-plain")
@pytest.mark.parametrize("js", SCRIPTS)
@pytest.mark.parametrize("size", SIZES)
def test_a_double_click_presses_nothing_that_came_in_its_place(site, visit, size, js):
    """What stands under the pointer after the first click was not meant by the second."""
    page = visit(VOTE, size=size, js=js).page
    start(page)
    for button, outcome in (("A is better", 0), ("B is better", 1), ("Both bad", 3)):
        if js:
            settled(page)
        clickable(page)
        matchup = matchup_of(page)
        bar(page, button).dblclick()
        voted(page, button)
        clickable(page)
        voted(page, button)
        assert stage(page).locator(".chip :checked").count() == 0
        assert endings(site.database, matchup) == [(1, outcome, False, False)]
        bar(page, "Next").dblclick()
        following = gone_on(page, matchup)
        clickable(page)
        assert matchup_of(page) == following
        assert endings(site.database, following) == []


def test_two_tabs_have_one_vote(site, visit):
    opened = ready(visit)
    page = opened.page
    matchup = matchup_of(page)
    other = page.context.new_page()
    other.goto(page.url)
    settled(other)
    assert matchup_of(other) == matchup
    page.keyboard.press("1")
    voted(page, "A is better")
    other.keyboard.press("2")
    voted(other, "A is better")
    expect(status(other)).to_contain_text("already voted on this matchup")
    assert endings(site.database, matchup) == [(1, 0, False, False)]
    bar(page, "Undo").click()
    expect(status(page)).to_have_text("Undone. Vote again.")
    bar(other, "Show the names").click()
    expect(bar(other, "Tie")).to_be_visible()
    assert matchup_of(other) == matchup
    assert endings(site.database, matchup) == [(1, 0, True, False)]
    settled(other)
    other.keyboard.press("3")
    voted(other, "Tie")
    page.keyboard.press("1")
    voted(page, "Tie")
    assert endings(site.database, matchup) == [(1, 2, False, False)]
    page.keyboard.press("n")
    gone_on(page, matchup)


def test_a_vote_without_a_connection_is_told_and_saved_later(site, visit):
    page = ready(visit).page
    matchup = matchup_of(page)
    page.context.set_offline(True)
    page.keyboard.press("4")
    expect(status(page)).to_have_text("Not saved. Retrying …")
    assert endings(site.database, matchup) == []
    page.context.set_offline(False)
    voted(page, "Both bad")
    assert endings(site.database, matchup) == [(1, 3, False, False)]


def test_a_vote_whose_answer_was_lost_is_one_vote(site, visit):
    page = ready(visit).page
    matchup = matchup_of(page)
    lost = []

    def lose(route):
        if len(lost) < 2:
            route.fetch()
            lost.append(route.request.post_data)
            route.abort()
        else:
            route.continue_()

    intercept(page, "**/api/v1/matchups/*/vote", lose)
    page.keyboard.press("2")
    voted(page, "B is better")
    assert len(lost) == 2
    assert endings(site.database, matchup) == [(1, 1, False, False)]


@pytest.mark.slow
def test_a_vote_that_cannot_be_saved_says_so_and_can_be_tried_again(site, visit):
    opened = visit(VOTE, check=False)
    page = opened.page
    page.clock.install()
    start(page)
    settled(page)
    matchup = matchup_of(page)
    intercept(page, "**/api/v1/matchups/*/vote", lambda route: route.abort())
    page.keyboard.press("1")
    again = page.get_by_role("button", name="Try again")
    for _ in range(12):
        page.clock.run_for(10_000)
        page.wait_for_timeout(50)
        if again.count():
            break
    expect(again).to_be_visible()
    expect(status(page)).to_contain_text("Vote not saved")
    page.keyboard.press("n")
    assert matchup_of(page) == matchup, "an unsaved vote is not left behind"
    page.unroute_all()
    again.click()
    voted(page, "A is better")
    assert endings(site.database, matchup) == [(1, 0, False, False)]


@pytest.mark.slow
def test_leaving_with_an_unsaved_vote_is_asked_about(visit):
    page = ready(visit).page
    asked = []
    page.on("dialog", lambda dialog: (asked.append(dialog.type), dialog.accept()))
    page.context.set_offline(True)
    page.keyboard.press("1")
    expect(status(page)).to_have_text("Not saved. Retrying …")
    with page.expect_event("close"):
        page.close(run_before_unload=True)
    assert asked == ["beforeunload"]
