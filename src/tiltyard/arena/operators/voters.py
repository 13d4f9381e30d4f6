"""Voters as an operator sees them: statistics, votes and remarks, and sessions that are unlike honest voters."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import numpy as np

from tiltyard.arena.boards.snapshots import board_of, latest_snapshot
from tiltyard.arena.content.arenas import Arena, read_log_head
from tiltyard.arena.log.buckets import fetch_rows
from tiltyard.arena.log.rosters import read_roster
from tiltyard.arena.log.votes import VoteTally, limit_statement_time
from tiltyard.arena.operators.exclusions import VoteSelection, exclude, read_selected_tally
from tiltyard.core.board import voter_board
from tiltyard.core.board.voter_board import BoardAgreement, board_agreement, named_votes
from tiltyard.core.integrity.session_groups import (
    SessionGroup,
    ShownMatchups,
    find_groups_in_step,
    find_groups_together,
    find_habits,
)
from tiltyard.core.integrity.voter_tests import (
    CountedOf,
    SessionVotes,
    VoterSign,
    VoterTest,
    find_unlike_voters,
)
from tiltyard.core.policy.state.events import Unrated
from tiltyard.core.ratings.pairs import Scoring
from tiltyard.errors import NotFound
from tiltyard.postgres.connections import Connection, ConnectionPool, Database

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
    #: Median time between serving a matchup and its vote; ``None`` if all votes were imported.
    median_seconds: float | None
    first: datetime
    last: datetime
    days: int
    excluded: int
    #: Votes that came before both responses had been shown long enough, and votes that wait because the voter is new.
    hasty: int = 0
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class CastVote:
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
    return [VoterCounts(*row) for row in await fetch_rows(connection, "voters_list", values)]


async def read_latest_matchups(connection: Connection, arena: int, *, after: int) -> LatestMatchups:
    """Matchups of people that ended after a position, without excluded votes."""
    rows = await fetch_rows(connection, "voters_latest", {"arena": arena, "after": after})
    session, a, b, kind, hasty, counts, served, ended = np.array(rows, dtype=np.int64).reshape(-1, 8).T
    voted = kind >= 0
    score = np.where(voted & (counts > 0), Scoring().by_kind()[np.maximum(kind, 0)], np.nan)
    rated = ~np.isnan(score) & (a != b)
    return LatestMatchups(
        ShownMatchups(session, a, b, voted, hasty > 0, served / _MICROSECONDS, ended / _MICROSECONDS),
        SessionVotes(session[rated], a[rated], b[rated], score[rated], counts[rated] > 1),
    )


async def read_remarks(
    database: Database, arena: int, *, limit: int = 50, offset: int = 0
) -> list[VoteRemark]:
    """Voters' remarks on votes that were not undone, newest first."""
    rows = await fetch_rows(database, "voters_remarks", {"arena": arena, "limit": limit, "offset": offset})
    return [VoteRemark(*row) for row in rows]


#: Why votes of flagged sessions are excluded. Whoever is in such an exclusion waits until it is restored.
FLAGGED_REASON = "a test of voters flags their sessions"
#: The last positions of the log whose matchups are tested.
_TESTED_POSITIONS = 100_000
#: Groups that are so far from chance, with no more than this share of honest sessions, are excluded as single ones are: the
#: opponents of an attack that moved ratings came to 5.4 deviations at most.
_SURE_DEVIATION_LIMIT = 6.0
_HONEST_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class SessionFlag:
    """A session that one test flags: how far it is away, and the numbers behind that."""

    session: int
    votes: int
    #: In standard deviations; above 0 if side A or the model wins, or is skipped, too often.
    deviations: float
    #: For tests of models.
    model: str | None
    counted: CountedOf


@dataclass(frozen=True, slots=True)
class FlaggedGroup:
    """All sessions that one test flags, or a group that acts together."""

    #: What names it in an address: the test, and for groups something of their own.
    key: str
    test: VoterTest
    sessions: tuple[int, ...]
    #: For tests of single sessions: the evidence against each, the most unusual first.
    flags: tuple[SessionFlag, ...] = ()
    #: For groups that vote together: how unlikely that is, the model, whether they vote for it, and how many such sessions
    #: honest voters make.
    deviations: float = 0.0
    model: str | None = None
    wins: bool = True
    expected: float = 0.0

    @property
    def is_sure(self) -> bool:
        """Whether hardly any of those who vote together can be honest."""
        return self.deviations >= _SURE_DEVIATION_LIMIT and self.expected <= _HONEST_SHARE * len(
            self.sessions
        )


async def list_flagged_groups(pool: ConnectionPool, arena: Arena) -> list[FlaggedGroup]:
    """Groups of sessions among the latest matchups: those that act together first, then by test."""
    async with pool.connection() as connection, limit_statement_time(connection, _STATEMENT_SECONDS):
        head = await read_log_head(connection, arena.arena)
        latest = await read_latest_matchups(connection, arena.arena, after=head - _TESTED_POSITIONS)
        names = (await read_roster(connection, arena.arena)).models
    return await asyncio.to_thread(_flagged, latest, names)


