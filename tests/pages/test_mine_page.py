"""The page of one's own votes: for its voter alone, and blind until a vote is final."""

import re

import pytest

from support.ballots import PATIENT
from support.browsing import SIZES
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


def browsed(visit, client, **options):
    """The page in a browser that has this visitor's cookie."""
    opened = visit(MINE, **options)
    cookie = client.cookies.get("tiltyard_session")
    opened.page.context.add_cookies([{"name": "tiltyard_session", "value": cookie, "url": opened.site}])
    opened.page.goto(opened.site + MINE)
    return opened


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


def test_outcomes_and_agreement_are_counted(visit, site):
    chosen = ["model_a", "model_b", "tie", "both_bad", "model_b", "model_a", "model_b"]
    client, matchups = voter(site, 7, winner=chosen)
    page = browsed(visit, client, js=False).page
    assert [" ".join(one.split()) for one in page.locator(".outcomes li").all_inner_texts()] == [
        "2 A better",
        "3 B better",
        "1 tie",
        "1 both bad",
    ]
    rank = {row["model"]: row["rank"] for row in client.get("/api/v1/arenas/arena/board").json()["rows"]}
    agreed = 0
    for matchup, winner in zip(matchups, chosen, strict=True):
        shown = client.post(f"/api/v1/matchups/{matchup}/reveal").json()
        higher = "model_a" if rank[shown["model_a"]] < rank[shown["model_b"]] else "model_b"
        agreed += winner == higher
    figures = page.locator(".figures-row").inner_text()
    assert f"{agreed} of 5" in figures
    assert page.locator(".own-votes li").count() == 7


@pytest.mark.parametrize("size", SIZES)
def test_few_votes_claim_little(visit, site, size):
    client, _ = voter(site, 6)
    opened = browsed(visit, client, js=False, size=size)
    page = opened.page
    cells = page.evaluate(
        "[...document.querySelectorAll('table tbody tr')].map(row => [...row.cells].map(cell => cell.innerText.trim()))"
    )
    assert cells
    for row in cells:
        assert re.fullmatch(r"≈ 1,\d\d0|–", row[3])
        assert row[4] == "–"
    assert "first impression" in page.locator("main").inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    page.locator("summary").first.focus()
    page.keyboard.press("Enter")
    assert "Fewer than 30 battles" in page.locator("main").inner_text()
    opened.check()
