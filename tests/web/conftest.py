"""Served databases with one open arena in them, called ``arena``: four models, six prompts."""

from collections.abc import Iterator

import pytest

from support.operating import copied, voted_database
from support.postgres_servers import fresh_database
from support.served import Served, served


@pytest.fixture
def site(arena_database: str) -> Iterator[Served]:
    """A server of the test's own."""
    with served(arena_database) as running:
        yield running


@pytest.fixture(scope="module")
def shared(server: str, arena_template: str) -> Iterator[Served]:
    """A server for all tests of a module, which leave it as good as they found it."""
    with fresh_database(server, arena_template) as database, served(database) as running:
        yield running


@pytest.fixture(scope="module")
def prepared(server: str, template: str) -> Iterator[str]:
    """The name of a database with a voted arena and an operator, to be copied."""
    with voted_database(server, template) as name:
        yield name


@pytest.fixture
def running(server: str, prepared: str) -> Iterator[Served]:
    """A server of the test's own, over a copy of that database."""
    with copied(server, prepared) as found:
        yield found


@pytest.fixture(scope="module")
def seen(server: str, prepared: str) -> Iterator[Served]:
    """Another one, for tests that change nothing."""
    with copied(server, prepared) as found:
        yield found
