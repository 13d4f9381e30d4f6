"""A whole operator's day from an empty home: create, import, check, preview, open, a vote, pause, moderate, archive."""

import json
import re

import pytest
from playwright.sync_api import expect

from support.browsing import SIZES, follow, sign_in
from support.postgres_servers import fresh_database
from support.served import make_operator, served
from tiltyard.postgres.connections import connect

ROWS = [
    {
        "prompt_id": f"rain-{number}",
        "prompt": f"A haiku on rain, number {number}.",
        "model": model,
        "response": f"{word}, {number}.",
    }
    for number in range(4)
    for model, word in (("oak", "Rain again"), ("elm", "Wet leaves"), ("fir", "Grey sky"))
]


@pytest.fixture(scope="module", params=SIZES)
def size(request):
    return request.param


@pytest.fixture(scope="module")
def site(size, server, template, tmp_path_factory):
    """A home without any arena, for each size."""
    with fresh_database(server, template) as database:
        make_operator(database)
        with served(database, folder=tmp_path_factory.mktemp("responses")) as running:
            yield running


def rated(site):
    with connect(site.database) as connection:
        return connection.execute("SELECT count(*) FROM battles WHERE NOT excluded").fetchone()[0]


def press(page, name, exact=True):
    follow(page.get_by_role("button", name=name, exact=exact))


def go(page, name):
    """Follow a link of the arena's menu, which is folded on a phone."""
    menu = page.locator(".operator-menu")
    if menu.is_visible():
        menu.locator("> summary").click()
    else:
        menu = page.locator(".operator-side")
    group = menu.locator("nav details").filter(has=page.locator("a", has_text=re.compile(f"^{name}$")))
    if group.count() and group.get_attribute("open") is None:
        group.locator("summary").click()
    follow(menu.get_by_role("link", name=name, exact=True))


def vote(page):
    """Cast one vote; the next matchup is there when this returns."""
    before = page.locator("[data-matchup]").get_attribute("data-matchup")
    follow(page.locator('.ballot button[value="model_a"]'))
    assert page.locator("[data-matchup]").get_attribute("data-matchup") != before


@pytest.mark.slow
def test_a_day(visit, site, size):
    day = visit("/", js=False, size=size)
    sign_in(day)
    operator = day.page

    # Create, and import by file and by hand.
    operator.get_by_label("Name", exact=True).fill("haiku")
    operator.get_by_label("Title", exact=True).fill("Haiku of the week")
    press(operator, "Create the arena")
    expect(operator.get_by_role("heading", name="Until the first vote")).to_be_visible()
    follow(operator.get_by_role("link", name="Prompts and responses"))
    data = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
    file = {"name": "answers.jsonl", "mimeType": "application/jsonl", "buffer": data}
    operator.locator("#field-file").set_input_files(file)
    press(operator, "Check file")
    press(operator, "Import all 12 rows")
    go(operator, "Upload answers")
    follow(operator.get_by_role("link", name="Write one by hand"))
    operator.get_by_label("Prompt", exact=True).fill("A haiku on snow.")
    for number, (model, text) in enumerate((("oak", "Snow."), ("elm", ""))):
        operator.get_by_label("Model").nth(number).fill(model)
        operator.get_by_label("Response", exact=True).nth(number).fill(text)
    press(operator, "Check")
    expect(operator.get_by_role("heading", name="Empty, cut off or incomplete")).to_be_visible()
    press(operator, "Import all 2 rows")

    # Texts, preview, a test vote, and open.
    go(operator, "Texts for voters")
    operator.get_by_label("Consent").fill("Your votes are **published**.")
    operator.get_by_label("During a pause").fill("Back on *Monday*.")
    press(operator, "Save")
    go(operator, "Preview as a voter")
    expect(operator.get_by_role("heading", name="Response A")).to_be_visible()
    go(operator, "Stage")
    follow(operator.get_by_role("link", name="Cast test votes"))
    operator.get_by_label("I have read this and agree.").check()
    press(operator, "Start voting")
    vote(operator)
    operator.goto(f"{site.url}/operator/arenas/haiku/stage")
    expect(operator.get_by_role("button", name="Clear 1 test vote")).to_be_visible()
    press(operator, "Open the arena…")
    press(operator, "Open the arena")
    expect(operator.get_by_text("From now on votes count.", exact=False).first).to_be_visible()
    assert rated(site) == 0

    # A stranger comes and votes.
    stranger = visit("/", js=False, size=size)
    voter = stranger.page
    press(voter, "Cast the first vote")
    voter.get_by_label("I have read this and agree.").check()
    press(voter, "Start voting")
    vote(voter)
    vote(voter)
    assert rated(site) == 2

    # Pause: what is on the screen can be voted on, then there are the operator's words.
    press(operator, "Pause")
    follow(voter.locator('.ballot button[value="tie"]'))
    expect(voter.get_by_role("heading", name="Voting is paused")).to_be_visible()
    expect(voter.get_by_text("Back on Monday.")).to_be_visible()
    assert rated(site) == 3
    press(operator, "Resume")
    voter.goto(f"{site.url}/arenas/haiku/vote")
    press(voter, re.compile("Start voting|Next matchup"))
    expect(voter.locator("[data-matchup]")).to_be_visible()

    # Hide and show a response, withdraw a prompt.
    go(operator, "Prompts")
    operator.get_by_label("Text", exact=True).fill("number 2")
    press(operator, "Search")
    follow(operator.get_by_role("link", name="A haiku on rain, number 2."))
    press(operator, "Hide the response of oak")
    press(operator, "Show the response of oak again")
    follow(operator.get_by_role("link", name="Withdraw the prompt…"))
    operator.get_by_label("Reason").fill("a duplicate")
    press(operator, "Withdraw permanently")
    expect(operator.get_by_text("Withdrawn.", exact=False).first).to_be_visible()

    # Exclude the votes of many at once, and undo it.
    go(operator, "Voters")
    for box in operator.locator("input[name=session]").all():
        box.check()
    operator.locator(".operator-bulk summary").click()
    operator.get_by_label("Reason").fill("a rehearsal")
    press(operator, "Show the effect…")
    press(operator, re.compile("^Exclude . votes$"), exact=False)
    assert rated(site) == 0
    follow(operator.get_by_role("link", name=re.compile("Restore exclusion")))
    press(operator, "Restore")
    assert rated(site) == 3

    # Archive: off the home, read-only, and the board's address stays.
    go(operator, "Stage")
    press(operator, "Archive…")
    press(operator, "Archive")
    voter.goto(f"{site.url}/")
    expect(voter.get_by_text("Haiku of the week")).to_have_count(0)
    assert voter.goto(f"{site.url}/arenas/haiku").status == 200
    voter.goto(f"{site.url}/arenas/haiku/vote")
    expect(voter.get_by_role("heading", name="Voting has ended")).to_be_visible()
    day.check()
    stranger.check()
