"""Answers files by upload: everything that is wrong is told at once, and what is let in is what was looked over."""

import asyncio
import base64
import csv
import io
import json
from contextlib import asynccontextmanager
from datetime import timedelta
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.live_arenas import make_arena
from support.shown_kinds import png
from tiltyard.arena.content import upload_review as uploads
from tiltyard.arena.content.answer_rows import BadRow, CheckedAnswer, check_upload_rows
from tiltyard.arena.content.arenas import list_models, list_prompts
from tiltyard.arena.content.blob_store import BlobStore
from tiltyard.arena.content.object_storage import FolderStorage
from tiltyard.arena.content.upload_review import (
    MAX_UNPACKED_BYTES,
    UploadDecision,
    discard_upload,
    import_upload,
    list_uploads,
    preview_upload,
    store_upload,
)
from tiltyard.arena.operators.arena_changes import withdraw
from tiltyard.errors import Conflict, InputError, NotFound
from tiltyard.files.parquet_records import ParquetRecords
from tiltyard.files.upload_reader import answer_rows
from tiltyard.postgres.connections import connect, open_pool

pytestmark = pytest.mark.usefixtures("read_uploads_here")

GOOD = [
    {"prompt_id": "new-1", "prompt": "Why?", "model": "oak", "response": 'Because, "so".\nReally.'},
    {"prompt_id": "new-1", "prompt": "Why?", "model": "elm", "response": "No idea", "category": "short"},
    {"prompt_id": "prompt-0", "prompt": "What about 0?", "model": "oak", "response": "Nothing", "language": "en"},
]  # fmt: skip
PIXEL = png(9, 9, 9, size=1)


def jsonl(rows):
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def as_csv(rows, delimiter=","):
    columns = list(dict.fromkeys(name for row in rows for name in row))
    file = io.StringIO(newline="")
    writer = csv.DictWriter(file, columns, delimiter=delimiter)
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue().encode()


def parquet(rows):
    columns = list(dict.fromkeys(name for row in rows for name in row))
    file = io.BytesIO()
    pq.write_table(pa.table({name: [row.get(name) for row in rows] for name in columns}), file)
    return file.getvalue()


WRITERS = {
    "jsonl": jsonl,
    "json": lambda rows: json.dumps(rows).encode(),
    "csv": as_csv,
    "tsv": lambda rows: as_csv(rows, "\t"),
    "parquet": parquet,
    "jsonl with a mark": lambda rows: b"\xef\xbb\xbf" + jsonl(rows),
}


def upload_rows(path, most):
    """The rows of a file of our own."""
    return check_upload_rows(answer_rows(path, most=most), lambda: None, most=most)


def read(tmp_path, data):
    path = tmp_path / "upload"
    path.write_bytes(data)
    return list(upload_rows(path, MAX_UNPACKED_BYTES))


@asynccontextmanager
async def scene(url, tmp_path):
    """A pool, contents and an arena."""
    arena = await make_arena(url, 2, 2)
    async with open_pool(url, most=3) as pool:
        yield pool, BlobStore(pool, FolderStorage(tmp_path)), arena


@pytest.mark.parametrize("container", WRITERS)
def test_every_container_says_the_same(tmp_path, container):
    rows = read(tmp_path, WRITERS[container](GOOD))
    assert all(isinstance(row, CheckedAnswer) for row in rows), rows
    assert [(row.model, row.prompt, row.data.decode()) for row in rows] == [
        (one["model"], one["prompt_id"], one["response"]) for one in GOOD
    ]
    assert [row.category for row in rows] == [None, "short", None]


def test_one_reading_tells_everything_that_is_wrong_with_its_place_and_field(tmp_path):
    lines = [
        b'{"prompt_id": "p", "prompt": "?", "model": "m", "response": "r"}',
        b"{not json}",
        b"[1, 2]",
        b'{"prompt_id": "p", "prompt": "?", "model": "m"}',
        b'{"prompt_id": "p", "prompt": "?", "model": " m ", "response": "r"}',
        b'{"prompt_id": "p", "prompt": "?", "model": "m", "response": "r", "kind": "film"}',
        b'{"prompt_id": "p", "prompt": "?", "model": "m", "response": "/etc/passwd", "kind": "image"}',
        b'{"prompt_id": "p", "prompt": "?", "model": "m", "response": ["r"]}',
        b'{"prompt_id": "p\\u202e", "prompt": "?", "model": "m", "response": "r"}',
        b'{"prompt_id": "p", "prompt": "a\\u0000b", "model": "m", "response": "r"}',
        b'{"prompt_id": "p", "prompt": "?", "model": "m", "response": "r", "category": "\\n"}',
        b'{"prompt_id": "p", "prompt": "?", "model": "m", "response": "data:image/png;base64,!!", "kind": "image"}',
        b'{"prompt_id": "p", "prompt": "?", "model": "m", "response": "data:image/png;base64,AAAA", "kind": "image"}',
        b'{"prompt_id": "\xff", "prompt": "?", "model": "m", "response": "r"}',
        b'{"prompt_id": "\\ud800", "prompt": "?", "model": "m", "response": "r"}',
        b"",
        b'{"prompt_id": "q", "prompt": "?", "model": "m", "response": "r"}',
    ]
    rows = read(tmp_path, b"\n".join(lines))
    bad = [row for row in rows if isinstance(row, BadRow)]
    assert len(rows) - len(bad) == 2
    assert [row.where for row in bad] == [f"line {n}" for n in range(2, 16)]
    assert [row.field for row in bad] == [
        None, None, "response", "model", "kind", "response", "response", "prompt_id", "prompt", "category",
        "response", "response", None, None,
    ]  # fmt: skip
    assert not any(row.problem.startswith("the file") or str(tmp_path) in row.problem for row in bad)
    assert not any(row.last for row in bad)


