"""Raters share arenas, are woken by announcements, and keep nothing of arenas in which nothing happens."""

import asyncio
import time

import pytest

from support.live_arenas import made_arena, make_arena, voting_queue_of
from tiltyard.arena.rating import rater_process as rater_processes
from tiltyard.arena.rating.rater_process import RaterProcess
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.core.battles import Kind
from tiltyard.postgres.connections import connect
from tiltyard.settings.arena_settings import ArenaSettings

AT_ONCE = ArenaSettings(undo_seconds=0.0, snapshot_seconds=0.05)


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def rater(database, clock):
    made = RaterProcess(database, name="rater", clock=clock)
    yield made
    made.close()


def vote_in(url, arena, count=1):
    async def scene():
        async with voting_queue_of(url, arena) as queue:
            for voter in range(count):
                offered = await queue.next_matchup(Voter(100 + voter))
                await queue.vote(Voter(100 + voter), offered.matchup, Kind.WIN_A, reveal=True)

    asyncio.run(scene())


def announce(url, arena, *raters):
    """Announce new events, and wait until every rater has heard it."""
    with connect(url) as connection:
        connection.execute("SELECT pg_notify('tiltyard_log', %s)", (str(arena.arena),))
    for rater in raters:
        heard = set()
        while arena.arena not in heard:
            heard = rater._leadership.wait_for_events(60.0)
            rater._hear(heard)


def board_votes(url, arena):
    with connect(url) as connection:
        row = connection.execute(
            "SELECT max(votes) FROM snapshots WHERE arena = %s AND source = 0", (arena.arena,)
        ).fetchone()
    return row[0]


def settle(rater):
    for _ in range(200):
        if not rater.turn():
            return
    raise AssertionError("the rater does not come to an end")


def test_an_announcement_wakes_a_rater_and_silence_lets_it_forget(database, clock, rater):
    arena = made_arena(database, settings=AT_ONCE)
    settle(rater)
    assert set(rater.raters) == {arena.arena}
    clock.now += rater_processes._DROP_SECONDS
    rater.turn()
    assert rater.raters == {}
    with connect(database) as connection:
        assert connection.execute("SELECT leader FROM raters").fetchone() == (None,)
        assert connection.execute("SELECT count(*) FROM checkpoints").fetchone() == (1,)
    vote_in(database, arena, 3)
    settle(rater)
    assert rater.raters == {}
    announce(database, arena, rater)
    settle(rater)
    assert board_votes(database, arena) == 3


def test_events_that_were_not_announced_are_found_within_a_minute(database, clock, rater):
    arena = made_arena(database, settings=AT_ONCE)
    settle(rater)
    vote_in(database, arena, 2)
    clock.now += rater_processes._SEARCH_SECONDS
    settle(rater)
    assert board_votes(database, arena) == 2


def test_what_was_announced_comes_before_what_a_search_found(database, clock, rater):
    arenas = [made_arena(database, 3, 2, name=f"arena-{number}", settings=AT_ONCE) for number in range(4)]
    rater.search()
    rater._heard.add(arenas[2].arena)
    assert rater._due(clock())[0] == arenas[2].arena


def test_a_long_turn_ends_so_that_announcements_are_read(database, clock, rater, monkeypatch):
    for number in range(3):
        made_arena(database, 3, 2, name=f"arena-{number}", settings=AT_ONCE)
    stepped = []

    def step(_leadership, arena):
        stepped.append(arena.arena)
        clock.now += rater_processes._TURN_SECONDS
        rater._next_step[arena.arena] = clock.now + 1000.0
        return False

    monkeypatch.setattr(rater, "_step", step)
    assert [rater.turn() for _ in range(4)] == [True, True, True, False]
    assert len(set(stepped)) == 3


def test_an_arena_that_is_gone_is_forgotten(database, rater):
    made_arena(database, settings=AT_ONCE)
    settle(rater)
    rater._busy[99] = 0.0
    rater.turn()
    assert 99 not in rater._busy


