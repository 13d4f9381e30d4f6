"""Remarks over HTTP: whose, when, what they may hold; and that nobody but the operator ever sees one."""

import pytest

from support.live_arenas import made_arena
from support.served import make_token, served
from support.voted_arenas import rate
from tiltyard.client import Client
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


def test_a_remark_of_somebody_else_is_like_one_of_nothing(shared):
    owner, guest, nobody = shared.client(), shared.client(), shared.client()
    matchup = voted_on(owner)
    ask(guest)
    judge = shared.client(make_token(shared.database, "judge"))
    for client in (guest, nobody, judge):
        told = [remark(client, one, tags=["clear"]) for one in (matchup, "0-" + "A" * 32, "x", "%00")]
        assert {problem_of(each) for each in told} == {"not-found"}
        assert len({each.json()["detail"] for each in told}) == 1


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


def test_responses_stay_in_view_for_the_voter_who_voted(shared):
    client, stranger = shared.client(), shared.client()
    matchup = ask(client)
    ask(stranger)
    before = [client.get(f"/m/{matchup}/{side}") for side in "ab"]
    act(client, matchup, "vote", winner="tie")
    for _ in range(2):
        after = [client.get(f"/m/{matchup}/{side}") for side in "ab"]
        assert [one.content for one in after] == [one.content for one in before]
        assert {one.headers["cache-control"] for one in after} == {"no-store"}
        assert problem_of(stranger.get(f"/m/{matchup}/a")) == "not-found"
        act(client, matchup, "reveal")
    undone = voted_on(client)
    act(client, undone, "undo")
    assert client.get(f"/m/{undone}/a").status_code == 200
    act(client, undone, "skip")
    assert problem_of(client.get(f"/m/{undone}/a")) == "closed"


def test_names_come_with_places_and_the_pair(database):
    made_arena(database)
    with served(database) as site:
        client = site.client()
        first = act(client, voted_on(client), "reveal").json()
        assert first["standing"] is None
        assert first["pair"] == {"decisive": 1, "floor": 12}
        rate(database)
        matchup = voted_on(client)
        told = act(client, matchup, "reveal").json()
        board = {row["model"]: row for row in client.get("/api/v1/arenas/arena/board").json()["rows"]}
        for side in "ab":
            row = board[told[f"model_{side}"]]
            assert told["standing"][side] == {
                "rank": row["rank"],
                "rank_low": row["rank_low"],
                "rank_high": row["rank_high"],
                "score": row["conservative"],
                "badge": row["badge"],
            }
        with Client(site.url) as other:
            matchup = other.next_matchup("arena").matchup
            other.vote(matchup, "model_b")
            other.remark(matchup, ["clear"], "why not")
            names = other.reveal(matchup)
        assert names.pair is not None
        assert names.pair.floor == 12
        assert names.standing is not None
