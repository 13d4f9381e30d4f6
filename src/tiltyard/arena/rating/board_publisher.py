"""Makes the snapshot of a board from an `ArenaFold`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy, deepcopy
from dataclasses import dataclass, replace
from datetime import datetime

from psycopg import Connection

from tiltyard.arena.boards.snapshots import Snapshot
from tiltyard.arena.log.crowd_changes import OpenChange
from tiltyard.arena.log.event_log import HUMAN, SOURCES
from tiltyard.arena.rating.rater_progress import OpenAtPosition, RatedArena, read_open_at
from tiltyard.core.board.arena_board import (
    CrowdChange,
    make_arena_board,
    with_crowd_changes,
    with_first_place,
)
from tiltyard.core.board.board_summary import BoardSummary
from tiltyard.core.board.cross_check import BatchHistory, BatchRatings
from tiltyard.core.board.document import BoardDocument, BoardMethod, document_hash
from tiltyard.core.integrity.vote_groups import VOTE_GROUPS
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.policy.validity.arena_fold import ArenaFold


@dataclass(frozen=True, slots=True)
class BoardMoment:
    """The source and the position in the log of a board."""

    source: int
    #: The last event that it includes, and its time.
    position: int
    at: datetime
    #: The number of exclusions and restorations that it includes.
    generation: int
    #: Whether it is made at an evaluation.
    evaluated: bool = False
    #: How many of its votes were imported.
    imported: int = 0


def make_snapshot(
    following: ArenaFold,
    arena: RatedArena,
    moment: BoardMoment,
    opened: Sequence[OpenAtPosition],
    batches: BatchHistory | None = None,
    changes: Sequence[OpenChange] = (),
) -> Snapshot:
    """The current board of one source; the same log gives the same bytes, whatever ``batches`` remembers of this fold.

    ``opened`` are the open matchups at this position, from `open_matchups_at`. They are not counted, because a
    board that included them would reveal to voters which models are in their open matchup. ``changes`` are those of the
    crowd that were not explained at this position; they are about the votes of people.
    """
    following.rank()
    standing = following.standing
    batch = replace(
        (batches or BatchHistory()).ratings(standing, following.history), least_days=arena.least_days
    )
    shadow = None
    with _without_matchups(standing, opened):
        document = _document(following, standing, arena, moment, batch, changes)
        if standing.policy.phase == 1:
            seen = copy(standing)
            seen.policy = replace(standing.policy, phase=2)
            shadow = _document(following, seen, arena, moment, batch, changes).to_json().decode()
    written = document.to_json()
    return Snapshot(
        arena=arena.arena,
        source=moment.source,
        generation=moment.generation,
        position=moment.position,
        sha256=document_hash(written),
        votes=following.votes,
        evaluated=moment.evaluated,
        document=written.decode(),
        strengths=standing.strengths,
        shadow=shadow,
        summary=BoardSummary.of(document),
    )


def _document(
    following: ArenaFold,
    standing: Standing,
    arena: RatedArena,
    moment: BoardMoment,
    batch: BatchRatings,
    changes: Sequence[OpenChange],
) -> BoardDocument:
    """The board of a fold, in the phase that the policy of ``standing`` names."""
    board = make_arena_board(
        standing,
        following.history,
        order=arena.settings.order,
        legacy_elo=following.rater.elo,
        volatility=following.rater.volatility,
        batch=batch,
        family=arena.settings.settled_family,
    )
    board = with_first_place(board, standing, following.rater, batch.method)
    if moment.source == HUMAN:
        names = standing.models
        board = with_crowd_changes(
            board, [CrowdChange(names[change.model], VOTE_GROUPS[change.group]) for change in changes]
        )
    document = BoardDocument.of(
        board,
        arena=arena.name,
        source=SOURCES[moment.source],
        position=moment.position,
        generation=moment.generation,
        at=moment.at,
        method=BoardMethod(
            standing.policy,
            following.settings,
            order=arena.settings.order,
            settled_family=arena.settings.settled_family,
            least_days=arena.least_days,
            cross_check=batch.method,
        ),
    )
    return replace(document, imported=moment.imported)


def open_matchups_at(
    connection: Connection, arena: int, source: int, following: ArenaFold, position: int
) -> list[OpenAtPosition]:
    """Matchups of the window that had not ended when the log was at this position."""
    counted = following.standing.window.serials()
    if not len(counted):
        return []
    serials = (int(counted.min()), int(counted.max()) + 1)
    found = read_open_at(connection, arena, source, serials=serials, position=position)
    # The others wait to be shown, or were shown after this position.
    shown = set(counted.tolist())
    return [one for one in found if one.serial in shown]


@contextmanager
def _without_matchups(standing: Standing, opened: Sequence[OpenAtPosition]) -> Iterator[None]:
    """Temporarily change the standing as if these matchups had expired."""
    window, lanes = standing.window, standing.lanes
    standing.window, standing.lanes = deepcopy(window), lanes.copy()
    for one in opened:
        standing.window.expire(one.serial)
        standing.lanes[one.nominal, one.lane] -= 1
    try:
        yield
    finally:
        standing.window, standing.lanes = window, lanes


class TimeBudget:
    """Limits boards to a share of the time. Unused time is saved, up to a limit."""

    def __init__(self, share: float = 0.2, most: float = 10.0) -> None:
        self._share = share
        self._most = most
        self._left = most
        self._since: float | None = None

    def allows(self, now: float) -> bool:
        """Whether another board may be published now; time in seconds of a monotonic clock."""
        if self._since is not None:
            self._left = min(self._left + self._share * (now - self._since), self._most)
        self._since = now
        return self._left > 0.0

    def spend(self, seconds: float) -> None:
        """Subtract the time that a board took."""
        self._left -= seconds
