"""One billing server for all tests that need no faults of their own."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import pytest

from support.servers.behaviour import Behaviour
from support.servers.paid_llm import PaidLLM, paid_llm


@dataclass
class Billed:
    """A server that has been open for a while: what it counts is since the test began."""

    server: PaidLLM
    before: dict[str, Any]

    def judge(self, provider: str = "openai", **settings: Any) -> dict[str, Any]:
        return {"provider": provider, "base_url": self.server.base_url(provider), **settings}

    def since(self, name: str = "paid_calls") -> int:
        return self.server.settled_tally()[name] - self.before[name]

    def wait_for(self, reached: Callable[[dict[str, int]], bool], seconds: float = 120.0) -> None:
        """Wait until what was counted since the test began is so."""
        end = time.monotonic() + seconds
        while not reached(self._since()):
            assert time.monotonic() < end, self._since()
            time.sleep(0.05)

    def _since(self) -> dict[str, int]:
        now = self.server.tally()
        return {name: now[name] - self.before[name] for name in ("paid_calls", "live_calls", "in_flight")}

    def requests(self, name: str) -> int:
        now, before = self.server.settled_tally()["requests"], self.before["requests"]
        return now.get(name, 0) - before.get(name, 0)


@pytest.fixture(autouse=True, scope="module")
def _without_charts(without_charts):
    """Charts of tournaments have tests in `report`, `runs` and `pages`."""


@pytest.fixture(scope="session")
def opened():
    with paid_llm() as server:
        yield server


@pytest.fixture
def billed(opened):
    plain = asdict(Behaviour())
    plain.pop("prices")
    opened.change(**plain)
    return Billed(opened, opened.settled_tally())
