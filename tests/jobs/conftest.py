"""Both databases for every test, and what must hold after each."""

import gc
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from support.postgres_servers import postgres
from support.worker_process import Journal


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    with postgres() as address:
        yield address


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A new, empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/state/dbos.sqlite"
    address = str(request.getfixturevalue("server"))
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS dbos CASCADE")
    return address


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal")


@pytest.fixture(autouse=True)
def nothing_is_left_running() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    gc.collect()
    for thread in set(threading.enumerate()) - before:
        thread.join(timeout=30)
        assert not thread.is_alive(), f"{thread.name} was left running"