def test_rows_of_csv_fail_one_by_one_and_broken_quotes_end_the_reading(tmp_path):
    text = 'prompt_id,prompt,model,response\np,?,m\np,?,m,r\n,?,m,r\n"p,?'
    rows = read(tmp_path, text.encode())
    assert [getattr(row, "where", None) for row in rows] == ["line 2", "line 3", "line 4", "line 5"]
    assert isinstance(rows[1], CheckedAnswer)
    assert (rows[2].field, rows[2].problem) == ("prompt_id", "prompt_id is missing; expected text")
    assert rows[3].last


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "the file is empty"),
        (b" \n\n", "the file is empty"),
        (b"\x1f\x8b\x08\0", "compressed"),
        (b"\x28\xb5\x2f\xfd\0", "compressed"),
        (b"PAR1 and then nothing", "damaged"),
        (b"[{]", "not JSON"),
        (b"prompt_id,prompt_id\n1,2\n", "duplicate column"),
        (b"prompt_id,prompt,model,response\n\xff,1,2,3\n", "UTF-8"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_error(tmp_path, data, told):
    rows = read(tmp_path, data)
    assert [type(row) for row in rows] == [BadRow]
    assert told in rows[0].problem
    assert rows[0].last


def test_a_file_that_cannot_be_blinded_is_an_error_of_its_row(tmp_path):
    carried = f"data:image/png;base64,{base64.b64encode(PIXEL[:-1]).decode()}"
    (row,) = read(tmp_path, jsonl([GOOD[0] | {"kind": "image", "response": carried}]))
    assert (row.where, row.field) == ("line 1", "response")
    assert "whole PNG image" in row.problem


@pytest.mark.parametrize("container", ["jsonl", "csv", "parquet"])
async def test_what_was_looked_over_is_let_in(database, tmp_path, container):
    async with scene(database, tmp_path) as (pool, blobs, arena):
        upload = await store_upload(pool, arena, "a.x", WRITERS[container](GOOD), actor="operator:Ada")
        preview = await preview_upload(pool, arena, upload, actor="operator:Ada")
        async with pool.connection() as connection:
            before = await list_models(connection, arena.arena)
        brought = await import_upload(pool, blobs, arena, upload, UploadDecision(3), actor="operator:Ada")
        async with pool.connection() as connection:
            after = await list_models(connection, arena.arena)
            prompts = await list_prompts(connection, arena.arena)
        with pytest.raises(NotFound):
            await preview_upload(pool, arena, upload, actor="operator:Ada")
    assert (preview.planned.models, preview.planned.prompts) == (("oak", "elm"), ("new-1",))
    assert (preview.planned.responses, preview.planned.unchanged, preview.good, preview.bad) == (3, 0, 3, 0)
    assert [one.name for one in before] == ["model-0", "model-1"]
    assert (brought.models, brought.prompts, brought.responses) == (2, 1, 3)
    assert [(one.name, one.enabled) for one in after[2:]] == [("oak", True), ("elm", True)]
    assert [(one.prompt, one.category, one.language) for one in prompts] == [
        ("prompt-0", None, "en"), ("prompt-1", None, None), ("new-1", "short", None),
    ]  # fmt: skip


async def test_contradictions_are_told_row_by_row_and_good_rows_can_come_alone(database, tmp_path):
    rows = [
        GOOD[0],
        GOOD[0] | {"response": "another"},
        GOOD[1] | {"prompt": "Another text"},
        {"prompt_id": "prompt-0", "prompt": "What about 0?", "model": "model-0", "response": "changed"},
        {"prompt_id": "prompt-0", "prompt": "What about 0?", "model": "model-0", "response": "Answer 0 of somebody: 0"},
        {"prompt_id": "prompt-1", "prompt": "What about 1?", "model": "new", "response": "r"},
        {"prompt_id": "fresh", "prompt": "?", "model": "only-here", "response": "r", "category": "a"},
        {"prompt_id": "fresh", "prompt": "?", "model": "elm", "response": "r", "category": "b"},
    ]  # fmt: skip

    async with scene(database, tmp_path) as (pool, blobs, arena):
        await withdraw(pool, blobs, arena.name, "prompt-1", reason="r", actor="cli")
        upload = await store_upload(pool, arena, "a", jsonl(rows) + b"{broken\n", actor="a")
        preview = await preview_upload(pool, arena, upload, actor="a")
        for wrong in (UploadDecision(3), UploadDecision(4, partly=True)):
            with pytest.raises(Conflict):
                await import_upload(pool, blobs, arena, upload, wrong, actor="a")
        decision = UploadDecision(preview.good, partly=True, enable=False)
        brought = await import_upload(pool, blobs, arena, upload, decision, actor="a")
        async with pool.connection() as connection:
            models = await list_models(connection, arena.arena)
    assert [(row.where, row.field) for row in preview.errors] == [
        ("line 2", "response"), ("line 3", "prompt"), ("line 4", "response"), ("line 6", "prompt"),
        ("line 8", "category"), ("line 9", None),
    ]  # fmt: skip
    assert (preview.good, preview.bad, len(preview.planned.conflicts)) == (3, 6, 5)
    assert preview.planned.models == ("oak", "only-here")
    assert preview.planned.unchanged == 1
    assert (brought.models, brought.prompts, brought.responses, brought.unchanged) == (2, 2, 2, 1)
    assert [(one.name, one.enabled) for one in models[2:]] == [("oak", False), ("only-here", False)]


async def test_a_file_is_for_whoever_sent_it_where_it_was_sent(database, tmp_path):
    async with scene(database, tmp_path) as (pool, blobs, arena):
        other = await make_arena(database, 2, 1, name="other")
        upload = await store_upload(pool, arena, "a", jsonl(GOOD), actor="operator:Ada")
        for where, who, which in (
            (arena, "operator:Eve", upload),
            (other, "operator:Ada", upload),
            (arena, "operator:Ada", uuid4()),
        ):
            with pytest.raises(NotFound):
                await preview_upload(pool, where, which, actor=who)
            with pytest.raises(NotFound):
                await import_upload(pool, blobs, where, which, UploadDecision(3), actor=who)
            with pytest.raises(NotFound):
                await discard_upload(pool, where, which, actor=who)
        await discard_upload(pool, arena, upload, actor="operator:Ada")
        with pytest.raises(NotFound):
            await preview_upload(pool, arena, upload, actor="operator:Ada")


class Interrupted(BlobStore):
    """Its process ends in the second part of an import."""

    parts = 0

    async def check(self, *about):
        self.parts += 1
        if self.parts == 2:
            raise asyncio.CancelledError
        await super().check(*about)


async def test_an_import_that_was_interrupted_is_listed_and_can_be_repeated(database, tmp_path):
    rows = [GOOD[0] | {"prompt_id": f"asked-{p}", "model": f"m{m}"} for m in range(3) for p in range(120)]
    async with scene(database, tmp_path) as (pool, blobs, arena):
        upload = await store_upload(pool, arena, "answers.jsonl", jsonl(rows), actor="ada")
        decision = UploadDecision(len(rows))
        with pytest.raises(asyncio.CancelledError):
            await import_upload(
                pool, Interrupted(pool, FolderStorage(tmp_path)), arena, upload, decision, actor="ada"
            )
        assert [one.upload for one in await list_uploads(pool, arena, actor="ada")] == [upload]
        assert await list_uploads(pool, arena, actor="bob") == []
        left = (await preview_upload(pool, arena, upload, actor="ada")).planned
        brought = await import_upload(pool, blobs, arena, upload, decision, actor="ada")
        assert 0 < brought.unchanged == left.unchanged < len(rows)
        assert brought.responses == left.responses == len(rows) - left.unchanged
        assert await list_uploads(pool, arena, actor="ada") == []


async def test_files_lapse_after_an_hour_and_only_the_newest_few_wait(database, tmp_path):
    async with scene(database, tmp_path) as (pool, _contents, arena):
        kept = [await store_upload(pool, arena, f"{k}", jsonl(GOOD), actor="a") for k in range(6)]
        with connect(database) as connection:
            count = "SELECT count(*) FROM uploads"
            assert connection.execute(count).fetchone() == (4,)
            connection.execute("UPDATE uploads SET made_at = made_at - interval '61 minutes'")
            with pytest.raises(NotFound):
                await preview_upload(pool, arena, kept[-1], actor="a")
            await store_upload(pool, arena, "new", jsonl(GOOD), actor="a")
            assert connection.execute(count).fetchone() == (1,)
    assert timedelta(hours=1) == uploads.UPLOAD_LIFETIME


async def test_empty_and_too_large_files_are_refused_and_names_are_made_plain(
    database, tmp_path, monkeypatch
):
    async with scene(database, tmp_path) as (pool, _contents, arena):
        with pytest.raises(InputError, match="empty"):
            await store_upload(pool, arena, "a", b"", actor="a")
        monkeypatch.setattr("tiltyard.arena.content.upload_review.MAX_UPLOAD_BYTES", 10)
        with pytest.raises(InputError, match="more than 10 bytes"):
            await store_upload(pool, arena, "a", b"x" * 11, actor="a")
        names = []
        for name in ("x\0\n\u202ey.jsonl", "", " " * 500, "n" * 500):
            upload = await store_upload(pool, arena, name, b"{}", actor="a")
            names.append((await preview_upload(pool, arena, upload, actor="a")).name)
    assert names == ["x���y.jsonl", "answers", "answers", "n" * 120]


def bomb(value, rows, **options):
    """A small Parquet file of one value again and again."""
    names = ("prompt_id", "prompt", "model", "response", "ignored")
    columns = {name: pa.DictionaryArray.from_arrays([0] * rows, [value]) for name in names}
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file, compression="zstd", **options)
    return file.getvalue()


