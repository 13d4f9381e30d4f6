"""Checkpoints: read back whole, refused to another kernel, thinned so that some of every age stay."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiltyard.arena.rating.checkpoints import (
    STATE_VERSION,
    CheckpointKey,
    StoredCheckpoint,
    add_checkpoint,
    list_checkpoints,
    newest_checkpoint,
    read_checkpoint,
    removable_checkpoints,
    thin_checkpoints,
)
from tiltyard.errors import StoreFault
from tiltyard.postgres.connections import connect, connect_async

KERNEL = f"{STATE_VERSION}here"
OTHER = f"{STATE_VERSION}elsewhere"
MILLION = 1_000_000


def checkpoint(position, *, generation=0, kernel=KERNEL, state=b"\x00state\xff"):
    return StoredCheckpoint(1, generation, position, kernel, b"digest", state)


@pytest.fixture
def connection(database):
    with connect(database) as made:
        made.execute("INSERT INTO arenas (name, title, settings) VALUES ('one', '', '{}')")
        yield made


def newest(database):
    async def asked():
        async with await connect_async(database) as connection:
            return await newest_checkpoint(connection, 1)

    return asyncio.run(asked())


def test_a_checkpoint_comes_back_as_it_was(connection):
    one = checkpoint(5, state=bytes(range(256)) * 5000)
    add_checkpoint(connection, one)
    (place,) = list_checkpoints(connection, 1)
    assert place == CheckpointKey(0, 5, KERNEL)
    assert read_checkpoint(connection, 1, place, KERNEL) == one


def test_the_same_place_again_takes_the_new_one(connection):
    """Another kernel has replayed the log: its state is the one that its raters can use."""
    add_checkpoint(connection, checkpoint(5, kernel=OTHER))
    add_checkpoint(connection, checkpoint(5))
    assert list_checkpoints(connection, 1) == [CheckpointKey(0, 5, KERNEL)]


def test_one_of_another_kernel_is_refused_with_both_names(connection):
    add_checkpoint(connection, checkpoint(5, kernel="state-3 vax"))
    (place,) = list_checkpoints(connection, 1)
    with pytest.raises(StoreFault, match=r"state-3 vax.*state-3 here.*replay the log"):
        read_checkpoint(connection, 1, place, KERNEL)


def test_one_that_was_thinned_meanwhile_is_a_fault_that_says_so(connection):
    with pytest.raises(StoreFault, match="does not exist"):
        read_checkpoint(connection, 1, CheckpointKey(0, 5, KERNEL), KERNEL)


def test_the_newest_is_the_furthest_that_can_be_read(database, connection):
    """Where a newer generation is being folded again, that is one of the generation before."""
    assert newest(database) is None
    for one in (
        checkpoint(9),
        checkpoint(5, generation=1),
        checkpoint(99, generation=2, kernel="state-9 later"),
    ):
        add_checkpoint(connection, one)
    assert (newest(database).generation, newest(database).position) == (0, 9)
    add_checkpoint(connection, checkpoint(9, generation=1))
    assert (newest(database).generation, newest(database).position) == (1, 9)
    assert list_checkpoints(connection, 1)[0].position == 99


def test_of_many_checkpoints_the_newest_two_and_one_a_million_stay(connection):
    for position in range(0, 5 * MILLION, 250_000):
        add_checkpoint(connection, checkpoint(position))
        thin_checkpoints(connection, 1, KERNEL)
    kept = sorted(place.position for place in list_checkpoints(connection, 1))
    assert kept == [750_000, 1_750_000, 2_750_000, 3_750_000, 4_500_000, 4_750_000]
    assert thin_checkpoints(connection, 1, KERNEL) == 0


def test_a_rater_of_a_new_kernel_keeps_what_it_has_replayed(connection):
    for position in range(0, 5 * MILLION, 250_000):
        add_checkpoint(connection, checkpoint(position, kernel=OTHER))
        thin_checkpoints(connection, 1, OTHER)
    for position in range(MILLION, 6 * MILLION, MILLION):
        add_checkpoint(connection, checkpoint(position))
        thin_checkpoints(connection, 1, KERNEL)
    kept = sorted((place.position, place.kernel == KERNEL) for place in list_checkpoints(connection, 1))
    assert kept == [
        *[(750_000, False), (MILLION, True), (2 * MILLION, True), (3 * MILLION, True), (4 * MILLION, True)],
        *[(4_750_000, False), (5 * MILLION, True)],
    ]


places = st.lists(
    st.builds(
        CheckpointKey, st.integers(0, 3), st.integers(0, 6 * MILLION), st.sampled_from([KERNEL, OTHER])
    ),
    max_size=30,
    unique=True,
)


def millions(found, *kernels):
    return {place.position // MILLION for place in found if not kernels or place.kernel in kernels}


@given(places)
def test_whatever_there_is_every_million_keeps_one_and_the_newest_two_stay(found):
    gone = removable_checkpoints(found, KERNEL)
    kept = [place for place in found if place not in gone]
    for kernel, newest_stay in ((KERNEL, 2), (OTHER, 1)):
        of = sorted(
            (one for one in found if one.kernel == kernel), key=lambda one: (one.generation, one.position)
        )
        assert set(of[-newest_stay:]) <= set(kept)
    assert millions(kept) == millions(found)
    assert millions(kept, KERNEL) == millions(found, KERNEL)
    assert len(kept) <= 2 + 7 + 1
    assert removable_checkpoints(kept, KERNEL) == []
