"""Everything that an operator does, in a browser, at both sizes; without a script unless it is said otherwise."""

import re

import pytest
from playwright.sync_api import expect

from support.browsing import SIZES, follow, sign_in
from support.postgres_servers import fresh_database
from support.served import PASSWORD, make_operator, served
from support.voted_arenas import rate, voted
from tiltyard.arena.content.upload_review import MAX_UPLOAD_BYTES
from tiltyard.postgres.connections import connect

BASE = "/operator/arenas/arena"
ROWS = b'{"prompt_id": "rain", "prompt": "A haiku on rain.", "model": "oak", "response": "Rain, again."}\n'


@pytest.fixture(scope="module")
def prepared(server, template):
    """The name of a database with a voted arena and an operator, to be copied."""
    with fresh_database(server, template) as database:
        voted(database, 40)
        rate(database)
        make_operator(database)
        with connect(database) as connection:
            connection.execute(
                "INSERT INTO complaints (arena, source, serial, session, reason, note) "
                "SELECT arena, source, serial, session, 'broken', 'empty' FROM matchups "
                "ORDER BY serial LIMIT 1"
            )
        yield database.rpartition("/")[2]


@pytest.fixture(scope="module", params=SIZES)
def size(request):
    return request.param


@pytest.fixture(scope="module")
def site(size, server, prepared, tmp_path_factory):
    """A site for each size."""
    with (
        fresh_database(server, prepared) as database,
        served(database, folder=tmp_path_factory.mktemp("responses")) as running,
    ):
        running.context.access.actors.sign_in_throttle._seconds = 0
        yield running


@pytest.fixture(scope="module")
def known(site):
    """What a browser keeps in which the operator has signed in."""
    client = site.client()
    client.post("/operator/sign-in", data={"name": "Ada", "password": PASSWORD})
    cookies = [
        {"name": name, "value": value, "domain": "127.0.0.1", "path": "/", "expires": -1}
        | {"httpOnly": True, "secure": False, "sameSite": "Lax"}
        for name, value in client.cookies.items()
    ]
    return {"cookies": cookies, "origins": []}


@pytest.fixture
def opened(visit, size, known):
    """The operator, signed in, without a script."""
    made = visit("/operator", js=False, size=size, storage_state=known)
    yield made
    made.check()


def go(opened, path):
    assert opened.page.goto(opened.site + path).status == 200


def press(opened, name, **options):
    follow(opened.page.get_by_role("button", name=name, **options))


def told(opened):
    return opened.page.locator(".notice").first.inner_text()


def test_the_door_opens_to_the_operator_and_closes_behind(visit, size):
    opened = visit(f"{BASE}/voters", js=False, size=size)
    page = opened.page
    assert page.get_by_role("heading", level=1).inner_text() == "Operators"
    page.get_by_label("Name").fill("Ada")
    page.get_by_label("Password").fill("not this one")
    press(opened, "Sign in")
    assert "password is wrong" in page.get_by_role("alert").inner_text()
    assert page.get_by_label("Name").input_value() == "Ada"
    assert page.get_by_label("Password").input_value() == ""
    page.get_by_label("Password").fill(PASSWORD)
    with page.expect_navigation(url=f"**{BASE}/voters"):
        page.get_by_label("Password").press("Enter")
    press(opened, "Sign out")
    go(opened, "/operator")
    assert page.get_by_role("button", name="Sign in").count() == 1
    opened.check()


