"""Hostile text everywhere that text can come in: nothing executes, nothing is fetched.

Payloads stand as names of models and prompts, as prompts, responses, categories, titles, comments, complaints,
and as rows and names of uploads. Those that would run something call ``tripwire``, which the browser has, or
ask for ``/tripwire``, which the test sees.
"""

import asyncio
import json
from contextlib import contextmanager
from urllib.parse import quote, urlencode

import pytest

from support.browsing import DESKTOP, Visit, sign_in
from support.hostile_text import PAYLOADS
from support.live_arenas import voting_queue_of
from support.postgres_servers import fresh_database
from support.served import PASSWORD, make_operator, served
from support.sizes import sized
from support.voted_arenas import cast, rate
from tiltyard.arena.content.answer_import import create_arena, import_answers
from tiltyard.arena.content.blob_store import BlobStore
from tiltyard.arena.content.object_storage import FolderStorage
from tiltyard.postgres.connections import connect, open_pool
from tiltyard.settings.arena_settings import ArenaSettings

#: A page shows three at once: a prompt and its two responses.
AT_ONCE = 3
COMMENTED = 80


def storable(text):
    """What a database takes: no NUL, no lone surrogate. The rest of a payload stays."""
    return text.replace("\x00", "").encode("utf-8", "ignore").decode().strip() or "empty"


ALL = list(dict.fromkeys(storable(payload.text) for payload in PAYLOADS))
#: Some of each kind, so that a run takes no minutes; all of them at full size. What becomes of each of them is
#: tested without a browser in every run.
TEXTS = ALL[:: sized(8, 1)]


def named(number):
    """A payload as a name: no two alike, not long, and nothing in it that cannot be printed is let in."""
    return "".join(c if c.isprintable() else " " for c in f"{number} {TEXTS[number]}")[:150].strip()


def trio(first):
    return [(first + k) % len(TEXTS) for k in range(AT_ONCE)]


def rows():
    """Prompt after prompt, each with two responses; every payload is a name, too."""
    for first in range(0, len(TEXTS), AT_ONCE):
        prompt, a, b = trio(first)
        for response in (a, b):
            yield {
                "prompt_id": named(prompt),
                "prompt": TEXTS[prompt],
                "model": named(response),
                "response": TEXTS[response],
                "category": named(b)[:80].strip(),
            }


