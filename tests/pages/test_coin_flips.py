"""1,620 coin flips over five models, cast at the door of `tiltyard serve`: no page claims an order.

The badges say Stable and the board is officially stable, because enough votes were seen. That is all that they may say.
"""

import asyncio
import csv
import io
import json
import re
import time
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import pytest
from playwright.sync_api import expect

from support.browsing import DESKTOP, PHONE
from support.driven import serve
from support.postgres_servers import fresh_database
from tiltyard.client import AsyncClient, Client
from tiltyard.errors import TiltyardError

#: What a small board of coin flips says, `test_ten_seconds` looks at in every run.
pytestmark = pytest.mark.slow

VOTES, VOTERS, AT_ONCE = 1620, 54, 6
NAMES = [f"model-{letter}" for letter in "abcde"]
HEADLINE = "Too close to call."
SENTENCE = "No order is settled yet."
NOTE = "enough votes; no order settled"
#: What a page would say if it claimed an order.
CLAIMS = re.compile(
    r"settled above|share first|first place|tier \d|best model|better than|ahead", re.IGNORECASE
)


@dataclass(frozen=True)
class CoinSite:
    url: str
    client: Client


@pytest.fixture(scope="module")
def site(server, template, tmp_path_factory):
    home = tmp_path_factory.mktemp("coins")
    with fresh_database(server, template) as database, serve(database, home) as client:
        answers = home / "answers.jsonl"
        rows = [
            {"prompt_id": f"p{k}", "prompt": f"Question {k}", "model": name, "response": f"{name} on {k}"}
            for name in NAMES
            for k in range(27)
        ]
        answers.write_text("".join(json.dumps(row) + "\n" for row in rows))
        # Voters who learn no names cast as many blind votes as they are asked for.
        client.create_arena(
            "coins", settings={"undo_seconds": 0.0, "snapshot_seconds": 0.2, "reveal": "never"}
        )
        client.import_answers("coins", answers)
        asyncio.run(_flip(str(client._base_url)))
        _wait(client)
        yield CoinSite(str(client._base_url).rstrip("/"), client)


async def _flip(url):
    """Every voter casts as many votes, each by a coin."""
    turns = asyncio.Semaphore(AT_ONCE)

    async def voter(number):
        rng = np.random.default_rng([16, number])
        async with turns, AsyncClient(url) as client:
            for _ in range(VOTES // VOTERS):
                matchup = await client.next_matchup("coins")
                await client.vote(matchup.matchup, ("model_a", "model_b")[int(rng.integers(2))])

    await asyncio.gather(*(voter(number) for number in range(VOTERS)))


def _wait(client):
    """Until everything is on the board."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        with suppress(TiltyardError):
            if client.board("coins")["votes"] == VOTES:
                return
        time.sleep(0.2)
    raise AssertionError("the votes did not reach the board")


def test_the_board_is_official_and_every_badge_stable(site):
    """Without this the other tests would prove nothing."""
    board = site.client.board("coins")
    assert (board["status"], board["votes"]) == ("official", VOTES)
    assert {row["badge"] for row in board["rows"]} == {"stable"}


def test_the_document_and_the_files_claim_no_order(site, visit):
    board = site.client.board("coins")
    assert (board["settled"]["text"], board["settled"]["values"]["case"]) == (SENTENCE, "nothing")
    for row in board["rows"]:
        assert (row["rank_low"], row["rank_high"], row["tier"], row["settled"]) == (1, 5, 1, [])
    page = visit("/arenas/coins").page
    table = list(csv.DictReader(io.StringIO(page.request.get(f"{site.url}/arenas/coins/board.csv").text())))
    assert {(row["rank_low"], row["rank_high"], row["tier"], row["settled_above_next"]) for row in table} == {
        ("1", "5", "1", "")
    }
    assert "rank" not in table[0]
    said = page.request.get(f"{site.url}/arenas/coins/board.json").json()
    assert [one["text"] for one in said["settled"]] == [SENTENCE]


@pytest.mark.parametrize("size", [DESKTOP, PHONE, (2560, 1300)], ids=["desktop", "phone", "wide"])
def test_the_board_says_so_first_and_nothing_else_claims_an_order(visit, size):
    opened = visit("/arenas/coins", size=size)
    page = opened.page
    lead = page.locator("main p").first
    expect(lead.locator("strong")).to_have_text(HEADLINE)
    expect(lead).to_contain_text(SENTENCE)
    cells = page.locator("#board tbody tr:not(.detail) > td:first-child")
    assert [cell.inner_text().split() for cell in cells.all()] == [["1–5", "not", "placed", "yet"]] * 5
    assert page.locator(".tier-line, .settled").count() == 0
    assert not CLAIMS.search(page.locator("main").inner_text().replace(HEADLINE, ""))
    expect(page.locator("#status-title")).to_have_text(f"Officially stable {NOTE}")
    for cell in page.locator("#board tbody th").all():
        expect(cell.locator(".badge")).to_have_count(0)
    opened.check()


def test_no_colour_claims_an_order(visit):
    """Rows look alike, and what is green where an order is settled is not."""
    page = visit("/arenas/coins").page
    looks = page.locator("#board tbody").evaluate_all(
        """all => all.map(body => [...body.querySelectorAll('tr:not(.detail) > *, tr:not(.detail) > * > *:not(svg)')]
           .map(one => { const look = getComputedStyle(one); return [look.color, look.backgroundColor,
                         look.borderTopColor, look.fontWeight].join() }).join(';'))"""
    )
    assert len(looks) == 5
    assert len(set(looks)) == 1
    good = page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--good').trim()")
    probe = "good => { const one = document.createElement('i'); one.style.color = good; document.body.append(one); return getComputedStyle(one).color }"
    green = page.evaluate(probe, good)
    for selector in ("#board", ".board-claim", "#status-title", ".board-status"):
        colours = page.locator(selector).evaluate(
            "one => { const look = getComputedStyle(one); return [look.color, look.backgroundColor, look.borderInlineStartColor] }"
        )
        assert green not in colours, selector
    assert green not in ";".join(looks)


@pytest.mark.parametrize("path", ["/arenas/coins?source=both", "/", "/arenas/coins/models/model-a"])
def test_other_pages_say_the_same(visit, path):
    text = visit(path).page.locator("main").inner_text()
    assert SENTENCE in text
    assert not CLAIMS.search(text.replace(HEADLINE, ""))
    assert not re.search(r"\b[Rr]ank\s+\d+\b(?!–)", text)
    for found in re.finditer(r"\b(?:Officially )?stable\b", text, re.IGNORECASE):
        assert re.match(rf":?\s+{NOTE}", text[found.end() :]), text[found.start() :][:80]


def test_the_home_page_lists_no_models_as_best(visit):
    text = visit("/").page.locator("main").inner_text()
    assert not any(name in text for name in NAMES)


def test_a_model_has_the_range_of_all_ranks(visit):
    page = visit("/arenas/coins/models/model-a").page
    expect(page.locator(".figures-row dd.big").first).to_have_text("1–5")
    expect(page.get_by_text("Their order is not settled.").first).to_be_visible()
