"""Responses under their models' names: readers open them from the model's page, once no vote can be cast on them."""

import asyncio
import html
import re

import pytest

from support.postgres_servers import fresh_database
from support.served import served
from support.voted_arenas import rate, voted
from tiltyard.arena.operators.arena_changes import hide
from tiltyard.arena.operators.stages import set_stage
from tiltyard.postgres.connections import open_pool
from tiltyard.web.pages import paths

MODEL = paths.model("arena", "model-1", rows="all")


def staged(running, stage):
    async def change():
        async with open_pool(running.database, most=1) as pool:
            await set_stage(pool, "arena", stage, actor="cli")

    asyncio.run(change())
    running.run(running.registry.settings_changed())
    running.registry.boards.forget("arena")


def opened(reader):
    """What the rows of the model's page lead to."""
    return [
        html.unescape(one)
        for one in re.findall(r'href="(/arenas/arena/responses[^"]*)"', reader.get(MODEL).text)
    ]


@pytest.fixture(scope="module")
def running(server, template, tmp_path_factory):
    with fresh_database(server, template) as database:
        voted(database, 12)
        rate(database)
        with served(database, folder=tmp_path_factory.mktemp("home")) as site:
            yield site


def test_only_an_archived_arena_shows_its_responses_by_name(running):
    async def hiding():
        async with open_pool(running.database, most=1) as pool:
            await hide(pool, running.registry.blobs, "arena", "prompt-1", "model-1", actor="cli")

    asyncio.run(hiding())
    reader = running.client()
    address = paths.responses("arena", model="model-1", prompt="prompt-0")
    for stage in (None, "paused", "open"):
        if stage is not None:
            staged(running, stage)
        assert opened(reader) == []
        assert reader.get(address).status_code == 404
        assert reader.get(address.replace("responses?", "responses/file?")).status_code == 404
    staged(running, "archived")
    found = opened(reader)
    assert address in found
    assert not any("prompt-1&" in one or one.endswith("prompt-1") for one in found)
    for one in found:
        page = reader.get(one)
        assert page.status_code == 200
        data = reader.get(one.replace("responses?", "responses/file?"))
        assert data.headers["content-disposition"] == "attachment"
        assert data.headers["content-security-policy"].startswith("sandbox")
        if data.headers["content-type"].startswith("text/plain"):
            assert data.text.split()[0] in page.text
    for model, prompt in (("model-1", "prompt-1"), ("model-1", "nothing"), ("nobody", "prompt-0")):
        assert reader.get(paths.responses("arena", model=model, prompt=prompt)).status_code == 404
    staged(running, "open")
    assert (opened(reader), reader.get(address).status_code) == ([], 404)
