"""The operator's downloads of a live arena: conversations and prompts, and nobody else's."""

import asyncio
import io
import json
import tempfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from support.live_arenas import made_arena
from support.operating import signed
from support.released_battles import in_a_live_arena
from support.served import make_operator, served
from tiltyard.postgres.connections import connect

PAGES = "/operator/arenas/arena"


async def _fight(live):
    await live.battle(1, "What is this?", "And that?")
    await live.battle(2, "call +49 30 901820")


@pytest.fixture
def running(database):
    asyncio.run(in_a_live_arena(database, _fight))
    make_operator(database)
    with served(database) as found:
        yield found


def test_conversations_and_prompts_are_downloaded_and_nothing_is_left_behind(running, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    client = signed(running)
    page = client.get(f"{PAGES}/exports")
    assert f"{PAGES}/conversations.parquet" in page.text
    assert f"{PAGES}/prompts.jsonl" in page.text
    answer = client.get(f"{PAGES}/conversations.parquet")
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    assert "arena-conversations.parquet" in answer.headers["content-disposition"]
    table = pq.read_table(io.BytesIO(answer.content)).to_pylist()
    assert [row["prompt"] for row in table] == ["What is this?", "And that?"]
    assert "voter" not in table[0]
    with connect(running.database) as connection:
        count = "SELECT count(*) FROM audit WHERE action = 'export conversations'"
        assert connection.execute(count).fetchone() == (0,)
        exact = client.get(f"{PAGES}/conversations.parquet", params={"exact": "true"})
        assert "voter" in pq.read_schema(io.BytesIO(exact.content)).names
        assert connection.execute(count).fetchone() == (1,)
    every = client.get(f"{PAGES}/conversations.parquet", params={"flagged": "true"})
    assert pq.read_table(io.BytesIO(every.content)).num_rows == 3
    prompts = client.get(f"{PAGES}/prompts.jsonl")
    assert [json.loads(line)["text"] for line in prompts.text.splitlines()] == ["What is this?"]
    assert list(Path(tmp_path).iterdir()) == []


def test_an_arena_of_stored_responses_has_none(database):
    made_arena(database)
    make_operator(database)
    with served(database) as running:
        client = signed(running)
        assert "conversations.parquet" not in client.get(f"{PAGES}/exports").text
        answer = client.get(f"{PAGES}/conversations.parquet")
        assert answer.status_code == 422
        assert "no live arena" in answer.text
