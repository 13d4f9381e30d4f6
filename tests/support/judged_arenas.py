"""A served arena with judges for it: configurations, tokens, and what the log says afterwards."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import uuid4

import psycopg
import yaml

from support.live_arenas import made_arena
from support.served import Served, make_token
from support.servers.paid_llm import PaidLLM
from tiltyard.arena.judging.judge_voters import JudgedVotes, judge_arena, open_panel
from tiltyard.client import AsyncClient

#: The paid server's own prices, in dollars for a million tokens.
PRICES = {"input": 3, "output": 15, "batch": 0.5}


@dataclass
class JudgedArena:
    """One of a server's arenas, and a folder for its judges."""

    site: Served
    folder: Path
    arena: int
    name: str
    token: str

    @property
    def config(self) -> Path:
        return self.folder / "judge.yaml"

    def environ(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
        return kept | {"TILTYARD_HOME": str(self.folder / "home"), "OPENBLAS_NUM_THREADS": "1"}

    def judges(self, server: PaidLLM, *names: str, **settings: Any) -> None:
        """Write the configuration."""
        rest = {"retries": 2, "concurrency": 8}
        judges = [
            {
                "model": name,
                "provider": "openai",
                "base_url": server.openai,
                **rest,
                **settings.pop("each", {}),
            }
            for name in names or ("judge-1",)
        ]
        document = {"judges": judges, "prices": dict.fromkeys(names or ("judge-1",), PRICES), **settings}
        self.config.write_text(yaml.safe_dump(document))

    def judge(
        self, *, tokens: Sequence[str] = (), budget: float | None = None, matchups: int | None = None
    ) -> JudgedVotes:
        """Vote in this process."""

        async def judging() -> JudgedVotes:
            panel = open_panel(self.config, budget_usd=budget)
            async with AsyncExitStack() as stack:
                clients = [
                    await stack.enter_async_context(AsyncClient(self.site.url, token=one))
                    for one in tokens or (self.token,)
                ]
                return await judge_arena(panel, clients, self.name, place=self.site.url, matchups=matchups)

        with patch.dict(os.environ, self.environ(), clear=True):
            return asyncio.run(judging())

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """What a statement finds; ``%(arena)s`` is this one."""
        with psycopg.connect(self.site.database) as connection:
            return connection.execute(statement, {"arena": self.arena}).fetchall()

    def votes(self) -> list[tuple[Any, ...]]:
        """Serial, kind and detail of every vote of a judge."""
        return self.rows(
            "SELECT serial, vote_kind(outcome, both_bad), detail FROM events "
            "WHERE arena = %(arena)s AND kind = 1 AND source = 1"
        )

    def count(self, kind: int) -> int:
        found = self.rows(f"SELECT count(*) FROM events WHERE arena = %(arena)s AND kind = {kind}")
        return int(found[0][0])

    def another_token(self, *scopes: str) -> str:
        return make_token(self.site.database, *scopes)


def judged_arena(site: Served, folder: Path, models: int = 4, prompts: int = 6) -> JudgedArena:
    """A new arena on a server that runs."""
    name = f"arena-{uuid4().hex[:12]}"
    made = made_arena(site.database, models, prompts, name=name)
    return JudgedArena(site, folder, made.arena, name, make_token(site.database, "judge"))
