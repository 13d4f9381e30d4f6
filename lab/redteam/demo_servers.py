"""Real servers for attacks: PostgreSQL with the demo arena, and `tiltyard serve` on a public or a private address."""

from __future__ import annotations

import asyncio
import os
import pwd
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from tiltyard.arena.demo_arena import fill_demo_arena
from tiltyard.arena.registry import open_registry
from tiltyard.cli.demo import demo_script
from tiltyard.client import Client
from tiltyard.errors import TiltyardError
from tiltyard.postgres.connections import connect
from tiltyard.postgres.embedded_server import EmbeddedServer
from tiltyard.postgres.schema_migrations import migrate
from tiltyard.settings.environment import Environment
from tiltyard.settings.serving_settings import ServingSettings

ARENA = "demo"
#: The address that makes an arena a public one; nobody resolves it.
_PUBLIC_URL = "http://arena.example.org"
_START_SECONDS, _POLL_SECONDS = 400.0, 0.2


@contextmanager
def open_server(home: Path) -> Iterator[str]:
    """The address of an empty database of its own server."""
    home.mkdir(parents=True, exist_ok=True)
    home.chmod(0o755)
    with EmbeddedServer(home, user=_database_user()) as server:
        migrate(server.url)
        yield server.url


def _database_user() -> str | None:
    """The user that runs the server: PostgreSQL does not run as root."""
    if os.getuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"


def fill_arena(url: str, home: Path, votes: int, seed: int) -> None:
    """Let the demo's people vote, on a private address, where every vote counts."""

    async def fill() -> None:
        environment = Environment(home=home, database_url=url, variables={})
        async with open_registry(url, environment, ServingSettings()) as registry:
            await fill_demo_arena(registry, demo_script(), votes=votes, seed=seed)

    asyncio.run(fill())


@contextmanager
def copy_database(url: str, name: str) -> Iterator[str]:
    """A copy of a database that nobody else uses now, which is gone afterwards."""
    with connect(url) as connection:
        (source,) = connection.execute("SELECT current_database()").fetchone() or ("",)
    copied, maintenance = (urlsplit(url)._replace(path=f"/{path}").geturl() for path in (name, "postgres"))
    _execute(maintenance, f'CREATE DATABASE "{name}" TEMPLATE "{source}"')
    try:
        yield copied
    finally:
        _execute(maintenance, f'DROP DATABASE "{name}" WITH (FORCE)')


def _execute(url: str, text: str) -> None:
    with connect(url) as connection:
        connection.autocommit = True
        connection.execute(text.encode())


@contextmanager
def serve(url: str, home: Path, *, public: bool) -> Iterator[str]:
    """`tiltyard serve` with default settings; its address on this machine."""
    with _process(url, home, "all", public=public) as address:
        yield address


@contextmanager
def serve_replicas(url: str, home: Path) -> Iterator[list[str]]:
    """Two web processes and a rater of a public installation, started apart; the addresses of both on this machine."""
    with (
        _process(url, home, "rater", public=True),
        _process(url, home, "web", public=True) as one,
        _process(url, home, "web", public=True) as other,
    ):
        yield [one, other]


@contextmanager
def _process(url: str, home: Path, role: str, *, public: bool) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    variables = {"TILTYARD_HOME": str(home), "DATABASE_URL": url, "OPENBLAS_NUM_THREADS": "1"}
    if public:
        variables |= {"TILTYARD_BASE_URL": _PUBLIC_URL, "TILTYARD_TRUSTED_PROXIES": "none"}
    log_path = home / f"serve-{port}.log"
    with log_path.open("wb") as log:
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and arguments
            [sys.executable, "-m", "tiltyard", "serve", "--role", role, "--port", str(port)],
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **variables},
        )
        try:
            address = f"http://127.0.0.1:{port}"
            if role != "rater":
                _wait_until_ready(address, process, log_path)
            yield address
        finally:
            process.terminate()
            process.wait(60)


def _wait_until_ready(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < end:
        try:
            with Client(address, patience=0.0) as client:
                client.arenas()
        except TiltyardError:
            time.sleep(_POLL_SECONDS)
        else:
            return
    raise TiltyardError(f"tiltyard serve did not start: {log.read_text(errors='replace')[-1000:]}")
