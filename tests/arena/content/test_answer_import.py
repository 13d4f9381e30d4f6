"""Answers enter an arena: once, whole or not at all, numbered on, never what could steer a page; files of other tools as they are."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import signal
import subprocess
import sys
import time
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.shown_kinds import png
from tiltyard.arena.content.answer_import import create_arena, import_answers
from tiltyard.arena.content.answer_rows import (
    MAX_NAME_CHARACTERS,
    MAX_RESPONSE_BYTES,
    AnswerReading,
    check_upload_rows,
    read_checked_answers,
    read_named_models,
    validate_name,
)
from tiltyard.arena.content.arenas import find_arena, list_models, list_prompts
from tiltyard.arena.content.blob_store import INLINE_LIMIT_BYTES, BlobStore, ResponseContent
from tiltyard.arena.content.object_storage import FolderStorage
from tiltyard.arena.content.stored_conversations import detect_media_type, read_conversation
from tiltyard.arena.log import event_log
from tiltyard.arena.log.event_log import LogKind
from tiltyard.arena.operators.arena_changes import set_enabled, withdraw
from tiltyard.core.policy.state.policy import Policy
from tiltyard.errors import Conflict, InputError, NotFound, UnclearColumns
from tiltyard.files.answer_formats.answer_columns import ColumnChoice
from tiltyard.files.upload_reader import answer_rows
from tiltyard.postgres.connections import connect, open_pool
from tiltyard.settings.arena_settings import ArenaSettings
from tiltyard.wire.arenas import Imported

PNG = png(9, 9, 9, size=8)
PAGE = b"<!-- by nobody -->\n<!DOCTYPE html><title>x</title><p>hello"


def row(model="m1", prompt="p1", response="an answer", **more):
    return {
        "prompt_id": prompt,
        "prompt": f"text of {prompt}",
        "model": model,
        "response": response,
    } | more


def written(path, *rows):
    path.write_text("".join(json.dumps(each) + "\n" for each in rows))
    return path


@asynccontextmanager
async def an_arena(url, tmp_path, name="arena"):
    async with open_pool(url, most=2) as pool:
        blobs = BlobStore(pool, FolderStorage(tmp_path / "responses"))
        await create_arena(pool, name)
        (tmp_path / "bank").mkdir(exist_ok=True)

        async def let_in(*rows, **options):
            path = written(tmp_path / "bank" / "answers.jsonl", *rows)
            return await import_answers(pool, blobs, name, path, **options)

        yield pool, blobs, let_in


def events(url, arena=1):
    with connect(url) as connection:
        found = connection.execute(
            "SELECT position, kind, a, prompt, serial FROM events WHERE arena = %s ORDER BY position",
            (arena,),
        ).fetchall()
    assert [position for position, *_ in found] == list(range(1, len(found) + 1))
    return [(LogKind(kind), a, prompt, serial) for _, kind, a, prompt, serial in found]


def everything(url):
    """All rows that an import could write, the audit aside."""
    with connect(url) as connection:
        return [
            connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall()
            for table in ("models", "prompts", "responses", "events")
        ]


async def test_an_arena_begins_with_its_policy_and_answers_widen_it(database, tmp_path):
    async with an_arena(database, tmp_path) as (pool, blobs, let_in):
        first = await let_in(row("m1", "p1"), row("m2", "p1", "another"))
        second = await let_in(row("m2", "p2"), row("m3", "p1", "third", category="maths"))
        async with pool.connection() as connection:
            arena = await find_arena(connection, "arena")
            models = await list_models(connection, arena.arena)
            prompts = await list_prompts(connection, arena.arena)
            content = await blobs.read(1)
    assert first == Imported(2, 1, 2, 0, 6, 0, (), 0, ())
    assert second == Imported(1, 1, 2, 0, 10, 0, (), 0, ())
    assert [(one.name, one.responses, one.enabled) for one in models] == [
        ("m1", 1, True), ("m2", 2, True), ("m3", 1, True),
    ]  # fmt: skip
    assert [(one.prompt, one.text, one.category, one.responses) for one in prompts] == [
        ("p1", "text of p1", "maths", 3), ("p2", "text of p2", None, 1),
    ]  # fmt: skip
    assert content == ("text/plain; charset=utf-8", b"an answer")
    kinds = [kind for kind, *_ in events(database)]
    assert kinds == [
        LogKind.POLICY,
        *[LogKind.WIDEN, LogKind.RESPOND, LogKind.RESPOND, LogKind.ENABLE, LogKind.ENABLE],
        *[LogKind.WIDEN, LogKind.RESPOND, LogKind.RESPOND, LogKind.ENABLE],
    ]
    widens = [(a, prompt) for kind, a, prompt, _ in events(database) if kind == LogKind.WIDEN]
    assert widens == [(2, 1), (3, 2)]
    responds = [each for each in events(database) if each[0] == LogKind.RESPOND]
    with connect(database) as connection:
        rows = connection.execute(
            "SELECT model, prompt, response FROM responses ORDER BY response"
        ).fetchall()
        detail = connection.execute("SELECT detail FROM events WHERE position = 1").fetchone()[0]
    assert [each[1:] for each in responds] == rows
    assert Policy(**{**detail["policy"], "lane_weights": tuple(detail["policy"]["lane_weights"])}) == Policy()
    assert detail["rater"]["elo_k"] == 16.0


async def test_the_same_file_again_changes_nothing_and_another_answer_is_refused(database, tmp_path):
    async with an_arena(database, tmp_path) as (_, _, let_in):
        rows = [row(f"m{m}", f"p{p}", f"{m} on {p}") for m in range(3) for p in range(4)]
        await let_in(*rows)
        before = everything(database)
        again = await let_in(*rows, *rows)
        assert again == Imported(0, 0, 0, 24, again.position, 0, (), 0, ())
        assert everything(database) == before
        with pytest.raises(Conflict, match=r"line 2.*p2; withdraw"):
            await let_in(row("m9", "p9"), row("m1", "p2", "something else"))
        with pytest.raises(Conflict, match=r"line 1.*p1 already has"):
            await let_in(row("m1", "p1") | {"prompt": "another question"})
        with pytest.raises(Conflict, match=r"line 2: n already"):
            await let_in(row("n", "p1", "one"), row("n", "p1", "two"))
        await let_in(row("m0", "p0", "0 on 0", category="maths"))
        with pytest.raises(Conflict, match="'maths', not 'law'"):
            await let_in(row("m0", "p0", "0 on 0", category="law"))
        assert everything(database)[3] == before[3]


async def test_what_is_retired_or_withdrawn_stays_so(database, tmp_path):
    async with an_arena(database, tmp_path) as (pool, blobs, let_in):
        await let_in(row("m1"), row("m2", response="two"), row("m3", "p2"), enable=False)
        assert [kind for kind, *_ in events(database)].count(LogKind.ENABLE) == 0
        await set_enabled(pool, "arena", "m1", enabled=True, actor="cli")
        await set_enabled(pool, "arena", "m1", enabled=False, actor="cli")
        await withdraw(pool, blobs, "arena", "p1", "m2", reason="asked to", actor="cli")
        again = await let_in(row("m1"), row("m2", response="a new one"))
        assert (again.responses, again.unchanged) == (1, 1)
        assert [kind for kind, *_ in events(database)][-2:] == [LogKind.WITHDRAW, LogKind.RESPOND]
        await withdraw(pool, blobs, "arena", "p1", reason="asked to", actor="cli")
        with pytest.raises(Conflict, match="p1 was withdrawn"):
            await let_in(row("m4", "p1"))


async def test_two_imports_at_once_number_on(database, tmp_path):
    async with an_arena(database, tmp_path) as (pool, blobs, _):
        paths = [
            written(
                tmp_path / f"{k}.jsonl", *(row(f"m{k}", f"p{p}", f"{k} on {p}") for p in range(50)),
                row("shared", "p0", "the same"),
            )
            for k in range(4)
        ]  # fmt: skip
        brought = await asyncio.gather(*(import_answers(pool, blobs, "arena", path) for path in paths))
        assert sum(one.responses for one in brought) == 4 * 50 + 1
        assert sum(one.models for one in brought) == 5
        assert sum(one.prompts for one in brought) == 50
    assert len(events(database)) == 1 + 201 + 5 + sum(e[0] == LogKind.WIDEN for e in events(database))


async def test_files_are_read_below_the_answers_only(database, tmp_path):
    folder = tmp_path / "bank"
    (folder / "images").mkdir(parents=True)
    (folder / "images" / "one.png").write_bytes(PNG)
    (folder / "app.txt").write_bytes(PAGE)
    (folder / "cut.png").write_bytes(PNG[:-1])
    (folder / "big.png").write_bytes(PNG + bytes(INLINE_LIMIT_BYTES))
    (tmp_path / "secret.png").write_bytes(PNG)
    (folder / "link.png").symlink_to(tmp_path / "secret.png")

    async with an_arena(database, tmp_path) as (_, blobs, let_in):
        await let_in(
            row("m1", response="images/one.png", kind="image"),
            row("m2", response="app.txt", kind="app"),
            row("m3", response="big.png", kind="image"),
            row("m4", response="data:image/png;base64," + base64.b64encode(PNG).decode(), kind="image"),
        )
        assert await blobs.read(1) == ("image/png", PNG)
        assert await blobs.read(2) == ("text/html; charset=utf-8", PAGE)
        assert (await blobs.read(3)).data == PNG + bytes(INLINE_LIMIT_BYTES)
        assert await blobs.read(4) == ("image/png", PNG)
        for path in ("../secret.png", "link.png", str(tmp_path / "secret.png")):
            with pytest.raises(InputError, match="is outside"):
                await let_in(row("m9", response=path, kind="image"))
        for path, told in (
            ("none.png", "cannot be read"),
            ("images", "not a file"),
            ("a\0b", "cannot be read"),
            ("https://example.org/x.png", "expected the path of a file"),
            ("data:image/png;base64,%%%", "invalid base64"),
            ("app.txt", "not a PNG"),
            ("cut.png", "not a whole PNG image: at byte"),
        ):
            with pytest.raises(InputError, match=told) as caught:
                await let_in(row("m9", response=path, kind="image"))
            assert "line 1" in str(caught.value)
        with pytest.raises(InputError, match="data: URL"):
            await let_in(row("m9", response="images/one.png", kind="image"), reading=AnswerReading(body=True))


async def test_what_cannot_be_shown_is_refused_by_its_line(database, tmp_path):
    async with an_arena(database, tmp_path) as (_, _, let_in):
        before = everything(database)
        for given_row, told in (
            (row(model="a\nb"), "model is"),
            (row(model="a\u202eb"), "model is"),
            (row(model="m" * (MAX_NAME_CHARACTERS + 1)), "model is"),
            (row(model=" m"), "model is"),
            (row(model="\t"), "model is"),
            (row(prompt="p\x1b[31m"), "prompt_id is"),
            (row(category="c\0"), "category is"),
            (row() | {"prompt": "zero \0 byte"}, "null character"),
            (row() | {"prompt": "long" * 300_000}, "the maximum is"),
            (row(response="x" * (MAX_RESPONSE_BYTES + 1)), "more than"),
            (row(kind="video"), "kind is 'video'"),
            ({"prompt_id": "p"}, "is missing"),
        ):
            with pytest.raises(InputError, match=told) as caught:
                await let_in(row("fine", "pf"), given_row)
            assert "line 2" in str(caught.value)
            assert len(str(caught.value)) < 1000
            assert everything(database) == before


@given(st.text(max_size=300))
def test_a_name_is_taken_or_refused_and_what_is_taken_prints_on_one_line(name):
    try:
        taken = validate_name("model", name)
    except InputError:
        return
    assert taken == name
    assert len(taken.splitlines()) == 1
    assert taken.isprintable()


@given(st.sampled_from(["image", "audio", "app"]), st.binary(max_size=64))
def test_any_bytes_have_a_known_media_type_or_are_refused(kind, data):
    try:
        told = detect_media_type(kind, data)
    except InputError:
        return
    assert told.split("/")[0] == {"image": "image", "audio": "audio", "app": "text"}[kind]


@pytest.mark.parametrize(
    "start", [b"", b"\xef\xbb\xbf", b" \n\t", b"<!-- a -- b -->", b"<!---->\n<!--\n-->" * 100, b"\n" * 4000]
)
def test_a_page_may_begin_with_comments(start):
    for tag in (b"<!DOCTYPE  html>", b"<html lang=en>"):
        assert detect_media_type("app", start + tag) == "text/html; charset=utf-8"


@pytest.mark.parametrize("unit", [b"<!---->", b"<!--", b" ", b"<!-- -->\n", b"<!doctype "])
def test_bytes_that_are_no_page_are_refused_at_once(unit):
    start = time.thread_time()
    for count in (24, 500, 100_000):
        with pytest.raises(InputError, match="HTML page"):
            detect_media_type("app", unit * count + b"x")
    assert time.thread_time() - start < 1.0


def test_a_picture_that_can_hold_scripts_is_no_picture():
    for data in (b"<svg xmlns='http://www.w3.org/2000/svg'>", b"<?xml version='1.0'?><svg>", PAGE, b""):
        with pytest.raises(InputError):
            detect_media_type("image", data)


async def test_a_body_is_text_of_answers_whatever_it_looks_like(database, tmp_path):
    async with an_arena(database, tmp_path) as (pool, blobs, _):
        path = tmp_path / "body"
        for data in (
            gzip.compress(json.dumps(row()).encode()),
            b"PAR1....PAR1",
            b"prompt_id,prompt,model,response\na,b,c,d,e\n",
            b"PK\x03\x04",
            b"\x00\xff\n",
            b'{"prompt_id": "p", "prompt": "\\ud800", "model": "m", "response": "r"}',
        ):
            path.write_bytes(data)
            with pytest.raises(InputError, match=r"the file|line"):
                await import_answers(pool, blobs, "arena", path, reading=AnswerReading(body=True))
        path.write_text(json.dumps(row()) + "\n\n" + json.dumps(row("m2")))
        assert (
            await import_answers(pool, blobs, "arena", path, reading=AnswerReading(body=True))
        ).responses == 2


async def test_names_of_arenas(database, tmp_path):
    async with open_pool(database, most=2) as pool:
        for name in ("", "A", "a b", "-a", "a-", "x" * 65, "é", "a/b", "a.b", "٣"):
            with pytest.raises(InputError, match="expected 1 to 64"):
                await create_arena(pool, name)
        made = await create_arena(pool, "a-1", title="Ein Titel", settings=ArenaSettings(visibility="closed"))
        with pytest.raises(Conflict, match="a-1 exists already"):
            await create_arena(pool, "a-1")
        await create_arena(pool, "x" * 64)
        async with pool.connection() as connection:
            assert await find_arena(connection, "a-1") == made
        path = written(tmp_path / "answers.jsonl", row())
        with pytest.raises(NotFound):
            await import_answers(pool, BlobStore(pool, FolderStorage(tmp_path)), "other", path)
    assert asdict(made)["settings"]["visibility"] == "closed"


async def test_unclear_columns_enter_only_as_they_are_said_to_be(database, tmp_path):
    async with an_arena(database, tmp_path) as (pool, blobs, _):
        path = tmp_path / "odd.csv"
        path.write_text("question,llm,answer\n" + "".join(f"Why {k // 3}?,m{k % 3},{k}\n" for k in range(9)))
        before = everything(database)
        with pytest.raises(UnclearColumns) as caught:
            await import_answers(pool, blobs, "arena", path)
        assert caught.value.columns == {"question": "prompt", "llm": "model", "answer": "response"}
        path.write_text(path.read_text() + "Why 0?,m0,again\n")
        choice = ColumnChoice.parsed(["prompt=question", "model=llm", "response=answer"])
        with pytest.raises(InputError, match="same prompt: 1"):
            await import_answers(pool, blobs, "arena", path, reading=AnswerReading(choice=choice))
        assert everything(database) == before
        reading = AnswerReading(choice=choice, partly=True)
        brought = await import_answers(pool, blobs, "arena", path, reading=reading)
    assert (brought.models, brought.prompts, brought.responses) == (3, 3, 9)


async def test_an_empty_file_brings_nothing(database, tmp_path):
    async with an_arena(database, tmp_path) as (_, _, let_in):
        assert await let_in() == Imported(0, 0, 0, 0, 1, 0, (), 0, ())


async def test_answers_enter_on_a_machine_too_slow_for_many_at_once(database, tmp_path, monkeypatch):
    limited = event_log.statement
    monkeypatch.setattr(event_log, "statement", lambda name: limited(name).replace("'15s'", "'1s'"))
    with connect(database) as connection:
        connection.execute(
            "CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql"
            " AS $$ BEGIN PERFORM pg_sleep(0.006); RETURN NEW; END $$"
        )
        connection.execute(
            "CREATE TRIGGER dawdle BEFORE INSERT ON responses FOR EACH ROW EXECUTE FUNCTION dawdle()"
        )
    told = []
    async with an_arena(database, tmp_path) as (_, _, let_in):
        answers = [row(f"m{m}", f"p{p}") for m in range(4) for p in range(75)]
        brought = await let_in(*answers, reading=AnswerReading(progress=lambda *done: told.append(done)))
    assert (brought.models, brought.prompts, brought.responses, brought.unchanged) == (4, 75, 300, 0)
    assert told == sorted(set(told))
    assert told[-1] == (300, 300)
    assert len(told) > 3


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from tiltyard.arena.content.answer_import import import_answers
from tiltyard.arena.content.answer_rows import AnswerReading
from tiltyard.arena.content.blob_store import BlobStore
from tiltyard.arena.content.object_storage import FolderStorage
from tiltyard.postgres.connections import open_pool

url, path = sys.argv[1], Path(sys.argv[2])

def progress(done, total):
    if done > total // 3:
        os.kill(os.getpid(), signal.SIGKILL)

async def run():
    async with open_pool(url, most=2) as pool:
        blobs = BlobStore(pool, FolderStorage(path.parent / "responses"))
        await import_answers(pool, blobs, "arena", path, reading=AnswerReading(progress=progress))

asyncio.run(run())
"""


