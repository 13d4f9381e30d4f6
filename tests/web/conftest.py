"""Served databases with one open arena in them, called ``arena``: four models, six prompts."""

from collections.abc import Iterator

import pytest
from argon2 import PasswordHasher

from support.postgres_servers import fresh_database
from support.served import Served, served
from tiltyard.arena import accounts


@pytest.fixture(scope="session", autouse=True)
def _quick_passwords() -> Iterator[None]:
    """Passwords are hashed as always, only with less effort."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            accounts, "_hasher", lambda: PasswordHasher(time_cost=1, memory_cost=64, parallelism=1)
        )
        yield


@pytest.fixture
def site(database: str) -> Iterator[Served]:
    """A server of the test's own."""
    from support.live_arenas import made_arena

    made_arena(database)
    with served(database) as running:
        yield running


@pytest.fixture(scope="module")
def shared(server: str, template: str) -> Iterator[Served]:
    """A server for all tests of a module, which leave it as good as they found it."""
    from support.live_arenas import made_arena

    with fresh_database(server, template) as database:
        made_arena(database)
        with served(database) as running:
            yield running
