"""What may leave a live arena, and what is left out of it: consent, erasure, retention, private data."""

from datetime import UTC, datetime, timedelta

import pyarrow.parquet as pq
import pytest

from support.folded_votes import rows
from support.live_arenas import made_arena
from support.released_battles import live_scene
from tiltyard.arena.content.arena_texts import change_texts, give_consent, read_texts
from tiltyard.arena.content.arenas import find_arena
from tiltyard.arena.live.conversation_release import (
    CONVERSATION_COLUMNS,
    EXACT_COLUMNS,
    promote_prompts,
    write_conversations,
)
from tiltyard.arena.live.live_records import TurnEnd
from tiltyard.arena.live.live_store import finish_turn, number_prompt
from tiltyard.arena.operators.voter_data import delete_old_texts, erase_session
from tiltyard.arena.secret_keys import SecretKeys
from tiltyard.core.battles import Kind
from tiltyard.errors import BadOption, NotFound
from tiltyard.files.format_detection import open_records
from tiltyard.postgres.connections import connect, open_pool

KEYS = SecretKeys(["a secret that is long enough for a test"], where="a test")


def released(database, path, **options):
    counts = write_conversations(database, KEYS, "arena", path, **options)
    return counts, pq.read_table(path).to_pylist()


async def test_turns_votes_and_costs_are_released(database, tmp_path):
    async with live_scene(database) as live:
        await live.battle(1, "What is this?", "And that?", flags={"language": "en", "identity": ["a"]})
        await live.battle(2, "Qu'est-ce ?", kind=Kind.BOTH_BAD, flags={"language": "fr"})
    counts, table = released(database, tmp_path / "out.parquet", release="first", exact_for="cli")
    assert (counts.battles, counts.turns, counts.left_out) == (2, 3, {})
    assert list(table[0]) == list(CONVERSATION_COLUMNS)
    first, second, third = table
    assert [(row["battle"], row["turn"], row["turns"]) for row in table] == [(1, 1, 2), (1, 2, 2), (2, 1, 1)]
    assert (first["prompt"], second["prompt"], third["prompt"]) == (
        "What is this?",
        "And that?",
        "Qu'est-ce ?",
    )
    assert (first["answer_a"], first["answer_b"], first["winner"]) == ("left", "right", "model_a")
    assert (third["winner"], third["language"], third["identity"]) == ("both_bad", "fr", "")
    assert first["identity"] == "a"
    assert first["model_a"].startswith("model-")
    assert (first["output_tokens_b"], first["cost_microdollars_a"], first["calls_a"]) == (4, 70, 1)
    assert first["voter"] == second["voter"] != third["voter"]
    again = released(database, tmp_path / "again.parquet", release="first", exact_for="cli")[1]
    assert again == table
    other = released(database, tmp_path / "other.parquet", exact_for="cli")[1]
    assert other[0]["voter"] != first["voter"]
    entries = (
        "SELECT actor, detail->>'release' FROM audit WHERE action = 'export conversations' ORDER BY entry"
    )
    assert rows(database, entries) == [("cli", "first"), ("cli", "first"), ("cli", None)]
    public = released(database, tmp_path / "public.parquet")[1]
    assert len(rows(database, entries)) == 3
    assert list(public[0]) == [name for name in CONVERSATION_COLUMNS if name not in EXACT_COLUMNS]
    assert {row["prompt"]: row["winner"] for row in public} == {row["prompt"]: row["winner"] for row in table}
    with pytest.raises(BadOption, match="add --exact"):
        released(database, tmp_path / "named.parquet", release="first")


async def test_open_void_and_unfinal_battles_are_not_released(database, tmp_path):
    async with live_scene(database) as live:
        await live.battle(1, "voted")
        await live.battle(2, "void", kind=None, state="void")
        await live.battle(3, "open", kind=None)
    counts, table = released(database, tmp_path / "out.parquet")
    assert [row["prompt"] for row in table] == ["voted"]
    assert counts.left_out == {}
    with connect(database) as connection:
        connection.execute("UPDATE matchups SET expires_at = now() - interval '1 hour'")
    counts, table = released(database, tmp_path / "out.parquet")
    assert {(row["prompt"], row["winner"]) for row in table} == {("voted", "model_a"), ("open", None)}
    assert counts.left_out == {"void": 1}
    with connect(database) as connection:
        connection.execute("UPDATE raters SET horizon = 0")
    assert [row["prompt"] for row in released(database, tmp_path / "out.parquet")[1]] == ["open"]


