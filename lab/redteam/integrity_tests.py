"""The arena's own tests of crowds and voters, as the red team asks them."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from tiltyard.arena.content.arenas import find_arena
from tiltyard.arena.log.event_details import CrowdChangedDetail
from tiltyard.arena.log.event_log import LogKind
from tiltyard.arena.log.log_columns import LogColumns
from tiltyard.arena.operators.voters import list_flagged_groups
from tiltyard.arena.rating.crowd_watch import CrowdWatch
from tiltyard.core.integrity.voter_tests import SessionVotes, find_unlike_voters
from tiltyard.core.policy.state.events import NO_MARK, VoteMark
from tiltyard.core.ratings.pairs import Scoring
from tiltyard.postgres.connections import ConnectionPool

_SCORES = Scoring().by_kind()


class LogWatch:
    """Watches the crowd of a log in memory."""

    def __init__(self, models: int) -> None:
        self._watch = CrowdWatch(models)

    def follow(self, columns: LogColumns, excluded: Collection[int] = ()) -> dict[int, CrowdChangedDetail]:
        """Add the next events; the models whose results are seen to have shifted now, with the evidence."""
        return {sign.model: sign.detail for sign in self._watch.follow(columns, excluded, {})}


def flagged_in_log(columns: LogColumns, models: int) -> set[int]:
    """Sessions that vote unlike the others, in a log in memory."""
    rows = (columns.kind == LogKind.VOTE) & (columns.blind != 0)
    rows &= np.isin(columns.mark, (NO_MARK, VoteMark.WAITING)) & ~np.isnan(
        _SCORES[np.maximum(columns.outcome, 0)]
    )
    votes = SessionVotes(
        columns.session[rows],
        columns.a[rows],
        columns.b[rows],
        _SCORES[columns.outcome[rows]],
        columns.mark[rows] == NO_MARK,
    )
    return {sign.session for sign in find_unlike_voters(votes, models)}


async def read_flagged_sessions(pool: ConnectionPool, arena: str) -> set[int]:
    """Sessions that the operator's page of an arena lists as unlike the others, each by itself or together."""
    async with pool.connection() as connection:
        found = await find_arena(connection, arena)
    return {session for group in await list_flagged_groups(pool, found) for session in group.sessions}
