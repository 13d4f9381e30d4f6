"""Live battles in a browser: ask, read both responses while they are written, go on, vote, and see who it was."""

import re

import pytest
from playwright.sync_api import expect

from support.ballots import needs_bundle
from support.browsing import DESKTOP, PHONE, SIZES, axe, follow
from support.live_pace import usual_pace
from support.live_page_sites import live_site
from support.scripted_streams import steady
from tiltyard.web.pages.live_view import LivePageStream

VOTE = "/arenas/arena/vote"
COMPLETE = ".live-stage:not([data-running])"

#: What a phone shows of these pages, `test_a_whole_battle` looks at in every run.
DESKTOP_AND_SLOW_PHONE = [
    pytest.param(DESKTOP, id="desktop"),
    pytest.param(PHONE, id="phone", marks=pytest.mark.slow),
]

#: Notes when each response grows, and how many characters it shows.
WATCH = """() => {
  window.grown = [];
  const lengths = () => ['a', 'b'].map(one => document.querySelector(`.side-${one} .live-answer`)?.textContent.length ?? 0);
  let last = lengths().join();
  new MutationObserver(() => {
    const now = lengths();
    if (now.join() !== last) { last = now.join(); window.grown.push([performance.now(), ...now]); }
  }).observe(document.querySelector('.sides'), {subtree: true, childList: true, characterData: true});
}"""


@pytest.fixture(scope="module")
def live(server, template, tmp_path_factory):
    with live_site(server, template, tmp_path_factory.mktemp("responses"), undo_seconds=60.0) as running:
        yield running


@pytest.fixture
def site(live):
    live.answer_steadily(2_000)
    return live.site


def ask(opened, prompt="How do I reverse a list in Python?"):
    page = opened.page
    page.locator("textarea").first.fill(prompt)
    follow(page.get_by_role("button", name="Ask both"))
    return page


def vote_buttons(page):
    return page.locator(".ballot-row button")


@needs_bundle
@pytest.mark.parametrize("size", SIZES)
def test_a_whole_battle(visit, live, size):
    live.answer_steadily(300)
    opened = visit(VOTE, size=size)
    page = opened.page
    page.locator("textarea").fill("How do I reverse a list in Python?")
    with page.expect_navigation():
        page.keyboard.press("Control+Enter")
    expect(page.locator(".sides")).to_have_attribute("aria-busy", "true")
    expect(page.locator("[data-tail]").first).to_be_attached()
    expect(vote_buttons(page).first).to_have_attribute("aria-disabled", "true")
    expect(page.locator(".ballot-why p")).to_have_text("You can vote when both responses are complete.")
    expect(page.locator(".vote.with-keys")).to_be_attached()
    page.keyboard.press("1")
    expect(page.locator("[data-slot=status]")).to_have_text("You can vote when both responses are complete.")
    expect(page.locator(".result")).to_be_hidden()
    expect(page.locator(COMPLETE)).to_be_attached()
    expect(page.locator(".sides")).not_to_have_attribute("aria-busy", "true")
    expect(page.locator("[data-slot=status]")).to_have_text("Both responses are complete. You can vote now.")
    assert page.locator("[data-tail]").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert "model-" not in page.locator("main").inner_text()
    if size == PHONE:
        expect(page.locator(".ballot-why")).to_have_text("View response B first, then vote.")
        page.locator("label:has(.tab-b)").click()
    expect(vote_buttons(page).first).to_have_attribute("aria-disabled", "false")
    expect(page.locator(".ballot-why")).to_be_hidden()
    page.keyboard.press("1")
    expect(page.locator(".result")).to_contain_text("A is better")
    page.get_by_role("button", name="Show the names").click()
    expect(page.locator(".named-model:visible").first).to_have_text(re.compile(r"model-\d"))
    expect(page.locator(".live-figures:visible").first).to_contain_text("$0.00")
    page.keyboard.press("n")
    expect(page.locator(".next-ask textarea")).to_be_focused()
    page.keyboard.type("And the next?")
    with page.expect_navigation():
        page.keyboard.press("Control+Enter")
    expect(page.locator(".prompt-text")).to_have_text("And the next?")
    opened.check()


