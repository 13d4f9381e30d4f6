"""The gate in a browser: its script computes the proof, and the voter gets the first matchup."""

import pytest
from playwright.sync_api import expect

from support.ballots import VOTE, needs_bundle, start
from support.live_arenas import made_arena
from support.postgres_servers import fresh_database
from support.served import served
from tiltyard.postgres.connections import connect
from tiltyard.settings.arena_settings import ArenaSettings


@pytest.fixture(scope="module")
def site(server, template):
    with fresh_database(server, template) as database:
        made_arena(database, settings=ArenaSettings(gate="proof"))
        with served(database) as running:
            yield running


@needs_bundle
def test_a_browser_passes_the_gate_while_its_voter_presses_start(visit, site):
    opened = visit(VOTE)
    start(opened.page)
    opened.check()
    with connect(site.database) as connection:
        assert connection.execute("SELECT gate FROM sessions").fetchall() == [(1,)]
    expect(opened.page.locator("[data-island=gate]")).to_have_count(0)
