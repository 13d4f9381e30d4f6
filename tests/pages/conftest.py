"""A real browser, and the real app on a real PostgreSQL for it to visit."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from playwright.sync_api import Browser, BrowserContext, Playwright, expect, sync_playwright

from support.browsing import DESKTOP, PHONE, Visit
from support.postgres_servers import fresh_database
from support.served import Served, make_operator, served

#: Chromium without its windows: the same pages for less than half of the time.
_CHROMIUM = "/usr/bin/chromium-headless-shell"
_FLAGS = [
    "--no-sandbox",
    "--disable-background-networking",
    "--disable-quic",
    "--disable-gpu",
    "--in-process-gpu",
    "--renderer-process-limit=1",
]


#: A page may take its time on a busy machine; what never comes fails all the same.
expect.set_options(timeout=60_000)

#: What is tried at both sizes, in both themes, with and without scripts is tried at one end of the diagonal in every
#: run (desktop, light, with scripts; or phone, dark, without), and elsewhere by name.
_AWAY = (
    {"desktop", "plain"},
    {"phone", "script"},
    {"phone", "scripts"},
    {"desktop", "dark"},
    {"phone", "light"},
)
_ENDS = frozenset({"desktop", "phone", "script", "scripts", "plain", "light", "dark"})
#: Modules whose flows are tried on a phone by name only: what a phone shows of their pages, every run looks at
#: elsewhere (`test_every_page`).
_DESK = {"test_operator_flows", "test_operator_reading", "test_board_browsing", "test_model_page"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow what is off the diagonal, and one of its ends: which one, the name of the test decides."""
    here = Path(__file__).parent
    ends: dict[tuple[str, frozenset[str]], list[pytest.Item]] = {}
    for item in items:
        callspec = getattr(item, "callspec", None)
        if callspec is None or here not in item.path.parents:
            continue
        parts = frozenset(callspec.id.split("-"))
        if any(away <= parts for away in _AWAY) or ("phone" in parts and item.path.stem in _DESK):
            item.add_marker(pytest.mark.slow)
        elif parts & _ENDS and item.get_closest_marker("slow") is None:
            ends.setdefault((item.nodeid.partition("[")[0], parts - _ENDS), []).append(item)
    for (test, _), found in ends.items():
        kept = found[crc32(test.encode()) % len(found)]
        for item in found:
            if item is not kept:
                item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="package")
def driver() -> Iterator[Playwright]:
    """What drives Chromium, started once for all tests of pages in a process.

    While it runs, its event loop counts as running in this thread; so what starts a loop of its own does so in
    another thread.
    """
    run = asyncio.run

    def elsewhere(coroutine: Any, **options: Any) -> Any:
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(run, coroutine, **options).result()

    with pytest.MonkeyPatch.context() as patched, sync_playwright() as playwright:
        patched.setattr(asyncio, "run", elsewhere)
        yield playwright


@pytest.fixture(scope="package")
def browser(driver: Playwright) -> Iterator[Browser]:
    """One Chromium for all tests of pages in a process."""
    started = driver.chromium.launch(executable_path=_CHROMIUM, args=_FLAGS)
    yield started
    started.close()


@pytest.fixture(scope="module")
def site(server: str, arena_template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A served database for all tests of a module: an arena called ``arena``, and the operator Ada."""
    with fresh_database(server, arena_template) as database:
        make_operator(database)
        with served(database, folder=tmp_path_factory.mktemp("responses")) as running:
            yield running


Opened = Callable[..., Visit]


@pytest.fixture
def visit(browser: Browser, site: Served) -> Iterator[Opened]:
    """Open a path of the site as a new visitor: ``visit(path, js=True, size=DESKTOP, theme=None)``."""
    contexts: list[BrowserContext] = []

    def opened(
        path: str,
        *,
        js: bool = True,
        size: tuple[int, int] = DESKTOP,
        theme: str | None = None,
        base: str | None = None,
        check: bool = True,
        **options: Any,
    ) -> Visit:
        phone = size == PHONE
        context = browser.new_context(
            java_script_enabled=js,
            viewport={"width": size[0], "height": size[1]},
            color_scheme=theme,
            has_touch=phone,
            **options,
        )
        contexts.append(context)
        context.set_default_timeout(60_000)
        made = Visit(context.new_page(), base or site.url)
        if check:
            made.watch()
        made.page.goto(made.site + path)
        return made

    yield opened
    for context in contexts:
        context.close()
