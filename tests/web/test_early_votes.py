"""Votes before a look at both responses, and votes of new voters, over HTTP: kept, told, and off the official board."""

from functools import partial

import pytest

from support.live_arenas import let_time_pass, made_arena
from support.postgres_servers import fresh_database
from support.replayed_logs import replay_log
from support.rewritten_logs import allow_rewriting
from support.served import served
from support.voted_arenas import close_window, lay_votes, rate
from tiltyard.arena.log.event_log import HUMAN
from tiltyard.postgres.connections import connect
from tiltyard.settings.arena_settings import ArenaSettings

ASK = "/api/v1/arenas/arena/matchups"


@pytest.fixture(scope="module")
def site(server, template):
    """A server whose arena checks what was shown; ``running.wait`` lets time pass."""
    with fresh_database(server, template) as database:
        settings = ArenaSettings(shown_check="always", undo_seconds=0.0)
        made_arena(database, 4, 40, settings=settings, reveal="vote")
        with served(database) as running:
            queue = running.run(running.registry.voting_queue("arena"))
            running.wait = partial(let_time_pass, queue)
            yield running


def asked(client, *, fetch="ab"):
    matchup = client.post(ASK, json={}).json()["matchup"]
    for side in fetch:
        assert client.get(f"/m/{matchup}/{side}").status_code == 200
    return matchup


def voted(client, matchup, winner="model_a", **more):
    answer = client.post(f"/api/v1/matchups/{matchup}/vote", json={"winner": winner, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()["unrated"]


def test_a_program_is_told_why_its_vote_is_not_rated(site):
    client = site.client()
    assert voted(client, asked(client, fetch="a")) == "unseen"
    early = asked(client)
    assert voted(client, early) == "early"
    assert client.post(f"/api/v1/matchups/{early}/reveal").json()["unrated"] == "early"
    matchup = asked(client)
    site.wait(5)
    assert voted(client, matchup) is None
    matchup = asked(client)
    site.wait(5)
    assert voted(client, matchup, shown={"a": 0.2, "b": 0.1}) == "early"


def test_a_page_has_a_receipt_for_its_texts_which_comes_back_with_the_vote(site):
    client, other = (site.client(follow_redirects=True) for _ in range(2))
    marks = []
    for seconds, change in ((5, None), (0, None), (5, "none"), (5, "cut"), (5, "another")):
        page = client.post("/arenas/arena/vote").text
        matchup = page.split('data-matchup="')[1].split('"')[0]
        receipt = page.split('name="receipt" value="')[1].split('"')[0]
        if change == "another":
            page = other.post("/arenas/arena/vote").text
            receipt = page.split('name="receipt" value="')[1].split('"')[0]
        sent = {"none": "", "cut": receipt[:-1]}.get(change, receipt)
        site.wait(seconds)
        client.post(f"/matchups/{matchup}/vote", data={"winner": "tie", "receipt": sent})
        marks.append(client.post(f"/api/v1/matchups/{matchup}/reveal").json()["unrated"])
    assert marks == [None, "early", "unseen", "unseen", "unseen"]
    own = client.get("/arenas/arena/mine").text
    assert "came too early" in own


def test_the_recorded_attack_does_not_move_the_official_board(site):
    """Ask, fetch, vote for one model within milliseconds, skip what does not concern it: as in the attacks of 2026."""

    def ratings():
        with connect(site.database) as connection:
            arena, head = connection.execute("SELECT max(arena), max(position) FROM events").fetchone()
            fold = replay_log(connection, arena, head, 0)[HUMAN]
        return fold.votes, fold.rater.strengths(fold.standing.enabled).rating.tolist()

    before = ratings()
    attackers, names, rigged = [site.client() for _ in range(3)], {}, 0
    for turn in range(60):
        client = attackers[turn % 3]
        matchup = client.post(ASK, json={}).json()["matchup"]
        texts = [client.get(f"/m/{matchup}/{side}").text for side in "ab"] if turn % 2 else []
        known = [names.get(text) for text in texts]
        if "m3" in known:
            voted(client, matchup, "model_a" if known[0] == "m3" else "model_b")
            rigged += 1
        else:
            voted(client, matchup)
            told = client.post(f"/api/v1/matchups/{matchup}/reveal").json()
            names |= dict(zip(texts, (told["model_a"], told["model_b"]), strict=False))
    assert ratings() == before
    with connect(site.database) as connection:
        marked = connection.execute(
            "SELECT count(*) FROM battles WHERE unrated IN ('unseen', 'early')"
        ).fetchone()
    assert marked[0] >= 60


def test_a_board_says_how_many_votes_are_not_on_it_and_a_view_beside_it_has_all(server, template):
    """The same marks in events and endings, as a log has them."""
    with fresh_database(server, template) as database:
        made_arena(database, 4, 12)
        lay_votes(database, 1, 120, 4, 12, sessions=20)
        with connect(database) as connection:
            allow_rewriting(connection)
            for table in ("events", "endings"):
                connection.execute(
                    f"UPDATE {table} SET mark = CASE WHEN serial < 3 THEN 1 WHEN serial < 7 THEN 2 ELSE 3 END "
                    "WHERE kind = 1 AND serial < 12"
                )
        close_window(database)
        rate(database)
        with served(database) as running:
            reader = running.client()
            page = reader.get("/arenas/arena").text
            official = reader.get("/api/v1/arenas/arena/board").json()
            everything = reader.get("/api/v1/arenas/arena/board", params={"excluded": "all"}).json()
            beside = reader.get("/arenas/arena", params={"excluded": "all"}).text
    assert "7 more votes" in page
    assert "5 votes of new" in page
    assert "excluded=all" in page
    assert (official["votes"], everything["votes"], everything["excluded"]) == (108, 120, "all")
    assert "all-votes-counted" in [finding["name"] for finding in everything["findings"]]
    assert "All votes, including" in beside
