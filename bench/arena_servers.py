"""The servers under load: the embedded PostgreSQL 18, syncing every commit; web processes; a rater."""

from __future__ import annotations

import os
import pwd
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from arena_usage import family
from tiltyard.postgres.embedded_server import EmbeddedServer
from tiltyard.postgres.schema_migrations import migrate
from tiltyard.postgres.server_config import Postmaster
from tiltyard.settings.serving_settings import ServingSettings
from tiltyard.web.child_process import READY, ChildConfig

__all__ = ["House", "database", "serving"]


@dataclass
class House:
    """Everything that runs, by process number."""

    home: Path
    url: str
    binaries: Path
    postmaster: int
    port: int = 0
    web: list[int] = field(default_factory=list)
    rater: list[int] = field(default_factory=list)

    def groups(self, **more: list[int]) -> dict[str, list[int]]:
        """Process numbers by group, for `arena_usage`."""
        return {"web": self.web, "PostgreSQL": family(self.postmaster), "rater": self.rater, **more}


@contextmanager
def database(home: Path) -> Iterator[House]:
    """The server of a home, with our tables."""
    home.mkdir(parents=True, exist_ok=True, mode=0o755)
    with EmbeddedServer(home, user=_user()) as server:
        migrate(server.url)
        found = Postmaster.read(server.data)
        assert found is not None
        yield House(home, server.url, server.programs.folder, found.pid)


@contextmanager
def serving(
    house: House,
    *,
    web: int = 2,
    rater: bool = True,
    profiles: Path | None = None,
    settings: ServingSettings | None = None,
) -> Iterator[House]:
    """Web processes that share a port, and a rater: the children of `tiltyard serve`, started as it does.

    With ``profiles`` each writes there where its time went, and is slower for it. ``settings``: of a service that others
    can reach; otherwise there are no limits.
    """
    with ExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=1024))
        house.port = listening.getsockname()[1]
        settings = settings or ServingSettings(new_sessions_per_minute=0, live_turns=1_000)
        settings = replace(settings, port=house.port, workers=max(web, 1))
        parts = ["web"] * web + ["rater"] * rater
        started = [
            stack.enter_context(
                _child(house, part, settings, listening.fileno(), profiles and profiles / f"{number}-{part}")
            )
            for number, part in enumerate(parts)
        ]
        for child in started:
            assert child.stdout is not None
            told = child.stdout.readline().decode().strip()
            if told != READY:
                raise RuntimeError(f"a child of the house did not start: {told}")
        house.web, house.rater = (
            [child.pid for child in started[:web]],
            [child.pid for child in started[web:]],
        )
        yield house
        house.web, house.rater = [], []


@contextmanager
def _child(
    house: House, part: str, settings: ServingSettings, descriptor: int, profile: Path | None
) -> Iterator[subprocess.Popen[bytes]]:
    own = {"TILTYARD_HOME": str(house.home), "DATABASE_URL": house.url}
    own |= {} if profile is None else {"BENCH_PROFILE": str(profile)}
    started = (
        [Path(__file__).parent / "arena_profile.py"] if profile else ["-m", "tiltyard.web.child_process"]
    )
    with subprocess.Popen(
        [sys.executable, *started],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=[descriptor],
        env={**os.environ, **own, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
    ) as child:
        assert child.stdin is not None
        orders = ChildConfig(part, house.url, settings, descriptor if part == "web" else None)
        child.stdin.write(orders.to_line())
        child.stdin.flush()
        yield child


def _user() -> str | None:
    """The user that runs the server: PostgreSQL does not run as root."""
    if os.getuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"
