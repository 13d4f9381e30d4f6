"""Past votes by the API and the operator's page: what they add, what they refuse, and where it is said."""

import pytest

from support.operating import HOSTILE, lines, located, signed
from support.voted_arenas import rate_and_show

API, PAGE = "/api/v1/arenas/arena/past-votes", "/operator/arenas/arena/past-votes"
#: What else is no file of votes as text, with the status of the answer.
REFUSED = ((b"PAR1", 422), (b"PK\x03\x04", 422), (b"", 422), (b"no json", 422))


def vote(**changed):
    row = {"model_a": "model-0", "model_b": "model-1", "prompt_id": "prompt-0", "winner": "a", "voter": "ann"}
    return row | changed


def upload(client, data, name="votes.jsonl"):
    return client.post(PAGE, files={"file": (name, data)})


def test_votes_enter_by_either_way_once_and_the_board_says_so(running):
    client = signed(running)
    assert "imported-votes" not in running.client().get("/arenas/arena").text
    data = lines(vote(), vote(winner="tie"), vote(blind="false"))
    first = client.post(API, content=data, params={"name": "old"}).json()
    assert (first["votes"], first["added"], list(first["left_out"].values())) == (2, 2, [1])
    assert client.post(API, content=data).json()["added"] == 0
    located(upload(client, data), "votes-imported", "arenas", "arena", "answers")
    located(upload(client, lines(vote(winner="b")), HOSTILE), "votes-imported", "arenas", "arena", "answers")
    files = client.get(API).json()["files"]
    # A form has no quotation marks in names of files.
    hostile = HOSTILE.replace('"', "%22")
    assert [(one["name"], one["votes"], one["done"]) for one in files] == [("old", 2, 2), (hostile, 1, 1)]
    page = client.get("/operator/arenas/arena/answers").text
    assert "alert(1)" in page
    assert hostile not in page
    rate_and_show(running)
    board = running.client().get("/arenas/arena").text
    assert 'class="micro imported-votes">3 ' in board
    assert running.client().get("/api/v1/arenas/arena/board").json()["imported"] == 3
    judged = client.get("/api/v1/arenas/arena/board", params={"source": "llm-judge"})
    assert "imported" not in judged.json()


def test_votes_that_are_there_twice_are_told_of(running):
    client = signed(running)
    assert client.post(API, content=lines(vote(), vote(winner="tie"))).json()["repeated"] == 0
    again = client.post(API, content=lines(vote(), vote(winner="b"))).json()
    assert (again["added"], again["repeated"]) == (2, 1)
    page = upload(client, lines(vote(winner="tie"), vote(winner="b"), vote(voter="bob")))
    assert page.status_code == 200
    assert "2 votes equal" in page.text
    assert [one["done"] for one in client.get(API).json()["files"]] == [2, 2, 3]


@pytest.mark.parametrize(("data", "status"), [*REFUSED, (lines(vote(model_a="nobody")), 409)])
def test_what_is_refused_adds_nothing(running, data, status):
    client = signed(running)
    for answer in (client.post(API, content=data), upload(client, data or b" ")):
        assert answer.status_code == status, answer.text
        assert "/tmp" not in answer.text
    assert client.get(API).json()["files"] == []
    assert running.client().post(API, content=data).status_code == 401
