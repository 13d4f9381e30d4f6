"""Pages of the operator's that only a form leads to: everybody can read them, and nothing in them runs."""

import asyncio
import json

import pytest

from support.browsing import DESKTOP, PHONE, SIZES, Visit, follow, readable, sign_in
from support.hostile_text import PAYLOADS
from support.page_routes import ASKED
from support.postgres_servers import fresh_database
from support.served import make_operator, served
from support.voted_arenas import rate, voted
from tiltyard.arena.operators.exclusions import VoteSelection, exclude
from tiltyard.postgres.connections import open_pool

BASE = "/operator/arenas/arena"
SHOWN = (
    *ASKED,
    "/prompts/withdraw?prompt=prompt-1&model=model-1",
    "/policy/review?contenders=none",
    "/policy/review?contenders=5&fairness=scoped",
    "/settings/review",
    "/settings/review?title=Other",
    "/voters/1",
    "/exclusions/1/restore",
    "/models?said=retired",
)
#: What runs from right to left, on two lines.
ARABIC = "اكتب رسالة قصيرة\nإلى صديق"
#: Each payload as every field of a row, good or bad.
UPLOAD = b"".join(
    json.dumps(dict.fromkeys(("prompt_id", "prompt", "model", "response", "category", "kind"), one.text)).encode()
    + b"\n"
    + json.dumps(
        {"prompt_id": f"p{k}", "prompt": one.text, "model": f"m{k} {one.text}".strip()[:180], "response": one.text}
    ).encode("utf-8", "replace")
    + b"\n"
    for k, one in enumerate(PAYLOADS)
)  # fmt: skip


@pytest.fixture(scope="module")
def site(server, template, tmp_path_factory):
    async def excluded(database):
        async with open_pool(database, most=1) as pool:
            await exclude(
                pool, "arena", VoteSelection(sessions=[3]), "a bot: <b>600</b>", actor="operator:Ada"
            )

    with fresh_database(server, template) as database:
        voted(database, 40)
        rate(database)
        make_operator(database)
        asyncio.run(excluded(database))
        with served(database, folder=tmp_path_factory.mktemp("responses")) as running:
            yield running


@pytest.fixture(scope="module", params=[(DESKTOP, "dark"), (PHONE, "light")], ids=["desktop", "phone"])
def tour(browser, site, request):
    size, theme = request.param
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]}, color_scheme=theme, bypass_csp=True
    )
    context.set_default_timeout(60_000)
    opened = Visit(context.new_page(), site.url)
    sign_in(opened)
    yield opened
    context.close()


@pytest.mark.slow
def test_everybody_can_read_what_a_form_leads_to(tour):
    for path in SHOWN:
        answer = tour.page.goto(f"{tour.site}{BASE}{path}")
        assert answer.status in (200, 422), path
        readable(tour.page)


def test_everybody_can_read_a_preview_and_a_new_token(tour):
    page = tour.page
    page.goto(f"{tour.site}{BASE}/answers")
    arabic = {"prompt_id": "friend", "prompt": ARABIC, "model": "oak", "response": ARABIC}
    page.get_by_label("File", exact=True).set_input_files(
        {"name": "a", "mimeType": "text/plain", "buffer": json.dumps(arabic).encode() + b"\n" + UPLOAD[:5000]}
    )
    follow(page.get_by_role("button", name="Check file"))
    readable(page)
    clips = (
        page.get_by_role("region", name="The first rows").locator("tbody tr").first.locator(".operator-clip")
    )
    assert clips.all_inner_texts() == [ARABIC, ARABIC]
    assert clips.evaluate_all("all => all.map(one => getComputedStyle(one).direction)") == ["rtl", "rtl"]
    page.goto(f"{tour.site}/operator/tokens")
    page.get_by_label("Name").fill("ci")
    page.get_by_label("import", exact=True).check()
    follow(page.get_by_role("button", name="Create a token"))
    readable(page)


@pytest.mark.parametrize("size", SIZES)
def test_nothing_in_an_upload_runs_or_loads(visit, size):
    opened = visit("/", size=size)
    opened.page.add_init_script("window.tripped = []; window.tripwire = n => window.tripped.push(n)")
    opened.page.on("dialog", lambda dialog: opened.errors.append(dialog.message))
    sign_in(opened, f"{BASE}/answers")
    page = opened.page
    name = "<img src=x onerror=tripwire(0)>.jsonl"
    page.get_by_label("File", exact=True).set_input_files(
        {"name": name, "mimeType": "text/plain", "buffer": UPLOAD}
    )
    follow(page.get_by_role("button", name="Check file"))
    assert "would add" in page.locator("h1").inner_text()
    assert page.locator("tbody tr").count() >= 100
    page.wait_for_load_state("networkidle")
    assert page.evaluate("window.tripped") == []
    assert [url for url in opened.requests if "tripwire" in url] == []
    opened.check()
