"""Loops that have lost the database: they wait longer each time, not all alike, and say why."""

import asyncio
import json
import logging
from contextlib import AsyncExitStack

import pytest

from support.live_arenas import make_arena, voting_queue_of
from support.rewritten_logs import allow_rewriting
from tiltyard.arena.boards import board_cache
from tiltyard.arena.boards.board_cache import BoardCache
from tiltyard.arena.boards.snapshots import SnapshotNotifications
from tiltyard.arena.content.blob_store import BlobStore
from tiltyard.arena.content.object_storage import FolderStorage
from tiltyard.arena.rating import rater_process
from tiltyard.arena.registry import ArenaRegistry
from tiltyard.arena.voting import voting_queue
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.arena.voting.voting_queue import VotingQueue
from tiltyard.errors import StoreFault
from tiltyard.postgres.connections import connect, open_pool
from tiltyard.settings.serving_settings import ServingSettings
from tiltyard.web.edge.logs import JsonLogFormatter

ANN = Voter(1)
NOWHERE = "postgresql://tiltyard@127.0.0.1:1/nothing"


def fail(*_args, **_options):
    raise StoreFault("the database is away")


async def failing(*_args, **_options):
    fail()


class Stop:
    """Tells a loop to stop after some waits, and keeps how long they would have been."""

    def __init__(self, most):
        self.waits, self._most = [], most

    def is_set(self):
        return len(self.waits) >= self._most

    def wait(self, seconds):
        self.waits.append(seconds)


def assert_backs_off(waits, others):
    """Each wait lies in the second half of one that doubles, and two loops do not wait alike."""
    for one in (waits, others):
        wholes = [min(one[0] * 2 * 2**k, 10.0) for k in range(len(one))]
        assert all(wait <= whole for wait, whole in zip(one, wholes, strict=True))
        assert one[-1] >= 4.0
    assert waits != others


@pytest.fixture
def slept(monkeypatch):
    """How long loops would have slept."""
    waits, really = [], asyncio.sleep

    async def sleep(seconds, *_):
        if seconds:
            waits.append(seconds)
        await really(0)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    return waits


async def test_a_queue_that_cannot_load_retries_with_a_growing_delay(database, monkeypatch, caplog):
    monkeypatch.setattr(voting_queue, "_IDLE_POLL_SECONDS", 0.01)
    monkeypatch.setattr(voting_queue, "_FIRST_RETRY_SECONDS", 0.02)
    attempts = 0

    arena = await make_arena(database)
    async with voting_queue_of(database, arena) as opened:

        async def load():
            nonlocal attempts
            attempts += 1
            await failing()

        monkeypatch.setattr(opened, "_load", load)
        opened.state = None
        with pytest.raises(StoreFault):
            await opened.next_matchup(ANN)
        await asyncio.sleep(1.0)
    assert 3 <= attempts <= 12
    [line] = [record for record in caplog.records if record.name == voting_queue.__name__]
    assert "database is away" in line.getMessage()
    assert line.facts == {"arena": "arena"}


async def test_a_queue_that_recovers_logs_it_and_resets_the_retry_delay(database, monkeypatch, caplog):
    caplog.set_level(logging.INFO)

    arena = await make_arena(database)
    async with voting_queue_of(database, arena) as opened:
        with monkeypatch.context() as patch:
            patch.setattr(opened, "_batch", failing)
            for _ in range(2):
                with pytest.raises(StoreFault):
                    await opened.next_matchup(ANN)
        assert (await opened.next_matchup(ANN)).new
    said = [record.getMessage() for record in caplog.records if record.name == voting_queue.__name__]
    assert len(said) == 2
    assert said[1].endswith("works again")


async def test_a_request_ends_the_long_retry_delay_of_an_idle_queue(database, monkeypatch):
    monkeypatch.setattr(voting_queue, "_FIRST_RETRY_SECONDS", 600.0)
    monkeypatch.setattr(voting_queue, "_MAX_IDLE_RETRY_SECONDS", 600.0)
    monkeypatch.setattr(voting_queue, "_MAX_RETRY_WITH_WAITERS_SECONDS", 0.05)

    arena = await make_arena(database)
    async with voting_queue_of(database, arena) as opened:
        with monkeypatch.context() as patch:
            patch.setattr(opened, "_batch", failing)
            with pytest.raises(StoreFault):
                await opened.next_matchup(ANN)
        async with asyncio.timeout(30):
            assert (await opened.next_matchup(ANN)).new


