"""The log: dense positions in the order of commits, all or nothing, read alike by rows and by columns."""

import asyncio
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import numpy as np
import pytest

from support.live_arenas import make_arena
from tiltyard.arena.log import buckets, event_log
from tiltyard.arena.log import log_columns as columns_module
from tiltyard.arena.log.event_log import (
    LogKind,
    OpenMatchup,
    append_batch,
    find_matchup,
    read_tail,
)
from tiltyard.arena.log.log_columns import read_columns
from tiltyard.arena.rating.rater_progress import read_undone_votes
from tiltyard.core.policy.state.events import Event
from tiltyard.errors import StoreFault
from tiltyard.postgres.connections import connect, connect_async

SOON = datetime(2100, 1, 1, tzinfo=UTC)


def opened(serial, **changes):
    row = {
        "source": 0,
        "serial": serial,
        "matchup": uuid4(),
        "session": 5,
        "a": 0,
        "b": 1,
        "prompt": 2,
        "response_a": 1,
        "response_b": 2,
        "nominal": 1,
        "lane": 0,
        "served_at": SOON,
        "expires_at": SOON,
    }
    return OpenMatchup(**(row | changes))


def serve(batch, serial, **changes):
    one = opened(serial, **changes)
    batch.serve(one, reason="fewest meetings", propensity=0.25)
    return one


def run(coroutine):
    return asyncio.run(coroutine)


def positions(url, arena):
    with connect(url) as connection:
        rows = connection.execute(
            "SELECT position FROM events WHERE arena = %s ORDER BY 1", (arena,)
        ).fetchall()
    return [row[0] for row in rows]


async def test_writers_at_once_leave_no_gap_and_a_reader_that_follows_misses_nothing(database):
    async def write(arena, n):
        async with await connect_async(database) as connection:
            for _ in range(n):
                async with append_batch(connection, arena) as batch:
                    for _ in range(1 + batch.head % 3):
                        batch.add(LogKind.REVEAL, source=0, serial=0, session=1)

    async def follow(arena, until):
        seen = []
        async with await connect_async(database) as connection:
            while not seen or seen[-1] < until:
                seen += [row.position for row in await read_tail(connection, arena, seen[-1] if seen else 0)]
                await asyncio.sleep(0)
                if done.is_set() and not await read_tail(connection, arena, seen[-1]):
                    break
        return seen

    done = asyncio.Event()
    arena = (await make_arena(database, 2, 2)).arena
    reader = asyncio.create_task(follow(arena, 10**9))
    await asyncio.gather(*(write(arena, 40) for _ in range(5)))
    done.set()
    seen = await reader
    assert seen == positions(database, arena) == list(range(1, len(seen) + 1))


async def test_a_batch_that_fails_leaves_nothing_and_the_connection_goes_on(database):
    arena = (await make_arena(database, 2, 2)).arena
    async with await connect_async(database) as connection:
        async with append_batch(connection, arena) as batch:
            serve(batch, 0)
            batch.vote(opened(0), 1, blind=True)
        head = batch.head
        with pytest.raises(StoreFault, match="duplicate key"):  # noqa: PT012
            async with append_batch(connection, arena) as batch:
                serve(batch, 1)
                batch.vote(opened(0), 2, blind=True)
        with pytest.raises(ZeroDivisionError):  # noqa: PT012
            async with append_batch(connection, arena) as batch:
                batch.add(LogKind.REVEAL)
                _ = 1 / 0
        async with append_batch(connection, arena) as batch:
            assert batch.head == head
    return arena


async def test_a_connection_whose_prepared_statements_are_gone_is_given_up(database):
    arena = (await make_arena(database)).arena
    connection = await connect_async(database)
    for serial in range(8):
        async with append_batch(connection, arena) as batch:
            serve(batch, serial)
    # The driver does not see it.
    await connection.execute("DO $$ BEGIN EXECUTE 'DEALLOCATE ALL'; END $$")
    with pytest.raises(StoreFault):
        async with append_batch(connection, arena) as batch:
            serve(batch, 8)
    assert connection.closed


