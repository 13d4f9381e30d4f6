"""Checkpoints: read back whole, refused to another version, thinned so that some of every age stay."""

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

OTHER = "state-0"
MILLION = 1_000_000


def checkpoint(position, *, generation=0, version=STATE_VERSION, state=b"\x00state\xff"):
    return StoredCheckpoint(1, generation, position, b"digest", state, version)


@pytest.fixture
def connection(database):
    with connect(database) as made:
        made.execute("INSERT INTO arenas (name, title, settings, bucket) VALUES ('one', '', '{}', 1)")
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
    assert place == CheckpointKey(0, 5, STATE_VERSION)
    assert read_checkpoint(connection, 1, place) == one


def test_the_same_place_again_takes_the_new_one(connection):
    """Another version has replayed the log: its state is the one that its raters can use."""
    add_checkpoint(connection, checkpoint(5, version=OTHER))
    add_checkpoint(connection, checkpoint(5))
    assert list_checkpoints(connection, 1) == [CheckpointKey(0, 5, STATE_VERSION)]


def test_one_of_another_version_is_refused_with_both_names(connection):
    add_checkpoint(connection, checkpoint(5, version="state-4 python-3.11 vax"))
    (place,) = list_checkpoints(connection, 1)
    with pytest.raises(StoreFault, match=rf"state-4 python-3.11 vax.*{STATE_VERSION}.*replay the log"):
        read_checkpoint(connection, 1, place)


def test_one_that_was_thinned_meanwhile_is_a_fault_that_says_so(connection):
    with pytest.raises(StoreFault, match="does not exist"):
        read_checkpoint(connection, 1, CheckpointKey(0, 5, STATE_VERSION))


def test_the_newest_is_the_furthest_that_can_be_read(database, connection):
    """Where a newer generation is being folded again, that is one of the generation before."""
    assert newest(database) is None
    for one in (
        checkpoint(9),
        checkpoint(5, generation=1),
        checkpoint(99, generation=2, version="state-99 later"),
    ):
        add_checkpoint(connection, one)
    assert (newest(database).generation, newest(database).position) == (0, 9)
    add_checkpoint(connection, checkpoint(9, generation=1))
    assert (newest(database).generation, newest(database).position) == (1, 9)
    assert list_checkpoints(connection, 1)[0].position == 99


def test_of_many_checkpoints_the_newest_two_and_one_a_million_stay(connection):
    for position in range(0, 5 * MILLION, 250_000):
        add_checkpoint(connection, checkpoint(position))
        thin_checkpoints(connection, 1)
    kept = sorted(place.position for place in list_checkpoints(connection, 1))
    assert kept == [750_000, 1_750_000, 2_750_000, 3_750_000, 4_500_000, 4_750_000]
    assert thin_checkpoints(connection, 1) == 0


def test_of_another_version_only_the_newest_stays(connection):
    for position in range(0, 5 * MILLION, 250_000):
        add_checkpoint(connection, checkpoint(position, version=OTHER))
    add_checkpoint(connection, checkpoint(3 * MILLION, generation=1, version="state-99"))
    for position in range(MILLION, 6 * MILLION, MILLION):
        add_checkpoint(connection, checkpoint(position))
        thin_checkpoints(connection, 1)
    kept = sorted((place.version, place.position) for place in list_checkpoints(connection, 1))
    own = [(STATE_VERSION, k * MILLION) for k in range(1, 6)]
    assert kept == [(OTHER, 4_750_000), *own, ("state-99", 3 * MILLION)]


places = st.lists(
    st.builds(
        CheckpointKey,
        st.integers(0, 3),
        st.integers(0, 6 * MILLION),
        st.sampled_from([STATE_VERSION, OTHER, "state-99"]),
    ),
    max_size=30,
    unique=True,
)


def millions(found):
    return {place.position // MILLION for place in found}


@given(places)
def test_whatever_there_is_every_million_keeps_one_and_the_newest_two_stay(found):
    gone = removable_checkpoints(found)
    kept = [place for place in found if place not in gone]
    for version, newest_stay in ((STATE_VERSION, 2), (OTHER, 1), ("state-99", 1)):
        of = sorted(
            (one for one in found if one.version == version), key=lambda one: (one.generation, one.position)
        )
        assert set(of[-newest_stay:]) <= set(kept)
    own, others = ([one for one in kept if (one.version == STATE_VERSION) == ours] for ours in (True, False))
    assert millions(own) == millions(one for one in found if one.version == STATE_VERSION)
    assert len(own) <= 2 + 7
    assert len(others) <= 2
    assert removable_checkpoints(kept) == []