async def test_idle_queues_load_a_few_at_a_time_and_requests_come_first(database, monkeypatch):
    monkeypatch.setattr(voting_queue, "_IDLE_POLL_SECONDS", 0.01)
    loading, most = set(), 0

    arenas = [await make_arena(database, 2, 1, name=f"arena-{number}") for number in range(6)]
    async with open_pool(database, most=4) as pool, AsyncExitStack() as stack:
        opened = [VotingQueue(pool, arena.arena, arena.name, arena.settings) for arena in arenas]
        for one in opened:
            await one.open()
            stack.push_async_callback(one.close)
        release = asyncio.Event()

        def slowly(one, load):
            async def loading_slowly():
                nonlocal most
                loading.add(one)
                most = max(most, len(loading))
                if one is not opened[-1]:
                    await release.wait()
                loading.discard(one)
                return await load()

            return loading_slowly

        for one in opened:
            one._load = slowly(one, one._load)
            one.state = None
        while len(loading) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        async with asyncio.timeout(30):
            assert (await opened[-1].next_matchup(ANN)).new
        assert most <= 3
        release.set()
        async with asyncio.timeout(30):
            while not all(one.ready for one in opened):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    assert most <= 3


async def test_a_silent_database_is_logged_with_the_arena(database, monkeypatch, caplog):
    monkeypatch.setattr(voting_queue, "_BATCH_TIMEOUT_SECONDS", 0.1)

    arena = await make_arena(database)
    async with voting_queue_of(database, arena) as opened:

        async def silent(_asks):
            await asyncio.Event().wait()

        monkeypatch.setattr(opened, "_batch", silent)
        with pytest.raises(StoreFault, match="is not responding"):
            await opened.next_matchup(ANN)
    [line] = [record for record in caplog.records if record.name == voting_queue.__name__]
    assert "is not responding" in line.getMessage()
    assert line.facts == {"arena": "arena"}


async def test_an_arena_that_cannot_be_opened_is_logged_once_whoever_asks(database, tmp_path, caplog):
    name = "an-arena-with-a-name-that-is-long"

    arena = await make_arena(database, name=name)
    with connect(database) as connection:
        allow_rewriting(connection)
        connection.execute("DELETE FROM events WHERE arena = %s AND position = 1", (arena.arena,))
    async with open_pool(database, most=4) as pool:
        registry = ArenaRegistry(
            ServingSettings(port=0), database, pool, BlobStore(pool, FolderStorage(tmp_path))
        )
        for _ in range(5):
            with pytest.raises(StoreFault):
                await registry.voting_queue(name)
    [line] = [record for record in caplog.records if record.name == "tiltyard.arena.registry"]
    told = json.loads(JsonLogFormatter().format(line))
    assert told["arena"] == name
    assert "damaged" in told["event"]


def test_a_rater_without_a_database_backs_off(monkeypatch, caplog):
    monkeypatch.setattr("tiltyard.arena.rating.rater_process.connect", fail)
    stops = [Stop(6), Stop(6)]
    for stop in stops:
        rater_process.RaterProcess(NOWHERE).run(stop)
    assert_backs_off(*(stop.waits for stop in stops))
    assert len(caplog.records) == 2


def test_listeners_without_a_database_back_off(slept, caplog):
    async def scene(announcements):
        for _ in range(6):
            await announcements.next()

    for _ in range(2):
        asyncio.run(scene(SnapshotNotifications(NOWHERE)))
    assert_backs_off(slept[:6], slept[6:])
    assert [record.name for record in caplog.records] == ["tiltyard.arena.boards.snapshots"] * 2


def test_boards_and_settings_that_cannot_be_read_are_looked_for_less_often(slept, caplog):
    async def scene(following, waits):
        ended = asyncio.create_task(following())
        while len(slept) < waits:
            await asyncio.get_running_loop().run_in_executor(None, int)
        ended.cancel()
        await asyncio.gather(ended, return_exceptions=True)

    def first_waits(following):
        """The first waits of a loop, which may have had more of them before it was stopped."""
        del slept[:]
        asyncio.run(scene(following, 6))
        return slept[:6]

    boards = [BoardCache(NOWHERE, None) for _ in range(2)]
    for board in boards:
        board._news.next = lambda: asyncio.sleep(0)
        board._look = failing
    assert_backs_off(*(first_waits(board._follow) for board in boards))
    del slept[:]
    registry = ArenaRegistry(ServingSettings(port=0), NOWHERE, None, None)
    registry._queues["arena"] = None
    registry.settings_changed = failing
    asyncio.run(scene(registry._follow, 8))
    assert slept[0] == 5.0
    assert all(wait <= 30.0 for wait in slept)
    assert max(slept[1:]) >= 10.0
    assert len([record for record in caplog.records if record.name == "tiltyard.arena.registry"]) == 1
    assert board_cache.__name__ in {record.name for record in caplog.records}
