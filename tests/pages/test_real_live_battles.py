"""Live battles in a browser with two real LLM servers and a third that fails: before the vote no byte tells who answers.

Every byte that the browser gets goes through a tunnel that keeps it: headers, pages, scripts, events.
"""

from __future__ import annotations

import asyncio
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from support.ballots import needs_bundle
from support.browsing import PHONE, SIZES, follow
from support.faulty_upstream import TELLTALE, FaultyUpstream, faulty_upstream
from support.live_servers import LiveServer, live_servers, write_models_file
from support.live_sites import SETTINGS, local_environment
from support.postgres_servers import fresh_database
from support.served import Served, served
from tiltyard.arena.content.blob_store import BlobStore
from tiltyard.arena.content.object_storage import FolderStorage
from tiltyard.arena.live.entrant_pool import open_entrant
from tiltyard.arena.live.live_arena import live_settings, make_live_arena, read_entrants
from tiltyard.postgres.connections import connect, open_pool
from tiltyard.settings.arena_settings import ArenaSettings
from tiltyard.settings.live_models import LiveModels

pytestmark = [pytest.mark.slow, needs_bundle]

VOTE = "/arenas/live/vote"
COMPLETE = ".live-stage:not([data-running])"
#: The third entrant, which does what its script says.
FAULTY = "Grebe"
FAULTS = ["429", "500", "stall-first", "stall-middle", "garbage", "half"]
_READ_BYTES = 64 * 1024


