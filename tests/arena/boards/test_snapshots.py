"""Published boards: immutable, found by hash, thinned with care."""

import asyncio
import hashlib
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from tiltyard.arena.boards.snapshots import (
    Snapshot,
    add_snapshot,
    citable_snapshot,
    find_snapshot,
    latest_snapshot,
    list_snapshots,
    notify_snapshot,
    read_latest_position,
    thin_snapshots,
)
from tiltyard.core.policy.state.strengths import Strengths
from tiltyard.errors import StoreFault
from tiltyard.postgres.connections import connect, connect_async


def snapshot(position, *, source=0, generation=0, text=None, evaluated=False, arena=1):
    document = f'{{"at":{position}}}' if text is None else text
    rng = np.random.default_rng(position)
    return Snapshot(
        arena=arena,
        source=source,
        generation=generation,
        position=position,
        sha256=hashlib.sha256(document.encode()).hexdigest(),
        votes=position * 2,
        evaluated=evaluated,
        document=document,
        strengths=Strengths(*(rng.normal(1500, 300, 3) for _ in range(4))),
    )


@pytest.fixture
def connection(database):
    with connect(database) as made:
        for number, name in enumerate(("one", "two"), start=1):
            made.execute(
                "INSERT INTO arenas (name, title, settings, bucket) VALUES (%s, '', '{}', %s)", (name, number)
            )
        yield made


def ask(database, function, *values, **rest):
    """What a reader of a web process is told."""

    async def asked():
        async with await connect_async(database) as connection:
            return await function(connection, *values, **rest)

    return asyncio.run(asked())


def test_a_snapshot_comes_back_as_it_was_to_the_last_bit(database, connection):
    written = snapshot(7, text='{"names":"é🦆\\u0000%s"}', evaluated=True)
    add_snapshot(connection, written)
    found = ask(database, latest_snapshot, 1, 0)
    for name in ("arena", "source", "generation", "position", "sha256", "votes", "evaluated", "document"):
        assert getattr(found, name) == getattr(written, name)
    for name in Strengths.__slots__:
        assert getattr(found.strengths, name).tolist() == getattr(written.strengths, name).tolist()
    assert found.made_at.tzinfo is not None


def same_values(one, other):
    return (one.position, one.sha256, one.document) == (other.position, other.sha256, other.document)


def test_the_same_again_changes_nothing_and_another_is_refused(database, connection):
    first = snapshot(7)
    add_snapshot(connection, first)
    add_snapshot(connection, first)
    with (
        pytest.raises(StoreFault, match="position 7 differs"),
        connection.transaction(),
    ):
        add_snapshot(connection, snapshot(7, text="{}"))
    assert same_values(ask(database, latest_snapshot, 1, 0), first)


def test_an_evaluation_that_falls_on_a_known_board_makes_it_stay(database, connection):
    add_snapshot(connection, snapshot(7))
    add_snapshot(connection, snapshot(7, evaluated=True))
    add_snapshot(connection, snapshot(7))
    assert ask(database, latest_snapshot, 1, 0).evaluated


def test_the_latest_is_the_furthest_of_the_newest_generation(database, connection):
    assert ask(database, latest_snapshot, 1, 0) is None
    assert read_latest_position(connection, 1, 0) is None
    for one in (snapshot(9), snapshot(5, generation=1), snapshot(4, generation=1), snapshot(11, source=1)):
        add_snapshot(connection, one)
    assert (ask(database, latest_snapshot, 1, 0).generation, read_latest_position(connection, 1, 0)) == (
        1,
        (1, 5),
    )
    assert ask(database, latest_snapshot, 1, 1).position == 11
    assert ask(database, latest_snapshot, 2, 0) is None


def test_a_snapshot_is_found_by_its_hash_in_its_own_arena_only(database, connection):
    one = snapshot(7)
    add_snapshot(connection, one)
    assert same_values(ask(database, find_snapshot, 1, one.sha256), one)
    assert ask(database, find_snapshot, 2, one.sha256) is None
    for nonsense in ("", "zz", one.sha256[:-2], "é" * 64, "'; DROP TABLE snapshots; --"):
        assert ask(database, find_snapshot, 1, nonsense) is None


def test_lists_come_newest_first_a_page_at_a_time(database, connection):
    places = [(0, 3), (0, 8), (1, 2), (1, 6), (2, 6)]
    for generation, position in places:
        add_snapshot(connection, snapshot(position, generation=generation))
    add_snapshot(connection, snapshot(99, source=1))
    seen, before = [], None
    while page := ask(database, list_snapshots, 1, 0, before=before, limit=2):
        seen += [(one.generation, one.position) for one in page]
        before = seen[-1]
    assert seen == sorted(places, reverse=True)
    assert ask(database, list_snapshots, 1, 0, limit=1)[0].snapshot == snapshot(6).sha256


def test_boards_without_an_evaluation_go_after_a_month_but_never_the_newest(database, connection):
    now = datetime(2026, 5, 1, tzinfo=UTC)
    for position, evaluated in ((1, False), (2, True), (3, False), (4, False)):
        add_snapshot(connection, snapshot(position, evaluated=evaluated))
    add_snapshot(connection, snapshot(1, source=1))
    connection.execute("UPDATE snapshots SET made_at = %s", (now - timedelta(days=31),))
    connection.execute("UPDATE snapshots SET made_at = %s WHERE position = 3", (now - timedelta(days=29),))
    assert thin_snapshots(connection, now) == 1
    assert [one.position for one in ask(database, list_snapshots, 1, 0)] == [4, 3, 2]
    assert thin_snapshots(connection, now + timedelta(days=60)) == 1
    assert [one.position for one in ask(database, list_snapshots, 1, 0)] == [4, 2]
    assert len(ask(database, list_snapshots, 1, 1)) == 1


def test_what_can_be_cited_is_the_last_evaluation_of_the_same_generation(database, connection):
    assert ask(database, citable_snapshot, snapshot(1)) is None
    for position, generation, evaluated in (
        (1, 0, True), (3, 0, False), (5, 0, True), (6, 1, False), (7, 1, False), (9, 1, True), (10, 1, False),
    ):  # fmt: skip
        add_snapshot(connection, snapshot(position, generation=generation, evaluated=evaluated))
    cited = [
        ask(database, citable_snapshot, snapshot(position, generation=generation))
        for position, generation in ((1, 0), (3, 0), (5, 0), (6, 1), (7, 1), (9, 1), (10, 1))
    ]
    assert [one.position for one in cited] == [1, 1, 5, 6, 6, 9, 9]
    listed = ask(database, list_snapshots, 1, 0)
    assert [one.position for one in listed if one.citable] == [9, 6]


def test_the_first_board_after_an_exclusion_is_kept(database, connection):
    for position, generation in ((1, 0), (2, 0), (3, 1), (4, 1), (5, 2), (6, 2)):
        add_snapshot(connection, snapshot(position, generation=generation))
    thin_snapshots(connection, datetime.now(UTC) + timedelta(days=60))
    assert [one.position for one in ask(database, list_snapshots, 1, 0)] == [6, 5, 3]
    assert ask(database, citable_snapshot, snapshot(4, generation=1)).position == 3


def test_a_board_is_announced_when_its_transaction_commits(database, connection):
    with connect(database) as listening:
        listening.execute("LISTEN tiltyard_snapshot")
        with connection.transaction():
            notify_snapshot(connection, snapshot(7, source=1, generation=3))
            listening.execute("SELECT 1")
            assert list(listening.notifies(timeout=0)) == []
        assert [one.payload for one in listening.notifies(timeout=60, stop_after=1)] == ["1 1 7 3"]