async def test_a_matchup_ends_once_whatever_the_ending(database):
    async def scene(kind):
        async with await connect_async(database) as connection:
            with pytest.raises(StoreFault, match="duplicate key"):
                async with append_batch(connection, arena) as batch:
                    batch.vote(opened(0), 1, blind=True) if kind is LogKind.VOTE else batch.end(kind, 0, 0)

    made = await make_arena(database, 2, 2)
    async with await connect_async(database) as connection, append_batch(connection, made.arena) as batch:
        serve(batch, 0)
        batch.end(LogKind.SKIP, 0, 0)
    arena = made.arena
    for kind in (LogKind.VOTE, LogKind.SKIP, LogKind.EXPIRE):
        await scene(kind)


async def test_an_undo_of_a_vote_that_is_not_there_undoes_the_batch(database):
    arena = (await make_arena(database, 2, 2)).arena
    before = positions(database, arena)
    async with await connect_async(database) as connection:
        with pytest.raises(StoreFault, match="cannot undo"):
            async with append_batch(connection, arena) as batch:
                batch.undo(0, 77, 1, vote=1, ballot=1, expires_at=batch.now)
    assert positions(database, arena) == before


async def test_only_an_ending_that_was_undone_is_replaced(database):
    """The database refuses a second vote that stands, whatever the program believes."""

    def voted(batch, ballot, outcome):
        return batch.vote(opened(0, ballot=ballot), outcome, blind=True)

    arena = (await make_arena(database, 2, 2)).arena
    async with await connect_async(database) as connection:
        async with append_batch(connection, arena) as batch:
            serve(batch, 0)
            first = voted(batch, 0, 1)
            with pytest.raises(StoreFault, match="ended already"):
                voted(batch, 1, 2)
        for ballot, message in ((0, "duplicate key"), (1, "cannot replace ending")):
            with pytest.raises(StoreFault, match=message):
                async with append_batch(connection, arena) as batch:
                    voted(batch, ballot, 2)
        with pytest.raises(StoreFault, match="cannot undo"):
            async with append_batch(connection, arena) as batch:
                batch.undo(0, 0, 1, vote=first - 1, ballot=1, expires_at=batch.now)
        async with append_batch(connection, arena) as batch:
            batch.undo(0, 0, 1, vote=first, ballot=1, expires_at=batch.now)
            assert not await batch.stands(0, 0, first)
            second = voted(batch, 1, 2)
            assert await batch.stands(0, 0, second)
            assert not await batch.stands(0, 0, first)
        async with append_batch(connection, arena) as batch:
            assert await batch.stands(0, 0, second)
            batch.reveal(0, 0, 1)
        with pytest.raises(StoreFault, match="cannot undo"):
            async with append_batch(connection, arena) as batch:
                batch.undo(0, 0, 1, vote=second, ballot=2, expires_at=batch.now)
    with connect(database) as connection:
        assert connection.execute("SELECT outcome, undone FROM endings").fetchall() == [(2, None)]
        assert connection.execute("SELECT ballot FROM matchups").fetchall() == [(1,)]


