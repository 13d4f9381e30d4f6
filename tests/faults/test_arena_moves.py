"""An arena moves to a bucket of its own while people vote: no vote is lost or doubled."""

import asyncio

import pytest

from support.faults.auditing import audit_log, audit_ratings
from support.folded_votes import rows
from support.live_arenas import make_arena, voting_queue_of
from support.voted_arenas import cast, close_window, rate
from tiltyard.arena.log import buckets, event_log
from tiltyard.arena.maintenance import arena_moves
from tiltyard.arena.maintenance.arena_moves import MoveTimes, delete_old_copy, move_arena
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.core.battles import Kind
from tiltyard.errors import Conflict
from tiltyard.foundation.caches import BoundedCache
from tiltyard.postgres.connections import connect, open_pool

TIMES = MoveTimes(cache_seconds=0.4, grace_seconds=0.5)
TABLES = ("events", "matchups", "endings")


@pytest.fixture(autouse=True)
def short_memory(monkeypatch):
    """Buckets are remembered for less time than a move waits."""
    monkeypatch.setattr(buckets, "_CACHE", BoundedCache(100, seconds=0.3))


def counts(url, bucket):
    return [rows(url, f"SELECT count(*) FROM {table}_b{bucket} WHERE arena = 1")[0][0] for table in TABLES]


async def keep_voting(queue, voter, stop, votes):
    """Vote until told to stop; undo some votes and vote again. Every acknowledged vote is written down."""
    k = 0
    while not stop.is_set():
        k += 1
        offered = await queue.next_matchup(voter)
        kind = Kind.WIN_A if k % 2 else Kind.WIN_B
        await queue.vote(voter, offered.matchup, kind, reveal=k % 4 == 0)
        if k % 3 == 0 and k % 4:
            await queue.undo(voter, offered.matchup)
            kind = Kind.TIE
            await queue.vote(voter, offered.matchup, kind, ballot=1)
        votes[offered.matchup] = int(kind)


async def move_while_voting(url, arena, moving):
    """Votes that were acknowledged before, during and after a move."""
    votes, stop = {}, asyncio.Event()
    async with open_pool(url, most=2) as pool, voting_queue_of(url, arena) as queue:
        tasks = [asyncio.create_task(keep_voting(queue, Voter(100 + k, 0), stop, votes)) for k in range(3)]
        try:
            result = await moving(pool)
            before = len(votes)
            while len(votes) < before + 10:
                await asyncio.sleep(0)
                assert not any(task.done() for task in tasks)
        finally:
            stop.set()
            await asyncio.gather(*tasks)
    return result, votes


async def test_people_vote_while_an_arena_moves(database):
    arena = await make_arena(database, 4, 60)
    async with voting_queue_of(database, arena) as queue:
        await cast(queue, 40)

    async def moving(pool):
        made = await move_arena(pool, "arena", actor="cli", times=TIMES)
        return made, await delete_old_copy(pool, "arena", actor="cli", times=TIMES)

    (made, deleted), votes = await move_while_voting(database, arena, moving)
    assert (made.source, made.target) == (1, 65)
    assert deleted == made.events
    assert counts(database, 1) == [0, 0, 0]
    assert rows(database, "SELECT bucket, moving_to, moved_from, moved_at FROM arenas") == [
        (65, None, None, None)
    ]
    stored = dict(
        rows(database, "SELECT matchup, outcome FROM battles JOIN matchups USING (arena, source, serial)")
    )
    assert {matchup: stored[matchup] for matchup in votes} == votes
    audit_log(database)
    assert rows(
        database, "SELECT action FROM audit WHERE action LIKE '%move%' OR action LIKE '%copy%' ORDER BY entry"
    ) == [
        ("move arena",),
        ("delete old copy",),
    ]
    close_window(database)
    rate(database)
    assert audit_ratings(database, every=True).boards > 0


