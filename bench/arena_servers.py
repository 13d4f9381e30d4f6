"""The servers under load: the embedded PostgreSQL 18, syncing every commit; web processes; a rater."""

from __future__ import annotations

import cProfile
import multiprocessing
import os
import pwd
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from ctypes import c_double
from dataclasses import dataclass, field, replace
from pathlib import Path

from arena_usage import family
from tiltyard.postgres.embedded_server import EmbeddedServer, Postmaster
from tiltyard.postgres.schema_migrations import migrate
from tiltyard.settings.serving_settings import ServingSettings
from tiltyard.web.server.supervisor import ChildConfig, run_child


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
    proxy: list[int] = field(default_factory=list)

    def groups(self, **more: list[int]) -> dict[str, list[int]]:
        """Process numbers by group, for `arena_usage`."""
        return {
            "web": self.web,
            "PostgreSQL": family(self.postmaster),
            "rater": self.rater,
            "proxy": self.proxy,
            **more,
        }


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
        configs = [ChildConfig("web", house.url, settings, listening) for _ in range(web)]
        configs += [ChildConfig("rater", house.url, settings)] * rater
        started = [
            stack.enter_context(_child(house, config, profiles and profiles / f"{number}-{config.part}"))
            for number, config in enumerate(configs)
        ]
        house.web, house.rater = started[:web], started[web:]
        yield house
        house.web, house.rater = [], []


@contextmanager
def _child(house: House, config: ChildConfig, profile: Path | None) -> Iterator[int]:
    """A child that is ready; yields its process number."""
    context = multiprocessing.get_context("spawn")
    beat_at = context.RawValue(c_double, 0.0)
    child = context.Process(target=_run, args=(config, beat_at, profile))
    os.environ |= {"TILTYARD_HOME": str(house.home), "DATABASE_URL": house.url}
    os.environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    child.start()
    try:
        while not beat_at.value:
            if not child.is_alive():
                raise RuntimeError(f"a {config.part} process did not start")
            time.sleep(0.01)
        assert child.pid is not None
        yield child.pid
    finally:
        child.terminate()
        child.join()


def _run(config: ChildConfig, beat_at: c_double, profile: Path | None) -> None:
    if profile is None:
        run_child(config, beat_at)
        return
    profiler = cProfile.Profile(time.process_time)
    try:
        profiler.runcall(run_child, config, beat_at)
    finally:
        profiler.dump_stats(profile)


def _user() -> str | None:
    """The user that runs the server: PostgreSQL does not run as root."""
    if os.getuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"
