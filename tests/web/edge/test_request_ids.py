"""Request ids: accepted if well formed, returned, and in every line that a request logs."""

import asyncio
import io
import json
import logging

import pytest

from support.live_arenas import made_arena
from support.served import served
from tiltyard.errors import StoreFault
from tiltyard.settings.serving_settings import ServingSettings
from tiltyard.web.edge.logs import JsonLogFormatter, RequestScope, current_request_id, make_request_id

ASK = "/api/v1/arenas/arena/matchups"


@pytest.fixture
def lines():
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLogFormatter())
    logger = logging.getLogger("tiltyard")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield stream
    logger.removeHandler(handler)
    logger.setLevel(level)


@pytest.mark.parametrize("stated", ["a", "a.b_C-9", "7" * 64])
def test_a_well_formed_id_is_kept(stated):
    assert make_request_id(stated) == stated


@pytest.mark.parametrize(
    "stated", [None, "", "7" * 65, "a b", "a\n", 'a"b', "é", "a/b", "٣", "{}", "<script>", "a;b", "\x00"]
)
def test_any_other_is_replaced(stated):
    made = make_request_id(stated)
    assert made != stated
    assert make_request_id(made) == made
    assert make_request_id(stated) != made


def test_a_task_that_outlives_its_request_no_longer_reports_it():
    async def scene():
        going, seen = asyncio.Event(), []

        async def background():
            seen.append(current_request_id())
            await going.wait()
            seen.append(current_request_id())

        with RequestScope("one"):
            task = asyncio.create_task(background())
            assert await asyncio.to_thread(current_request_id) == "one"
            await asyncio.sleep(0)
        with RequestScope("two"):
            going.set()
            await task
            assert current_request_id() == "two"
        assert current_request_id() is None
        return seen

    assert asyncio.run(scene()) == ["one", None]


def test_answers_and_lines_carry_the_id(database, lines, monkeypatch):
    made_arena(database)
    with served(database, settings=ServingSettings(log_requests=True)) as site:
        client = site.client()
        stated = client.post(ASK, headers={"X-Request-Id": "from-the-proxy"})
        assert stated.headers["x-request-id"] == "from-the-proxy"
        made = client.get("/healthz", headers={"X-Request-Id": "not well formed"})
        assert made.headers.get_list("x-request-id") == [made.headers["x-request-id"]]
        assert len(made.headers["x-request-id"]) == 16

        async def gone(*_):
            raise StoreFault("gone")

        monkeypatch.setattr(site.registry, "voting_queue", gone)
        assert client.post(ASK, headers={"X-Request-Id": "fails"}).status_code == 503
        refused = client.post(ASK, headers={"Origin": "https://elsewhere.example", "X-Request-Id": "refused"})
        assert (refused.status_code, refused.headers["x-request-id"]) == (403, "refused")
    entries = [json.loads(line) for line in lines.getvalue().splitlines()]
    assert [entry["event"] for entry in entries if entry.get("request") == "fails"] == [
        "unavailable",
        "request",
    ]
    requests = [entry["request"] for entry in entries if entry["event"] == "request"]
    assert requests == ["from-the-proxy", made.headers["x-request-id"], "fails", "refused"]
