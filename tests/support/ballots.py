"""How tests vote in a browser, and what the tables say of it afterwards."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from support.browsing import PHONE, Visit
from support.live_arenas import made_arena
from support.matchup_texts import stored_id
from support.postgres_servers import fresh_database
from support.served import Served, served
from tiltyard.postgres.connections import connect
from tiltyard.settings.arena_settings import ArenaSettings
from tiltyard.web.assets import load_assets

_BUNDLED = load_assets().script() is not None
needs_bundle = pytest.mark.skipif(not _BUNDLED, reason="needs the bundle: python hatch_build.py")
#: With the page's script and without it.
SCRIPTS = [pytest.param(True, id="script", marks=needs_bundle), pytest.param(False, id="plain")]
VOTE = "/arenas/arena/vote"
#: Outcomes as the tables count them.
OUTCOMES = {"model_a": 0, "model_b": 1, "tie": 2, "both_bad": 3}
#: Time enough to vote, look around and take it back, on a machine that stalls.
PATIENT = ArenaSettings(undo_seconds=60.0)


@contextmanager
def patient_site(server: str, template: str) -> Iterator[Served]:
    """A served arena in which nothing becomes final by itself while a test looks."""
    with fresh_database(server, template) as database:
        made_arena(database, settings=PATIENT)
        with served(database) as running:
            yield running


def start(page: Page, *, look: bool = True) -> None:
    """From the welcome to the first matchup, and a look at both of its responses."""
    page.get_by_role("button", name="Start voting").click()
    expect(stage(page)).to_be_visible()
    if look:
        seen_both(page)


def settled(page: Page) -> None:
    """The script runs, and the next matchup is there."""
    expect(page.locator(".stage-ahead")).to_have_count(1)


def seen_both(page: Page) -> None:
    """Where a script shows one response at a time, look at both."""
    narrow = (page.viewport_size or {"width": 0})["width"] <= PHONE[0]
    if narrow and _BUNDLED and page.evaluate("matchMedia('(scripting: enabled)').matches"):
        expect(page.locator(".vote.with-tabs")).to_have_count(1)
        for letter in "ba":
            stage(page).locator(f".tabs label:has(.tab-{letter})").click()


def ready(visit: Callable[..., Visit], path: str = VOTE, **options: Any) -> Visit:
    """A voter before a first matchup, whose next one is there too."""
    made = visit(path, **options)
    start(made.page)
    settled(made.page)
    return made


def clickable(page: Page) -> None:
    """The bar has been there long enough to take a click that is meant for it."""
    shown = stage(page).locator(".ballot:visible, .after:visible")
    expect(shown).to_have_css("pointer-events", "auto")


def intercept(page: Page, pattern: str, answer: Callable[[Route], object]) -> None:
    """Let the test answer these requests of an open page, which learns only a little later that it may."""
    caught: list[Route] = []
    page.route("**/is-it-caught", lambda route: (caught.append(route), route.fulfill(body="")))
    page.route(pattern, answer)
    while not caught:
        page.evaluate("fetch('/is-it-caught').then(() => null)")


def status(page: Page) -> Locator:
    """The line that says what is going on."""
    return page.locator("[data-slot=status]")


def gone_on(page: Page, before: str) -> str:
    """Another matchup is shown, and its ballot with it."""
    expect(page.locator(f".stage[data-matchup='{before}']")).to_have_count(0)
    expect(bar(page, "Tie")).to_be_visible()
    seen_both(page)
    return matchup_of(page)


def stage(page: Page) -> Locator:
    """The matchup that is shown."""
    return page.locator(".stage:not(.stage-ahead)")


def bar(page: Page, name: str) -> Locator:
    """A button of the bar, by its words. On a phone, skipping is behind a button of its own."""
    if name == "Skip":
        unfold(page)
    return stage(page).locator(".bar").get_by_role("button", name=name)


def unfold(page: Page) -> None:
    """Open what a phone keeps behind one button of the bar."""
    fold = stage(page).locator(".ballot-fold:not([open]) > summary")
    if fold.is_visible():
        fold.click()


def matchup_of(page: Page) -> str:
    """The id of the matchup that is shown."""
    found = stage(page).get_attribute("data-matchup")
    assert found
    return found


def voted(page: Page, what: str) -> None:
    """The page says that this vote was cast."""
    expect(stage(page).locator(".result")).to_have_text(f"You voted: {what}")


def named(page: Page) -> list[str]:
    """The names, once they are shown."""
    links = stage(page).locator(".named-model")
    expect(links).to_have_count(2)
    return [text or "" for text in links.evaluate_all("all => all.map(one => one.textContent)")]


def endings(database: str, *matchups: str) -> list[tuple[int, int | None, bool, bool]]:
    """How each of these ended: kind, outcome, undone, names shown; nothing for one without an ending."""
    with connect(database) as connection:
        return [
            row
            for matchup in matchups
            for row in connection.execute(
                "SELECT e.kind, e.outcome, e.undone IS NOT NULL, e.revealed_at IS NOT NULL "
                "FROM endings e JOIN matchups m USING (arena, source, serial) WHERE m.matchup = %s",
                (stored_id(matchup),),
            ).fetchall()
        ]