async def kill_an_import(database, tmp_path, models, prompts):
    """An import that was killed and then repeated: what came before and after, and the time of the second."""
    path = written(
        tmp_path / "many.jsonl",
        *(row(f"m{m}", f"p{p}", f"{m} on {p}") for m in range(models) for p in range(prompts)),
    )
    async with an_arena(database, tmp_path) as (pool, blobs, _):
        died = await asyncio.to_thread(
            subprocess.run, [sys.executable, "-c", KILLED, database, str(path)], check=False
        )
        assert died.returncode == -signal.SIGKILL
        start = time.monotonic()
        brought = await import_answers(pool, blobs, "arena", path)
        spent = time.monotonic() - start
        assert 0 < brought.unchanged < models * prompts
        assert brought.unchanged + brought.responses == models * prompts
        assert (await import_answers(pool, blobs, "arena", path)).unchanged == models * prompts
    found = events(database)
    cells = [(a, prompt) for kind, a, prompt, _ in found if kind == LogKind.RESPOND]
    assert len(cells) == len(set(cells)) == models * prompts
    assert sorted(a for kind, a, *_ in found if kind == LogKind.ENABLE) == list(range(models))
    return spent


async def test_an_import_that_was_killed_is_repeated_and_doubles_nothing(database, tmp_path):
    await kill_an_import(database, tmp_path, 10, 100)