async def test_only_voters_who_agreed_to_the_newest_consent_are_released(database, tmp_path):
    async with live_scene(database) as live:
        await live.battle(1, "agreed")
        await live.battle(2, "did not agree")

    async def consent(text, *sessions):
        async with open_pool(database, most=1) as pool:
            await change_texts(pool, "arena", {"consent": text}, actor="cli")
            async with pool.connection() as connection:
                arena = await find_arena(connection, "arena")
            texts = await read_texts(pool, arena)
            for session in sessions:
                await give_consent(pool, arena.arena, session, texts["consent"].sha256)

    await consent("We publish what you write.", 1)
    counts, table = released(database, tmp_path / "out.parquet")
    assert [row["prompt"] for row in table] == ["agreed"]
    assert counts.left_out == {"without consent": 1}
    await consent("We publish more.")
    assert released(database, tmp_path / "out.parquet")[1] == []
    await consent("")
    assert len(released(database, tmp_path / "out.parquet")[1]) == 2


@pytest.mark.parametrize("stored", [True, False])
async def test_battles_with_private_data_are_left_out_unless_asked_for(database, tmp_path, stored):
    """Whether or not it was noticed when the turn ended."""
    async with live_scene(database) as live:
        await live.battle(1, "harmless")
        flags = {"private": ["phone"]} if stored else {}
        answers = ("left", "right") if stored else ("left", "write to ann@firma.de")
        await live.battle(2, "fine", "private", flags=flags, answers=answers)
    counts, table = released(database, tmp_path / "out.parquet")
    assert [row["prompt"] for row in table] == ["harmless"]
    assert counts.left_out == {"with private data": 1}
    _, table = released(database, tmp_path / "all.parquet", with_flagged=True)
    assert sorted(row["private"] for row in table) == ["", *["phone" if stored else "e-mail"] * 2]


async def test_excluded_votes_are_left_out(database, tmp_path):
    async with live_scene(database) as live:
        await live.battle(1, "spam")
        await live.battle(2, "fine")
    with connect(database) as connection:
        connection.execute(
            "INSERT INTO exclusions (arena, reason, excluded) SELECT arena, 'spam', 1 FROM arenas"
        )
        connection.execute(
            "INSERT INTO excluded_votes (exclusion, arena, source, serial)"
            " SELECT x.exclusion, m.arena, m.source, m.serial FROM exclusions x, matchups m WHERE m.session = 1"
        )
    counts, table = released(database, tmp_path / "out.parquet")
    assert [row["prompt"] for row in table] == ["fine"]
    assert counts.left_out == {"excluded": 1}


async def test_erased_voters_are_not_released_and_their_hashes_are_gone(database, tmp_path):
    async with live_scene(database) as live:
        await live.battle(1, "mine", "and more")
        await live.battle(2, "common")
        await live.battle(1, "Common?")

    votes = rows(database, "SELECT position, free_prompt FROM events WHERE kind = 1 ORDER BY position")
    async with open_pool(database, most=1) as pool:
        done = await erase_session(pool, "arena", 1, reason="a request", actor="cli")
        number = await number_prompt(pool, live.arena, "COMMON")
    assert done.live_turns == 3
    assert number == 2
    assert rows(database, "SELECT number FROM live_prompts WHERE sha256 IS NULL") == [(1,)]
    assert (
        rows(database, "SELECT position, free_prompt FROM events WHERE kind = 1 ORDER BY position") == votes
    )
    counts, table = released(database, tmp_path / "out.parquet")
    assert [row["prompt"] for row in table] == ["common"]
    assert counts.left_out == {"erased": 2}


