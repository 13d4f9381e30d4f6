"""Effects of length and waiting over HTTP: on the board page of a live arena, in its file and in the API."""

import asyncio

import pytest

from support.live_arenas import make_arena
from support.released_battles import in_a_live_arena
from support.served import served
from support.voted_arenas import rate
from tiltyard.arena.boards import battle_effects
from tiltyard.core.battles import Kind
from tiltyard.web.pages import board_data

HTML = {"accept": "text/html"}
EFFECTS = "/api/v1/arenas/arena/effects"


async def _fight(live):
    for number in range(24):
        longer = number % 2 == 0
        answers = ("word " * (2 + number % 5), "word") if longer else ("word", "word " * (2 + number % 3))
        kind = Kind.WIN_A if longer == (number % 6 > 0) else Kind.WIN_B
        await live.battle(1 + number % 12, f"prompt {number}", answers=answers, kind=kind)


@pytest.fixture
def site(database):
    asyncio.run(in_a_live_arena(database, _fight))
    asyncio.run(make_arena(database, name="cached"))
    rate(database)
    with served(database) as running:
        yield running


def test_a_young_arena_says_what_is_missing(site):
    client = site.client()
    said = client.get(EFFECTS)
    assert said.status_code == 200
    (finding,) = said.json()["findings"]
    assert (said.json()["votes"], said.json()["effects"]) == (24, [])
    assert finding["values"] == {"case": "votes", "count": 24, "least": 200}
    page = client.get("/arenas/arena", headers=HTML).text
    assert "Length and waiting" in page
    assert finding["text"] in page
    assert "/arenas/arena/style" not in page
    assert client.get(EFFECTS, headers={"if-none-match": said.headers["etag"]}).status_code == 304
    assert f'<{EFFECTS}>; rel="related"' in client.get("/api/v1/arenas/arena/board").headers["link"]
    assert client.get("/arenas/arena/board.json").json()["effect_findings"] == [finding]
    refused = client.get("/api/v1/arenas/cached/effects")
    assert refused.status_code == 404
    assert "no live battles" in refused.json()["detail"]
    for path in ("/arenas/cached", "/arenas/arena?category=prompt-1"):
        assert "Length and waiting" not in client.get(path, headers=HTML).text
    assert "effects" not in client.get("/arenas/cached/board.json").json()
    assert "related" not in client.get("/api/v1/arenas/cached/board").headers["link"]


def test_the_board_states_both_effects(site, monkeypatch):
    monkeypatch.setattr(battle_effects, "EFFECT_VOTES", 20)
    client = site.client()
    said = client.get(EFFECTS).json()
    assert [one["trait"] for one in said["effects"]] == ["length"]
    sentences = [one["text"] for one in said["findings"]]
    assert "waiting time" in sentences[-1]
    page = client.get("/arenas/arena", headers=HTML).text
    assert all(sentence in page for sentence in sentences)
    assert "with 95" in page
    whole = client.get("/arenas/arena/board.json").json()
    assert (whole["effects"], whole["effect_findings"]) == (said["effects"], said["findings"])


def test_a_page_does_not_wait_for_effects_that_take_long(site, monkeypatch):
    monkeypatch.setattr(board_data, "_EFFECTS_WAIT_SECONDS", 0.0)
    page = site.client().get("/arenas/arena", headers=HTML)
    assert page.status_code == 200
    assert "Length and waiting" not in page.text
