"""Voters as shown to the operator: their statistics and their votes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tiltyard.arena.boards.published_boards import board_of
from tiltyard.arena.boards.snapshots import latest_snapshot
from tiltyard.arena.content.arenas import Arena, read_log_head
from tiltyard.arena.log.rosters import read_roster
from tiltyard.arena.log.votes import VoteTally, limit_statement_time
from tiltyard.arena.operators.exclusions import VoteSelection
from tiltyard.arena.operators.voter_queries import (
    CastVote,
    VoterCounts,
    list_voters,
    read_cast_votes,
    read_selected_tally,
)
from tiltyard.core.board import voter_board
from tiltyard.core.board.voter_board import BoardAgreement, board_agreement, named_votes
from tiltyard.errors import NotFound
from tiltyard.postgres.connections import ConnectionPool, connect_from_pool

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
    async with connect_from_pool(pool) as connection, limit_statement_time(connection, _STATEMENT_SECONDS):
        found = await list_voters(
            connection, arena.arena, arena.settings.timezone, limit=size + 1, offset=page * size
        )
    return found[:size], len(found) > size


async def voter_record(
    pool: ConnectionPool, arena: Arena, session: int, *, before: int | None = None, size: int = 50
) -> VoterRecord:
    """The record of a session; `NotFound` if it has no votes in this arena."""
    async with connect_from_pool(pool) as connection, limit_statement_time(connection, _STATEMENT_SECONDS):
        counted = await list_voters(connection, arena.arena, arena.settings.timezone, session=session)
        if not counted:
            raise NotFound(f"session {session} has no votes in this arena; see the list of voters")
        votes = await read_cast_votes(connection, arena.arena, session, before=before, limit=size + 1)
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
