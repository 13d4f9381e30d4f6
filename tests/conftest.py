"""Settings and fixtures that all tests share: a PostgreSQL for each test process, a fresh database for each test."""

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from postgres_servers import DEBIAN, fresh_database, migrated_template, postgres

settings.register_profile(
    "repeatable",
    deadline=None,
    derandomize=True,
    max_examples=30,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("repeatable")


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The address of PostgreSQL 18's maintenance database."""
    with postgres() as url:
        yield url


@pytest.fixture(scope="session")
def debian() -> Iterator[str]:
    """The same of Debian's PostgreSQL 15."""
    if not (DEBIAN / "initdb").exists() and "TILTYARD_TEST_NEEDS_DEBIAN" not in os.environ:
        pytest.skip(f"PostgreSQL 15 is not in {DEBIAN}; apt install postgresql-15 to test with it")
    with postgres(DEBIAN) as url:
        yield url


@pytest.fixture(scope="session")
def template(server: str) -> str:
    """The name of a database with our tables, to be copied."""
    return migrated_template(server)


@pytest.fixture
def database(server: str, template: str) -> Iterator[str]:
    """The address of a fresh database with our tables."""
    with fresh_database(server, template) as url:
        yield url
