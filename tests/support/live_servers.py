"""Two real LLM servers on loopback, of different tiny models, for live battles.

::

    with live_servers() as (kestrel, osprey):
        models = write_models_file(tmp_path, kestrel, osprey)

Each is llama.cpp in its own process. The models are made here: they speak in words, of water birds, and do not listen.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.servers.tiny_llm import tiny_llm
from support.servers.word_model import write_word_model
from tiltyard.settings.yaml_file import write_yaml

#: What each model has read. None says its own name.
TEXTS = {
    "Kestrel": """\
The heron stands in the shallow water and waits for a small fish. It does not move for a long time, and then it strikes.

A heron waits at the edge of the lake. The water is still, and the fish does not see the bird in the reeds.

In the morning the heron stands in the reeds. It waits for the light, and the small fish come to the edge of the water.

The bird flies slowly over the lake with its neck drawn in. It does not call, and the reeds do not move.

A small fish does not see the heron. The bird strikes, and the water is still again.

In the evening it flies to the old trees at the edge of the lake and stands there for a long time.
""",
    "Osprey": """\
A plover runs over the wet sand, stops, and runs again! The wave comes, the plover goes.

Run, stop, look, run: the plover finds a worm in the wet sand. The wave goes, and the bird comes back.

The plovers turn in the wind, all of them at once, and the whole flock is white! Then they turn again and are gone.

Look at the nest: four eggs on bare sand, and nobody sees them. The plover sees you, and runs the other way.

When the wave comes they run, and when the wave goes they come back. All day long, all of them at once!

The wind turns, and the flock goes with the wind. In autumn they fly for days over the sea, and nobody sees them.
""",
}


@dataclass(frozen=True)
class LiveServer:
    """One server: the name of its model, and where it is."""

    name: str
    url: str

    @property
    def openai(self) -> str:
        """Base URL for OpenAI's protocol."""
        return f"{self.url}/v1"

    def entry(self, provider: str = "openai", **more: Any) -> dict[str, Any]:
        """Its entry in a file of live models; it costs nothing."""
        base_url = self.openai if provider == "openai" else self.url
        return {
            "name": self.name,
            "provider": provider,
            "base_url": base_url,
            "model": self.name.lower(),
            "max_tokens": 256,
            "price": {"input": 0, "output": 0},
            **more,
        }


@contextmanager
def live_servers(parallel: int = 4) -> Iterator[tuple[LiveServer, LiveServer]]:
    """Run both servers."""
    with _server("Kestrel", parallel) as kestrel, _server("Osprey", parallel) as osprey:
        yield kestrel, osprey


def write_models_file(folder: Path, *servers: LiveServer, more: list[dict[str, Any]] | None = None) -> Path:
    """Write a file of live models: these servers, and more entries."""
    path = folder / "models.yaml"
    path.write_text(write_yaml({"models": [*(server.entry() for server in servers), *(more or [])]}))
    return path


@contextmanager
def _server(name: str, parallel: int) -> Iterator[LiveServer]:
    with tiny_llm(parallel, write=lambda path: write_word_model(path, name, TEXTS[name])) as url:
        yield LiveServer(name, url)
