"""A provider on loopback that bills: OpenAI's and Anthropic's endpoints, live and batch, in its own process.

::

    with paid_llm(latency=0.05, throttle=0.1) as server:
        open_provider("openai", server.openai, "key", 30)
        open_provider("anthropic", server.anthropic, "key", 30)
        server.tally()["paid_calls"]

Replies are a pure function of the request. The process outlives whatever client is killed, and
ends when the context is left, or when whoever opened it dies.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from support import TESTS
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


@contextmanager
def paid_llm(**behaviour: Any) -> Iterator[PaidLLM]:
    """Run the server; options are the fields of `Behaviour`."""
    given = json.dumps(asdict(Behaviour(**behaviour)))
    paths = [str(TESTS), os.environ.get("PYTHONPATH", "")]
    process = subprocess.Popen(
        [sys.executable, "-m", "support.servers.paid_llm", given],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        # Signals for a whole group, such as Ctrl-C or a killed client's, are not for this one.
        start_new_session=True,
    )
    with process:
        try:
            port = int(process.stdout.readline() or 0)
            assert port, "the server did not start"
            yield PaidLLM(f"http://127.0.0.1:{port}")
        finally:
            process.kill()


async def serve(behaviour: Behaviour) -> None:
    app = BilledApp(behaviour)
    fronts: set[Front] = set()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Front(app.serve, fronts), "127.0.0.1", 0, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    # Whoever started this holds the other end of standard input: when it closes, they are gone.
    await loop.run_in_executor(None, sys.stdin.buffer.read)


if __name__ == "__main__":
    asyncio.run(serve(Behaviour.from_dict(json.loads(sys.argv[1]))))
    os._exit(0)
