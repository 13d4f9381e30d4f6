"""Snapshots: published boards, addressed by hash and never changed, and notifications of new ones."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

import numpy as np
import psycopg
from psycopg import AsyncConnection, Connection
from psycopg.types.json import Jsonb

from tiltyard.arena.log.buckets import fetch_row, fetch_row_sync, fetch_rows
from tiltyard.core.board.board_summary import BoardSummary
from tiltyard.core.board.document import BoardDocument
from tiltyard.core.policy.state.strengths import Strengths
from tiltyard.errors import InputError, StoreFault
from tiltyard.foundation.retries import Backoff, Retries
from tiltyard.postgres.connections import Database, connect_async, translate_errors
from tiltyard.postgres.statements import statement
from tiltyard.report.arena_charts import HistoryPoint
from tiltyard.wire.arenas import SnapshotInfo

#: How long a board is kept that is not permanent.
UNCITABLE_SNAPSHOT_LIFETIME = timedelta(days=30)


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """One published board, with the strengths that matchmaking needs."""

    arena: int
    source: int
    generation: int
    position: int
    #: The hash of the document, in hexadecimal.
    sha256: str
    votes: int
    #: Whether it was made at an evaluation of the rules.
    evaluated: bool
    #: Canonical JSON.
    document: str
    strengths: Strengths
    #: In phase 1, for operators only: the same board with all that the policy computes, as phase 2 would show it.
    shadow: str | None = None
    #: Set by the database.
    made_at: datetime | None = None
    #: What lists of arenas show of it; it is not read back.
    summary: BoardSummary | None = None


@dataclass(frozen=True, slots=True)
class VoteAmendments:
    """Later changes to a board's votes: excluded ones that it counts, and restored ones that it does not."""

    excluded: int
    restored: int


def add_snapshot(connection: Connection, snapshot: Snapshot) -> None:
    """Store a board, in the caller's transaction. Storing the same board again has no effect; a different one raises."""
    values = {name: getattr(snapshot, name) for name in Snapshot.__slots__} | {
        "sha256": bytes.fromhex(snapshot.sha256),
        "summary": None if snapshot.summary is None else Jsonb(snapshot.summary.to_dict()),
        "strengths": Jsonb(
            {field.name: getattr(snapshot.strengths, field.name).tolist() for field in fields(Strengths)}
        ),
    }
    row = fetch_row_sync(connection, "snapshots_add", values, "publish a board")
    assert row is not None
    if row[0] != values["sha256"]:
        raise StoreFault(
            f"the recomputed board of arena {snapshot.arena} at position {snapshot.position} differs from the one "
            "that was published there; run tiltyard arena doctor, and compare the versions of the raters"
        )


def notify_snapshot(connection: Connection, snapshot: Snapshot) -> None:
    """Notify listeners once the caller's transaction has committed."""
    payload = f"{snapshot.arena} {snapshot.source} {snapshot.position} {snapshot.generation}"
    with translate_errors("announce a board"):
        connection.execute(statement("raters_notify"), {"payload": payload})


def announced_board(payload: str) -> tuple[int, int]:
    """The arena and the source of a notification."""
    arena, source, *_ = payload.split()
    return int(arena), int(source)


def read_latest_position(connection: Connection, arena: int, source: int) -> tuple[int, int] | None:
    """Generation and position of a source's newest board."""
    values = {"arena": arena, "source": source}
    row = fetch_row_sync(connection, "snapshots_latest_place", values, "read the snapshots")
    return None if row is None else (int(row[0]), int(row[1]))


async def latest_snapshot(database: Database, arena: int, source: int) -> Snapshot | None:
    """The newest board of a source."""
    return await _find(database, "snapshots_latest", {"arena": arena, "source": source})


async def find_snapshot(database: Database, arena: int, sha256: str) -> Snapshot | None:
    """A board of an arena by its hash; ``None`` if there is none, or the text is not a hash."""
    try:
        digest = bytes.fromhex(sha256)
    except ValueError:
        return None
    return await _find(database, "snapshots_by_hash", {"arena": arena, "sha256": digest})


async def list_snapshots(
    database: Database,
    arena: int,
    source: int,
    *,
    before: tuple[int, int] | None = None,
    limit: int = 100,
) -> list[SnapshotInfo]:
    """Boards of a source, newest first; with ``before``, those older than this generation and position."""
    generation, position = (None, None) if before is None else before
    values = {
        "arena": arena,
        "source": source,
        "generation": generation,
        "position": position,
        "limit": limit,
    }
    rows = await fetch_rows(database, "snapshots_list", values)
    return [_listed(*row) for row in rows]


async def read_scores(
    connection: AsyncConnection, snapshot: Snapshot, models: Sequence[str], *, most: int = 60
) -> list[HistoryPoint]:
    """These models on a board and on up to ``most`` earlier boards made at evaluations, oldest first.

    By their Bradley–Terry ratings, or by legacy Elo where that still orders the board.
    """
    elo = board_of(snapshot).order == "legacy-elo"
    values = _place(snapshot) | {"models": list(models), "most": most, "elo": elo}
    return [HistoryPoint(*row) for row in await fetch_rows(connection, "snapshots_scores", values)]


