"""Two web processes on one database, behind a proxy that sends every request to either of them."""

import asyncio
import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2

from support.faults.children import service
from support.path_proxy import PathProxy, path_proxy
from support.shown_kinds import fill_arena, png
from tiltyard.postgres.connections import connect
from tiltyard.settings.arena_settings import ArenaSettings

#: An arena of texts and one of pictures; both check what was shown.
ARENAS = ("texts", "pictures")
#: Longer than anybody must look at such short responses.
LOOK_SECONDS = 1.5
_MODELS, _PROMPTS = 6, 12


@contextmanager
def replicas(database: str, home: Path) -> Iterator[PathProxy]:
    """Processes that know nothing of each other but their database, and an address without affinity."""
    chance = random.Random(34)
    with (
        service(database, home, raters=()) as running,
        path_proxy(lambda _path: chance.choice(running.addresses)) as proxy,
    ):
        proxy.servers = running.addresses
        yield proxy


def add_arenas(database: str, folder: Path) -> None:
    """Make both arenas. They tell no names, so that one matchup follows another."""
    texts, pictures, files = [], [], {}
    for model in range(_MODELS):
        for prompt in range(_PROMPTS):
            row = {"prompt_id": f"p{prompt}", "prompt": f"What about {prompt}?", "model": f"m{model}"}
            texts.append(row | {"response": f"An answer to {prompt}: {model * 7919 % 997}"})
            name = f"{model}-{prompt}.png"
            pictures.append(row | {"response": name, "kind": "image"})
            files[name] = png(model * 40, prompt * 20, 90, size=24)
    settings = ArenaSettings(shown_check="always")
    fill_arena(database, folder, "texts", texts, settings=settings)
    fill_arena(database, folder, "pictures", pictures, files, settings=settings)
    with connect(database) as connection:
        connection.execute('UPDATE arenas SET settings = settings || \'{"reveal": "never"}\'')


def marks(database: str, arena: str) -> dict[int | None, int]:
    """How many votes the log of an arena has with each mark."""
    with connect(database) as connection:
        rows = connection.execute(
            "SELECT e.mark, count(*) FROM events e JOIN arenas a USING (arena)"
            " WHERE a.name = %s AND e.kind = 1 GROUP BY 1",
            (arena,),
        )
        return dict(rows.fetchall())


async def vote_by_api(client: httpx2.AsyncClient, arena: str) -> None:
    matchup = (await client.post(f"/api/v1/arenas/{arena}/matchups", json={})).raise_for_status().json()
    for side in ("a", "b"):
        (await client.get(matchup["responses"][side]["url"])).raise_for_status()
    await asyncio.sleep(LOOK_SECONDS)
    path = f"/api/v1/matchups/{matchup['matchup']}/vote"
    voted = (await client.post(path, json={"winner": "model_a"})).raise_for_status()
    assert voted.json()["unrated"] is None


async def vote_by_page(client: httpx2.AsyncClient, arena: str) -> None:
    """As a browser without scripts: what is in the form is sent, and pictures are fetched."""
    page = (await client.get(f"/arenas/{arena}/vote")).raise_for_status().text
    if 'data-matchup="' not in page:
        page = (await client.post(f"/arenas/{arena}/vote", data={})).raise_for_status().text
    for source in re.findall(r'<img[^>]* src="(/m/[^"]+)"', page):
        (await client.get(source)).raise_for_status()
    form = page.split('class="ballot"')[1].split("</form>")[0]
    fields = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form))
    await asyncio.sleep(LOOK_SECONDS)
    action = form.split('action="')[1].split('"')[0]
    (await client.post(action, data={**fields, "winner": "tie"})).raise_for_status()