async def test_answers_that_come_after_an_erasure_are_not_stored(database):
    async with live_scene(database) as live:
        matchup = await live.battle(1, "first")
        with connect(database) as connection:
            connection.execute("UPDATE live_turns SET prompt = NULL, ended_at = NULL")
        await finish_turn(live.pool, live.arena, matchup, 1, TurnEnd("done", ("late", "later"), ("hm", "")))
    stored = "SELECT state, answer_a, answer_b, thinking_a FROM live_turns"
    assert rows(database, stored) == [("done", None, None, None)]


async def test_texts_are_deleted_after_the_days_that_the_arena_keeps_them(database, tmp_path):
    async with live_scene(database) as live:
        await live.battle(1, "old")
        await live.battle(2, "new")
    with connect(database) as connection:
        connection.execute("UPDATE live_turns SET began_at = now() - interval '31 days' WHERE prompt = 'old'")

    async def delete(moment):
        async with open_pool(database, most=1) as pool:
            return await delete_old_texts(pool, moment)

    now = datetime.now(UTC)
    assert await delete(now) == 0
    with connect(database) as connection:
        connection.execute("UPDATE arenas SET settings = settings || '{\"live_retention_days\": 30}'")
    assert await delete(now - timedelta(days=2)) == 0
    assert await delete(now) == 1
    assert rows(database, "SELECT prompt, answer_a FROM live_turns ORDER BY prompt") == [
        ("new", "left"),
        (None, None),
    ]
    assert rows(database, "SELECT number FROM live_prompts WHERE sha256 IS NULL") == [(1,)]
    assert len(rows(database, "SELECT FROM events WHERE kind = 1")) == 2
    assert [row["prompt"] for row in released(database, tmp_path / "out.parquet")[1]] == ["new"]


async def test_long_arenas_are_read_in_pages(database, tmp_path, monkeypatch):
    monkeypatch.setattr("tiltyard.arena.live.conversation_release._PAGE_BATTLES", 2)
    async with live_scene(database) as live:
        for number in range(5):
            await live.battle(number + 1, f"prompt {number}")
    table = released(database, tmp_path / "out.parquet", exact_for="cli")[1]
    prompts = [f"prompt {number}" for number in range(5)]
    assert [row["prompt"] for row in table] == prompts
    orders = [[row["prompt"] for row in released(database, tmp_path / "out.parquet")[1]] for _ in range(8)]
    assert all(sorted(order) == prompts for order in orders)
    assert len(set(map(tuple, orders))) > 1


async def test_distinct_prompts_are_promoted_to_a_bank(database, tmp_path):
    async with live_scene(database) as live:
        await live.battle(1, "What is this?", "And that?")
        await live.battle(2, " what is THIS ", flags={"language": "en"})
        await live.battle(3, "who are you", flags={"language": "en", "identity": ["prompt", "a"]})
        await live.battle(4, "bad words", flags={"rules": ["exam"]})
        await live.battle(5, "call +49 30 901820")
        await live.battle(6, "42", flags={"language": "unknown"})
        await live.battle(7, "Warum ist der Himmel blau?", flags={"rules": []})
    path = tmp_path / "prompts.jsonl"
    counts = promote_prompts(database, "arena", path)
    assert counts.left_out == {"flagged": 2, "with private data": 1}
    read = [dict(record) for _, record in open_records(path).records()]
    assert [(one["prompt_id"], one["text"]) for one in read] == [
        ("live-1", "What is this?"),
        ("live-5", "42"),
        ("live-6", "Warum ist der Himmel blau?"),
    ]
    assert [one.get("language") for one in read] == ["en", None, "de"]
    assert {one["source"] for one in read} == {"live:arena"}
    assert read[0]["category"].startswith("prompt-")
    assert counts.battles == 3


def test_only_live_arenas_have_conversations(database, tmp_path):
    made_arena(database)
    with pytest.raises(BadOption, match="no live arena"):
        released(database, tmp_path / "out.parquet")
    with pytest.raises(NotFound, match="no arena 'other'"):
        write_conversations(database, KEYS, "other", tmp_path / "out.parquet")
    with pytest.raises(BadOption, match="1 to 200 characters"):
        released(database, tmp_path / "out.parquet", release=" ", exact_for="cli")