@needs_bundle
def test_a_lost_connection_goes_on_from_where_it_was(visit, live, site, monkeypatch):
    """Every connection ends after a few events, whatever is left."""
    all_events = LivePageStream._events

    async def some_events(self):
        sent = 0
        async for event in all_events(self):
            yield event
            sent += 1
            if sent > 6:
                return

    monkeypatch.setattr(LivePageStream, "_events", some_events)
    live.answer_steadily(700)
    opened = visit(VOTE)
    page = ask(opened)
    expect(page.locator(COMPLETE)).to_be_attached()
    assert len([url for url in opened.requests if "/stream?from=" in url]) > 2
    expect(page.locator(".maths-drawn")).to_have_count(2)
    written = [one.inner_text() for one in page.locator(".live-answer").all()]
    page.reload()
    expect(page.locator(".maths-drawn")).to_have_count(2)
    assert [one.inner_text() for one in page.locator(".live-answer").all()] == written


@pytest.mark.slow
@needs_bundle
def test_going_on_and_stopping(visit, live, site):
    opened = visit(VOTE)
    page = ask(opened)
    expect(page.locator(COMPLETE)).to_be_attached()
    live.answer_steadily(80)
    page.get_by_label("Continue with the same two models").fill("And a tuple?")
    follow(page.get_by_role("button", name="Send"))
    expect(page.locator(".turn")).to_have_count(4)
    expect(page.locator(".turn").nth(1).locator(".live-answer")).to_contain_text(re.compile("[YS]"))
    page.get_by_role("button", name="Stop both").click()
    expect(page.locator(COMPLETE)).to_be_attached()
    expect(page.locator("[data-slot=status]")).to_have_text("Stopped. You can vote on what is here.")
    assert page.get_by_role("button", name="Stop both").count() == 0
    page.keyboard.press("3")
    expect(page.locator(".result")).to_contain_text("Tie")
    assert not page.locator(".follow-up").is_visible()
    opened.check()


@pytest.mark.slow
@pytest.mark.parametrize("size", DESKTOP_AND_SLOW_PHONE)
def test_without_scripts(visit, live, site, size):
    live.answer_steadily(500)
    opened = visit(VOTE, js=False, size=size)
    page = ask(opened)
    # The page loads itself again until both are complete.
    expect(page.locator(COMPLETE)).to_be_attached()
    expect(page.locator(".side-b .live-answer")).to_be_visible()
    follow(vote_buttons(page).first)
    follow(page.get_by_role("button", name="Show the names"))
    expect(page.locator(".named-model").first).to_be_visible()
    page.locator(".next-ask textarea").fill("Next")
    follow(page.get_by_role("button", name="Ask both"))
    expect(page.locator(".prompt-text")).to_have_text("Next")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth") if size == DESKTOP else True


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", DESKTOP_AND_SLOW_PHONE)
def test_everybody_can_read_a_battle(visit, live, site, size, theme):
    opened = visit(VOTE, size=size, theme=theme, bypass_csp=True)
    assert axe(opened.page) == []
    live.answer_steadily(20)
    page = ask(opened)
    expect(page.locator(".live-answer").first).to_contain_text(re.compile("[YS]"))
    assert axe(page) == []
    page.get_by_role("button", name="Stop both").click()
    expect(page.locator(COMPLETE)).to_be_attached()
    assert axe(page) == []
    page.goto(f"{opened.site}/arenas/arena/mine")
    assert axe(page) == []
    opened.check()


@pytest.mark.slow
@needs_bundle
def test_with_a_slow_model_nothing_differs_but_the_length(visit, live, site):
    """Both grow in the same moments and by the same characters until the shorter one ends."""
    words = "word " * 60
    live.answer(steady(words, rate=500, first=0.2), steady(words * 2, rate=100, first=1.0))
    with usual_pace():
        page = ask(visit(VOTE))
        page.evaluate(WATCH)
        expect(page.locator(COMPLETE)).to_be_attached()
    grown = page.evaluate("window.grown")
    assert len(grown) > 20
    together = [(a, b) for _, a, b in grown if min(a, b) > 0 and max(a, b) < len(words) - 10]
    assert together
    # A frame has as many characters for both.
    assert all(abs(a - b) <= 1 for a, b in together)
