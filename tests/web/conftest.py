"""Served databases with one open arena in them, called ``arena``: four models, six prompts."""

from collections.abc import Iterator
from typing import Any

import pytest
from argon2 import PasswordHasher
from fastapi import routing
from jinja2 import BytecodeCache, Environment
from jinja2.bccache import Bucket

from support.operating import copied, voted_database
from support.postgres_servers import fresh_database
from support.served import Served, served
from tiltyard.arena import accounts
from tiltyard.web.pages.layout import PageTemplates

# Every app reads the signatures of all routes and compiles the templates anew, two seconds of CPU; all apps of tests
# have the same.
_read_route = routing._EffectiveRouteContext.from_api_route
_made_environment = PageTemplates._made
#: With each route itself, so that no other gets its id.
_known_routes: dict[tuple[int, str], tuple[Any, routing._EffectiveRouteContext]] = {}


def _read_route_once(*, original_route: Any, include_context: Any) -> routing._EffectiveRouteContext:
    key = id(original_route), include_context.prefix
    if key not in _known_routes:
        read = _read_route(original_route=original_route, include_context=include_context)
        _known_routes[key] = original_route, read
    return _known_routes[key][1]


class _CompiledTemplates(BytecodeCache):
    def __init__(self) -> None:
        self._code: dict[str, bytes] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        if bucket.key in self._code:
            bucket.bytecode_from_string(self._code[bucket.key])

    def dump_bytecode(self, bucket: Bucket) -> None:
        self._code[bucket.key] = bucket.bytecode_to_string()


_COMPILED = _CompiledTemplates()


def _environment_with_compiled(templates: PageTemplates, localization: Any) -> Environment:
    environment = _made_environment(templates, localization)
    environment.bytecode_cache = _COMPILED
    return environment


routing._EffectiveRouteContext.from_api_route = _read_route_once
PageTemplates._made = _environment_with_compiled


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
