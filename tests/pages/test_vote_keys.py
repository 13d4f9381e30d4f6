"""The vote page's keys: what they do, where they mean nothing, and where the focus goes."""

import pytest
from playwright.sync_api import expect

from support.ballots import (
    OUTCOMES,
    bar,
    endings,
    gone_on,
    matchup_of,
    named,
    needs_bundle,
    patient_site,
    ready,
    settled,
    stage,
    status,
    voted,
)

pytestmark = needs_bundle
KEYS = {
    "1": "model_a",
    "ArrowLeft": "model_a",
    "2": "model_b",
    "ArrowRight": "model_b",
    "3": "tie",
    "t": "tie",
    "4": "both_bad",
    "x": "both_bad",
}
WORDS = {"model_a": "A is better", "model_b": "B is better", "tie": "Tie", "both_bad": "Both bad"}


@pytest.fixture(scope="module")
def site(server, template):
    with patient_site(server, template) as running:
        yield running


def test_every_key_votes_and_goes_on(site, visit):
    opened = ready(visit)
    page, seen = opened.page, []
    for key, outcome in KEYS.items():
        seen.append(matchup_of(page))
        page.keyboard.press(key)
        voted(page, WORDS[outcome])
        page.keyboard.press("n" if len(seen) % 2 else "Enter")
        gone_on(page, seen[-1])
        settled(page)
    assert len(set(seen)) == len(KEYS)
    assert [row[:3] for row in endings(site.database, *seen)] == [
        (1, OUTCOMES[outcome], False) for outcome in KEYS.values()
    ]
    assert all(row[3] for row in endings(site.database, *seen)), "going on makes a vote final"
    expect(page.get_by_role("link", name=f"{len(KEYS)} votes cast")).to_be_visible()
    opened.check()


@pytest.mark.slow
def test_keys_stand_on_the_buttons_and_mean_nothing_elsewhere(site, visit):
    page = ready(visit).page
    matchup = matchup_of(page)
    assert [text.strip() for text in stage(page).locator(".ballot kbd").all_inner_texts()] == list("1342␣")
    for combination in ("Control+1", "Alt+1", "Meta+1", "Shift+T"):
        page.keyboard.press(combination)
    stage(page).get_by_text("Report this matchup").click()
    stage(page).get_by_label("Anything else").fill("")
    page.keyboard.type("1 2 3 4 t x")
    stage(page).get_by_label("What is wrong?").press("1")
    assert matchup_of(page) == matchup
    expect(bar(page, "A is better")).to_be_visible()
    bar(page, "Both bad").focus()
    page.keyboard.press("Space")
    voted(page, "Both bad")
    stage(page).get_by_text("Add a comment").click()
    stage(page).get_by_label("Comment", exact=True).press_sequentially("n u r")
    voted(page, "Both bad")
    assert endings(site.database, matchup) == [(1, 3, False, False)]


@pytest.mark.slow
def test_keys_can_be_turned_off_and_stay_off(site, visit):
    page = ready(visit).page
    matchup = matchup_of(page)
    page.get_by_label("Keyboard shortcuts").uncheck()
    page.locator("main").focus()
    for _ in range(2):
        for key in (*KEYS, "Space", "n", "u", "r"):
            page.keyboard.press(key)
        assert stage(page).locator("kbd:visible").count() == 0
        assert page.locator("[aria-keyshortcuts]").count() == 0
        assert matchup_of(page) == matchup
        assert endings(site.database, matchup) == []
        page.reload()
        settled(page)
    page.get_by_label("Keyboard shortcuts").check()
    page.locator("main").focus()
    page.keyboard.press("1")
    voted(page, "A is better")


def test_the_focus_goes_along(visit):
    page = ready(visit).page
    page.keyboard.press("1")
    voted(page, "A is better")
    expect(stage(page).locator(".result")).to_be_focused()
    page.keyboard.press("r")
    named(page)
    expect(status(page)).to_have_text("The vote is final. These are the names.")
    page.keyboard.press("n")
    expect(stage(page).locator("[data-focus]")).to_be_focused()
    expect(stage(page).get_by_role("heading", name="Prompt")).to_be_focused()


def test_a_key_pressed_while_the_vote_is_on_its_way_counts_when_it_has_arrived(site, visit):
    page = ready(visit).page
    matchup = matchup_of(page)
    page.keyboard.press("1")
    page.keyboard.press("n")
    gone_on(page, matchup)
    settled(page)
    assert endings(site.database, matchup) == [(1, 0, False, True)]