@pytest.fixture(scope="module")
def site(server, template, tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    path = folder / "answers.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows()))

    async def making(database):
        async with open_pool(database, most=2) as pool:
            settings = ArenaSettings(undo_seconds=600, reveal="vote")
            arena = await create_arena(pool, "hostile", title=named(1), settings=settings)
            await import_answers(pool, BlobStore(pool, FolderStorage(folder)), "hostile", path)
        async with voting_queue_of(database, arena) as queue:
            await cast(queue, 30)

    with fresh_database(server, template) as database:
        asyncio.run(making(database))
        make_operator(database)
        rate(database)
        with connect(database) as connection:
            connection.execute("ANALYZE")
        with served(database, folder=folder) as running:
            yield running


@contextmanager
def tripwire(browser, site):
    """A browser in which whatever executes is told of."""
    context = browser.new_context(viewport={"width": DESKTOP[0], "height": DESKTOP[1]})
    context.set_default_timeout(30_000)
    tripped = []
    context.expose_function("tripwire", lambda *values: tripped.append(("called", values)))
    page = context.new_page()
    opened = Visit(page, site.url)
    opened.watch()
    ours = (site.url, "about:", "chrome-error:")
    page.on("request", lambda request: tripped.append(request.url) if "/tripwire" in request.url else None)
    page.on("dialog", lambda dialog: (tripped.append(("dialog", dialog.message)), dialog.dismiss()))
    page.on("framenavigated", lambda frame: None if frame.url.startswith(ours) else tripped.append(frame.url))
    try:
        yield opened, tripped
    finally:
        context.close()


def test_there_are_payloads_enough():
    assert len(ALL) >= 400
    assert len(TEXTS) >= 50


def test_nothing_executes_where_people_vote(browser, site):
    """Prompts with their two responses, as a voter meets them: matchmaking may hold a few pairs back."""
    wanted = {named(first) for first in range(0, len(TEXTS), AT_ONCE)}
    enough = -(-min(len(TEXTS) - 10, 2 * len(TEXTS) // 3 + sized(0, 60)) // AT_ONCE)
    with tripwire(browser, site) as (opened, tripped):
        page = opened.page
        page.goto(site.url + "/arenas/hostile/vote")
        page.get_by_role("button", name="Start voting").click()
        met = set()
        for _ in range(2 * len(wanted)):
            matchup = page.locator("[data-matchup]").first.get_attribute("data-matchup")
            met |= {prompt_of(site, matchup)}
            if len(met) >= enough:
                break
            page.evaluate(
                """async matchup => {
                    await fetch(`/api/v1/matchups/${matchup}/skip`, {method: "POST"});
                    await fetch("/arenas/hostile/vote", {method: "POST", redirect: "manual"});
                }""",
                matchup,
            )
            page.goto(site.url + "/arenas/hostile/vote")
        assert met <= wanted
        assert len(met) >= enough
        assert tripped == []
        opened.check()


def prompt_of(site, matchup):
    from support.matchup_texts import stored_id

    with connect(site.database) as connection:
        return connection.execute(
            "SELECT name FROM matchups JOIN prompts USING (arena, prompt) WHERE matchup = %s",
            (stored_id(matchup),),
        ).fetchone()[0]


@pytest.mark.slow
def test_nothing_executes_where_people_read(browser, site):
    """All names on the board, some model pages, and every payload in a board's address."""
    with tripwire(browser, site) as (opened, tripped):
        page = opened.page
        for path in ("/", "/arenas/hostile", "/arenas/hostile?chart=win-rates", "/arenas/hostile/mine"):
            page.goto(site.url + path)
        page.goto(site.url + "/arenas/hostile")
        assert page.locator("tbody tr").count() >= len(TEXTS) * 2 // AT_ONCE
        models = [number for first in range(0, len(TEXTS), AT_ONCE) for number in trio(first)[1:]]
        for number in models[::10]:
            page.goto(f"{site.url}/arenas/hostile/models/{quote(named(number), safe='')}")
            assert page.get_by_role("heading", level=1).count() == 1
        opened.check()
        for number in range(0, len(TEXTS), 5):
            name = ("q", "category", "sort", "chart")[number % 4]
            page.goto(f"{site.url}/arenas/hostile?{urlencode({name: TEXTS[number]})}")
        assert tripped == []
        assert opened.elsewhere == []


@pytest.mark.slow
def test_nothing_executes_where_the_operator_looks(browser, site, tmp_path):
    voters = [site.client() for _ in range(4)]
    for k in range(COMMENTED):
        voter = voters[k % len(voters)]
        matchup = voter.post("/api/v1/arenas/hostile/matchups").json()["matchup"]
        note = {"reason": "other", "note": TEXTS[(k + 100) % len(TEXTS)][:900]}
        assert voter.post(f"/api/v1/matchups/{matchup}/report", json=note).status_code == 204
        assert voter.post(f"/api/v1/matchups/{matchup}/vote", json={"winner": "tie"}).status_code == 200
        remark = {"tags": ["clear"], "comment": TEXTS[k % len(TEXTS)][:900]}
        assert voter.put(f"/api/v1/matchups/{matchup}/remark", json=remark).status_code == 204
    operator = site.client()
    operator.post("/operator/sign-in", data={"name": "Ada", "password": PASSWORD})
    lines = "".join(
        json.dumps(row | {"prompt_id": f"{k} {row['prompt_id']}"[:150].strip()}) + "\n"
        for k, row in enumerate(rows())
    )
    wrong = "".join(
        json.dumps({"prompt_id": "x", "prompt": text, "model": text, "kind": text}) + "\n" for text in TEXTS
    )
    previews = []
    for name, content in (('"><img src=x onerror=tripwire(1)>.jsonl', lines), ("wrong.jsonl", wrong)):
        sent = operator.post("/operator/arenas/hostile/uploads", files={"file": (name, content.encode())})
        assert sent.status_code == 303, sent.text
        previews.append(sent.headers["location"])
    with tripwire(browser, site) as (opened, tripped):
        sign_in(opened)
        page, seen, left = opened.page, set(), ["/operator", "/operator/arenas/hostile", *previews]
        while left:
            path = left.pop(0)
            if path in seen or len(seen) > 60:
                continue
            seen.add(path)
            page.goto(site.url + path)
            left += page.eval_on_selector_all(
                "a[href^='/operator']", "all => all.map(a => a.getAttribute('href'))"
            )
        assert {"/operator/arenas/hostile/remarks", "/operator/arenas/hostile/complaints"} <= seen
        assert tripped == []
        opened.check()
