"""Both databases, and clocks that do not keep the tests waiting."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from support.billed_judges import shorten
from support.postgres_servers import postgres

_numbers = itertools.count()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    with postgres() as address:
        yield address


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A new, empty database of either kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/ledger.sqlite"
    return new_postgres(str(request.getfixturevalue("postgres_server")))


@pytest.fixture
def file(tmp_path: Path) -> str:
    """A new SQLite file."""
    return f"sqlite:///{tmp_path}/ledger.sqlite"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits a hundred times shorter."""
    shorten(monkeypatch)


def new_postgres(address: str) -> str:
    """An empty schema; a database of its own would take half a second to make and to remove."""
    name = f"ledger_{next(_numbers)}"
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    return f"{address}?options=-csearch_path%3D{name}"