def test_two_raters_lead_each_their_share(database):
    arenas = [made_arena(database, 3, 2, name=f"arena-{number}", settings=AT_ONCE) for number in range(8)]
    clocks = Clock(), Clock()
    pair = [RaterProcess(database, name=f"rater-{k}", clock=clocks[k]) for k in range(2)]
    try:
        rings = [rater._connected().ring for rater in pair]
        while any(len(ring.members) < 2 for ring in rings):
            time.sleep(0.05)
            for rater, clock in zip(pair, clocks, strict=True):
                clock.now += rater_processes.RENEWAL_SECONDS
                settle(rater)
        settle(pair[0])
        for arena in arenas:
            owners = [k for k in range(2) if rings[k].owns(arena.arena)]
            assert len(owners) == 1
            assert arena.arena not in pair[1 - owners[0]].raters
        vote_in(database, arenas[0], 2)
        announce(database, arenas[0], *pair)
        for rater in pair:
            settle(rater)
        assert board_votes(database, arenas[0]) == 2
        # One goes, and its lease with it: the other takes over what it left.
        pair[0].close()
        vote_in(database, arenas[0], 1)
        while board_votes(database, arenas[0]) != 3 or len(rings[1].members) > 1:
            time.sleep(0.05)
            clocks[1].now += rater_processes._SEARCH_SECONDS
            settle(pair[1])
        assert all(rings[1].owns(arena.arena) for arena in arenas)
    finally:
        for rater in pair:
            rater.close()


def test_a_closed_rater_leaves_no_lease(database):
    rater = RaterProcess(database)
    rater.turn()
    with connect(database) as connection:
        assert connection.execute("SELECT count(*), min(role) FROM processes").fetchone() == (1, "rater")
        rater.close()
        assert connection.execute("SELECT count(*) FROM processes").fetchone() == (0,)


async def test_an_arena_whose_votes_can_be_undone_is_looked_at_when_they_are_final(
    database, rater, clock, monkeypatch
):
    """Steps every two seconds, in each of two hundred arenas, would leave no time for boards."""
    steps, step = [], rater_processes.ArenaRater.step

    def counted(one):
        steps.append(clock.now)
        return step(one)

    monkeypatch.setattr(rater_processes.ArenaRater, "step", counted)
    arena = await make_arena(database, settings=ArenaSettings(undo_seconds=60.0, snapshot_seconds=0.05))
    async with voting_queue_of(database, arena) as queue:
        offered = await queue.next_matchup(Voter(1))
        await queue.vote(Voter(1), offered.matchup, Kind.WIN_A)
    while rater.turn():
        pass
    assert rater.raters[arena.arena].waits_for_finality
    del steps[:]
    for _ in range(50):
        clock.now += 1.0
        rater.turn()
    assert steps == []
    announce(database, arena, rater)
    rater.turn()
    assert steps == []
    clock.now += 2.1
    rater.turn()
    assert steps == [clock.now], "other events are looked at soon"
    clock.now += 60.0
    rater.turn()
    assert steps[-1] == clock.now


def test_an_arena_whose_announcement_was_lost_is_rated_beside_one_that_is_always_busy(
    database, rater, clock, monkeypatch
):
    busy, quiet = (made_arena(database, name=name, settings=AT_ONCE) for name in ("busy", "quiet"))
    while rater.turn():
        pass
    clock.now += 31.0
    rater.turn()
    assert not rater.raters
    vote_in(database, busy)
    announce(database, busy, rater)
    rater.turn()
    step = rater_processes.ArenaRater.step

    def slow(one):
        """A step that takes a whole turn, in an arena that always has more to do."""
        clock.now += 2.0
        return step(one) or one.arena.arena == busy.arena

    monkeypatch.setattr(rater_processes.ArenaRater, "step", slow)
    vote_in(database, quiet)
    rater.search()
    for _ in range(4):
        rater.turn()
    assert rater.raters[quiet.arena].settled
