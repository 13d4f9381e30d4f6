"""A provider on loopback that bills: OpenAI's and Anthropic's endpoints, live and batch, on a thread of its own.

::

    with paid_llm(latency=0.05, throttle=0.1) as server:
        open_provider("openai", server.openai, "key", 30)
        open_provider("anthropic", server.anthropic, "key", 30)
        server.tally()["paid_calls"]

Replies are a pure function of the request. It ends when the context is left; clients that are killed are processes.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
import urllib.request
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

from support.servers.behaviour import Behaviour
from support.servers.billed_app import BilledApp
from support.servers.http_front import Front


@dataclass(frozen=True)
class PaidLLM:
    """Where the server is, and what it says of itself."""

    url: str

    @property
    def anthropic(self) -> str:
        """Base URL for the Anthropic SDK."""
        return self.url

    @property
    def openai(self) -> str:
        """Base URL for the OpenAI SDK."""
        return f"{self.url}/v1"

    def base_url(self, provider: str) -> str:
        return self.openai if provider == "openai" else self.anthropic

    def tally(self) -> dict[str, Any]:
        """What was paid, counted by the server."""
        return self._ask("/tally")

    def settled_tally(self, seconds: float = 60.0) -> dict[str, Any]:
        """The tally once nothing is in flight any more."""
        end = time.monotonic() + seconds
        while (tally := self.tally())["in_flight"]:
            assert time.monotonic() < end, f"{tally['in_flight']} calls are still in flight"
            time.sleep(0.01)
        return tally

    def bodies(self) -> list[dict[str, Any]]:
        """Every live request's body (with ``keep_bodies``)."""
        return [json.loads(body) for body in self._ask("/bodies")]

    def change(self, **behaviour: Any) -> None:
        """Behave otherwise from now on."""
        self._ask("/behaviour", json.dumps(behaviour).encode())

    def _ask(self, path: str, body: bytes | None = None) -> Any:
        with urllib.request.urlopen(self.url + path, body, timeout=30) as answer:
            return json.load(answer)


@asynccontextmanager
async def served_app(behaviour: Behaviour) -> AsyncIterator[tuple[BilledApp, str]]:
    """The server on the running loop, with new books: its books and its address."""
    app = BilledApp(behaviour)
    fronts: set[Front] = set()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Front(app.serve, fronts), "127.0.0.1", 0, backlog=2048)
    try:
        yield app, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for front in list(fronts):
            front.cut()
        for task in list(app.tasks):
            task.cancel()
        await asyncio.sleep(0)
        app.threads.shutdown()


@contextmanager
def paid_llm(**behaviour: Any) -> Iterator[PaidLLM]:
    """Run the server on a thread; options are the fields of `Behaviour`."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="paid LLM", daemon=True)
    thread.start()
    running = served_app(Behaviour(**behaviour))

    def wait_for(step: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(step, loop).result(60)

    try:
        _, url = wait_for(running.__aenter__())
        try:
            yield PaidLLM(url)
        finally:
            wait_for(running.__aexit__(None, None, None))
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
