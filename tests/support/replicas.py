"""Two web processes on one database, behind a proxy that sends every request to either of them."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
