"""The page of one's own votes: for its voter alone, and blind until a vote is final."""

import pytest

from support.ballots import PATIENT
from support.live_arenas import made_arena
from support.matchup_texts import stored_id
from support.postgres_servers import fresh_database
from support.served import served
from support.voted_arenas import close_window, lay_votes, rate
from tiltyard.postgres.connections import connect

MINE = "/arenas/arena/mine"
NAMES = [f"model-{k}" for k in range(6)]


@pytest.fixture(scope="module")
def site(server, template, tmp_path_factory):
    """An arena with a board, in which visitors may vote."""
    with fresh_database(server, template) as url:
        made_arena(url, 6, 10, settings=PATIENT)
        lay_votes(url, 1, 300, 6, 10, sessions=20)
        rate(url)
        with served(url, folder=tmp_path_factory.mktemp("responses")) as running:
            yield running


def voter(site, votes=0, *, reveal=True, winner="model_a"):
    """A visitor with a session of its own, who has voted: the client, and matchups."""
    client = site.client()
    matchups = []
    for k in range(votes):
        matchup = client.post("/api/v1/arenas/arena/matchups").raise_for_status().json()["matchup"]
        chosen = winner if isinstance(winner, str) else winner[k]
        body = {"winner": chosen, "reveal": reveal}
        client.post(f"/api/v1/matchups/{matchup}/vote", json=body).raise_for_status()
        matchups.append(matchup)
    return client, matchups


def mine(client):
    answer = client.get(MINE, headers={"accept": "text/html"})
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "private, no-store"
    assert "etag" not in answer.headers
    return answer.text


def named(text):
    return {name for name in NAMES if name in text}


def sides(site, matchup):
    one = stored_id(matchup)
    with connect(site.database) as connection:
        a, b, prompt = connection.execute(
            "SELECT a, b, prompt FROM matchups WHERE matchup = %s", (one,)
        ).fetchone()
    return {f"model-{a}", f"model-{b}"}, f"What about {prompt}?"


def test_whoever_has_not_voted_is_told_how(visit, site):
    with connect(site.database) as connection:
        before = connection.execute("SELECT count(*) FROM sessions").fetchone()
    opened = visit(MINE, js=False)
    assert "have not voted" in opened.page.locator("main").inner_text()
    assert opened.page.locator("main").get_by_role("button", name="Vote").is_visible()
    assert opened.page.context.cookies() == []
    with connect(site.database) as connection:
        assert connection.execute("SELECT count(*) FROM sessions").fetchone() == before
    opened.check()


def test_a_vote_that_can_be_undone_shows_no_name(site):
    client, (matchup,) = voter(site, 1, reveal=False)
    text = mine(client)
    assert named(text) == set()
    assert matchup not in text
    names, prompt = sides(site, matchup)
    assert prompt not in text
    assert "not been shown" in text
    client.post(f"/api/v1/matchups/{matchup}/undo").raise_for_status()
    text = mine(client)
    assert named(text) == set()
    assert "not been shown" not in text
    client, (matchup,) = voter(site, 1, reveal=False)
    client.post(f"/api/v1/matchups/{matchup}/reveal").raise_for_status()
    names, prompt = sides(site, matchup)
    assert named(mine(client)) == names
    assert prompt in mine(client)


def test_a_vote_is_named_only_once_its_voter_was_told(site):
    client, matchups = voter(site, 2, reveal=False)
    assert named(mine(client)) == set()
    close_window(site.database)
    assert named(mine(client)) == set()
    told = client.post("/api/v1/arenas/arena/finish").json()["votes"]
    assert [vote["matchup"] for vote in told] == matchups
    assert all(vote["blind"] for vote in told)
    text = mine(client)
    assert named(text) == set().union(*(sides(site, matchup)[0] for matchup in matchups))
    assert all(matchup in text for matchup in matchups)


def test_nobody_sees_anothers_votes(site):
    one, matchups = voter(site, 3)
    other, _ = voter(site, 0)
    assert all(matchup in mine(one) for matchup in matchups)
    assert not any(matchup in mine(other) for matchup in matchups)
    forged = site.client(cookies={"tiltyard_session": "x" * 40 + ".aaaa"})
    assert "have not voted" in mine(forged)
