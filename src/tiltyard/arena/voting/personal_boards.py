"""Boards of a voter's own votes, as far as their names are revealed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from tiltyard.arena.boards.board_cache import BoardCache
from tiltyard.arena.boards.snapshots import board_of
from tiltyard.arena.content.arenas import Arena
from tiltyard.arena.log.buckets import fetch_one, fetch_rows
from tiltyard.arena.log.rosters import Roster, read_roster
from tiltyard.arena.log.votes import limited_connection
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.core.battles import Kind
from tiltyard.core.board.board_rows import Board
from tiltyard.core.board.document import BoardDocument
from tiltyard.core.board.voter_board import (
    BoardAgreement,
    VoteCount,
    agrees_with_order,
    board_agreement,
    own_board,
)
from tiltyard.core.live.prompt_texts import free_prompt_name
from tiltyard.core.policy.state.events import Unrated
from tiltyard.errors import NotFound
from tiltyard.foundation.caches import BoundedCache
from tiltyard.postgres.connections import Connection, ConnectionPool
from tiltyard.settings.arena_settings import MAX_SESSION_VOTES


@dataclass(frozen=True, slots=True)
class OwnTotals:
    """Numbers of a voter's revealed votes, pending votes and skipped matchups."""

    votes: int
    #: Votes whose names are not revealed yet.
    pending: int
    skipped: int


@dataclass(frozen=True, slots=True)
class OwnVote:
    """One vote; models and prompt by number."""

    matchup: UUID
    at: datetime
    a: int
    b: int
    prompt: int
    outcome: int
    blind: bool
    #: Why it is not rated; ``None`` if it is.
    unrated: Unrated | None = None


async def read_own_counts(
    connection: Connection, arena: int, source: int, session: int
) -> list[tuple[int, int, int, int, int, int]]:
    """Rated votes with revealed names, as rows of left model, right model, prompt, free prompt, outcome and count."""
    values = _values(arena, source, session)
    return await fetch_rows(connection, "own_votes_counts", values)


async def read_own_recent(
    connection: Connection, arena: int, source: int, session: int, *, limit: int, latest: bool = False
) -> list[OwnVote]:
    """The last votes with revealed names, newest first; with ``latest``, only those of the last reveal."""
    values = _values(arena, source, session) | {"limit": limit, "latest": latest}
    rows = await fetch_rows(connection, "own_votes_recent", values)
    return [OwnVote(*row) for row in rows]


def _values(arena: int, source: int, session: int) -> dict[str, object]:
    return {"arena": arena, "source": source, "session": session}


_CACHED_BOARD_LIMIT = 500
#: Votes that are listed individually.
_RECENT_VOTES = 30
#: Time limit of one SQL statement.
_STATEMENT_SECONDS = 10.0
#: Outcomes by which votes are counted, with the kinds of vote that each includes.
_OUTCOMES = {
    "model_a": (Kind.WIN_A, Kind.LEAN_A),
    "model_b": (Kind.WIN_B, Kind.LEAN_B),
    "tie": (Kind.TIE, Kind.INCONSISTENT),
    "both_bad": (Kind.BOTH_BAD,),
}


@dataclass(frozen=True, slots=True)
class RecentVote:
    """A vote whose names are revealed."""

    matchup: UUID
    at: datetime
    model_a: str
    model_b: str
    prompt: str
    #: ``model_a``, ``model_b``, ``tie`` or ``both_bad``.
    outcome: str
    #: Whether it was for the model that the arena ranks higher; ``None`` if that is undefined, or their order is not settled.
    agrees: bool | None
    #: Whether it decided between two models whose ranges of ranks overlap.
    close: bool
    #: Whether the voter knew neither name when voting.
    blind: bool
    #: Why it is not rated; ``None`` if it is.
    unrated: Unrated | None = None


@dataclass(frozen=True, slots=True)
class SessionReveal:
    """What votes say together whose names were revealed together."""

    votes: tuple[RecentVote, ...]
    #: Models that were preferred, with how often they were and could have been; the most preferred first.
    preferred: tuple[tuple[str, int, int], ...]
    #: Votes on pairs whose order is settled.
    agreement: BoardAgreement
    #: Votes against an order that is settled.
    surprising: tuple[RecentVote, ...]

    @classmethod
    def of(cls, votes: tuple[RecentVote, ...]) -> SessionReveal:
        won = Counter(name for vote in votes if (name := getattr(vote, vote.outcome, None)))
        met = Counter(name for vote in votes for name in (vote.model_a, vote.model_b))
        preferred = [(name, count, met[name]) for name, count in won.items()]
        said = [vote.agrees for vote in votes if vote.agrees is not None]
        return cls(
            votes,
            tuple(sorted(preferred, key=lambda one: (-one[1], one[2], one[0]))),
            BoardAgreement(sum(said), len(said)),
            tuple(vote for vote in votes if vote.agrees is False),
        )


