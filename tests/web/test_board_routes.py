"""Boards by HTTP: the bytes that were published, once to each reader, and only to those who may."""

import hashlib
import json

import pytest

from support.postgres_servers import fresh_database
from support.served import served
from support.voted_arenas import rate, voted
from tiltyard.postgres.connections import connect

ARENA = "/api/v1/arenas/arena"


@pytest.fixture(scope="module")
def database_with_boards(server, template):
    """One for all readers: they change nothing."""
    with fresh_database(server, template) as url:
        yield url


@pytest.fixture(scope="module")
def reader(database_with_boards, tmp_path_factory):
    database = database_with_boards
    voted(database, votes=30)
    with connect(database) as connection:
        connection.execute("UPDATE prompts SET category = 'maths' WHERE prompt < 3")
    rate(database)
    with served(database, folder=tmp_path_factory.mktemp("responses")) as running:
        yield running.client()


def test_the_board_is_its_permalink_and_its_hash(reader):
    newest = reader.get(f"{ARENA}/board")
    assert newest.status_code == 200
    sha256 = hashlib.sha256(newest.content).hexdigest()
    assert newest.headers["etag"] == f'"{sha256}"'
    assert newest.headers["cache-control"] == "public, max-age=5, stale-while-revalidate=60"
    kept = reader.get(f"{ARENA}/snapshots/{sha256}")
    assert kept.content == newest.content
    assert kept.headers["cache-control"] == "public, max-age=31536000, immutable, s-maxage=600"
    assert kept.headers["etag"] == newest.headers["etag"]
    listed = reader.get(f"{ARENA}/snapshots").json()["snapshots"]
    assert listed[0]["snapshot"] == sha256
    assert reader.get(f"{ARENA}/snapshots", params={"limit": 1}).json()["snapshots"] == listed[:1]
    older = {"generation": listed[0]["generation"], "position": listed[0]["position"]}
    assert reader.get(f"{ARENA}/snapshots", params=older).json()["snapshots"] == listed[1:]


@pytest.mark.parametrize("path", ["board", "board?category=maths", "board?retired=false", "models/model-1"])
def test_whoever_has_it_is_not_sent_it_again(reader, path):
    first = reader.get(f"{ARENA}/{path}")
    assert first.status_code == 200
    etag = first.headers["etag"]
    assert etag == f'"{hashlib.sha256(first.content).hexdigest()}"'
    for stated in (etag, f"W/{etag}", f'"other", {etag}', "*"):
        again = reader.get(f"{ARENA}/{path}", headers={"if-none-match": stated})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == etag
    assert reader.get(f"{ARENA}/{path}", headers={"if-none-match": '"other"'}).status_code == 200


def test_filters_say_that_they_are_filters(reader):
    board = reader.get(f"{ARENA}/board", params={"category": "maths"}).json()
    assert board["filter"] == {"category": "maths", "language": None, "lane": "all"}
    assert board["prompts"] == 3
    assert board["order"] == "conservative"
    assert "status" not in board
    for wrong in ({"category": "art"}, {"language": "de"}, {"category": "maths", "language": "de"}):
        assert reader.get(f"{ARENA}/board", params=wrong).status_code == 404


def test_judges_have_a_board_of_their_own(reader):
    board = reader.get(f"{ARENA}/board", params={"source": "llm-judge"}).json()
    assert (board["source"], board["votes"]) == ("llm-judge", 0)
    assert reader.get(f"{ARENA}/board", params={"source": "both"}).status_code == 422


def test_a_model_has_a_page(reader):
    page = reader.get(f"{ARENA}/models/model-1").json()
    assert page["row"]["model"] == "model-1"
    assert sum(met["votes"] for met in page["head_to_head"]) == page["row"]["votes"]
    assert reader.get(f"{ARENA}/models/nobody").status_code == 404


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("snapshots/" + "0" * 64, 404),
        ("snapshots/xyz", 422),
        ("snapshots/" + "A" * 64, 422),
        ("reports/" + "0" * 64, 404),
        ("models/a%00b", 404),
        ("models/%ff", 404),
        ("board?category=a%00b", 422),
        ("board?language=" + "x" * 201, 422),
        ("snapshots?limit=0", 422),
        ("snapshots?position=99999999999999999999", 422),
    ],
)
def test_what_is_not_there_is_refused_in_plain_words(reader, path, status):
    answer = reader.get(f"{ARENA}/{path}")
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"


def test_nothing_that_readers_get_holds_a_prompt_or_a_response(reader, database_with_boards):
    with connect(database_with_boards) as connection:
        texts = [text for (text,) in connection.execute("SELECT text FROM prompts").fetchall()]
        answers = [
            bytes(data).decode() for (data,) in connection.execute("SELECT bytes FROM contents").fetchall()
        ]
    paths = ["", "/board", "/board?category=maths", "/snapshots", "/models/model-1", "/reports", "/policy"]
    paths += [f"/battles?format={kind}" for kind in ("jsonl", "csv")]
    for path in paths:
        answer = reader.get(f"{ARENA}{path}")
        assert answer.status_code == 200
        for secret in (*texts, *answers):
            assert secret not in answer.text
            assert hashlib.sha256(secret.encode()).hexdigest() not in answer.text
    assert json.loads(reader.get(ARENA).content)["categories"] == ["maths"]
