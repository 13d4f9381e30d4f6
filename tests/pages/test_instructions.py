"""Instructions of an arena: before the first vote, and one key away later; with scripts and without."""

import asyncio

import pytest

from support.ballots import ready, stage
from support.browsing import follow
from support.live_arenas import made_arena
from support.postgres_servers import fresh_database
from support.served import served
from tiltyard.arena.content.arena_texts import change_texts
from tiltyard.postgres.connections import open_pool

TEXT = "Prefer answers that are **correct**.\n\n<script>alert(1)</script>"


async def written(database, texts):
    async with open_pool(database, most=1) as pool:
        await change_texts(pool, "arena", texts, actor="cli")


@pytest.fixture(scope="module")
def site(server, template, tmp_path_factory):
    with fresh_database(server, template) as database:
        made_arena(database)
        asyncio.run(written(database, {"instructions": TEXT}))
        with served(database, folder=tmp_path_factory.mktemp("responses")) as running:
            yield running


def test_they_are_shown_before_the_first_vote_and_folded_later(visit, site):
    page = visit("/arenas/arena/vote", js=False).page
    assert page.get_by_role("heading", name="Instructions").is_visible()
    assert page.locator(".text strong").inner_text() == "correct"
    assert "<script>alert" not in page.content()
    follow(page.get_by_role("button", name="Start voting"))
    folded = page.locator("details.instructions")
    assert folded.get_attribute("open") is None
    folded.locator("summary").click()
    assert folded.get_by_text("Prefer answers").is_visible()


def test_a_key_opens_and_closes_them_and_votes_for_nobody(visit, site):
    page = ready(visit).page
    shown = page.locator("details.instructions .text")
    before = stage(page).get_attribute("data-matchup")
    page.keyboard.press("i")
    shown.wait_for(state="visible")
    page.keyboard.press("i")
    shown.wait_for(state="hidden")
    assert stage(page).get_attribute("data-matchup") == before
