"""``tiltyard arena live`` and ``tiltyard serve --models``: an arena from a file of models."""

import asyncio
import json

import pyarrow.parquet as pq
import pytest

from support.command import run
from support.live_arenas import made_arena
from support.released_battles import in_a_live_arena
from tiltyard.postgres.connections import connect

MODELS = """\
models:
  - name: Heron
    provider: openai
    base_url: http://127.0.0.1:8081/v1
    model: heron
    api_key_env: HERON_KEY
    price: {input: 0, output: 0}
  - name: Plover
    provider: openai
    base_url: http://127.0.0.1:8082/v1
    model: plover
    price: {input: 1, output: 2}
"""


@pytest.fixture
def models(database, monkeypatch, tmp_path):
    monkeypatch.setenv("DATABASE_URL", database)
    monkeypatch.setenv("TILTYARD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HERON_KEY", "secret")
    path = tmp_path / "models.yaml"
    path.write_text(MODELS)
    return path


def test_an_arena_is_made_and_then_follows_its_file(database, models):
    made = run("arena", "live", "chat", "--models", str(models), "--category", "code", "--category", "poems")
    assert made.out.startswith("Live arena chat is made. Let people in: http://127.0.0.1:8420/join/0-")
    assert "$1.00 for a" in made.out
    assert run("arena", "live", "chat", "--models", str(models)).out.startswith(
        "Live arena chat: no model has changed.\n"
    )
    models.write_text(MODELS.replace("model: plover", "model: plover-2").replace("Heron", "Wren"))
    changed = run("arena", "live", "chat", "--models", str(models))
    assert changed.out.startswith(
        "Live arena chat: new: Wren; new version: Plover (2); retired: Heron, Plover.\n"
    )
    again = run("arena", "live", "chat", "--models", str(models), "--category", "other")
    assert "categories were named" in again.err
    with connect(database) as connection:
        stored = connection.execute("SELECT config::text FROM live_entrants").fetchall()
        assert not any("secret" in config for (config,) in stored)


def test_a_missing_key_is_named_before_anything_is_made(database, models, monkeypatch):
    monkeypatch.delenv("HERON_KEY")
    for command in (("arena", "live", "chat"), ("serve",)):
        refused = run(*command, "--models", str(models))
        assert refused.code == 2
        assert "variable HERON_KEY" in refused.err
    (models.parent / ".env").write_text("HERON_KEY=beside\n")
    monkeypatch.setenv("HERON_KEY", "")
    monkeypatch.delenv("HERON_KEY")
    assert run("arena", "live", "chat", "--models", str(models)).code == 0


def test_a_budget_needs_prices(database, models):
    models.write_text(MODELS.replace("    price: {input: 1, output: 2}\n", ""))
    refused = run("arena", "live", "chat", "--models", str(models))
    assert "Plover is unknown" in refused.err, "a day has a budget by default"
    models.write_text(MODELS)
    assert run("arena", "live", "chat", "--models", str(models), "--budget", "5").code == 0
    assert run("arena", "live", "chat", "--models", str(models), "--budget", "7.5").code == 0
    with connect(database) as connection:
        assert connection.execute("SELECT settings ->> 'live_budget_dollars' FROM arenas").fetchone() == (
            "7.5",
        )


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--models", "none.yaml"), "file not found"),
        (("--budget", "5"), "give --models too"),
        (("--columns", "model=llm"), "name a file"),
        ((__file__, "--columns", "film=llm"), "'film=llm'"),
    ],
)
def test_serve_says_what_is_missing(models, options, problem):
    refused = run("serve", *options)
    assert refused.code == 2
    assert problem in refused.err


def test_serve_makes_one_arena_at_a_time(models, tmp_path):
    answers = tmp_path / "answers.jsonl"
    answers.write_text("")
    assert "not both" in run("serve", str(answers), "--models", str(models)).err


def test_conversations_and_prompts_are_written_and_what_is_left_out_is_said(database, models, tmp_path):
    async def scene(live):
        await live.battle(1, "What is this?", "And that?")
        await live.battle(2, "call +49 30 901820")

    asyncio.run(in_a_live_arena(database, scene))
    out = tmp_path / "conversations.parquet"
    wrote = run("arena", "conversations", "arena", "--out", str(out))
    assert wrote.out == f"Wrote 2 turns of 1 battles to {out}. Battles left out: 1 with private data.\n"
    assert pq.read_table(out).column("prompt").to_pylist() == ["What is this?", "And that?"]
    named = []
    for _ in range(2):
        run(
            "arena",
            "conversations",
            "arena",
            "--out",
            out,
            *["--exact", "--release", "one", "--with-flagged"],
        )
        named.append(pq.read_table(out).column("voter").to_pylist())
    assert named[0] == named[1]
    assert len(named[0]) == 3
    prompts = tmp_path / "prompts.jsonl"
    wrote = run("arena", "promote-prompts", "arena", "--out", str(prompts))
    assert wrote.out == f"Wrote 1 prompts to {prompts}. Battles left out: 1 with private data.\n"
    assert [json.loads(line)["text"] for line in prompts.read_text().splitlines()] == ["What is this?"]


@pytest.mark.parametrize("command", ["conversations", "promote-prompts"])
def test_other_arenas_have_nothing_to_release(database, models, tmp_path, command):
    made_arena(database)
    for arena, problem in (("arena", "no live arena"), ("other", "no arena 'other'")):
        refused = run("arena", command, arena, "--out", str(tmp_path / "out"))
        assert refused.code == 2
        assert problem in refused.err
        assert not (tmp_path / "out").exists()