@pytest.mark.parametrize("name", ["m", " never a name "])
def test_a_file_that_unfolds_to_more_than_there_is_room_for_is_read_no_further(tmp_path, name):
    """Whether its rows are good or bad."""
    text, most = f"{name}{'x' * 99}", 40_000
    path = tmp_path / "upload"
    path.write_bytes(bomb(text, 10_000))
    assert path.stat().st_size < 20_000
    *rows, last = upload_rows(path, most)
    assert len(rows) == most // (4 * len(text.encode()))
    assert (last.where, last.last) == ("the file", True)
    assert "40000" in last.problem


def test_a_file_that_says_that_it_is_too_large_is_not_read_at_all(tmp_path):
    path = tmp_path / "upload"
    path.write_bytes(bomb("x" * 5_000_000, 3))
    assert path.stat().st_size < 20_000
    (only,) = upload_rows(path, 4_000_000)
    assert "4000000" in only.problem


def test_no_more_rows_of_parquet_are_decoded_than_are_asked_for(tmp_path, monkeypatch):
    seen = []
    batches = ParquetRecords.batches

    def watched(*args):
        for batch in batches(*args):
            seen.append((batch.num_rows, batch.nbytes))
            yield batch

    monkeypatch.setattr(ParquetRecords, "batches", watched)
    path = tmp_path / "upload"
    path.write_bytes(bomb("x" * 100_000, 2_000))
    rows = upload_rows(path, MAX_UNPACKED_BYTES)
    assert isinstance(next(rows), BadRow)
    ((count, size),) = seen
    assert count <= 32
    assert size < 1_000_000


