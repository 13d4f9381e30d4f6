"""Sessions that are unlike honest voters, alone or as a group, with the evidence. For the operator only."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from tiltyard.arena.content.arenas import Arena, read_log_head
from tiltyard.arena.log.rosters import read_roster
from tiltyard.arena.log.votes import limit_statement_time
from tiltyard.arena.operators.voter_queries import LatestMatchups, read_latest_matchups
from tiltyard.core.integrity.session_groups import (
    SessionGroup,
    find_groups_in_step,
    find_groups_together,
    find_habits,
)
from tiltyard.core.integrity.voter_tests import CountedOf, VoterSign, VoterTest, find_unlike_voters
from tiltyard.errors import NotFound
from tiltyard.postgres.connections import ConnectionPool, connect_from_pool

#: The last positions of the log whose matchups are tested.
_TESTED_POSITIONS = 100_000
#: Time limit of one SQL statement.
_STATEMENT_SECONDS = 20.0


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


async def list_flagged_groups(pool: ConnectionPool, arena: Arena) -> list[FlaggedGroup]:
    """Groups of sessions among the latest matchups: those that act together first, then by test."""
    async with connect_from_pool(pool) as connection, limit_statement_time(connection, _STATEMENT_SECONDS):
        head = await read_log_head(connection, arena.arena)
        latest = await read_latest_matchups(connection, arena.arena, after=head - _TESTED_POSITIONS)
        names = (await read_roster(connection, arena.arena)).models
    return await asyncio.to_thread(_flagged, latest, names)


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
