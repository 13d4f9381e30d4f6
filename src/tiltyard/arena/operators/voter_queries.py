"""Statistics on voters, and their remarks on votes. For the operator only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import numpy as np

from tiltyard.arena.log.buckets import fetch_rows
from tiltyard.arena.log.votes import WRITTEN_TALLY_COLUMNS, VoteTally
from tiltyard.arena.operators.exclusions import VoteSelection
from tiltyard.core.integrity.session_groups import ShownMatchups
from tiltyard.core.integrity.voter_tests import SessionVotes
from tiltyard.core.policy.state.vote_marks import Unrated
from tiltyard.core.ratings.scoring import Scoring
from tiltyard.postgres.connections import Connection, translate_errors

_MICROSECONDS = 1e6


@dataclass(frozen=True, slots=True)
class VoterCounts:
    """Counts of one session's votes, for one source."""

    session: int
    source: int
    votes: int
    a: int
    b: int
    ties: int
    both_bad: int
    #: Median time between serving a matchup and its vote.
    median_seconds: float
    first: datetime
    last: datetime
    days: int
    excluded: int
    #: Votes that came before both responses had been shown long enough, and votes that wait because the voter is new.
    hasty: int = 0
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class CastVote:
    """One vote, with names."""

    position: int
    at: datetime
    served_at: datetime
    source: int
    model_a: str
    model_b: str
    prompt: str
    kind: int
    excluded: bool
    #: Why it is not rated; ``None`` if it is.
    unrated: Unrated | None
    tags: Sequence[str]
    comment: str | None
    matchup: UUID

    @property
    def seconds(self) -> float:
        """Seconds between serving and vote."""
        return (self.at - self.served_at).total_seconds()


@dataclass(frozen=True, slots=True)
class VoteRemark:
    """A voter's reason for a vote."""

    made_at: datetime
    session: int
    tags: Sequence[str]
    comment: str | None
    model_a: str
    model_b: str
    prompt: str
    kind: int


@dataclass(frozen=True, slots=True, eq=False)
class LatestMatchups:
    """Matchups of people that ended lately, and the votes among them that rate somebody now, or will."""

    shown: ShownMatchups
    votes: SessionVotes


async def list_voters(
    connection: Connection,
    arena: int,
    timezone: str,
    *,
    session: int | None = None,
    limit: int = 50,
    offset: int = 0,
) -> list[VoterCounts]:
    """A page of sessions, ordered by votes; or one session, with a row for each source."""
    values = {"arena": arena, "timezone": timezone, "session": session, "limit": limit, "offset": offset}
    return [VoterCounts(*row) for row in await _rows(connection, "voters_list", values)]


async def read_cast_votes(
    connection: Connection, arena: int, session: int, *, before: int | None = None, limit: int = 50
) -> list[CastVote]:
    """A session's votes, newest first; ``before`` is a position."""
    first = 2**63 - 1 if before is None else before
    values = {"arena": arena, "session": session, "before": first, "limit": limit}
    rows = await _rows(connection, "voters_votes", values)
    return [CastVote(*row) for row in rows]


async def read_selected_tally(
    connection: Connection,
    arena: int,
    source: int,
    selection: VoteSelection,
    *,
    upto: int,
    excluded: bool = False,
) -> VoteTally:
    """Count the votes of selected sessions and matchups as of a position; with ``excluded``, excluded ones too."""
    values = {
        "arena": arena,
        "source": source,
        "sessions": None if selection.sessions is None else list(selection.sessions),
        "matchups": None if selection.matchups is None else list(selection.matchups),
        "upto": upto,
        "excluded": excluded,
    }
    rows = await _rows(connection, "voters_tally", values)
    return VoteTally(*np.array(rows, dtype=np.int64).reshape(-1, WRITTEN_TALLY_COLUMNS).T)


async def read_latest_matchups(connection: Connection, arena: int, *, after: int) -> LatestMatchups:
    """Matchups of people that ended after a position, without excluded votes."""
    rows = await _rows(connection, "voters_latest", {"arena": arena, "after": after})
    session, a, b, kind, hasty, counts, served, ended = np.array(rows, dtype=np.int64).reshape(-1, 8).T
    voted = kind >= 0
    score = np.where(voted & (counts > 0), Scoring().by_kind()[np.maximum(kind, 0)], np.nan)
    rated = ~np.isnan(score) & (a != b)
    return LatestMatchups(
        ShownMatchups(session, a, b, voted, hasty > 0, served / _MICROSECONDS, ended / _MICROSECONDS),
        SessionVotes(session[rated], a[rated], b[rated], score[rated], counts[rated] > 1),
    )


async def read_remarks(
    connection: Connection, arena: int, *, limit: int = 50, offset: int = 0
) -> list[VoteRemark]:
    """Voters' remarks on votes that were not undone, newest first."""
    rows = await _rows(connection, "voters_remarks", {"arena": arena, "limit": limit, "offset": offset})
    return [VoteRemark(*row) for row in rows]


async def _rows(connection: Connection, named: str, values: Mapping[str, object]) -> list[Any]:
    with translate_errors("read what is known of voters"):
        return await fetch_rows(connection, named, values)
