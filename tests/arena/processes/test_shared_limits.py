"""Rate limits that processes share: what they cost, what they let through, and what happens when something fails."""

import asyncio
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiltyard.arena.processes import shared_limits
from tiltyard.arena.processes.shared_limits import SharedLimit, SharedLimits
from tiltyard.arena.secret_keys import SecretKeys
from tiltyard.errors import Busy, StoreFault
from tiltyard.postgres.connections import connect, open_pool

KEYS = SecretKeys(["a secret for tests that is long enough"])


def limit_of(count, seconds=60.0):
    return SharedLimit("votes of a network", "votes", "network", count, "too many", seconds)


def session_limit(count):
    return SharedLimit("votes of a session", "votes", "session", count, "too many")


class World:
    """Processes with one clock, and the buckets that they lease from: what the SQL does, in Python."""

    def __init__(self, processes=1):
        self.now, self.leases, self.rows, self.fails = 1000.0, 0, {}, False
        self.processes = [SharedLimits(None, KEYS, clock=lambda: self.now) for _ in range(processes)]
        for one in self.processes:
            one._ask = self._ask

    async def _ask(self, leases):
        self.leases += 1
        if self.fails:
            raise StoreFault("the database is away")
        granted = {}
        for one in leases:
            capacity = float(one.limit.count)
            tokens, at = self.rows.get(one.bucket, (capacity, self.now))
            left = min(capacity, tokens + (self.now - at) * capacity / one.limit.seconds) - one.spent
            block = min(one.block, max(math.floor(left), 0))
            self.rows[one.bucket] = (max(left - block, -capacity), self.now)
            granted[one.bucket] = (block, left - block)
        return granted

    async def admitted(self, limit, key, times, process=0):
        """How many of so many requests at once are admitted."""
        count = 0
        for _ in range(times):
            try:
                await self.processes[process].admit(limit, key)
                count += 1
            except Busy:
                pass
        return count


async def test_a_tenth_of_a_limit_costs_no_lease_and_the_rest_one_for_each_tenth():
    world = World()
    assert await world.admitted(limit_of(100), 7, 10) == 10
    assert world.leases == 0
    assert await world.admitted(limit_of(100), 7, 90) == 90
    assert world.leases == 9
    assert await world.admitted(limit_of(100), 7, 50) == 0
    assert world.leases == 10, "who is refused is refused without a lease"


async def test_whoever_stays_below_a_tenth_a_minute_never_costs_a_lease():
    world = World()
    for _ in range(300):
        await world.processes[0].admit(limit_of(100), 7)
        world.now += 6.01
    assert world.leases == 0
    # Who is faster at last is not charged for the past half an hour.
    assert await world.admitted(limit_of(100), 7, 200) >= 90


def test_of_a_sessions_limit_a_quarter_costs_no_lease():
    limit = SharedLimit("votes of a session", "votes", "session", 60, "too many")
    assert (limit.share, limit_of(60).share, limit_of(3).share) == (15, 6, 1)


async def test_processes_share_a_limit():
    world = World(4)
    limit, counted = limit_of(100), [0] * 4
    for k in range(400):
        counted[k % 4] += await world.admitted(limit, 7, 1, process=k % 4)
    assert 100 <= sum(counted) <= 140, "a tenth more for each process"
    assert min(counted) >= 10


async def test_keys_and_limits_do_not_share():
    world = World()
    other = SharedLimit("skips of a session", "skips", "session", 10, "too many")
    assert await world.admitted(limit_of(10), 7, 20) == 10
    assert await world.admitted(limit_of(10), 8, 20) == 10
    assert await world.admitted(other, 7, 20) == 10


async def test_whoever_waits_as_told_is_let_in():
    world = World()
    assert await world.admitted(limit_of(6), "a", 20) == 6
    with pytest.raises(Busy, match="too many") as refusal:
        await world.processes[0].admit(limit_of(6), "a")
    assert refusal.value.retry_after == pytest.approx(10.0)
    world.now += refusal.value.retry_after + 1e-6
    await world.processes[0].admit(limit_of(6), "a")


