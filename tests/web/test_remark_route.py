"""Remarks over HTTP: whose, when, what they may hold; and that nobody but the operator ever sees one."""

import pytest

from support.live_arenas import made_arena
from support.served import make_token, served
from support.voted_arenas import rate
from tiltyard.postgres.connections import connect
from tiltyard.wire.records import TAGS

ASK = "/api/v1/arenas/arena/matchups"
SECRET = "my very private opinion"


def ask(client):
    answer = client.post(ASK)
    assert answer.status_code in {200, 201}, answer.text
    return answer.json()["matchup"]


def act(client, matchup, what, **body):
    return client.post(f"/api/v1/matchups/{matchup}/{what}", json=body or None)


def remark(client, matchup, **body):
    return client.put(f"/api/v1/matchups/{matchup}/remark", json=body)


def problem_of(answer):
    return answer.json()["type"].rpartition(":")[2]


def voted_on(client):
    matchup = ask(client)
    assert act(client, matchup, "vote", winner="model_a").status_code == 200
    return matchup


def test_a_remark_is_taken_between_the_vote_and_the_names(shared):
    client = shared.client()
    matchup = ask(client)
    assert problem_of(remark(client, matchup, tags=["clear"])) == "closed"
    act(client, matchup, "vote", winner="model_a")
    assert remark(client, matchup, tags=["clear", "clear"], comment="").status_code == 204
    assert remark(client, matchup, tags=["clear", "concise"], comment="x" * 1000).status_code == 204
    assert remark(client, matchup).status_code == 204
    act(client, matchup, "reveal")
    assert problem_of(remark(client, matchup, tags=["clear"])) == "closed"


@pytest.mark.parametrize(
    "body",
    [
        {"tags": ["clear\x00"]},
        {"tags": ["nice"]},
        {"tags": "clear"},
        {"tags": list(TAGS[:9])},
        {"comment": "x" * 1001},
        {"comment": "a\x00b"},
        {"comment": 3},
        {"tags": [], "more": 1},
    ],
)
def test_a_remark_that_makes_no_sense_is_refused(shared, body):
    client = shared.client()
    answer = remark(client, voted_on(client), **body)
    assert (answer.status_code, problem_of(answer)) == (422, "invalid")


def test_a_remark_is_in_no_export_no_board_and_no_answer(database):
    made_arena(database)
    with served(database) as site:
        client = site.client()
        matchups = []
        for _ in range(4):
            matchup = voted_on(client)
            assert remark(client, matchup, tags=["off-topic"], comment=SECRET).status_code == 204
            matchups.append(matchup)
            answers = [act(client, matchup, "reveal"), act(client, matchup, "vote", winner="model_a")]
            assert not [one for one in answers if SECRET in one.text or "off-topic" in one.text]
        rate(database)
        operator = site.client(make_token(database, "admin", "read"))
        for reader in (site.client(), client, operator):
            forms = ("jsonl", "csv", "parquet")
            paths = [
                f"/api/v1/arenas/arena/battles{exact}?format={form}"
                for exact in ("", "/exact")
                for form in forms
            ]
            paths += ["/api/v1/arenas/arena/board", ASK, "/api/v1/arenas/arena/models/model-0", "/metrics"]
            for path in paths:
                answer = reader.get(path)
                assert SECRET.encode() not in answer.content
                assert b"off-topic" not in answer.content
    with connect(database) as connection:
        assert connection.execute("SELECT count(*) FROM remarks").fetchone() == (4,)
