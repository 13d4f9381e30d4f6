"""Boards by HTTP: the bytes that were published, once to each reader, and only to those who may."""

import asyncio
import hashlib
import json

import pytest

from support.live_arenas import make_arena
from support.postgres_servers import fresh_database
from support.served import make_token, served
from support.voted_arenas import rate, rate_and_show, voted
from tiltyard.postgres.connections import connect
from tiltyard.settings.arena_settings import ArenaSettings

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


def test_retired_models_stand_last_and_can_be_left_out(database, tmp_path):
    voted(database, votes=20)
    with served(database, folder=tmp_path) as running:
        admin = running.client(make_token(database, "admin"))
        assert admin.post(f"{ARENA}/models/model-2/retire").status_code == 200
        rate_and_show(running)
        whole = admin.get(f"{ARENA}/board").json()
        assert [row["model"] for row in whole["rows"] if not row["enabled"]] == ["model-2"]
        assert whole["rows"][-1]["model"] == "model-2"
        shown = admin.get(f"{ARENA}/board", params={"retired": False}).json()
        assert shown == whole | {"rows": whole["rows"][:-1]}


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


def test_there_are_no_reports_before_the_first_week(reader):
    assert reader.get(f"{ARENA}/reports").json() == {"reports": []}


def test_a_closed_arena_is_there_only_for_those_with_a_right_to_it(database, tmp_path):
    asyncio.run(make_arena(database, name="hidden", settings=ArenaSettings(visibility="closed")))
    asyncio.run(make_arena(database, name="arena"))
    rate(database)
    paths = ("", "/board", "/snapshots", "/reports", "/models/model-1", "/battles", "/policy")
    with served(database, folder=tmp_path) as running:
        clients = {
            "nobody": running.client(),
            "other": running.client(make_token(database, "read", arena="arena", name="other")),
            "importer": running.client(make_token(database, "import", name="importer")),
            "reader": running.client(make_token(database, "read", name="reader")),
            "own": running.client(make_token(database, "read", arena="hidden", name="own")),
        }
        for who, client in clients.items():
            welcome = who in {"reader", "own"}
            shown = [one["arena"] for one in client.get("/api/v1/arenas").json()["arenas"]]
            assert shown == (["arena", "hidden"] if welcome else ["arena"])
            for path in paths:
                answer = client.get(f"/api/v1/arenas/hidden{path}")
                assert answer.status_code == (200 if welcome else 404), (who, path)
                same = client.get(f"/api/v1/arenas/nowhere{path}")
                if not welcome:
                    told, other = answer.json(), same.json()
                    assert told["type"] == other["type"]
                    assert told["detail"].replace("hidden", "nowhere") == other["detail"]
        board = clients["reader"].get("/api/v1/arenas/hidden/board")
        assert board.headers["cache-control"].startswith("private")
        assert board.headers["vary"] == "Authorization, Cookie"


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
