"""From an empty home to an arena with the right models, by a table whose headers nobody documented."""

import re

import pytest
from playwright.sync_api import expect

from support.browsing import follow
from support.odd_files import as_csv
from support.postgres_servers import fresh_database
from support.served import PASSWORD, make_operator, served

MODELS = ("oak-1", "elm-2", "river-3")
ROWS = [
    {"Nr": str(k), "Frage": asked, "LLM": name, "Antwort": f"Das ist die {k}. Antwort.", "Note": "2,5"}
    for k, (asked, name) in enumerate(
        (asked, name)
        for asked in ("Warum ist der Himmel blau?", "Nenne drei Flüsse.", "Was ist Regen?")
        for name in MODELS
    )
]


@pytest.fixture(scope="module")
def site(server, template, tmp_path_factory):
    with fresh_database(server, template) as database:
        make_operator(database)
        with served(database, folder=tmp_path_factory.mktemp("responses")) as running:
            yield running


def test_from_an_empty_home_to_the_verdict_page_in_fifteen_clicks(visit, site):
    """By roles, without a script: a table with odd headers, two people by name, the first vote, the board."""
    clicks = []

    def press(page, role, name):
        clicks.append(name)
        follow(page.get_by_role(role, name=name))

    opened = visit("/", js=False)
    page = opened.page
    page.goto(f"{site.url}/operator/sign-in")
    page.get_by_label("Name").fill("Ada")
    page.get_by_label("Password").fill(PASSWORD)
    press(page, "button", "Sign in")
    page.get_by_role("textbox", name="Name", exact=True).fill("fragen")
    page.get_by_role("combobox", name="Who can enter").select_option(label="people with an invitation link")
    clicks.append("Who can enter")
    press(page, "button", "Create the arena")
    press(page, "link", "Prompts and responses")
    file = {"name": "antworten.csv", "mimeType": "text/csv", "buffer": as_csv(ROWS)}
    page.get_by_label("File", exact=True).set_input_files(file)
    clicks.append("File")
    press(page, "button", "Check file")
    press(page, "button", "Use these columns")
    press(page, "button", "Import all 9 rows")
    press(page, "link", "Who may come in")
    page.get_by_role("textbox", name="Names").fill("Anna\nBen")
    press(page, "button", "Make the links")
    link = page.locator("[data-invitation]").first.inner_text()
    press(page, "button", "Open the arena")
    colleague = visit("/join/" + link.rpartition("/")[2], js=False)
    press(colleague.page, "button", "Join")
    press(colleague.page, "button", "Start voting")
    press(colleague.page, "button", re.compile(r"A\s*is better"))
    press(page, "link", "Board")
    assert len(clicks) <= 15, clicks
    expect(page.get_by_role("heading", level=1)).to_contain_text("fragen")
    page.goto(f"{site.url}/operator/arenas/fragen/invitations")
    expect(page.get_by_role("row").filter(has_text="Anna")).to_contain_text("1 of 9")
    expect(page.get_by_role("row").filter(has_text="Ben")).to_contain_text("0 of 9")
    page.goto(f"{site.url}/operator/arenas/fragen")
    expect(page.get_by_role("link", name="Remind Ben")).to_be_visible()
    expect(page.get_by_role("link", name="1 of 2 invited")).to_be_visible()