async def citable_snapshot(database: Database, snapshot: Snapshot) -> SnapshotInfo | None:
    """The last permanent board of the same generation, up to this one.

    It is the last evaluation, or the first board after votes were excluded or restored; ``None`` before the first
    evaluation of an arena without exclusions.
    """
    row = await fetch_row(database, "snapshots_citable", _place(snapshot))
    return None if row is None else _listed(*row)


async def read_vote_amendments(database: Database, snapshot: Snapshot, newest: Snapshot) -> VoteAmendments:
    """Votes of an earlier board that were excluded or restored up to the newest board."""
    values = _place(snapshot) | {"upto": newest.position}
    row = await fetch_row(database, "snapshots_amended", values)
    assert row is not None
    return VoteAmendments(int(row[0]), int(row[1]))


def thin_snapshots(connection: Connection, moment: datetime) -> int:
    """Delete boards that are not permanent and are older than a month; return how many."""
    with translate_errors("remove old snapshots"):
        return connection.execute(
            statement("snapshots_thin"), {"before": moment - UNCITABLE_SNAPSHOT_LIFETIME}
        ).rowcount


def _place(snapshot: Snapshot) -> dict[str, int]:
    return {
        "arena": snapshot.arena,
        "source": snapshot.source,
        "generation": snapshot.generation,
        "position": snapshot.position,
    }


async def _find(database: Database, name: str, values: Mapping[str, object]) -> Snapshot | None:
    row = await fetch_row(database, name, values)
    if row is None:
        return None
    arena, source, generation, position, sha256, votes, evaluated, document, shadow, strengths, made_at = row
    return Snapshot(
        arena=arena,
        source=source,
        generation=generation,
        position=position,
        sha256=bytes(sha256).hex(),
        votes=votes,
        evaluated=evaluated,
        document=document,
        strengths=Strengths(
            *(np.array(strengths[field.name], dtype=np.float64) for field in fields(Strengths))
        ),
        shadow=shadow,
        made_at=made_at,
    )


def _listed(*row: Any) -> SnapshotInfo:
    _, generation, position, sha256, votes, evaluated, made_at, citable = row
    return SnapshotInfo(bytes(sha256).hex(), generation, position, votes, evaluated, citable, made_at)


#: Parsed boards that a process caches, the most recently used ones.
_CACHED_BOARD_LIMIT = 32


def board_of(snapshot: Snapshot) -> BoardDocument:
    return parsed_board(snapshot.document)


@lru_cache(maxsize=_CACHED_BOARD_LIMIT)
def parsed_board(written: str) -> BoardDocument:
    """The board of a stored document; `StoreFault` if this version cannot read it."""
    try:
        return BoardDocument.from_json(written)
    except InputError as error:
        raise StoreFault(f"a stored board cannot be read: {error}; run tiltyard arena doctor") from None


_LOG = logging.getLogger(__name__)

#: Seconds between polls without a notification, and before the first retry after a fault.
_POLL_SECONDS = 5.0
_RETRY_SECONDS = 1.0


class SnapshotNotifications:
    """A connection that listens for new snapshots and reconnects when it breaks."""

    def __init__(self, url: str, *, look: float = _POLL_SECONDS) -> None:
        self._url = url
        self._look = look
        self._connection: AsyncConnection | None = None
        self._retries = Retries(_LOG, "listening for new boards", Backoff(_RETRY_SECONDS))

    async def next(self) -> set[tuple[int, int]] | None:
        """Wait for a notification; return the arenas and sources that have a new board.

        Without one, after a few seconds, return ``None``: notifications may have been missed. So does a fault, after
        a wait.
        """
        try:
            if self._connection is None or self._connection.closed:
                self._connection = await connect_async(self._url, name="tiltyard boards")
                await self._connection.execute(statement("boards_listen"))
                self._retries.succeeded()
                return None
            heard = {
                announced_board(one.payload)
                async for one in self._connection.notifies(timeout=self._look, stop_after=1)
            }
        except (psycopg.Error, StoreFault) as error:
            await self.close()
            await asyncio.sleep(self._retries.failed(error))
            return None
        return heard or None

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()


@dataclass(frozen=True, slots=True)
class BoardAppearance:
    """A model's row on an earlier board."""

    generation: int
    position: int
    made_at: datetime
    votes: int
    #: As the version of that time published it; later versions added fields.
    row: dict[str, Any]


async def read_newest_positions(
    connection: AsyncConnection, arenas: Collection[int]
) -> dict[tuple[int, int], tuple[int, int]]:
    """Generation and position of the newest board of these arenas, by arena and source."""
    rows = await fetch_rows(connection, "boards_places", {"arenas": sorted(arenas)})
    return {(arena, source): (generation, position) for arena, source, generation, position in rows}


async def read_history(
    connection: AsyncConnection, arena: int, source: int, model: str, *, limit: int = 100
) -> list[BoardAppearance]:
    """A model's rows on the boards made at evaluations, newest first."""
    values = {"arena": arena, "source": source, "model": model, "limit": limit}
    return [BoardAppearance(*row) for row in await fetch_rows(connection, "boards_history", values)]
