"""Which votes of an arena are released: those behind a permanent board."""

from __future__ import annotations

from tiltyard.arena.boards.snapshots import Snapshot, citable_snapshot, find_snapshot, latest_snapshot
from tiltyard.arena.content.arenas import Arena
from tiltyard.arena.log.battle_release import ReleaseChoice
from tiltyard.arena.log.votes import count_excluded, count_unrated, limit_statement_time, read_horizon
from tiltyard.errors import BadOption, NotFound
from tiltyard.postgres.connections import Connection, ConnectionPool

_STATEMENT_SECONDS = 20.0


async def choose_release(
    pool: ConnectionPool, arena: Arena, source: int, snapshot: str | None = None
) -> ReleaseChoice:
    """The votes of a permanent board, by its hash; by default of the newest one.

    Releases end at permanent boards, so that nobody can compare two of them between which there is one vote. An arena
    without a permanent board has few votes: its newest board is taken or, without any board, all final votes.
    """
    async with pool.connection() as connection:
        found = await _find_board(connection, arena, source, snapshot)
        if found is None:
            position = await read_horizon(connection, arena.arena)
            return ReleaseChoice(arena.arena, arena.name, source, position)
        async with limit_statement_time(connection, _STATEMENT_SECONDS):
            unrated = await count_unrated(connection, arena.arena, found.source, upto=found.position)
            excluded = await count_excluded(connection, arena.arena, found.source, upto=found.position)
    reasons = {
        "not-blind": unrated.not_blind,
        "unseen": unrated.unseen,
        "early": unrated.early,
        "waiting": unrated.waiting,
        "excluded": excluded,
    }
    return ReleaseChoice(
        arena.arena,
        arena.name,
        found.source,
        found.position,
        found.generation,
        snapshot=found.sha256,
        document=found.document,
        left_out={reason: count for reason, count in reasons.items() if count},
    )


async def _find_board(
    connection: Connection, arena: Arena, source: int, sha256: str | None
) -> Snapshot | None:
    if sha256 is None:
        newest = await latest_snapshot(connection, arena.arena, source)
        lasting = None if newest is None else await citable_snapshot(connection, newest)
        return newest if lasting is None else await find_snapshot(connection, arena.arena, lasting.snapshot)
    found = await find_snapshot(connection, arena.arena, sha256)
    if found is None:
        raise NotFound("no such board; see the list of snapshots")
    lasting = await citable_snapshot(connection, found)
    if lasting is None or lasting.snapshot != found.sha256:
        raise BadOption(
            "this board is not permanent, and releases end at permanent boards; take one that is evaluated in the list of "
            "snapshots, or leave it out to get the newest"
        )
    return found
