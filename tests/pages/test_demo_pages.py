"""The demo's arena in a browser: every page has something to show, and every kind of response is shown as it should be."""

import asyncio
import re
from pathlib import Path

import pytest

from support.browsing import DESKTOP, PHONE, sign_in
from support.page_routes import LINKED
from support.postgres_servers import fresh_database
from support.served import make_operator, served
from tiltyard.arena.content.blob_store import BlobStore
from tiltyard.arena.content.object_storage import FolderStorage
from tiltyard.arena.demo_arena import fill_demo_arena
from tiltyard.arena.registry import ArenaRegistry
from tiltyard.cli.demo import demo_script
from tiltyard.postgres.connections import open_pool
from tiltyard.settings.serving_settings import ServingSettings
from tiltyard.simulation.demo.demo_roster import MODELS, NEWCOMER, RETIRED

ARENA = "/arenas/demo"
DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def site(server, template, tmp_path_factory):
    """A served demo with a few votes, and the operator Ada."""
    folder = tmp_path_factory.mktemp("responses")

    async def filling(url):
        async with open_pool(url, most=8) as pool:
            registry = ArenaRegistry(ServingSettings(), url, pool, BlobStore(pool, FolderStorage(folder)))
            await fill_demo_arena(registry, demo_script(), votes=120, seed=7)

    with fresh_database(server, template) as database:
        asyncio.run(filling(database))
        make_operator(database)
        with served(database, folder=folder) as running:
            yield running


def test_every_picture_is_small_and_shown_in_the_docs():
    shown = set(
        re.findall(r"images/pages/([\w-]+\.png)", "".join(page.read_text() for page in DOCS.rglob("*.md")))
    )
    there = {picture.name: picture.stat().st_size for picture in (DOCS / "images" / "pages").glob("*.png")}
    assert shown == set(there)
    assert max(there.values()) < 150_000


def served_to(opened, words, kind):
    """Skip until such a matchup comes; it stays before this voter."""
    request, headers = opened.page.context.request, {"origin": opened.site}
    for _ in range(400):
        matchup = request.post(f"{opened.site}/api/v1{ARENA}/matchups", headers=headers).json()
        kinds = {side["kind"] for side in matchup["responses"].values()}
        if words in matchup["prompt"]["text"] and kinds == {kind}:
            opened.page.goto(f"{opened.site}{ARENA}/vote")
            return opened.page
        request.post(f"{opened.site}/api/v1/matchups/{matchup['matchup']}/skip", headers=headers)
    raise AssertionError(f"no matchup of {kind} came")


READERS = [
    "/",
    ARENA,
    f"{ARENA}?source=both",
    f"{ARENA}?category=code",
    f"{ARENA}?chart=history",
    f"{ARENA}/models/argent-70b",
    f"{ARENA}/models/{NEWCOMER}",
    f"{ARENA}/models/{RETIRED}",
    f"{ARENA}/mine",
    f"{ARENA}/vote",
]


@pytest.mark.slow
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_every_page_of_readers_opens_and_fits(visit, size):
    opened = visit("/", size=size)
    for path in READERS:
        opened.page.goto(opened.site + path)
        assert opened.page.get_by_role("heading", level=1).count() == 1, path
        assert opened.page.evaluate("document.documentElement.scrollWidth") <= size[0], path
    opened.check()


@pytest.mark.slow
def test_every_page_of_the_operator_opens_and_fits(visit):
    opened = visit("/operator/sign-in", size=PHONE)
    sign_in(opened)
    opened.page.get_by_role("button", name="Sign out").wait_for()
    for name in LINKED:
        path = f"/operator/arenas/demo{name}"
        answer = opened.page.goto(opened.site + path)
        assert answer.status == 200, path
        assert opened.page.get_by_role("heading", level=1).count() == 1, path
        assert opened.page.evaluate("document.documentElement.scrollWidth") <= PHONE[0], path
    opened.check()


@pytest.mark.slow
def test_the_list_of_voters_fits_a_desktop(visit):
    opened = visit("/operator/sign-in", size=DESKTOP)
    sign_in(opened, "/operator/arenas/demo/voters")
    region = opened.page.get_by_role("region", name="Voters")
    assert region.evaluate("one => one.scrollWidth - one.clientWidth") == 0
    opened.check()


@pytest.mark.slow
def test_the_board_has_every_model(visit):
    text = visit(ARENA).page.locator("table").first.inner_text()
    assert [model for model in MODELS if model not in text] == []


@pytest.mark.slow
def test_an_app_works_in_its_box(visit):
    opened = visit(f"{ARENA}/vote")
    page = served_to(opened, "tally counter", "app")
    frame = page.frame_locator(".stage:not(.stage-ahead) .side-a iframe")
    frame.get_by_role("button").first.click()
    frame.get_by_text("1", exact=True).first.wait_for()
    opened.check()
