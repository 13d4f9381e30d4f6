"""``kill -9`` of the web processes while models answer: every turn is void or complete, and every call is accounted."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest

from support.faulty_upstream import faulty_upstream
from support.folded_votes import rows
from support.live_sites import ASK, entrant_section
from support.live_worlds import make_live_arena
from support.serving_process import running

_PATIENCE_SECONDS = 120.0


def _wait_until(done: Any) -> None:
    end = time.monotonic() + _PATIENCE_SECONDS
    while not done():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.2)


def _ask(url: str, stack: ExitStack) -> tuple[httpx2.Client, dict[str, Any]]:
    client = stack.enter_context(httpx2.Client(base_url=url, timeout=60))
    end = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            answer = client.post(ASK, json={"prompt": "Go on and on."})
            if answer.status_code == 201:
                return client, answer.json()
        except httpx2.TransportError:
            pass
        assert time.monotonic() < end, "nobody answers"
        time.sleep(0.3)


@pytest.mark.slow
def test_every_turn_and_every_call_is_accounted_after_kills(database: str, tmp_path: Path) -> None:
    with faulty_upstream(process=True) as upstream, ExitStack() as stack:
        models = [f"bird-{number}@tokens=390,rate=20" for number in range(4)]
        asyncio.run(
            make_live_arena(
                database, 4, config=lambda n: entrant_section(upstream, models[n]), live_gap_seconds=30.0
            )
        )
        with running(tmp_path, "--port", "0", "--workers", "2", database=database) as server:
            server.wait_for("ready: ")
            voters = [_ask(server.url, stack) for _ in range(6)]
            assert rows(database, "SELECT count(*) FROM live_turns WHERE ended_at IS NULL") == [(6,)]
            for child in server.children():
                os.kill(child, signal.SIGKILL)
            # The supervisor starts new processes, which find what was left, though no voter asks.
            _wait_until(
                lambda: rows(database, "SELECT count(*) FROM live_turns WHERE ended_at IS NULL") == [(0,)]
            )
            _wait_until(lambda: rows(database, "SELECT count(*) FROM events WHERE detail ? 'void'") == [(6,)])
            for client, battle in voters:
                shown = _get(client, f"/api/v1/live/{battle['matchup']}")
                assert (shown["state"], shown["turns"][0]["state"]) == ("void", "void")
            _, again = _ask(server.url, stack)
            assert again["turns"][0]["state"] in {"waiting", "streaming"}
    states = dict(rows(database, "SELECT state, count(*) FROM live_calls GROUP BY state"))
    # Those of the killed processes; those of the last battle were stopped with the server, or were done.
    assert states.pop("unknown") == 12
    assert sum(states.values()) == 2
    assert "running" not in states
    spent = rows(
        database,
        "SELECT (SELECT sum(coalesce(cost, reserve)) FROM live_calls) = (SELECT sum(counted) FROM live_spending WHERE session = 0)",
    )
    assert spent == [(True,)]


def _get(client: httpx2.Client, path: str) -> dict[str, Any]:
    end = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            answer = client.get(path)
            if answer.status_code == 200:
                found: dict[str, Any] = answer.json()
                return found
        except httpx2.TransportError:
            pass
        assert time.monotonic() < end, "nobody answers"
        time.sleep(0.3)
