"""Which board may be cited: one that is kept, and that rests on no vote which was excluded since."""

import asyncio
import re

import pytest

from support.live_arenas import make_arena, voting_queue_of
from support.postgres_servers import fresh_database
from support.served import make_token, served
from support.shown_boards import PAGE, board
from support.voted_arenas import cast, close_window, lay_votes, rate, rate_and_show
from tiltyard.client import Client
from tiltyard.core.policy.state.policy import Policy
from tiltyard.postgres.connections import connect

ARENA = "/api/v1/arenas/arena"
#: The laid votes are those of 20 sessions; this is one of them.
SESSION = 3


class Place:
    """A served arena of 600 votes, whose operator excludes votes and lets them in again."""

    def __init__(self, running):
        self.running = running
        self.reader = running.client()
        self.operator = running.client(make_token(running.database, "admin"))

    def rate(self):
        rate_and_show(self.running)

    def exclude(self, **which):
        answer = self.operator.post(f"{ARENA}/exclusions", json={"reason": "a bot", **which})
        assert answer.status_code == 201, answer.text
        self.rate()
        return answer.json()

    def snapshots(self):
        return self.reader.get(f"{ARENA}/snapshots").json()["snapshots"]

    def page(self, sha256):
        answer = self.reader.get(f"/arenas/arena/boards/{sha256}", headers=PAGE)
        assert answer.status_code == 200
        return " ".join(answer.text.split())


@pytest.fixture
def place(server, template, tmp_path):
    with fresh_database(server, template) as database:
        arena = asyncio.run(make_arena(database, 4, 60, policy=Policy(phase=4)))
        lay_votes(database, arena.arena, 610, 4, 60, sessions=20)
        rate(database)
        with served(database, folder=tmp_path) as running:
            made = Place(running)
            made.arena = arena
            yield made


def cited_of(html):
    """The boards that a page offers as "to cite", with the words of the link."""
    return re.findall(r'to cite: <a href="/arenas/arena/boards/([0-9a-f]{64})">([^<]*)</a>', html)


def test_a_board_says_how_long_it_is_kept_and_leads_to_one_that_can_be_cited(place):
    newest, *older = place.snapshots()
    assert not newest["evaluated"]
    assert not newest["citable"]
    evaluated = [one for one in older if one["evaluated"]]
    assert [one["citable"] for one in evaluated] == [True, True]
    html = board(place.reader).text
    assert re.search(r"kept at least until [^<;)]* UTC", html)
    ((cited, told),) = cited_of(html)
    assert (cited, "at 500 votes" in told) == (evaluated[0]["snapshot"], True)
    permanent = place.page(evaluated[0]["snapshot"])
    assert "(kept forever)" in permanent
    assert "to cite:" not in permanent
    assert "excluded since" not in permanent


@pytest.mark.slow
def test_nothing_that_counts_excluded_votes_is_offered_to_cite(place):
    before = place.snapshots()
    place.exclude(sessions=[SESSION])
    newest = place.snapshots()[0]
    assert newest["generation"] == 1
    assert not newest["evaluated"]
    html = board(place.reader).text
    assert not any(old["snapshot"] in html for old in before)
    cards = [
        place.reader.get(f"/arenas/arena/boards/{one}/card.svg").text
        for one in (before[0]["snapshot"], newest["snapshot"])
    ]
    assert ["do not cite" in card for card in cards] == [True, False]
    assert "(kept forever)" in html
    assert [one["snapshot"] for one in place.snapshots() if one["citable"]] == [newest["snapshot"]]
    asyncio.run(_more_votes(place, 3))
    html = board(place.reader).text
    ((cited, told),) = cited_of(html)
    assert (cited, f"at {newest['votes']} votes" in told) == (newest["snapshot"], True)
    assert cited_of(board(place.reader, category="").text) == cited_of(html)
    said = place.reader.get("/arenas/arena/board.json").json()
    assert said["citable"] == [newest["snapshot"]]
    with Client(place.running.url) as client:
        assert [one.snapshot for one in client.snapshots("arena") if one.citable] == [newest["snapshot"]]


def test_an_old_permalink_opens_and_says_what_was_excluded_since(place):
    old = next(one for one in place.snapshots() if one["evaluated"])
    first = place.exclude(sessions=[SESSION])
    counted = len(_votes_until(place, old["position"], SESSION))
    assert 0 < counted < first["votes"], "some of them came after that board"
    html = place.page(old["snapshot"])
    assert f"{counted} votes counted here" in html
    assert "not cite" in html
    assert "(kept forever)" in html
    assert "to cite:" not in html
    said = place.reader.get("/arenas/arena/board.json", params={"snapshot": old["snapshot"]}).json()
    assert (said["snapshots"], said["citable"]) == ([old["snapshot"]], [None])
    document = place.reader.get(f"{ARENA}/snapshots/{old['snapshot']}")
    assert document.status_code == 200, "what was published stays as it was"
    assert document.json()["generation"] == 0


async def _more_votes(place, votes):
    async with voting_queue_of(place.running.database, place.arena) as queue:
        await cast(queue, votes)
    close_window(place.running.database)
    await asyncio.to_thread(place.rate)


def _votes_until(place, position, session):
    with connect(place.running.database) as connection:
        rows = connection.execute(
            "SELECT m.matchup FROM endings e JOIN matchups m USING (arena, source, serial) "
            "WHERE e.kind = 1 AND e.position <= %s AND m.session = %s ORDER BY e.position",
            (position, session),
        ).fetchall()
    return [place.running.context.matchup_ids.format(matchup) for (matchup,) in rows]
