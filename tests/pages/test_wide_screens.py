"""The vote page at every width from a phone to a 34-inch screen: two equal panels, every control in reach."""

import pytest
from playwright.sync_api import expect

from support.ballots import bar, clickable, needs_bundle, settled, stage, start, voted
from support.page_layout import SCREENS, check_layout, resize
from support.postgres_servers import fresh_database
from support.served import served
from support.shown_kinds import APP, fill_arena, png, sound
from tiltyard.settings.arena_settings import ArenaSettings

#: Pixels that each panel has at least, by the width of the window.
PANEL_PIXELS = {390: 350, 1280: 600, 1440: 680, 1920: 750, 2560: 750, 3440: 750}
LONG = "A sentence that goes on for a while. " * 60
FILES = {
    "image": [png(80 * k, 90, 160, 900) for k in range(2)],
    "audio": [sound(1 + k / 10) for k in range(2)],
    "app": [f"{APP}<!-- {k} -->".encode() for k in range(2)],
}
CODE = "    print('" + "x" * 400 + "')"


@pytest.fixture(scope="module")
def site(server, template, tmp_path_factory):
    """An arena for each kind of response."""
    store = tmp_path_factory.mktemp("responses")
    with fresh_database(server, template) as database:
        for kind in ("text", *FILES):
            files = {f"{kind}-{k}": data for k, data in enumerate(FILES.get(kind, ()))}
            responses = list(files) or [f"{LONG}\n\n{CODE}\n\n{k}" for k in range(2)]
            rows = [
                {"prompt_id": "p", "prompt": LONG, "model": f"model-{k}", "response": one, "kind": kind}
                for k, one in enumerate(responses)
            ]
            fill_arena(database, store, kind, rows, files, settings=ArenaSettings(undo_seconds=60.0))
        with served(database, folder=store) as running:
            yield running


def panels(page):
    shown = [side for side in stage(page).locator(".side").all() if side.is_visible()]
    return [side.bounding_box() for side in shown]


def check_stage(page, where, *, tabs):
    """On a phone a script shows one response at a time; without one both stand on the page."""
    for size in SCREENS:
        resize(page, size)
        width = size[0]
        check_layout(page, where)
        sides = panels(page)
        assert len(sides) == (1 if tabs and width < 768 else 2), (where, width)
        assert all(side["width"] >= PANEL_PIXELS[width] for side in sides), (where, width, sides)
        assert all(side["x"] >= 0 and side["x"] + side["width"] <= width for side in sides), (where, width)
        assert len({round(side["width"]) for side in sides}) == 1, (where, width, sides)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["text", *(pytest.param(kind, marks=pytest.mark.slow) for kind in FILES)])
def test_a_wider_window_never_narrows_the_responses(visit, kind):
    page = visit(f"/arenas/{kind}/vote", js=False).page
    start(page)
    check_stage(page, kind, tabs=False)


@pytest.mark.slow
@needs_bundle
def test_every_button_is_in_reach_after_the_vote(visit):
    page = visit("/arenas/text/vote").page
    start(page)
    settled(page)
    clickable(page)
    bar(page, "Tie").click()
    voted(page, "Tie")
    check_stage(page, "after a vote", tabs=True)
    page.locator(".comment summary:visible").press("Enter")
    page.locator(".report summary:visible").press("Enter")
    expect(page.locator("textarea:visible")).to_have_count(2)
    check_stage(page, "after a vote, everything unfolded", tabs=True)
