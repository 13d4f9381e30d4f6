"""Votes in a browser, with and without scripts, through a proxy that sends each request to either of two processes."""

import time

import pytest
from playwright.sync_api import expect

from support.ballots import SCRIPTS, bar, clickable, matchup_of, settled, stage, start
from support.postgres_servers import fresh_database
from support.replicas import ARENAS, LOOK_SECONDS, add_arenas, marks, replicas
from support.sizes import sized

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(server, template, tmp_path_factory):
    """A service of two processes."""
    home = tmp_path_factory.mktemp("home")
    with fresh_database(server, template) as database:
        add_arenas(database, home)
        with replicas(database, home) as proxy:
            proxy.database = database
            yield proxy


@pytest.mark.parametrize("votes", [sized(20, 500)])
@pytest.mark.parametrize("js", SCRIPTS)
@pytest.mark.parametrize("arena", ARENAS)
def test_no_honest_vote_is_unseen_or_refused(site, visit, arena, js, votes):
    before = marks(site.database, arena).get(None, 0)
    pages = [visit(f"/arenas/{arena}/vote", js=js).page for _ in range(2 if votes < 100 else 20)]
    for page in pages:
        start(page)
    for _ in range(votes // len(pages)):
        time.sleep(LOOK_SECONDS)
        for page in pages:
            if js:
                settled(page)
            shown = matchup_of(page)
            clickable(page)
            bar(page, "Tie").click()
            expect(stage(page)).not_to_have_attribute("data-matchup", shown)
    assert marks(site.database, arena) == {None: before + votes}
    assert len({server for _, server in site.passed}) == 2