async def hold_flagged_voters(pool: ConnectionPool, arena: Arena) -> None:
    """Exclude the votes of sessions that a test flags, and of groups in which hardly anybody can be honest; of other groups,
    the votes that wait.

    An operator who restores them lets these sessions in for good. Whoever votes at random or prefers a side is not held:
    they move no model.
    """
    groups = [
        group
        for group in await list_flagged_groups(pool, arena)
        if group.test not in (VoterTest.UNLIKELY, VoterTest.SIDE)
    ]
    sure = [group for group in groups if group.flags or group.is_sure]
    values = {
        "arena": arena.arena,
        "sessions": [session for group in groups for session in group.sessions],
        "wholly": [session for group in sure for session in group.sessions],
        "reason": FLAGGED_REASON,
    }
    held = [matchup for (matchup,) in await fetch_rows(pool, "voters_to_hold", values)]
    if held:
        with suppress(NotFound):
            selection = VoteSelection(matchups=held)
            await exclude(pool, arena.name, selection, FLAGGED_REASON, actor="scheduled jobs")


async def find_flagged_group(pool: ConnectionPool, arena: Arena, key: str) -> FlaggedGroup:
    """The group of this name as it is now; `NotFound` if there is none any more."""
    for group in await list_flagged_groups(pool, arena):
        if group.key == key:
            return group
    raise NotFound("this group of sessions is no longer found; see the list of voters")


def _flagged(latest: LatestMatchups, names: Sequence[str]) -> list[FlaggedGroup]:
    together = find_groups_together(latest.votes, len(names))
    groups = [_group(one, names) for one in (*find_groups_in_step(latest.shown), *together)]
    signs = [*find_unlike_voters(latest.votes, len(names)), *find_habits(latest.shown, len(names))]
    return groups + [
        _test_group(test, [sign for sign in signs if sign.test is test], names)
        for test in VoterTest
        if any(sign.test is test for sign in signs)
    ]


def _group(group: SessionGroup, names: Sequence[str]) -> FlaggedGroup:
    model = None if group.model is None else names[group.model]
    of = group.sessions[0] if group.model is None else f"{group.model}-{'for' if group.wins else 'against'}"
    return FlaggedGroup(
        f"{group.test}-{of}",
        group.test,
        group.sessions,
        deviations=group.deviations,
        model=model,
        wins=group.wins,
        expected=group.expected,
    )


def _test_group(test: VoterTest, signs: Sequence[VoterSign], names: Sequence[str]) -> FlaggedGroup:
    flags = [
        SessionFlag(
            sign.session,
            sign.votes,
            sign.deviations,
            None if sign.model is None else names[sign.model],
            sign.counted,
        )
        for sign in sorted(signs, key=lambda sign: (-abs(sign.deviations), sign.session))
    ]
    return FlaggedGroup(test.value, test, tuple(flag.session for flag in flags), tuple(flags))


#: Time limit of one SQL statement.
_STATEMENT_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class VoterRecord:
    """One session: counts of its votes by source, and a page of its votes, newest first."""

    session: int
    counted: tuple[VoterCounts, ...]
    agreement: BoardAgreement
    votes: tuple[CastVote, ...]
    #: The position before which the next page starts; ``None`` on the last page.
    before: int | None

    @property
    def total(self) -> int:
        return sum(one.votes for one in self.counted)

    @property
    def excluded(self) -> int:
        return sum(one.excluded for one in self.counted)

    @property
    def source(self) -> int:
        """The source of most of its votes."""
        return max(self.counted, key=lambda one: one.votes).source


async def list_voter_page(
    pool: ConnectionPool, arena: Arena, *, page: int = 0, size: int = 50
) -> tuple[list[VoterCounts], bool]:
    """A page of sessions, ordered by votes, and whether there are more."""
    async with pool.connection() as connection, limit_statement_time(connection, _STATEMENT_SECONDS):
        found = await list_voters(
            connection, arena.arena, arena.settings.timezone, limit=size + 1, offset=page * size
        )
    return found[:size], len(found) > size


async def voter_record(
    pool: ConnectionPool, arena: Arena, session: int, *, before: int | None = None, size: int = 50
) -> VoterRecord:
    """The record of a session; `NotFound` if it has no votes in this arena."""
    async with pool.connection() as connection, limit_statement_time(connection, _STATEMENT_SECONDS):
        counted = await list_voters(connection, arena.arena, arena.settings.timezone, session=session)
        if not counted:
            raise NotFound(f"session {session} has no votes in this arena; see the list of voters")
        first = 2**63 - 1 if before is None else before
        values = {"arena": arena.arena, "session": session, "before": first, "limit": size + 1}
        votes = [CastVote(*row) for row in await fetch_rows(connection, "voters_votes", values)]
        source = max(counted, key=lambda one: one.votes).source
        upto = await read_log_head(connection, arena.arena)
        own = VoteSelection(sessions=[session])
        tally = await read_selected_tally(connection, arena.arena, source, own, upto=upto, excluded=True)
        roster = await read_roster(connection, arena.arena)
        newest = await latest_snapshot(connection, arena.arena, source)
    ranks = {} if newest is None else board_of(newest).ranks
    return VoterRecord(
        session=session,
        counted=tuple(counted),
        agreement=board_agreement(tally_by_name(tally, roster.models, roster.prompts), ranks),
        votes=tuple(votes[:size]),
        before=votes[size - 1].position if len(votes) > size else None,
    )


def tally_by_name(
    tally: VoteTally, models: Sequence[str], prompts: Sequence[str]
) -> tuple[voter_board.VoteCount, ...]:
    """Replace the numbers in counts of votes by names."""
    columns = (column.tolist() for column in (tally.a, tally.b, tally.prompt, tally.kind, tally.count))
    return named_votes(zip(*columns, strict=True), models, prompts)