def test_forms_are_filled_in_reviewed_and_saved(opened, site):
    page = opened.page
    go(opened, f"{BASE}/answers")
    upload = {"name": "a <b>.x", "mimeType": "text/plain", "buffer": ROWS}
    page.get_by_label("File", exact=True).set_input_files(upload)
    press(opened, "Check file")
    press(opened, "Discard")
    assert "nothing was imported" in told(opened)

    go(opened, f"{BASE}/models")
    press(opened, "Retire model-1…")
    follow(page.get_by_role("link", name="Cancel"))
    press(opened, "Retire model-1…")
    press(opened, "Retire", exact=True)
    press(opened, "Enable model-1")
    assert "enabled" in told(opened)

    go(opened, f"{BASE}/policy")
    page.get_by_label("Contender band size").fill("many")
    press(opened, "Review the changes")
    assert "whole number" in told(opened)
    page.get_by_label("Contender band size").fill("5")
    page.get_by_label("fairness").select_option("scoped")
    press(opened, "Review the changes")
    assert page.locator("tbody tr").count() == 2
    press(opened, "Save the changes")
    assert page.get_by_label("Contender band size").input_value() == "5"
    go(opened, f"{BASE}/phase")
    press(opened, "Change to phase 2…")
    assert "by legacy Elo" in page.locator("main").inner_text()
    press(opened, "Change the phase")
    assert page.locator(".phase-now h2").inner_text().startswith("2 · Lanes")

    go(opened, f"{BASE}/settings")
    page.get_by_label("Title").fill("A <new> title")
    page.get_by_label("undo_seconds").fill("30")
    press(opened, "Review the changes")
    press(opened, "Save the changes")
    assert page.locator(".masthead-arena").inner_text().strip().endswith("A <new> title")
    assert page.get_by_label("undo_seconds").input_value() == "30"

    go(opened, f"{BASE}/complaints")
    follow(page.get_by_role("link", name="It is broken or not visible"))
    assert page.get_by_role("region", name="Response of model-").count() == 2
    follow(page.get_by_role("link", name="All complaints"))
    press(opened, re.compile("Settle complaint"))
    assert "No open complaints." in page.locator("main").inner_text()

    go(opened, f"{BASE}/audit")
    actions = ("retire model", "enable model", "change policy", "change settings", "settle complaint")
    for action in actions:
        page.get_by_label("Action").select_option(action)
        press(opened, "Show")
        assert page.locator("tbody tr").count() == 1 + (action == "change policy")

    go(opened, "/operator/tokens")
    page.get_by_label("Name").fill("ci")
    page.get_by_label("import", exact=True).check()
    press(opened, "Create a token")
    token = page.locator("[data-token]").inner_text()
    assert site.client(token).get("/api/v1/me").json()["scopes"] == ["import"]
    go(opened, "/operator/tokens")
    assert token not in page.content()
    follow(page.get_by_role("link", name="Revoke ci…"))
    press(opened, "Revoke", exact=True)
    assert "is revoked" in told(opened)


def test_a_file_that_is_too_large_is_answered_with_what_to_do(opened, tmp_path):
    large = tmp_path / "large.jsonl"
    with large.open("wb") as file:
        file.truncate(MAX_UPLOAD_BYTES + 128 * 1024)
    go(opened, f"{BASE}/answers")
    opened.page.get_by_label("File", exact=True).set_input_files(large)
    opened.page.get_by_role("button", name="Check file").click()
    expect(opened.page.get_by_role("heading", level=1)).to_have_text("The request is too large")
    told = opened.page.locator("main").inner_text()
    assert "64 MiB" in told
    assert "/api/v1/arenas/arena/responses" in told


def test_who_skips_to_the_content_is_past_every_menu(visit, size):
    opened = visit("/", js=True, size=size)
    sign_in(opened, f"{BASE}/models")
    page = opened.page
    page.wait_for_url(f"**{BASE}/models")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    within = "document.activeElement.closest('main') !== null && !document.activeElement.closest('nav')"
    assert page.evaluate(within)
    assert page.locator("main nav, main .operator-me").count() == 0
    opened.check()


@pytest.mark.slow
def test_everything_is_reached_by_keyboard(visit, size):
    opened = visit("/", js=True, size=size)
    sign_in(opened, f"{BASE}/models")
    page = opened.page
    for _ in range(60):
        page.keyboard.press("Tab")
        label = page.evaluate("document.activeElement.getAttribute('aria-label')")
        if label == "Retire model-0…":
            break
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert (label, outline) == ("Retire model-0…", "solid")
    page.keyboard.press("Enter")
    page.wait_for_url("**/retire?model=model-0")
    opened.check()