async def test_columns_are_the_rows(database):
    undone = []
    arena = (await make_arena(database, 3, 4)).arena
    async with await connect_async(database) as connection:
        for serial in range(20):
            async with append_batch(connection, arena) as batch:
                serve(batch, serial, a=serial % 3, b=(serial + 1) % 3, session=2**40 + serial)
                if serial % 4 == 0:
                    batch.end(LogKind.SKIP, 0, serial)
                elif serial % 4 == 1:
                    batch.end(LogKind.EXPIRE, 0, serial)
                else:
                    one = opened(serial, a=serial % 3, b=(serial + 1) % 3)
                    batch.vote(one, serial % 13, blind=True)
                if serial % 8 == 3:
                    undone.append(batch.head)
                    batch.undo(0, serial, 1, vote=batch.head, ballot=1, expires_at=batch.now)
        async with append_batch(connection, arena) as batch:
            batch.add(LogKind.POLICY, detail={"policy": {"phase": 3}})
        rows = await read_tail(connection, arena, 0)
    with connect(database) as connection:
        columns = read_columns(connection, arena, 0)
        assert read_undone_votes(connection, arena, 0, rows[-1].position) == set(undone)
        middle = read_columns(connection, arena, 10, 15)
    for name in (
        "position",
        "kind",
        "source",
        "serial",
        "session",
        "a",
        "b",
        "prompt",
        "outcome",
        "nominal",
        "lane",
    ):
        assert getattr(columns, name).tolist() == [getattr(row, name) for row in rows], name
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    assert columns.at.tolist() == [(row.at - epoch) // timedelta(microseconds=1) for row in rows]
    assert columns.details[rows[-1].position] == {"policy": {"phase": 3}}
    assert middle.position.tolist() == [11, 12, 13, 14, 15]
    assert len(undone) == 3
    without = columns.without(undone)
    assert without.position[without.kind != columns.kind].tolist() == undone
    assert set(without.kind[without.kind != columns.kind].tolist()) == {LogKind.UNDO}
    assert columns.without(()) is columns
    assert len(columns[2:5]) == 3


async def test_events_of_a_source_are_its_own_and_those_of_all_with_dropped_votes_skipped(database):
    arena = (await make_arena(database, 2, 2)).arena
    async with await connect_async(database) as connection, append_batch(connection, arena) as batch:
        for source in (0, 1):
            for serial in (0, 1):
                serve(batch, serial, source=source)
                batch.vote(opened(serial, source=source, prompt=1), source, blind=True)
    with connect(database) as connection:
        columns = read_columns(connection, arena, 0)
    events = columns.events(1, {1})
    kinds = [Event(code) for code in events.event.tolist()]
    assert kinds[:6] == [Event.RESPOND] * 4 + [Event.ENABLE] * 2
    assert kinds[6:] == [Event.SERVED, Event.VOTE, Event.SERVED, Event.SKIP]
    assert events.kind.tolist()[7] == 1
    assert events.kind.dtype == np.uint8
    assert [Event(code) for code in columns.events(0).event.tolist()][-1] is Event.VOTE


@pytest.mark.parametrize("piece", [1, 4, 7, 8, 9])
def test_a_log_that_is_read_in_pieces_is_the_same(database, monkeypatch, piece):
    arena = run(make_arena(database, 2, 2)).arena
    with connect(database) as connection:
        whole = read_columns(connection, arena, 0)
        assert len(whole) == 8
        monkeypatch.setattr(columns_module, "_CHUNK_ROWS", piece)
        pieced = read_columns(connection, arena, 0)
        assert read_columns(connection, arena, 2, 7).position.tolist() == [3, 4, 5, 6, 7]
    for name in (field.name for field in fields(whole)):
        assert np.array_equal(getattr(pieced, name), getattr(whole, name)), name


def test_an_empty_stretch_has_no_rows(database):
    arena = run(make_arena(database, 2, 2)).arena
    with connect(database) as connection:
        columns = read_columns(connection, arena, 10_000)
    assert len(columns) == 0
    assert len(columns.events(0)) == 0


async def test_ranges_are_made_before_they_are_needed(database, monkeypatch):
    monkeypatch.setattr(buckets, "PARTITION_ROWS", 50)
    for module in (event_log, buckets):
        monkeypatch.setattr(module, "PARTITION_AHEAD_ROWS", 10)
    monkeypatch.setattr(event_log, "PARTITION_ROWS", 50)

    arena = (await make_arena(database, 2, 2)).arena
    async with await connect_async(database) as connection:
        for serial in range(130):
            async with append_batch(connection, arena) as batch:
                serve(batch, serial)
                batch.end(LogKind.SKIP, 0, serial)
    assert len(positions(database, arena)) == 130 * 2 + 8
    with connect(database) as connection:
        names = {
            row[0]
            for row in connection.execute("SELECT relname FROM pg_class WHERE relispartition").fetchall()
        }
    assert {f"events_b{arena}_5", f"matchups_b{arena}_2", f"endings_b{arena}_2"} <= names


async def test_a_matchup_is_found_by_its_id_with_its_ending(database):
    arena = (await make_arena(database, 2, 2)).arena
    async with await connect_async(database) as connection:
        async with append_batch(connection, arena) as batch:
            one, two = serve(batch, 0), serve(batch, 1)
            batch.vote(opened(1), 3, blind=True)
        waiting, ended = [await find_matchup(connection, arena, each.matchup) for each in (one, two)]
        assert waiting.kind is None
        assert (ended.kind, ended.outcome) == (LogKind.VOTE, 3)
        assert await find_matchup(connection, arena, uuid4()) is None