@pytest.mark.slow
async def test_a_hundred_models_on_a_thousand_prompts_enter_in_seconds_at_full_size(database, tmp_path):
    spent = await kill_an_import(database, tmp_path, 100, 1000)
    print(f"the rest of 100,000 answers in {spent:.1f} s")


FIXTURES = Path(__file__).parents[2] / "files/fixtures/answers"


def test_an_inspect_log():
    answers = {one.prompt: one for one in read_checked_answers(FIXTURES / "inspect_log.json")}
    assert set(answers) == {"trees/1", "trees/talk", "trees/agent", "trees/unscored"}
    assert answers["trees/1"].text == "Name a tree."
    assert answers["trees/talk"].text == "And this?"
    talk = answers["trees/talk"].shown_text(1000)
    assert talk.startswith(
        "System:\nYou like trees.\n\nUser:\nHello.\n\nAssistant:\nGood day.\n\nUser:\nAnd this?"
    )
    agent = answers["trees/agent"]
    assert read_conversation(ResponseContent(agent.media_type, agent.data)).response == "Two."
    assert agent.shown_text(5_000).endswith("Assistant:\nTwo.")
    assert agent.shown_text(6) == agent.shown_text(5_000)[:6]
    assert read_named_models(FIXTURES / "inspect_log.json") == {"openai/oak-1": set()}


def test_only_the_first_response_to_a_prompt():
    path = FIXTURES / "elm-2/model_outputs.json"
    with pytest.raises(InputError, match="partly"):
        list(read_checked_answers(path))
    found = list(read_checked_answers(path, AnswerReading(partly=True)))
    assert [one.data.decode() for one in found] == ["An elm 🌳.", "tree"]


def test_scores_without_a_response_are_refused(tmp_path):
    path = tmp_path / "answers.jsonl"
    path.write_text(json.dumps({"prompt_id": "p", "prompt": "?", "model": "m", "kind": "scores"}))
    with pytest.raises(InputError, match="shows responses"):
        list(read_checked_answers(path))
    (row,) = check_upload_rows(answer_rows(path, most=10_000), lambda: None, most=10_000)
    assert row.problem == "the response is missing; an arena shows responses, not scores"