async def test_a_second_click_leaves_no_second_line_in_the_audit(database, tmp_path):
    async with scene(database, tmp_path) as (pool, blobs, arena):
        for _ in range(2):
            upload = await store_upload(pool, arena, "a", jsonl(GOOD), actor="a")
            await import_upload(pool, blobs, arena, upload, UploadDecision(3), actor="a")
    with connect(database) as connection:
        assert connection.execute(
            "SELECT detail->'responses' FROM audit WHERE action = 'import answers' AND actor = 'a'"
        ).fetchall() == [(3,)]


async def test_all_errors_are_counted_and_the_first_hundred_told(database, tmp_path):
    async with scene(database, tmp_path) as (pool, _contents, arena):
        upload = await store_upload(pool, arena, "a", b"{\n" * 1234 + jsonl(GOOD), actor="a")
        preview = await preview_upload(pool, arena, upload, actor="a")
    assert (preview.bad, len(preview.errors), preview.good) == (1234, 100, 3)
    assert [row.where for row in preview.errors[:2]] == ["line 1", "line 2"]


async def test_looking_changes_nothing(database, tmp_path):
    tables = ("events", "models", "prompts", "responses", "contents", "audit")

    def sizes():
        with connect(database) as connection:
            return [connection.execute(f"SELECT count(*) FROM {one}").fetchone() for one in tables]

    async with scene(database, tmp_path) as (pool, _contents, arena):
        before = sizes()
        upload = await store_upload(pool, arena, "a", jsonl(GOOD), actor="a")
        await preview_upload(pool, arena, upload, actor="a")
        assert sizes() == before