@pytest.mark.slow(but="switch")
@pytest.mark.parametrize("point", ["copy", "catch up", "switch"])
async def test_a_move_that_dies_can_be_repeated(database, monkeypatch, point):
    """The arena works in its old bucket, and what changed after the copy is copied again."""
    arena = await make_arena(database, 4, 60)

    class DeathError(Exception):
        pass

    async def die(*_, **__):
        raise DeathError

    async with voting_queue_of(database, arena) as queue:
        await cast(queue, 30, reveal=False)
    async with open_pool(database, most=2) as pool:
        with monkeypatch.context() as patched:
            if point == "copy":
                patched.setattr(arena_moves._Move, "catch_up", die)
            elif point == "catch up":
                patched.setattr(arena_moves._Move, "switch", die)
            else:
                patched.setattr(arena_moves, "write_audit_entry", die)
            with pytest.raises(DeathError):
                await move_arena(pool, "arena", actor="cli", times=TIMES)
    assert rows(database, "SELECT bucket FROM arenas") == [(1,)]

    async def moving(pool):
        return await move_arena(pool, "arena", actor="cli", times=TIMES)

    made, votes = await move_while_voting(database, arena, moving)
    assert made.target == 65
    assert len(votes) >= 10
    async with open_pool(database, most=1) as pool:
        with pytest.raises(Conflict, match="its own already"):
            await move_arena(pool, "arena", actor="cli", times=TIMES)
        assert await delete_old_copy(pool, "arena", actor="cli", times=TIMES) == made.events
        assert await delete_old_copy(pool, "arena", actor="cli", times=TIMES) is None
    audit_log(database)
    assert {str(matchup) for matchup in votes} <= {
        str(matchup) for (matchup,) in rows(database, "SELECT matchup FROM matchups_b65")
    }


async def test_every_column_is_copied(database, monkeypatch):
    """Over several ranges and chunks, and in an arena that shares its bucket with another."""
    monkeypatch.setattr(arena_moves, "_CHUNK_ROWS", 7)
    monkeypatch.setattr(buckets, "PARTITION_ROWS", 50)
    monkeypatch.setattr(event_log, "PARTITION_ROWS", 50)
    for module in (event_log, buckets):
        monkeypatch.setattr(module, "PARTITION_AHEAD_ROWS", 10)
    arena = await make_arena(database, 4, 8)
    with connect(database) as connection:
        connection.execute("ALTER TABLE arenas ALTER COLUMN arena RESTART WITH 65")
    other = await make_arena(database, 3, 5, name="other")
    whole = "SELECT to_jsonb(t) - 'bucket' FROM {} t WHERE arena = {} ORDER BY position"
    for one, number in ((arena, 60), (other, 5)):
        async with voting_queue_of(database, one) as queue:
            await cast(queue, number, detail={"shown": {"a": 1.0, "b": 2.0}})
    before = {(t, n): rows(database, whole.format(f"{t}_b1", n)) for t in TABLES for n in (1, 65)}
    async with open_pool(database, most=2) as pool:
        await move_arena(pool, "arena", actor="cli", times=TIMES)
        after = {table: rows(database, whole.format(f"{table}_b65", 1)) for table in TABLES}
        await delete_old_copy(pool, "arena", actor="cli", times=TIMES)
    assert len(after["events"]) > 100
    assert after == {table: before[table, 1] for table in TABLES}
    assert counts(database, 1) == [0, 0, 0]
    assert {table: rows(database, whole.format(f"{table}_b1", 65)) for table in TABLES} == {
        table: before[table, 65] for table in TABLES
    }


async def test_a_writer_that_remembers_the_old_bucket_writes_to_the_new_one(database, monkeypatch):
    arena = await make_arena(database, 4, 30)
    async with open_pool(database, most=2) as pool, voting_queue_of(database, arena) as queue:
        await cast(queue, 5)
        await move_arena(pool, "arena", actor="cli", times=TIMES)
        before = counts(database, 1)
        with connect(database) as connection:
            buckets._CACHE.put(buckets._key(connection, 1), 1)
        await cast(queue, 5, voters=1, seed=1)
    assert counts(database, 1) == before
    assert counts(database, 65)[2] == 10