@dataclass(frozen=True, slots=True)
class PersonalBoard:
    """Totals, ratings and recent votes of one voter."""

    totals: OwnTotals
    #: Rated votes by outcome.
    outcomes: Mapping[str, int]
    #: ``None`` without a vote that rates skill.
    board: Board | None
    agreement: BoardAgreement
    #: The arena's rank of each model that the voter has voted on; unranked models are left out.
    rank: Mapping[str, int]
    recent: tuple[RecentVote, ...]


class PersonalBoards:
    """Computes personal boards in one web process. A board is cached until its voter's votes change."""

    def __init__(self, pool: ConnectionPool, boards: BoardCache) -> None:
        self._pool = pool
        self._boards = boards
        self._made: BoundedCache[tuple[int, Voter], tuple[tuple[VoteCount, ...], Board | None]] = (
            BoundedCache(_CACHED_BOARD_LIMIT)
        )
        self._making = asyncio.Lock()

    async def of(self, arena: Arena, voter: Voter) -> PersonalBoard:
        who = (arena.arena, voter.source, voter.session)
        async with limited_connection(self._pool, _STATEMENT_SECONDS) as connection:
            totals = OwnTotals(*await fetch_one(connection, "own_votes_totals", _values(*who)))
            counts = await read_own_counts(connection, *who)
            recent = await read_own_recent(connection, *who, limit=_RECENT_VOTES)
            roster = await read_roster(connection, arena.arena)
        cast = tuple(_named(row, roster) for row in counts)
        board = await self._newest(arena)
        ranked = {} if board is None else board.ranks
        met = {name for one in cast for name in (one.model_a, one.model_b)}
        counted: Counter[Kind] = Counter()
        for one in cast:
            counted[one.kind] += one.count
        return PersonalBoard(
            totals=totals,
            outcomes={outcome: sum(counted[kind] for kind in kinds) for outcome, kinds in _OUTCOMES.items()},
            board=await self._board((arena.arena, voter), cast),
            agreement=board_agreement(cast, ranked),
            rank={name: rank for name, rank in ranked.items() if name in met},
            recent=tuple(_recent(one, roster, board) for one in recent),
        )

    async def last_revealed(self, arena: Arena, voter: Voter) -> tuple[RecentVote, ...]:
        """The votes whose names were revealed last, together; oldest first."""
        who = (arena.arena, voter.source, voter.session)
        async with limited_connection(self._pool, _STATEMENT_SECONDS) as connection:
            votes = await read_own_recent(connection, *who, limit=MAX_SESSION_VOTES, latest=True)
            roster = await read_roster(connection, arena.arena)
        board = await self._newest(arena)
        return tuple(_recent(one, roster, board) for one in reversed(votes))

    async def _board(self, key: tuple[int, Voter], cast: tuple[VoteCount, ...]) -> Board | None:
        known = self._made.get(key)
        if known is not None and known[0] == cast:
            return known[1]
        async with self._making:
            board = await asyncio.to_thread(own_board, cast)
        return self._made.put(key, (cast, board))[1]

    async def _newest(self, arena: Arena) -> BoardDocument | None:
        """The newest board of people's votes, if there is one."""
        try:
            return board_of(await self._boards.latest(arena.arena, 0))
        except NotFound:
            return None


def _named(row: tuple[int, int, int, int, int, int], roster: Roster) -> VoteCount:
    a, b, prompt, free_prompt, outcome, count = row
    name = free_prompt_name(free_prompt) if free_prompt else roster.prompts[prompt]
    return VoteCount(roster.models[a], roster.models[b], name, Kind(outcome), count)


def _recent(vote: OwnVote, roster: Roster, board: BoardDocument | None) -> RecentVote:
    kind = Kind(vote.outcome)
    one = VoteCount(roster.models[vote.a], roster.models[vote.b], roster.prompts[vote.prompt], kind)
    outcome = next(name for name, kinds in _OUTCOMES.items() if kind in kinds)
    agrees = None if board is None else agrees_with_order(one, board.ranks)
    close = agrees is not None and board is not None and not board.settles(one.model_a, one.model_b)
    return RecentVote(
        vote.matchup,
        vote.at,
        one.model_a,
        one.model_b,
        one.prompt,
        outcome,
        None if close else agrees,
        close,
        vote.blind,
        vote.unrated,
    )
