"""Settings and fixtures that all tests share: a PostgreSQL for each test process, a fresh database for each test."""

import asyncio
import gc
import inspect
import json
import os
import signal
import ssl
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from support.postgres_servers import DEBIAN, fresh_database, kept_database, migrated_template, postgres
from support.sizes import sized

settings.register_profile(
    "repeatable",
    deadline=None,
    derandomize=True,
    max_examples=sized(12, 60),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("repeatable")


# Every HTTP client reads the machine's certificates, 20 ms each: a fifth of the gate's time. Tests speak to loopback.
ssl.create_default_context = cache(ssl.create_default_context)

# A shell that starts the tests in the background ignores Ctrl-C for them, and so would whatever they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep in the gate some variants of a slow test: ``but`` names ids, ``but_every=4`` takes every fourth."""
    seen: Counter[str] = Counter()
    for item in items:
        slow = item.get_closest_marker("slow")
        callspec = getattr(item, "callspec", None)
        if slow is None or callspec is None or not slow.kwargs:
            continue
        test = item.nodeid.partition("[")[0]
        but, every = slow.kwargs.get("but", ()), slow.kwargs.get("but_every")
        named = callspec.id in ((but,) if isinstance(but, str) else but)
        if named or (every is not None and seen[test] % every == 0):
            item.own_markers.remove(slow)
        seen[test] += 1


def pytest_collection_finish() -> None:
    """A command that fails collects garbage: without what was imported and collected that takes 7 ms and not 190."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """Libraries that count what is left at the end find nothing."""
    gc.unfreeze()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an asynchronous test on an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


@pytest.fixture(scope="session")
def _quick_passwords() -> Iterator[None]:
    """Passwords are hashed as always, only with less effort: a quarter of a second of CPU for each otherwise."""
    from argon2 import PasswordHasher

    from tiltyard.arena import accounts

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            accounts, "_hasher", lambda: PasswordHasher(time_cost=1, memory_cost=64, parallelism=1)
        )
        yield


@pytest.fixture(scope="session")
def server(_quick_passwords: None) -> Iterator[str]:
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


@pytest.fixture(scope="session")
def arena_template(server: str, template: str) -> str:
    """The name of a database with one open arena, called ``arena``: four models, six prompts."""
    from support.live_arenas import made_arena

    return kept_database(server, template, "arena", made_arena)


@pytest.fixture
def arena_database(server: str, arena_template: str) -> Iterator[str]:
    """The address of a copy of it."""
    with fresh_database(server, arena_template) as url:
        yield url


@pytest.fixture
def read_uploads_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Uploads are read by this process, with the same program: one of their own for each takes a second of CPU."""
    from tiltyard.files import upload_process

    alone = threading.Lock()

    def run(reader: Any) -> str | None:
        choice = json.dumps(None if reader.choice is None else asdict(reader.choice))
        with alone, pytest.MonkeyPatch.context() as patched:
            patched.setattr(upload_process, "_limit", lambda: None)
            arguments = ["", str(reader.path), str(reader.folder), str(reader.most), choice]
            patched.setattr(upload_process, "sys", SimpleNamespace(argv=arguments))
            patched.setattr(upload_process, "os", SimpleNamespace(_exit=sys.exit))
            try:
                upload_process.main()
            except (Exception, SystemExit):
                return "its reader failed"
        return None

    monkeypatch.setattr(upload_process, "_run", run)


@pytest.fixture(scope="module")
def without_charts() -> Iterator[None]:
    """Pages have no charts, as without the extra `plots`: they take most of the time that a page takes."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("tiltyard.report.board_charts.find_spec", lambda _: None)
        yield
