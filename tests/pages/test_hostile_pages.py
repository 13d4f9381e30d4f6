"""Hostile text everywhere that text can come in: nothing executes, nothing is fetched.

Each payload stands as the name of a model, the name and the text of a prompt, a response, a category, a
title, a comment and a row of an upload. Those that would run something call ``tripwire``, which the
browser has, or ask for ``/tripwire``, which the test sees.
"""

import asyncio
import json
from contextlib import contextmanager

import pytest

from browsing import DESKTOP, Visit, sign_in
from hostile_text import PAYLOADS
from live_arenas import desk_of
from postgres import fresh_database
from served import make_operator, served
from tiltyard.arena.importing import create_arena, import_answers
from tiltyard.settings.arena import ArenaSettings
from tiltyard.store.bulky import Folder
from tiltyard.store.connecting import open_pool
from tiltyard.store.contents import Contents
from voted_arenas import cast, rate

TEXTS = [payload.text for payload in PAYLOADS]
#: A prompt is answered by so many models, each with a payload of its own; so two of them fill a page.
ANSWERED = 2


def storable(text):
    """What a database takes: no NUL, no lone surrogate. The rest of a payload stays."""
    return text.replace("\x00", "").encode("utf-8", "ignore").decode()


def named(text, number):
    return f"{number} {storable(text)}".strip()[:150]


def answers(path):
    """Prompt after prompt with two payloads as responses; every payload is a name, too."""
    count = len(TEXTS)
    with path.open("w") as file:
        for k in range(0, count, ANSWERED):
            for j in range(ANSWERED):
                text = storable(TEXTS[(k + j) % count])
                row = {
                    "prompt_id": named(TEXTS[k], k),
                    "prompt": text or "empty",
                    "model": named(TEXTS[(k + j) % count], (k + j) % count),
                    "response": text or "empty",
                    "category": named(TEXTS[(k + 7) % count], k)[:80],
                }
                if j == 1:
                    row["prompt"] = storable(TEXTS[k]) or "empty"
                else:
                    row["prompt"] = storable(TEXTS[k]) or "empty"
                file.write(json.dumps(row) + "\n")
    return path


@pytest.fixture(scope="module")
def site(server, template, tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    path = answers(folder / "answers.jsonl")

    async def making(database):
        async with open_pool(database, most=2) as pool:
            arena = await create_arena(
                pool, "hostile", title=storable(TEXTS[0])[:150], settings=ArenaSettings(undo_seconds=600)
            )
            await import_answers(pool, Contents(pool, Folder(folder)), "hostile", path)
        async with desk_of(database, arena) as desk:
            await cast(desk, 30)

    with fresh_database(server, template) as database:
        asyncio.run(making(database))
        make_operator(database)
        rate(database)
        with served(database, folder=folder) as running:
            yield running


@contextmanager
def tripwire(browser, site, **options):
    """A browser in which whatever executes is told of."""
    context = browser.new_context(viewport={"width": DESKTOP[0], "height": DESKTOP[1]}, **options)
    context.set_default_timeout(20_000)
    tripped = []
    context.expose_function("tripwire", lambda *values: tripped.append(("called", values)))
    page = context.new_page()
    opened = Visit(page, site.url)
    opened.watch()
    page.on("request", lambda request: tripped.append(request.url) if "tripwire" in request.url else None)
    page.on("dialog", lambda dialog: (tripped.append(("dialog", dialog.message)), dialog.dismiss()))
    page.on("framenavigated", lambda frame: tripped.append(frame.url) if elsewhere(frame.url, site) else None)
    try:
        yield opened, tripped
    finally:
        context.close()


def elsewhere(url, site):
    return not url.startswith((site.url, "about:", "data:text/html,chromewebdata"))


def test_there_are_payloads_enough():
    assert len(set(TEXTS)) >= 200


def test_nothing_executes_where_people_vote(browser, site):
    """Every prompt with its two responses, one after another, as a voter meets them."""
    with tripwire(browser, site) as (opened, tripped):
        page = opened.page
        page.goto(site.url + "/arenas/hostile/vote")
        page.get_by_role("button", name="Start voting").click()
        seen = set()
        for _ in range(2 * len(TEXTS)):
            matchup = page.locator("[data-matchup]").first.get_attribute("data-matchup")
            seen.add(matchup)
            answer = page.evaluate(
                "async (m) => (await fetch(`/api/v1/matchups/${m}/skip`, {method: 'POST'})).status", matchup
            )
            assert answer == 200
            if len(seen) >= len(TEXTS) // ANSWERED:
                break
            page.goto(site.url + "/arenas/hostile/vote")
            page.locator("form[action$='/vote'] button").last.click()
        assert tripped == []
        opened.check()


def test_nothing_executes_where_people_read(browser, site):
    with tripwire(browser, site) as (opened, tripped):
        page = opened.page
        links = []
        for path in ("/", "/arenas/hostile", "/arenas/hostile?retired=show", "/arenas/hostile/mine"):
            page.goto(site.url + path)
            links += page.eval_on_selector_all("a[href*='/models/']", "all => all.map(one => one.href)")
        for link in sorted(set(links))[:25]:
            page.goto(link)
        for text in TEXTS[:40]:
            page.goto(
                site.url
                + "/arenas/hostile?"
                + page.evaluate("t => new URLSearchParams({q: t, category: t, sort: t}).toString()", text)
            )
        assert tripped == []
        assert opened.elsewhere == []


def test_nothing_executes_where_the_operator_looks(browser, site, tmp_path):
    with tripwire(browser, site) as (opened, tripped):
        sign_in(opened)
        page = opened.page
        page.goto(site.url + "/operator/arenas/hostile")
        links = page.eval_on_selector_all(
            "main a[href^='/operator'], nav a[href^='/operator']", "all => all.map(one => one.href)"
        )
        assert links
        for link in sorted(set(links)):
            page.goto(link)
        assert tripped == []
        assert opened.elsewhere == []
