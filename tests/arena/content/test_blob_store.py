"""Bytes of responses: kept by hash, whole or not at all, wherever they lie; gone when nobody has them."""

import asyncio
import hashlib
import os
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.postgres_servers import until_someone_waits
from tiltyard.arena.content.answer_import import create_arena, import_answers
from tiltyard.arena.content.blob_store import INLINE_LIMIT_BYTES, BlobStore
from tiltyard.arena.content.object_storage import BucketStorage, FolderStorage, open_storage
from tiltyard.arena.operators.arena_changes import withdraw
from tiltyard.errors import BadOption, Conflict, NotFound, StoreFault
from tiltyard.postgres.connections import connect, open_pool

BIG = bytes(range(256)) * (INLINE_LIMIT_BYTES // 128)
KEYS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_REGION": "us-east-1"}


@contextmanager
def a_bucket():
    """An S3 server of one's own, with a bucket in it."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        endpoint = f"http://{host}:{port}"
        httpx2.put(f"{endpoint}/arena-bytes").raise_for_status()
        yield open_storage(
            "s3://arena-bytes/some/prefix", Path("/nowhere"), KEYS | {"AWS_ENDPOINT_URL": endpoint}
        )
    finally:
        server.stop()


@pytest.fixture(params=["folder", "bucket"])
def object_storage(request, tmp_path):
    if request.param == "folder":
        yield FolderStorage(tmp_path / "home" / "responses")
    else:
        with a_bucket() as bucket:
            assert isinstance(bucket, BucketStorage)
            yield bucket


@asynccontextmanager
async def opened(url, object_storage, **options):
    async with open_pool(url, most=3) as pool:
        yield BlobStore(pool, object_storage, **options)


async def test_bytes_come_back_from_wherever_they_lie(database, object_storage):
    many = [b"", b"x", bytes(INLINE_LIMIT_BYTES), bytes(INLINE_LIMIT_BYTES + 1), BIG]

    async with opened(database, object_storage) as blobs:
        hashes = await blobs.put_many(many)
        assert hashes == [hashlib.sha256(data).digest() for data in many]
        assert (await blobs.put_many([BIG]))[0] == hashes[-1]
    async with opened(database, object_storage) as another:
        assert [await another.read_bytes(sha256) for sha256 in hashes] == many
        assert await another.read_bytes(hashes[-1]) == BIG
        with pytest.raises(StoreFault, match="are missing"):
            await another.read_bytes(hashlib.sha256(b"other").digest())
    with connect(database) as connection:
        rows = connection.execute("SELECT size, bytes IS NULL FROM contents ORDER BY size").fetchall()
    assert rows == [(len(data), len(data) > INLINE_LIMIT_BYTES) for data in sorted(many, key=len)]


async def test_missing_bytes_are_a_fault_and_removing_them_twice_is_none(object_storage):
    await object_storage.put("ab", BIG)
    assert await object_storage.get("ab") == BIG
    await object_storage.put("ab", BIG)
    await object_storage.remove("ab")
    await object_storage.remove("ab")
    with pytest.raises(StoreFault, match="does not exist"):
        await object_storage.get("ab")


async def test_a_server_that_is_not_there_is_told(tmp_path):
    bucket = open_storage("s3://b/p", tmp_path, KEYS | {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"})

    with pytest.raises(StoreFault, match="check the bucket") as caught:
        await bucket.put("ab", b"x")
    assert "testing" not in str(caught.value)


async def test_damaged_bytes_are_never_handed_out(database, tmp_path):
    folder = FolderStorage(tmp_path)

    async with opened(database, folder) as blobs:
        small, big = await blobs.put_many([b"small", BIG])
        assert (tmp_path / big.hex()).stat().st_mode & 0o777 == 0o600
        (tmp_path / big.hex()).write_bytes(b"!" + BIG[1:])
        with connect(database) as connection:
            connection.execute("UPDATE contents SET bytes = 'other' WHERE sha256 = %s", (small,))
        for sha256 in (small, big):
            with pytest.raises(StoreFault, match="damaged"):
                await blobs.read_bytes(sha256)


async def test_a_write_that_fails_leaves_nothing_behind(database, tmp_path, monkeypatch):
    folder = FolderStorage(tmp_path / "responses")

    def full(_descriptor):
        raise OSError(28, "No space left on device")

    async with opened(database, folder) as blobs:
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(StoreFault, match="No space left"):
            await blobs.put_many([BIG])
        monkeypatch.undo()
        assert list((tmp_path / "responses").iterdir()) == []
        with pytest.raises(StoreFault):
            await blobs.read_bytes(hashlib.sha256(BIG).digest())
        await blobs.put_many([BIG])


def test_a_folder_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreFault, match="cannot write"):
        asyncio.run(FolderStorage(tmp_path / "file" / "responses").put("ab", b"x"))


def test_where_bytes_lie_is_read_from_one_variable(tmp_path):
    assert open_storage(None, tmp_path).path == tmp_path / "responses"
    assert open_storage(str(tmp_path / "elsewhere"), tmp_path).path == tmp_path / "elsewhere"
    for url in ("gs://bucket/x", "s3:///prefix"):
        with pytest.raises(BadOption, match="TILTYARD_RESPONSES_URL"):
            open_storage(url, tmp_path)


async def an_arena(url, blobs, pool, tmp_path, *answers):
    await create_arena(pool, "arena")
    path = tmp_path / "answers.jsonl"
    path.write_text(
        "".join(
            f'{{"prompt_id": "{p}", "prompt": "{p}?", "model": "{m}", "response": "{r}"}}\n'
            for m, p, r in answers
        )
    )
    await import_answers(pool, blobs, "arena", path)


async def test_bytes_go_with_their_last_live_response(database, tmp_path, object_storage):
    big = "y" * (INLINE_LIMIT_BYTES + 1)
    name = hashlib.sha256(big.encode()).hexdigest()

    async with open_pool(database, most=3) as pool:
        blobs = BlobStore(pool, object_storage)
        await an_arena(
            database, blobs, pool, tmp_path, ("m1", "p", big), ("m2", "p", big), ("m3", "p", "small")
        )
        first = await blobs.read(1)
        await withdraw(pool, blobs, "arena", "p", "m1", reason="asked", actor="cli")
        with pytest.raises(NotFound, match="withdrawn"):
            await blobs.read(1)
        assert await blobs.read(2) == first
        assert await object_storage.get(name) == big.encode()
        await withdraw(pool, blobs, "arena", "p", "m2", reason="asked", actor="cli")
        with pytest.raises(StoreFault, match="does not exist"):
            await object_storage.get(name)
        with pytest.raises(NotFound):
            await blobs.read(2)
        assert (await blobs.read(3)).data == b"small"
    with connect(database) as connection:
        hashes = connection.execute(
            "SELECT encode(sha256, 'hex') FROM responses WHERE withdrawn_at IS NOT NULL"
        )
        assert {sha256 for (sha256,) in hashes} == {name}
        assert connection.execute("SELECT count(*) FROM contents").fetchone() == (1,)


async def test_another_process_stops_handing_out_a_withdrawn_response(database, tmp_path):
    async with open_pool(database, most=3) as pool:
        here, there = (BlobStore(pool, FolderStorage(tmp_path / "responses")) for _ in range(2))
        await an_arena(database, here, pool, tmp_path, ("m1", "p", "text"))
        await there.read(1)
        await withdraw(pool, here, "arena", "p", "m1", reason="asked", actor="cli")
        there.forget([1])
        with pytest.raises(NotFound):
            await there.read(1)


async def test_a_sweep_spares_what_was_just_put_and_takes_what_was_left_behind(database, tmp_path):
    async with opened(database, FolderStorage(tmp_path)) as blobs:
        await blobs.put_many([b"small", BIG])
        assert await blobs.sweep() == 0
        with connect(database) as connection:
            connection.execute("UPDATE contents SET added_at = now() - interval '2 days'")
        assert await blobs.sweep() == 2
        assert list(tmp_path.iterdir()) == []


class SlowFolder(FolderStorage):
    """It counts what it removes: the first file, and those after some, only when they may go."""

    def __init__(self, path):
        super().__init__(path)
        self.removed = 0
        self.began, self.some, self.rest = (asyncio.Event() for _ in range(3))

    async def remove(self, name):
        self.removed += 1
        self.began.set()
        await self.some.wait()
        if self.removed > 20:
            await self.rest.wait()
        await super().remove(name)


async def test_whoever_puts_bytes_waits_for_a_small_part_of_a_sweep(database, tmp_path):
    folder = SlowFolder(tmp_path)

    async with opened(database, folder) as blobs:
        await blobs.put_many([BIG + bytes([k]) for k in range(60)])
        with connect(database) as connection:
            connection.execute("UPDATE contents SET added_at = now() - interval '2 days'")
        sweep = asyncio.create_task(blobs.sweep())
        await folder.began.wait()
        put = asyncio.create_task(blobs.put_many([b"new"]))
        await until_someone_waits(database)
        folder.some.set()
        async with asyncio.timeout(60):
            await put
        assert folder.removed < 60
        folder.rest.set()
        assert await sweep == 60


async def test_a_sweep_spares_what_got_a_response_since_it_looked(database, tmp_path):
    async with open_pool(database, most=3) as pool:
        blobs = BlobStore(pool, FolderStorage(tmp_path))
        await an_arena(database, blobs, pool, tmp_path, ("m1", "p", "text"))
        async with pool.connection() as connection, connection.transaction():
            assert await blobs._remove(connection, [hashlib.sha256(b"text").digest()]) == 0
        assert (await blobs.read(1)).data == b"text"


async def test_an_import_never_names_bytes_that_a_sweep_took(database, tmp_path):
    async with opened(database, FolderStorage(tmp_path)) as blobs:
        (sha256,) = await blobs.put_many([BIG])
        with connect(database) as connection:
            connection.execute("DELETE FROM contents")
        async with open_pool(database, most=1) as pool, pool.connection() as connection:
            await blobs.hold(connection)
            with pytest.raises(Conflict, match="the file again"):
                await blobs.check(connection, {sha256})


@given(st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=30), st.integers(0, 200))
def test_what_is_held_in_memory_stays_within_its_bound(many, room):
    blobs = BlobStore(None, None, cached=room)
    for data in many:
        blobs._bytes.put(hashlib.sha256(data).digest(), data, len(data))
        assert blobs._bytes.weight <= room
