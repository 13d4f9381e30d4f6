"""Checkpoints: the fold of a rater up to a position, valid on every machine for the same version of the state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg import AsyncConnection, Connection

from tiltyard.arena.log.buckets import fetch_row, fetch_row_sync, fetch_rows_sync
from tiltyard.errors import StoreFault
from tiltyard.postgres.connections import translate_errors
from tiltyard.postgres.statements import statement

#: The version of the state. A fold has the same bits wherever it is computed, so only checkpoints of other versions
#: cannot be read.
STATE_VERSION = "state-10"
#: The newest checkpoints that are always kept, and the interval at which older ones are kept.
_KEPT_NEWEST_COUNT = 2
_KEPT_INTERVAL_EVENTS = 1_000_000


@dataclass(frozen=True, slots=True)
class StoredCheckpoint:
    """Both sources of an arena, as bytes."""

    arena: int
    generation: int
    position: int
    digest: bytes
    state: bytes
    version: str = STATE_VERSION


@dataclass(frozen=True, slots=True)
class CheckpointKey:
    """The position of a checkpoint, and the version of its state."""

    generation: int
    position: int
    version: str = STATE_VERSION


def add_checkpoint(connection: Connection, checkpoint: StoredCheckpoint) -> None:
    """Write a checkpoint, inside the caller's transaction."""
    values = {name: getattr(checkpoint, name) for name in StoredCheckpoint.__slots__}
    with translate_errors("write a checkpoint"):
        connection.execute(statement("checkpoints_add"), values)


def list_checkpoints(connection: Connection, arena: int) -> list[CheckpointKey]:
    """All checkpoints of an arena, latest position first."""
    rows = fetch_rows_sync(connection, "checkpoints_list", {"arena": arena}, "read the checkpoints")
    return [CheckpointKey(*row) for row in rows]


def read_checkpoint(connection: Connection, arena: int, place: CheckpointKey) -> StoredCheckpoint:
    """One checkpoint of this version."""
    if place.version != STATE_VERSION:
        raise StoreFault(
            f"the checkpoint of arena {arena} at {place.position} has the version {place.version!r}; "
            f"expected {STATE_VERSION!r}: replay the log instead"
        )
    values = {"arena": arena, "generation": place.generation, "position": place.position}
    row = fetch_row_sync(connection, "checkpoints_find", values, "read a checkpoint")
    if row is None:
        raise StoreFault(
            f"the checkpoint of arena {arena} at {place.position} does not exist; use another one"
        )
    return StoredCheckpoint(*row)


async def newest_checkpoint(connection: AsyncConnection, arena: int) -> StoredCheckpoint | None:
    """The checkpoint with the latest position, for its counts.

    While the log is folded again after an exclusion, it is one of the previous generation, whose counts match the
    boards that are shown until then.
    """
    values = {"arena": arena, "version": STATE_VERSION}
    row = await fetch_row(connection, "checkpoints_newest", values)
    return None if row is None else StoredCheckpoint(*row)


def thin_checkpoints(connection: Connection, arena: int) -> int:
    """Delete checkpoints that no rater needs; return how many."""
    gone = removable_checkpoints(list_checkpoints(connection, arena))
    values = {
        "arena": arena,
        "generations": [place.generation for place in gone],
        "positions": [place.position for place in gone],
    }
    with translate_errors("remove old checkpoints"):
        return connection.execute(statement("checkpoints_remove"), values).rowcount


def forget_checkpoints(connection: Connection, arena: int, first: int, generation: int) -> None:
    """Delete checkpoints from a position on, of the generations up to one, because a voter in them was erased."""
    values = {"arena": arena, "first": first, "generation": generation}
    with translate_errors("remove checkpoints"):
        connection.execute(statement("checkpoints_forget"), values)


def removable_checkpoints(places: Sequence[CheckpointKey]) -> list[CheckpointKey]:
    """All checkpoints but the newest two, and one for about each million events, preferably of the newest generation.

    Of another version only the newest stays: a rater of that version, which an update may bring back, would continue
    from it.
    """
    newest = sorted(places, key=lambda place: (place.generation, place.position), reverse=True)
    own = [place for place in newest if place.version == STATE_VERSION]
    million = {place.position // _KEPT_INTERVAL_EVENTS for place in own[1:_KEPT_NEWEST_COUNT]}
    gone: list[CheckpointKey] = []
    for place in own[_KEPT_NEWEST_COUNT:]:
        if place.position // _KEPT_INTERVAL_EVENTS in million:
            gone.append(place)
        million.add(place.position // _KEPT_INTERVAL_EVENTS)
    others = {STATE_VERSION}
    for place in newest:
        if place.version != STATE_VERSION and place.version in others:
            gone.append(place)
        others.add(place.version)
    return gone
