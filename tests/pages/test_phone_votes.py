"""Voting on a phone: most of the screen is for the responses, and one gets from one to the other and back."""

import pytest
from playwright.sync_api import expect

from support.ballots import bar, clickable, gone_on, matchup_of, needs_bundle, stage, start, voted
from support.browsing import axe
from support.phones import SHARE, SMALL_PHONE, SWIPE, ZOOMED_PHONE
from support.postgres_servers import fresh_database
from support.served import served
from support.shown_kinds import fill_arena
from tiltyard.settings.arena_settings import ArenaSettings

PROMPT = "Explain to somebody who has never seen one how a sailing boat gets along against the wind. " * 4
LONG = "A sentence that goes on for a while and explains it. " * 12
PATH = "/arenas/arena/vote"


@pytest.fixture(scope="module")
def site(server, template, tmp_path_factory):
    store = tmp_path_factory.mktemp("responses")
    with fresh_database(server, template) as database:
        rows = [
            {
                "prompt_id": f"p{p}",
                "prompt": f"{PROMPT}{p}?",
                "model": f"model-{m}",
                "response": "\n\n".join([LONG] * 8 + [f"{p} and {m}"]),
            }
            for p in range(3)
            for m in range(3)
        ]
        fill_arena(database, store, "arena", rows, {}, settings=ArenaSettings(undo_seconds=60.0))
        with served(database, folder=store) as running:
            yield running


@pytest.fixture
def begun(visit):
    opened = visit(PATH, size=SMALL_PHONE, bypass_csp=True)
    start(opened.page)
    expect(stage(opened.page).locator(".tabs")).to_be_visible()
    return opened


@needs_bundle
def test_half_of_a_small_phone_is_response_also_after_the_first_vote(begun):
    page = begun.page
    assert page.evaluate(SHARE) >= 0.5
    before = matchup_of(page)
    clickable(page)
    bar(page, "A is better").click()
    voted(page, "A is better")
    bar(page, "Next").click()
    gone_on(page, before)
    assert page.evaluate(SHARE) >= 0.5
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert axe(page) == []


@pytest.mark.slow
@needs_bundle
def test_the_prompt_has_two_lines_and_opens_by_a_tap(begun):
    page = begun.page
    text, less = stage(page).locator(".prompt-text"), stage(page).locator(".prompt-open")
    folded = text.bounding_box()["height"]
    assert folded < 60
    text.click(position={"x": 40, "y": 10})
    expect(less).to_have_text("Show less", use_inner_text=True)
    assert text.bounding_box()["height"] > 2 * folded
    less.click()
    assert text.bounding_box()["height"] == folded


@needs_bundle
def test_a_swipe_and_a_tab_switch_responses_and_keep_their_places(begun):
    page = begun.page
    tabs = stage(page).locator(".tabs input")
    page.evaluate("scrollTo(0, 400)")
    page.wait_for_function("scrollY === 400")
    stage(page).evaluate(SWIPE, -150)
    expect(tabs.nth(1)).to_be_checked()
    assert page.evaluate("scrollY") < 400, "what was not read yet begins at its top"
    page.evaluate("scrollTo(0, 250)")
    page.wait_for_timeout(100)
    stage(page).evaluate(SWIPE, 40)
    expect(tabs.nth(1)).to_be_checked()
    stage(page).evaluate(SWIPE, 150)
    expect(tabs.nth(0)).to_be_checked()
    assert page.evaluate("scrollY") == 400
    stage(page).locator(".tabs label").nth(1).click()
    assert page.evaluate("scrollY") == 250


@pytest.mark.slow
@needs_bundle
def test_skip_and_knowing_a_model_are_behind_one_button(begun):
    page = begun.page
    skip, fold = stage(page).locator(".vote-skip"), stage(page).locator(".ballot-fold > summary")
    expect(skip).to_be_hidden()
    fold.click()
    expect(skip).to_be_visible()
    expect(stage(page).get_by_label("I know one of these models")).to_be_visible()
    page.set_viewport_size({"width": ZOOMED_PHONE[0], "height": ZOOMED_PHONE[1]})
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    expect(skip).to_be_in_viewport()
