"""An operator deletes a voter in the browser: after one look at what is held, for a reason, and only who is there."""

import re

import pytest

from support.operating import HOSTILE, audited, complain, copied, signed, voted_database
from support.served import make_token
from tiltyard.postgres.connections import connect

ERASE = "/operator/arenas/arena/erase"
VOTERS = "/operator/arenas/arena/voters"
#: Everything that an erasure may change.
TABLES = ("events", "matchups", "endings", "complaints", "remarks", "audit", "exclusions", "sessions")


@pytest.fixture(scope="module")
def running(server, template):
    with (
        voted_database(server, template, lambda database: complain(database, note="I am Ada")) as prepared,
        copied(server, prepared) as found,
    ):
        yield found


@pytest.fixture(scope="module")
def client(running):
    return signed(running)


def state(running):
    with connect(running.database) as connection:
        return [
            connection.execute(f"SELECT count(*), sum(hashtextextended(t::text, 0)) FROM {one} t").fetchone()
            for one in TABLES
        ]


def one(running, query):
    with connect(running.database) as connection:
        return connection.execute(query).fetchone()[0]


def facts(page):
    return dict(re.findall(r"<dt>([^<]+)</dt><dd>([^<]+)</dd>", page))


#: Forms, and how they are answered.
REFUSED = (
    ({"session": "99999999", "reason": "asked"}, 404, "arena has nothing of voter 99999999; check the number"),
    ({"session": "", "reason": "asked"}, 422, "is no number of a session"),
    ({"session": "-1", "reason": "asked"}, 422, "is no number of a session"),
    ({"session": "²", "reason": "asked"}, 422, "is no number of a session"),
    ({"session": "9223372036854775808", "reason": "asked"}, 422, "is no number of a session"),
    ({"session": "9" * 90, "reason": "asked"}, 422, "is no number of a session"),
    ({"session": HOSTILE, "reason": HOSTILE}, 422, "is no number of a session"),
    ({"session": "1", "reason": " "}, 422, "a reason of 1 to 1000 characters is required"),
    ({"session": "1", "reason": "r" * 1001}, 422, "a reason of 1 to 1000 characters is required"),
    ({"session": "1"}, 422, "a reason of 1 to 1000 characters is required"),
)  # fmt: skip


def test_what_is_wrong_is_said_and_nothing_changes(running, client):
    before = state(running)
    for form, status, told in REFUSED:
        answer = client.post(ERASE, data=form)
        assert (answer.status_code, told in answer.text) == (status, True), (form, answer.text)
        assert "<script>alert" not in answer.text
    assert state(running) == before


def test_a_judge_is_not_a_voter(running, client):
    with connect(running.database) as connection:
        # The voters of this arena were made without rows in the table, so that a judge could have their numbers.
        connection.execute("SELECT setval(pg_get_serial_sequence('sessions', 'session'), 1000)")
    judge = running.client(make_token(running.database, "judge", name="a judge"))
    matchup = judge.post("/api/v1/arenas/arena/matchups").json()["matchup"]
    assert judge.post(f"/api/v1/matchups/{matchup}/vote", json={"winner": "tie"}).is_success
    session = one(running, "SELECT session FROM matchups WHERE source = 1")
    assert "Delete this voter" not in client.get(f"{VOTERS}/{session}").text
    assert client.post(ERASE, data={"session": str(session), "reason": "r"}).status_code == 404


def test_a_voter_is_deleted_from_the_list_on(running, client):
    session = one(running, "SELECT session FROM complaints")
    votes = one(running, "SELECT count(*) FROM battles")
    assert f'href="{ERASE}"' in client.get(VOTERS).text
    assert f'href="{ERASE}?session={session}"' in client.get(f"{VOTERS}/{session}").text
    asked = client.get(f"{ERASE}?session=%20{session}%20").text
    own = one(running, f"SELECT count(*) FROM battles WHERE session = {session}")
    assert (facts(asked)["Votes"], facts(asked)["Reports"]) == (str(own), "1")
    assert f"Their {own} votes stay" in asked
    assert f'name="session" value="{session}"' in asked

    done = client.post(ERASE, data={"session": str(session), "reason": "asked on 1 May"})
    assert done.status_code == 200
    assert facts(done.text) == {
        "Remarks": "0",
        "Words of reports": "1",
        "Details of votes": facts(done.text)["Details of votes"],
    }
    assert one(running, "SELECT note IS NULL FROM complaints")
    assert one(running, "SELECT count(*) FROM battles") == votes
    assert one(running, f"SELECT count(*) FROM events WHERE session = {session} AND source = 0") == 0
    assert audited(running)[-1] == (
        "operator:Ada",
        "erase voter",
        {"reason": "asked on 1 May", "people": [1, 0]},
    )
    after = state(running)
    again = client.post(ERASE, data={"session": str(session), "reason": "asked on 1 May"})
    assert (again.status_code, "erased before" in again.text) == (404, True)
    assert state(running) == after
