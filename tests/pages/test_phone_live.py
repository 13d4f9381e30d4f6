"""Live battles on a phone: as on the vote page, most of the screen is for the responses."""

import pytest
from playwright.sync_api import expect

from support.ballots import needs_bundle
from support.browsing import axe, follow
from support.live_page_sites import live_site
from support.phones import SHARE, SMALL_PHONE, SWIPE, ZOOMED_PHONE

PROMPT = "Explain to somebody who has never seen one how a sailing boat gets along against the wind. " * 3
COMPLETE = ".live-stage:not([data-running])"


@pytest.fixture(scope="module")
def live(server, template, tmp_path_factory):
    with live_site(server, template, tmp_path_factory.mktemp("responses"), undo_seconds=60.0) as running:
        running.answer_steadily(2_000)
        yield running


@pytest.fixture
def asked(visit, live):
    opened = visit("/arenas/arena/vote", size=SMALL_PHONE, bypass_csp=True)
    opened.page.locator("textarea").first.fill(PROMPT)
    follow(opened.page.get_by_role("button", name="Ask both"))
    # Response A was on screen, complete.
    expect(opened.page.locator(COMPLETE + '[data-unseen="b"]')).to_be_attached()
    return opened


@pytest.fixture
def site(live):
    return live.site


@pytest.mark.slow
@needs_bundle
def test_half_of_a_small_phone_is_response_until_the_names_are_told(asked):
    page = asked.page
    stage, prompt = page.locator(".stage"), page.locator(".prompt-text")
    assert prompt.bounding_box()["height"] < 60
    longer = 0 if "three ways" in page.locator(".side-a").inner_text() else 1
    stage.evaluate(SWIPE, -150)
    expect(page.locator(".tab-b")).to_be_checked()
    expect(page.locator(".ballot-row button").first).to_have_attribute("aria-disabled", "false")
    page.locator(".tabs label").nth(longer).click()
    assert page.evaluate(SHARE) >= 0.5
    assert axe(page) == []
    page.locator(".ballot-row button").first.click()
    expect(page.locator(".result")).to_contain_text("A is better")
    page.wait_for_timeout(700)
    assert page.evaluate(SHARE) >= 0.4
    page.get_by_role("button", name="Show the names").click()
    expect(page.locator(".named-model:visible").first).to_be_visible()
    assert page.locator(".result").bounding_box()["height"] < 30
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert axe(page) == []


@pytest.mark.slow
@needs_bundle
def test_a_live_battle_can_be_voted_on_at_twice_the_size(asked):
    page = asked.page
    page.set_viewport_size({"width": ZOOMED_PHONE[0], "height": ZOOMED_PHONE[1]})
    page.locator(".tabs label").nth(1).click()
    page.locator(".side-b .live-answer").evaluate("one => scrollBy(0, one.getBoundingClientRect().top - 60)")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    boxes = [one.bounding_box() for one in page.locator(".ballot-row button").all()]
    assert min(min(box["width"], box["height"]) for box in boxes) >= 24
    page.locator(".ballot-row button").first.click()
    expect(page.locator(".result")).to_contain_text("A is better")
    page.get_by_role("button", name="Show the names").click()
    expect(page.locator(".named-model:visible").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
