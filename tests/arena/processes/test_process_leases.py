"""Leases of processes, and how living processes divide arenas: the same answer everywhere, and few changes."""

import asyncio

from tiltyard.arena.processes.process_leases import ProcessLease, ProcessRing
from tiltyard.postgres.connections import connect, open_pool

ARENAS = range(1, 2001)


def shares(rings):
    """By arena, the processes that take it for their own."""
    return {arena: [ring.own for ring in rings if ring.owns(arena)] for arena in ARENAS}


def rings_of(*processes):
    rings = [ProcessRing(one) for one in processes]
    assert all(ring.update(processes) is (len(processes) > 1) for ring in rings)
    return rings


def test_all_processes_agree_and_share_evenly():
    found = shares(rings_of(11, 22, 33, 44))
    assert all(len(owners) == 1 for owners in found.values())
    counts = [sum(owners == [one] for owners in found.values()) for one in (11, 22, 33, 44)]
    assert all(400 < count < 600 for count in counts)
    assert all(owners == [1] for owners in shares(rings_of(1)).values())


def test_only_the_arenas_of_one_that_leaves_change_hands():
    before = shares(rings_of(1, 2, 3))
    after = shares(rings_of(1, 2))
    assert all(after[arena] == owners for arena, owners in before.items() if owners != [3])


def test_the_memory_of_shares_is_bounded(monkeypatch):
    monkeypatch.setattr("tiltyard.arena.processes.process_leases._REMEMBERED_ARENA_LIMIT", 10)
    (ring, _) = rings_of(1, 2)
    shares([ring])
    assert len(ring._owned) <= 10


async def test_processes_see_each_other_come_and_go(database):
    changes = []
    async with open_pool(database, most=4) as pool:
        left, right = ProcessLease(pool, lambda: changes.append(1)), ProcessLease(pool)
        await left.start()
        await right.start()
        async with asyncio.timeout(30):
            while len(left.ring.members) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            await right.stop()
            while len(left.ring.members) > 1:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert len(changes) == 2
        await left.stop()
    with connect(database) as connection:
        assert connection.execute("SELECT count(*) FROM processes").fetchone() == (0,)