class Tunnel:
    """Passes connections on to a server, and keeps what it sends."""

    def __init__(self, target: str) -> None:
        parts = urlsplit(target)
        self._target = (parts.hostname, parts.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._parts: list[bytes] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    @property
    def received(self) -> bytes:
        """Everything so far."""
        return b"".join(self._parts)

    def cut(self) -> None:
        """End all connections that are open."""
        for one in self._open:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self.cut()
        for one in [self._listener, *self._open]:
            one.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                browser, _ = self._listener.accept()
                web = socket.create_connection(self._target)
                self._open += [browser, web]
                for source, sink, seen in ((browser, web, self._asked), (web, browser, self._answered)):
                    threading.Thread(target=_pump, args=(source, sink, seen), daemon=True).start()

    def _asked(self, part: bytes) -> bytes:
        """Nothing is to come compressed: it could not be read here."""
        return part.replace(b"gzip", b"none")

    def _answered(self, part: bytes) -> bytes:
        self._parts.append(part)
        return part


def _pump(source: socket.socket, sink: socket.socket, seen: Callable[[bytes], bytes]) -> None:
    with suppress(OSError):
        while part := source.recv(_READ_BYTES):
            sink.sendall(seen(part))
    for one in (source, sink):
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


@dataclass
class World:
    """Three entrants, the site, and what was looked at."""

    site: Served
    upstream: FaultyUpstream
    servers: tuple[LiveServer, LiveServer]
    faulty_model: int
    battles: int = 0
    size: int = 0
    #: The words of pages that say that a battle is void, by fault.
    void_pages: dict[str, str] = field(default_factory=dict)

    @property
    def telling_words(self) -> set[str]:
        """What would tell who answers."""
        names = {*(one.name for one in self.servers), FAULTY, TELLTALE}
        addresses = {urlsplit(one.url).netloc for one in (*self.servers, self.upstream)}
        fields = {"openai", "chatcmpl", "system_fingerprint", "llama", "gguf", "retry-after: 1\r", "x-model"}
        return {word.lower() for word in names | addresses | fields}

    def let_answer(self, fault: str = "none") -> None:
        """Let the third entrant do this from now on, as one that has been well so far."""
        self.upstream.script(FAULTY.lower(), fault=fault, tokens=200, rate=80.0)
        entrants = self.site.run(self.site.registry.live_battles("live")).entrants
        self.site.run(entrants.refresh())
        self.site.run(entrants.note_health(entrants.of(self.faulty_model), None, ArenaSettings()))

    def has_faulty(self, page: Page) -> bool:
        """Whether the third entrant answers in the battle of this page. No page tells it."""
        found = self.site.context.matchup_ids.parse(_matchup(page))
        with connect(self.site.database) as connection:
            row = connection.execute("SELECT a, b FROM matchups WHERE matchup = %s", (found,)).fetchone()
        return row is not None and self.faulty_model in row

    def check_blind(self, tunnel: Tunnel) -> None:
        """Nothing that this browser got so far tells who answers."""
        told = tunnel.received.lower()
        assert b"text/event-stream" in told
        assert {word for word in self.telling_words if word.encode() in told} == set()
        self.battles += 1
        self.size += len(told)


def _matchup(page: Page) -> str:
    return urlsplit(page.url).path.rpartition("/")[2]


def _make_arena(database: str, folder: Path, models: Path) -> int:
    """A live arena of a models file; the number of the third entrant."""
    settings = live_settings(
        entry="open",
        undo_seconds=60.0,
        live_first_token_seconds=4.0,
        live_gap_seconds=4.0,
        live_identity="flag",
    )

    async def making() -> None:
        async with open_pool(database, most=2) as pool:
            blobs = BlobStore(pool, FolderStorage(folder))
            entrants = read_entrants(LiveModels.load(models))
            await make_live_arena(pool, blobs, "live", entrants, settings=settings)

    asyncio.run(making())
    with connect(database) as connection:
        row = connection.execute("SELECT model FROM live_entrants WHERE name = %s", (FAULTY,)).fetchone()
    assert row is not None
    return int(row[0])


@contextmanager
def _real_world(server: str, template: str, folder: Path) -> Iterator[World]:
    with (
        live_servers() as servers,
        faulty_upstream(process=True) as upstream,
        fresh_database(server, template) as database,
    ):
        third = {**servers[0].entry(), "name": FAULTY, "model": FAULTY.lower(), "base_url": upstream.base_url}
        # They write until their limit, so that there is a middle.
        real = [one.entry(options={"ignore_eos": True}) for one in servers]
        models = write_models_file(folder, more=[*real, third])
        faulty_model = _make_arena(database, folder, models)
        with served(database, folder=folder, settings=SETTINGS) as site:
            site.registry.open_entrant = partial(open_entrant, environment=local_environment())
            yield World(site, upstream, servers, faulty_model)


@pytest.fixture(scope="module")
def world(server, template, tmp_path_factory):
    with _real_world(server, template, tmp_path_factory.mktemp("real")) as made:
        yield made
        print(f"\n{made.battles} battles, {made.size:,} bytes before the vote: none tells who answers")


@pytest.fixture
def site(world):
    world.let_answer()
    return world.site


@dataclass
class Asked:
    """A voter who has asked something."""

    page: Page
    tunnel: Tunnel
    size: Any


@pytest.fixture
def ask(visit, world):
    """Ask as a new voter: ``ask(size)``."""
    tunnels = []

    def asked(size: Any, prompt: str = "How does a heron catch fish?") -> Asked:
        tunnel = Tunnel(world.site.url)
        tunnels.append(tunnel)
        page = visit(VOTE, size=size, base=tunnel.url).page
        page.locator("textarea").first.fill(prompt)
        follow(page.get_by_role("button", name="Ask both"))
        return Asked(page, tunnel, size)

    yield asked
    for tunnel in tunnels:
        tunnel.close()


def text_lengths(page: Page) -> list[int]:
    return page.locator(".turn:last-child .live-answer").evaluate_all(
        "all => all.map(one => one.textContent.trim().length)"
    )


def until_text(page: Page, least: int = 40) -> None:
    """Both sides show something."""
    page.wait_for_function(
        """least => [...document.querySelectorAll('.turn:last-child .live-answer')]
           .every(one => one.textContent.trim().length >= least)""",
        arg=least,
    )


def look_at_both(asked: Asked) -> None:
    if asked.size == PHONE:
        asked.page.locator("label:has(.tab-b)").click()
    expect(asked.page.locator(".ballot-row button").first).to_have_attribute("aria-disabled", "false")


def vote_and_see(world: World, asked: Asked, key: str = "1") -> list[str]:
    """Nothing was told; then the vote, and the names."""
    page = asked.page
    world.check_blind(asked.tunnel)
    look_at_both(asked)
    page.keyboard.press(key)
    expect(page.locator(".result")).to_contain_text("You voted")
    page.get_by_role("button", name="Show the names").click()
    names = page.locator(".named-model")
    expect(names).to_have_count(2)
    return [name.strip() for name in names.all_text_contents()]


@pytest.mark.parametrize("size", SIZES)
def test_a_battle_of_two_turns(ask, world, site, size):
    asked = ask(size)
    page = asked.page
    expect(page.locator(".sides")).to_have_attribute("aria-busy", "true")
    expect(page.locator(".ballot-row button").first).to_have_attribute("aria-disabled", "true")
    expect(page.locator(COMPLETE)).to_be_attached()
    page.get_by_label("Continue with the same two models").fill("And in winter?")
    follow(page.get_by_role("button", name="Send"))
    expect(page.locator(".turn")).to_have_count(4)
    expect(page.locator(COMPLETE)).to_be_attached()
    assert min(text_lengths(page)) > 0
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    names = vote_and_see(world, asked)
    assert len(set(names)) == 2
    assert set(names) < {"Kestrel", "Osprey", FAULTY}
    expect(page.locator(".live-figures:visible").first).to_contain_text("first word after")


@pytest.mark.parametrize("size", SIZES)
def test_stop(ask, world, site, size):
    asked = ask(size)
    page = asked.page
    until_text(page)
    page.get_by_role("button", name="Stop both").click()
    expect(page.locator(COMPLETE)).to_be_attached()
    expect(page.locator("[data-slot=status]")).to_have_text("Stopped. You can vote on what is here.")
    vote_and_see(world, asked, "3")


@pytest.mark.parametrize("size", SIZES)
def test_a_reload_in_the_middle(ask, world, site, size):
    asked = ask(size)
    page = asked.page
    until_text(page)
    before = text_lengths(page)
    page.reload()
    expect(page.locator(".live-answer").first).to_be_attached()
    assert all(now >= then for now, then in zip(text_lengths(page), before, strict=True))
    expect(page.locator(COMPLETE)).to_be_attached()
    written = page.locator(".live-answer").all_inner_texts()
    page.reload()
    assert page.locator(".live-answer").all_inner_texts() == written
    vote_and_see(world, asked, "2")


@pytest.mark.parametrize("size", SIZES)
def test_a_lost_connection(ask, world, site, size):
    """The models go on while nobody listens; the page gets all of it when it is back."""
    asked = ask(size)
    page = asked.page
    until_text(page)
    page.context.set_offline(True)
    # A browser that is told to be offline keeps the streams that it has.
    asked.tunnel.cut()
    expect(page.locator("[data-slot=status]")).to_contain_text("Connection lost.")
    page.context.set_offline(False)
    expect(page.locator(COMPLETE)).to_be_attached()
    written = page.locator(".live-answer").all_inner_texts()
    page.reload()
    assert page.locator(".live-answer").all_inner_texts() == written
    vote_and_see(world, asked, "4")


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_provider_that_fails(ask, world, site, fault, size):
    """The battle is void, in the same words whatever the cause, and its prompt is offered again."""
    asked = None
    for _ in range(12):
        world.let_answer(fault)
        asked = ask(size, f"What does the water do at {fault}?")
        if world.has_faulty(asked.page):
            break
        asked.page.get_by_role("button", name="Stop both").click()
    page = asked.page
    assert world.has_faulty(page)
    expect(page.get_by_role("heading", name="This battle does not count")).to_be_visible()
    said = re.sub(r"\s+", " ", page.locator("main").inner_text()).replace(fault, "…")
    world.void_pages.setdefault(fault, said)
    assert set(world.void_pages.values()) == {said}
    world.check_blind(asked.tunnel)
    page.goto(asked.tunnel.url + VOTE)
    world.let_answer()
    follow(page.get_by_role("button", name="New battle with the same prompt"))
    expect(page.locator(COMPLETE)).to_be_attached()
    vote_and_see(world, asked)
