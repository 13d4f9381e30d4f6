"""From an empty home to an arena with the right models, by a table whose headers nobody documented."""

import re

import pytest
from playwright.sync_api import expect

from support.browsing import DESKTOP, PHONE, follow, readable, sign_in
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


def uploaded(page, name, rows):
    """A new arena, and a file of this many rows on its page."""
    page.get_by_role("textbox", name="Name", exact=True).fill(name)
    page.get_by_role("textbox", name="Title", exact=True).fill(name)
    follow(page.get_by_role("button", name="Create the arena"))
    follow(page.get_by_role("link", name="Prompts and responses"))
    file = {"name": "antworten.csv", "mimeType": "text/csv", "buffer": as_csv(rows)}
    page.get_by_label("File", exact=True).set_input_files(file)
    follow(page.get_by_role("button", name="Check file"))


@pytest.mark.slow(but="size1-dark")
@pytest.mark.parametrize(("size", "theme"), [(DESKTOP, "light"), (PHONE, "dark")])
def test_the_columns_are_asked_for_and_the_models_are_right(visit, site, size, theme):
    opened = visit("/", size=size, theme=theme, bypass_csp=True)
    page = opened.page
    sign_in(opened)
    uploaded(page, f"antworten-{theme}", ROWS)
    expect(page.get_by_role("heading", level=1)).to_have_text("What do the columns hold?")
    expect(page.get_by_role("button", name=re.compile("Import"))).to_have_count(0)
    for header, use in (("Frage", "prompt"), ("LLM", "model"), ("Antwort", "response"), ("Note", "ignore")):
        expect(page.get_by_role("combobox", name=header)).to_have_value(f"{use}={header}")
    served_rows = page.get_by_role("region", name="The first rows").get_by_role("row")
    expect(served_rows).to_have_count(4)
    readable(page)
    follow(page.get_by_role("button", name="Use these columns"))
    readable(page)
    follow(page.get_by_role("button", name="Import all 9 rows"))
    page.goto(f"{site.url}/operator/arenas/antworten-{theme}/models")
    table = page.get_by_role("table").first
    for name in MODELS:
        expect(table.get_by_role("link", name=name, exact=True).first).to_be_visible()
    expect(table.locator("tbody tr")).to_have_count(len(MODELS))


@pytest.mark.slow
def test_a_proposal_is_corrected_without_a_script(visit, site):
    opened = visit("/", js=False)
    page = opened.page
    sign_in(opened)
    uploaded(
        page,
        "corrected",
        [{"a": f"Warum {k}?", "b": f"Darum {k}, sagt sie.", "c": f"So {k}."} for k in range(3)],
    )
    page.get_by_role("combobox", name="a", exact=True).select_option(label="the prompt")
    page.get_by_role("combobox", name="b", exact=True).select_option(label="the response")
    page.get_by_role("combobox", name="c", exact=True).select_option(label="nothing: ignore it")
    follow(page.get_by_role("button", name="Use these columns"))
    expect(page.get_by_role("status").first).to_contain_text("the model")
    page.get_by_role("textbox", name="The only model of the file").fill("ash-4")
    follow(page.get_by_role("button", name="Use these columns"))
    follow(page.get_by_role("button", name="Import all 3 rows"))
    page.goto(f"{site.url}/operator/arenas/corrected/models")
    expect(page.get_by_role("link", name="ash-4", exact=True).first).to_be_visible()
