"""Everything that an operator does, in a browser, at both sizes; without a script unless it is said otherwise."""

import csv
import io
import json
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from playwright.sync_api import expect

from support.browsing import SIZES, follow, sign_in
from support.postgres_servers import fresh_database
from support.served import PASSWORD, make_operator, served
from support.voted_arenas import rate, voted
from tiltyard.arena.content.upload_review import MAX_UPLOAD_BYTES
from tiltyard.postgres.connections import connect

BASE = "/operator/arenas/arena"
#: Prompts of which something is withdrawn here; nothing else looks at them.
WITHDRAWN = ("prompt-2", "prompt-3")
ROWS = [
    {"prompt_id": "rain", "prompt": "A haiku on rain.", "model": "oak", "response": "Rain, again."},
    {"prompt_id": "rain", "prompt": "A haiku on rain.", "model": "elm", "response": "Wet leaves."},
]


def jsonl(rows):
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def as_csv(rows):
    file = io.StringIO(newline="")
    writer = csv.DictWriter(file, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue().encode()


def parquet(rows):
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), file)
    return file.getvalue()


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
                "WHERE prompt = ANY(%s) ORDER BY serial LIMIT 1",
                ([number for number in range(6) if f"prompt-{number}" not in WITHDRAWN],),
            )
        yield database.rpartition("/")[2]


@pytest.fixture(scope="module", params=SIZES)
def size(request):
    return request.param


@pytest.fixture(scope="module")
def site(size, server, prepared, tmp_path_factory):
    """A site for each size: what one flow changes, no other looks at."""
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


@pytest.fixture
def audited(site):
    """What the audit has more than when the test began."""

    def actions():
        with connect(site.database) as connection:
            rows = connection.execute(
                "SELECT action FROM audit WHERE arena IS NOT NULL AND actor = 'operator:Ada' ORDER BY entry"
            ).fetchall()
        return [row[0] for row in rows]

    before = len(actions())
    return lambda: actions()[before:]


def go(opened, path):
    assert opened.page.goto(opened.site + path).status == 200


def press(opened, name, **options):
    follow(opened.page.get_by_role("button", name=name, **options))


def told(opened):
    return opened.page.locator(".notice").first.inner_text()


@pytest.mark.parametrize("js", [True, False], ids=["script", "no script"])
def test_the_door_opens_to_the_operator_and_closes_behind(visit, size, js):
    opened = visit(f"{BASE}/voters", js=js, size=size)
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


def test_an_arena_is_made_filled_and_looked_at(opened, audited):
    page = opened.page
    page.get_by_label("Name").fill("Poems")
    page.get_by_label("Title").fill("Poems <of> all")
    press(opened, "Create the arena")
    assert "expected 1 to 64" in told(opened)
    assert page.get_by_label("Title").input_value() == "Poems <of> all"
    page.get_by_label("Name").fill("poems")
    page.get_by_label("Visibility").select_option("closed")
    press(opened, "Create the arena")
    assert page.get_by_role("heading", level=1).inner_text() == "Poems <of> all"
    page.locator("main").get_by_role("link", name="Prompts and responses").click()
    page.get_by_label("File").set_input_files(
        {"name": "a.jsonl", "mimeType": "text/plain", "buffer": jsonl(ROWS)}
    )
    press(opened, "Check file")
    press(opened, "Import all 2 rows")
    assert "imported" in told(opened)
    follow(page.locator(".checklist").get_by_role("link", name="Models"))
    assert page.locator("tbody th a").all_inner_texts() == ["oak", "elm"]
    assert audited() == ["create arena", "import answers"]