@given(st.integers(1, 60), st.lists(st.floats(0, 30), max_size=200), st.integers(1, 3))
def test_no_minute_brings_more_than_a_burst_its_limit_and_the_shares(count, pauses, processes):
    world, times = World(processes), []

    async def scene():
        for k, pause in enumerate(pauses):
            world.now += pause
            times.extend([world.now] * await world.admitted(limit_of(count), "a", 3, process=k % processes))

    asyncio.run(scene())
    most = 2 * count + 2 * processes * max(1, count // 10)
    assert all(sum(first <= one < first + 60 for one in times) <= most for first in times)


async def test_without_the_database_each_process_keeps_a_voters_limit_alone():
    world = World(2)
    world.fails = True
    for process in (0, 1):
        assert 100 <= await world.admitted(session_limit(100), 7, 300, process=process) <= 125
        assert world.leases == process + 1, "it is not asked again for some seconds"
    world.fails = False
    world.now += 600
    assert 100 <= await world.admitted(session_limit(100), 7, 300) <= 125


async def test_without_the_database_strangers_get_the_share_of_a_process():
    world = World()
    world.fails = True
    assert await world.admitted(limit_of(100), "192.0.2.1", 300) == 10
    assert world.leases == 1
    world.fails = False
    world.now += 5
    assert await world.admitted(limit_of(100), "192.0.2.1", 300) >= 90


async def test_many_networks_of_one_ipv6_client_share_a_limit():
    world = World()

    async def everywhere(networks):
        return sum([await world.admitted(limit_of(10), network, 20) for network in networks])

    assert await world.admitted(limit_of(10), "2001:db8:1:100::/64", 20) in {10, 11}
    # Twice as many from its /56, four times from its /48; the neighbour is another.
    assert await everywhere(f"2001:db8:2:{k:x}::/64" for k in range(20)) in range(20, 23)
    assert await everywhere(f"2001:db8:3:{k:x}00::/64" for k in range(20)) in range(40, 45)
    assert await world.admitted(limit_of(10), "2001:db8:4::/64", 20) in {10, 11}
    assert await everywhere(f"192.0.2.{k}" for k in range(20)) in range(200, 221)


async def test_a_database_that_does_not_answer_is_waited_for_once(monkeypatch):
    monkeypatch.setattr(shared_limits, "_LEASE_SECONDS", 0.01)
    world = World()

    async def hangs(_leases):
        await asyncio.sleep(60)

    world.processes[0]._ask = hangs
    async with asyncio.timeout(30):
        assert await world.admitted(session_limit(20), 7, 20) == 20


async def test_many_at_once_wait_for_one_lease_and_all_are_let_in():
    world = World()
    process = world.processes[0]
    await asyncio.gather(*(process.admit(limit_of(1000), 7) for _ in range(1000)))
    assert world.leases <= 10
    await process.stop()


async def test_a_clock_that_goes_back_locks_nobody_out():
    world = World()
    assert await world.admitted(limit_of(10), 7, 10) == 10
    world.now -= 500
    assert await world.admitted(limit_of(10), 7, 5) == 0
    world.now += 560
    assert await world.admitted(limit_of(10), 7, 20) >= 10


def test_few_keys_are_remembered(monkeypatch):
    monkeypatch.setattr(shared_limits, "_TRACKED_BUCKET_LIMIT", 10)
    limits = SharedLimits(None, KEYS)
    assert all(limits.take(limit_of(10), k) for k in range(100))
    assert len(limits) == 10


def rows_of(database):
    with connect(database) as connection:
        return connection.execute("SELECT bucket, capacity, tokens FROM limit_buckets").fetchall()


async def test_two_processes_share_a_limit_in_the_database(database, monkeypatch):
    # On a loaded machine a lease may take long; who waits too long is refused.
    monkeypatch.setattr(shared_limits, "_LEASE_SECONDS", 60.0)
    async with open_pool(database, most=2) as first, open_pool(database, most=2) as second:
        processes = [SharedLimits(pool, KEYS) for pool in (first, second)]
        limit, counted, refused = limit_of(200, seconds=3600.0), [0, 0], [0, 0]

        async def asks(process):
            for _ in range(200):
                try:
                    await processes[process].admit(limit, "192.0.2.1")
                    counted[process] += 1
                except Busy:
                    refused[process] += 1

        await asyncio.gather(asks(0), asks(1))
        assert 200 <= sum(counted) <= 240
        assert sum(counted) + sum(refused) == 400
        assert min(counted) >= 40
        # A process that is killed takes what it has leased with it; the others go on.
        third = SharedLimits(first, KEYS)
        with connect(database) as connection:
            connection.execute("UPDATE limit_buckets SET tokens = capacity")
        assert await counting(third, limit, 21) == 21
        fourth = SharedLimits(second, KEYS)
        assert 160 <= await counting(fourth, limit, 250) <= 181
    ((bucket, capacity, tokens),) = rows_of(database)
    assert (len(bucket), capacity) == (16, 200.0)
    assert b"192" not in bucket
    assert tokens < 1


async def counting(process, limit, times):
    count = 0
    for _ in range(times):
        try:
            await process.admit(limit, "192.0.2.1")
            count += 1
        except Busy:
            break
    return count


async def test_the_databases_clock_may_go_back_and_old_buckets_are_deleted(database):
    limit = limit_of(20, seconds=3600.0)
    async with open_pool(database, most=2) as pool:
        process = SharedLimits(pool, KEYS)
        assert await counting(process, limit, 30) == 20
        with connect(database) as connection:
            connection.execute("UPDATE limit_buckets SET leased_at = now() + interval '1 day'")
        assert await counting(SharedLimits(pool, KEYS), limit, 30) == 2, "nothing is refilled by it"
        with connect(database) as connection:
            connection.execute("UPDATE limit_buckets SET leased_at = now() - interval '1 day'")
        assert await counting(SharedLimits(pool, KEYS), limit, 30) == 20
        with connect(database) as connection:
            connection.execute("UPDATE limit_buckets SET leased_at = now() - interval '1 day'")
        another = SharedLimit("skips of a session", "skips", "session", 10, "too many")
        assert await counting(SharedLimits(pool, KEYS), another, 5) == 5
    assert len(rows_of(database)) == 1, "the old bucket is deleted with the next lease of a process"


async def test_a_database_that_is_gone_refuses_no_voter(database):
    pool = open_pool("postgresql://nobody@127.0.0.1:1/none", most=1)
    async with asyncio.timeout(30):
        assert await counting(SharedLimits(pool, KEYS), session_limit(30), 30) == 30
