"""The operator's page of a live arena, and its settings."""

import asyncio
import re

import pytest

from support.operating import audited, copied, located, signed
from tiltyard.arena.content.blob_store import BlobStore
from tiltyard.arena.content.object_storage import FolderStorage
from tiltyard.arena.live.live_arena import NewEntrant, make_live_arena
from tiltyard.postgres.connections import connect, open_pool

ENTRANTS = [
    NewEntrant(name, f"{name}-version-0123456789", {"model": name}, {})
    for name in ("Heron", "Plover", "Wren")
]


def make_arena(url, folder):
    async def scene():
        async with open_pool(url, most=2) as pool:
            await make_live_arena(pool, BlobStore(pool, FolderStorage(folder)), "live", ENTRANTS)

    asyncio.run(scene())


def lay_calls(url):
    """Calls of two models: of Heron ten that went well, of Plover two that failed in the end."""
    with connect(url) as connection:
        (arena,) = connection.execute("SELECT arena FROM arenas WHERE name = 'live'").fetchone()
        values = {"arena": arena}
        connection.execute("INSERT INTO live_prompts VALUES (%(arena)s, 1, '')", values)
        connection.execute(
            "INSERT INTO live_battles (arena, matchup, session, category, free_prompt, void)"
            " SELECT %(arena)s, md5(n::text)::uuid, 5, 0, 1, CASE WHEN n > 8 THEN 'x' END FROM generate_series(1, 10) n",
            values,
        )
        connection.execute(
            "INSERT INTO live_turns (arena, matchup, turn, prompt, state, ended_at)"
            " SELECT arena, matchup, 1, 'hm', 'done', now() FROM live_battles",
            values,
        )
        connection.execute(
            "INSERT INTO live_calls (arena, matchup, turn, side, model, session, day, max_tokens, reserve, cost, state,"
            " first_token_seconds, problem, ended_at)"
            " SELECT arena, matchup, 1, s, s, 5, now()::date, 9, 90000, CASE s WHEN 0 THEN 20000 END,"
            " CASE s WHEN 0 THEN 'done' ELSE 'failed' END, CASE s WHEN 0 THEN 0.25 END,"
            " CASE s WHEN 1 THEN 'its key was refused' END, now() FROM live_battles, generate_series(0, 1) s",
            values,
        )
        connection.execute(
            "INSERT INTO live_spending SELECT arena, 0, day, sum(coalesce(cost, reserve)) FROM live_calls GROUP BY 1, 3"
        )


@pytest.fixture
def running(server, prepared, tmp_path):
    with copied(server, prepared) as found:
        make_arena(found.database, tmp_path)
        yield found


def test_the_page_tells_who_answers_how_well_and_what_it_costs(running):
    client = signed(running)
    empty = client.get("/operator/arenas/live/live").text
    assert empty.count("not asked yet") == 3
    lay_calls(running.database)
    page = client.get("/operator/arenas/live/live").text
    assert page.count("$1.10") == 2, "spent and reserved: in total and today"
    assert "no limit" in page
    assert "0.25 s" in page
    assert "10 failures" in page
    assert page.count("key was refused") == 2
    assert re.search(r": 10 battles,[^.]* 2 were", page)
    assert "Heron-versio" in page
    assert "/operator/arenas/live/live" in client.get("/operator/arenas/live").text
    assert "/operator/arenas/arena/live" not in client.get("/operator/arenas/arena").text
    assert "compares stored responses" in client.get("/operator/arenas/arena/live").text


def test_a_live_arena_has_settings_of_its_own(running):
    client = signed(running)
    assert "live_pace" not in client.get("/operator/arenas/arena/settings").text
    page = client.get("/operator/arenas/live/settings").text
    assert 'name="live_pace"' in page
    assert 'name="kind"' not in page
    changed = {
        "live_day_dollars": "2.5",
        "live_turns": "3",
        "live_pace": "complete",
        "live_budget_dollars": "",
    }
    review = client.get("/operator/arenas/live/settings/review", params=changed)
    assert "2.5" in review.text
    located(
        client.post("/operator/arenas/live/settings", data=changed), "settings", "arenas", "live", "settings"
    )
    assert audited(running)[-1][1] == "change settings"
    assert "$2.50" in client.get("/operator/arenas/live/live").text
    refused = client.post("/operator/arenas/live/settings", data={"live_day_dollars": "much"})
    assert refused.status_code == 422
    # In other arenas they are not read.
    located(
        client.post("/operator/arenas/arena/settings", data={"live_turns": "3"}),
        "unchanged",
        "arenas",
        "arena",
        "settings",
    )