@pytest.mark.slow(but="desktop-csv")
@pytest.mark.parametrize("write", [jsonl, as_csv, parquet], ids=["jsonl", "csv", "parquet"])
def test_a_file_is_previewed_with_what_is_wrong(opened, audited, write):
    go(opened, f"{BASE}/answers")
    page, oak = opened.page, f"oak {write.__name__}"
    elm = ROWS[1] | {"model": f"elm {write.__name__}"}
    wrong = [ROWS[0] | {"model": oak}, elm | {"model": " elm"}, elm | {"prompt": "Another text"}, elm]
    upload = {"name": "a <b>.x", "mimeType": "text/plain", "buffer": write(wrong)}
    page.get_by_label("File").set_input_files(upload)
    press(opened, "Check file")
    facts = dict(zip(page.locator("dt").all_inner_texts(), page.locator("dd").all_inner_texts(), strict=True))
    assert (facts["New models"], facts["New responses"], facts["Total errors"]) == ("2", "2", "2")
    errors = page.locator("table").first.locator("tbody tr")
    first, second = (errors.nth(k).inner_text() for k in (0, 1))
    line = {"jsonl": "line 2", "as_csv": "line 3", "parquet": "row 2"}[write.__name__]
    assert re.search(rf"{line}\s+model\s+.*' elm'", first), first
    assert "prompt rain" in second
    assert audited() == []
    page.get_by_label("Enable new models at once").uncheck()
    press(opened, "Import the 2 valid rows only")
    assert "imported" in told(opened)
    assert page.get_by_role("row", name=oak).locator(".badge").inner_text() == "retired"
    assert audited() == ["import answers"]


@pytest.mark.slow
def test_a_file_can_be_thrown_away(opened, audited):
    go(opened, f"{BASE}/answers")
    upload = {"name": "a", "mimeType": "text/plain", "buffer": jsonl(ROWS)}
    opened.page.get_by_label("File").set_input_files(upload)
    press(opened, "Check file")
    press(opened, "Discard")
    assert "nothing was imported" in told(opened)
    assert audited() == []


def test_a_file_that_is_too_large_is_answered_with_what_to_do(opened, tmp_path):
    large = tmp_path / "large.jsonl"
    with large.open("wb") as file:
        file.truncate(MAX_UPLOAD_BYTES + 128 * 1024)
    go(opened, f"{BASE}/answers")
    opened.page.get_by_label("File").set_input_files(large)
    opened.page.get_by_role("button", name="Check file").click()
    expect(opened.page.get_by_role("heading", level=1)).to_have_text("The request is too large")
    told = opened.page.locator("main").inner_text()
    assert "64 MiB" in told
    assert "/api/v1/arenas/arena/responses" in told


@pytest.mark.slow
def test_models_are_retired_after_a_question_and_enabled_again(opened, audited):
    go(opened, f"{BASE}/models")
    press(opened, "Retire model-1…")
    assert opened.page.get_by_role("heading", level=1).inner_text() == "Retire this model?"
    follow(opened.page.get_by_role("link", name="Cancel"))
    assert audited() == []
    press(opened, "Retire model-1…")
    press(opened, "Retire", exact=True)
    assert "retired" in told(opened)
    press(opened, "Enable model-1")
    assert "enabled" in told(opened)
    assert audited() == ["retire model", "enable model"]


@pytest.mark.slow
def test_a_prompt_and_a_response_are_withdrawn(opened, audited):
    whole, part = WITHDRAWN
    go(opened, f"{BASE}/prompts")
    press(opened, f"Withdraw prompt {whole}…")
    opened.page.get_by_label("Reason").fill("names a person")
    press(opened, "Withdraw permanently")
    assert "Withdrawn" in told(opened)
    assert opened.page.get_by_role("row", name=whole).get_by_text("withdrawn").count() == 1
    follow(opened.page.get_by_role("link", name=part, exact=True))
    follow(opened.page.get_by_role("link", name="Withdraw the response of model-0…"))
    opened.page.get_by_label("Reason").fill("broken")
    press(opened, "Withdraw permanently")
    assert audited() == ["withdraw", "withdraw"]


@pytest.mark.slow
def test_the_policy_is_changed_after_a_review(opened, audited):
    go(opened, f"{BASE}/policy")
    page = opened.page
    assert page.locator("input[name=window]").count() == 0
    page.get_by_label("Contender band size").fill("many")
    press(opened, "Review the changes")
    assert "whole number" in told(opened)
    page.get_by_label("Contender band size").fill("5")
    page.get_by_label("fairness").select_option("scoped")
    press(opened, "Review the changes")
    assert page.locator("tbody tr").count() == 2
    assert audited() == []
    press(opened, "Save the changes")
    assert "the next vote" in told(opened)
    assert page.get_by_label("Contender band size").input_value() == "5"
    assert audited() == ["change policy"]


