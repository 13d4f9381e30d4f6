"""A web server with a live arena whose models are served by a scripted upstream."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from support.faulty_upstream import FaultyUpstream
from support.live_worlds import make_live_arena
from support.served import Served, served
from tiltyard.arena.content.arenas import Arena
from tiltyard.arena.live.entrant_pool import open_entrant
from tiltyard.settings.environment import Environment
from tiltyard.settings.serving_settings import ServingSettings

SETTINGS = ServingSettings(port=0, new_sessions_per_minute=100_000)
ASK = "/api/v1/arenas/arena/live"


def entrant_section(upstream: FaultyUpstream, model: str) -> dict[str, Any]:
    """A model of the upstream as a models file has it."""
    return {
        "name": model,
        "provider": "openai",
        "model": model,
        "base_url": upstream.base_url,
        "max_tokens": 400,
        "price": {"input": 1.0, "output": 2.0},
    }


@contextmanager
def live_site(
    database: str, upstream: FaultyUpstream, models: Sequence[str], *, name: str = "arena", **settings: Any
) -> Iterator[Served]:
    """Serve a live arena of these models."""
    add_live_arena(database, upstream, models, name=name, **settings)
    with served_models(database) as site:
        yield site


def add_live_arena(
    database: str, upstream: FaultyUpstream, models: Sequence[str], *, name: str = "arena", **settings: Any
) -> Arena:
    """One more live arena of these models."""
    return asyncio.run(
        make_live_arena(
            database,
            len(models),
            name=name,
            config=lambda number: entrant_section(upstream, models[number]),
            **settings,
        )
    )


@contextmanager
def served_models(database: str) -> Iterator[Served]:
    """Serve live arenas whose models need no key."""
    with served(database, settings=SETTINGS) as site:
        site.registry.open_entrant = partial(open_entrant, environment=local_environment())
        yield site


def local_environment() -> Environment:
    """An environment without keys."""
    return Environment(home=Path("/nonexistent"), database_url=None, variables={})


@dataclass(frozen=True)
class SentEvent:
    """One event of a stream as it was sent."""

    id: str
    data: Mapping[str, Any]


def parse_events(body: bytes) -> list[SentEvent]:
    """The events of a stream."""
    events = []
    for block in body.decode().split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line)
        if "data" in lines:
            events.append(SentEvent(lines["id"], json.loads(lines["data"])))
    return events


def shown_texts(events: Sequence[SentEvent]) -> tuple[str, str]:
    """What a reader has after these events."""
    return "".join(one.data["a"] for one in events), "".join(one.data["b"] for one in events)


def read_stream(
    client: Any, battle: dict[str, Any], after: str | None = None, *, most: int | None = None
) -> bytes:
    """The bytes of a battle's stream until its end, or until there are so many."""
    headers = {} if after is None else {"last-event-id": after}
    body = b""
    with client.stream("GET", battle["frames"], headers=headers) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert answer.headers["x-accel-buffering"] == "no"
        for piece in answer.iter_raw():
            body += piece
            if most is not None and len(body) >= most:
                break
    return body