@pytest.mark.slow
def test_the_phase_is_changed_after_a_question(opened, audited):
    go(opened, f"{BASE}/phase")
    press(opened, "Change to phase 2…")
    assert "by legacy Elo" in opened.page.locator("main").inner_text()
    press(opened, "Change the phase")
    assert opened.page.locator(".phase-now h2").inner_text().startswith("2 · Lanes")
    assert audited() == ["change policy"]


@pytest.mark.slow
def test_settings_are_changed_after_a_review(opened, audited):
    go(opened, f"{BASE}/settings")
    opened.page.get_by_label("Title").fill("A <new> title")
    opened.page.get_by_label("undo_seconds").fill("30")
    press(opened, "Review the changes")
    assert opened.page.locator("tbody tr").count() == 1
    press(opened, "Save the changes")
    assert opened.page.locator(".masthead-arena").inner_text().strip().endswith("A <new> title")
    assert opened.page.get_by_label("undo_seconds").input_value() == "30"
    assert audited() == ["change settings"]


@pytest.mark.slow
def test_a_voter_is_looked_at_excluded_and_restored(opened, audited):
    go(opened, f"{BASE}/voters")
    page = opened.page
    assert "unlike the others" in page.locator("main").inner_text()
    follow(page.get_by_role("link", name="2", exact=True))
    assert page.locator("tbody tr").count() == 8
    page.get_by_label("Reason").fill("always <left>")
    press(opened, "Show the effect…")
    assert "8 of 40 votes" in page.locator("main").inner_text()
    assert "Bradley–Terry" in page.locator("caption").inner_text()
    assert page.locator("tbody tr").count() == 4
    assert audited() == []
    press(opened, "Exclude 8 votes")
    assert "are excluded" in told(opened)
    listed = page.locator("tbody").inner_text()
    assert "always <left>" in listed
    assert "by operator:Ada" in listed
    assert page.locator("tbody").get_by_role("link", name="2", exact=True).count() == 1
    follow(page.get_by_role("link", name=re.compile("Restore")))
    press(opened, "Restore")
    assert "are restored" in told(opened)
    assert audited() == ["exclude votes", "restore votes"]


@pytest.mark.slow
def test_a_complaint_is_settled_and_stands_in_the_audit(opened):
    go(opened, f"{BASE}/complaints")
    follow(opened.page.get_by_role("link", name="It is broken or not visible"))
    prompt = opened.page.get_by_role("region", name="Prompt prompt-")
    assert "What about" in prompt.inner_text()
    assert opened.page.get_by_role("region", name="Response of model-").count() == 2
    follow(opened.page.get_by_role("link", name="All complaints"))
    press(opened, re.compile("Settle complaint"))
    assert "settled" in told(opened)
    assert "No open complaints." in opened.page.locator("main").inner_text()
    go(opened, f"{BASE}/audit")
    opened.page.get_by_label("Action").select_option("settle complaint")
    press(opened, "Show")
    assert opened.page.locator("tbody tr").count() == 1
    assert "Ada" in opened.page.locator("tbody tr").inner_text()


def test_a_token_is_made_shown_once_and_revoked(opened, site):
    go(opened, "/operator/tokens")
    page = opened.page
    page.get_by_label("Name").fill("ci")
    page.get_by_label("import", exact=True).check()
    press(opened, "Create a token")
    token = page.locator("[data-token]").inner_text()
    assert site.client(token).get("/api/v1/me").json()["scopes"] == ["import"]
    go(opened, "/operator/tokens")
    assert token not in page.content()
    follow(page.get_by_role("link", name="Revoke ci…"))
    assert page.get_by_role("heading", level=1).inner_text() == "Revoke this token?"
    press(opened, "Revoke", exact=True)
    assert "is revoked" in told(opened)


def test_battles_are_downloaded_under_a_release(opened):
    go(opened, f"{BASE}/exports")
    opened.page.get_by_label("Format").select_option("csv")
    opened.page.get_by_label("Release").fill("2026-11")
    with opened.page.expect_download() as waiting:
        opened.page.get_by_role("button", name="Download").click()
    assert waiting.value.suggested_filename.startswith("arena-battles-")


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
