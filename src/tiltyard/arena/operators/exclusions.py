"""Votes that an operator excludes from the ratings and can restore. None is ever deleted."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

import numpy as np

from tiltyard.arena.accounts import validate_reason, write_audit_entry
from tiltyard.arena.boards.filtered_boards import table_from_tally
from tiltyard.arena.content.arenas import Arena, connect_to_arena, read_log_head
from tiltyard.arena.log.buckets import fetch_one, fetch_row, fetch_rows
from tiltyard.arena.log.event_log import LogBatch, LogKind, append_batch
from tiltyard.arena.log.rosters import Roster, read_roster
from tiltyard.arena.log.votes import WRITTEN_TALLY_COLUMNS, VoteTally, limit_statement_time, read_tally
from tiltyard.arena.secret_keys import SecretKeys
from tiltyard.core.battles.outcome import KIND_COUNT
from tiltyard.core.board.board_rows import Row, make_board
from tiltyard.core.ratings import BradleyTerry
from tiltyard.errors import Conflict, InputError, NotFound
from tiltyard.postgres.connections import Connection, ConnectionPool
from tiltyard.postgres.statements import statement
from tiltyard.wire.moderation import Excluded, Exclusion

#: A draft follows the log until it is at most this many positions behind, or for this many rounds.
_CLOSE_ENOUGH_POSITIONS = 200
_CATCH_UP_ROUND_LIMIT = 5
#: Maximum number of sessions of an exclusion that are listed.
_NAMED_SESSION_LIMIT = 5


@dataclass(frozen=True, slots=True)
class VoteSelection:
    """Selects votes that match every given criterion; ``None`` matches all."""

    sessions: Sequence[int] | None = None
    matchups: Sequence[UUID] | None = None
    #: Cast at or after ``since``, and before ``until``.
    since: datetime | None = None
    until: datetime | None = None
    source: int | None = None

    def values(self) -> dict[str, object]:
        """The selection as SQL parameters."""
        return {
            "source": self.source,
            "sessions": None if self.sessions is None else list(self.sessions),
            "matchups": None if self.matchups is None else list(self.matchups),
            "since": self.since,
            "until": self.until,
        }


@dataclass(slots=True)
class ExclusionDraft:
    """An exclusion that is being made, with the votes up to a position."""

    arena: int
    exclusion: int
    selection: VoteSelection
    upto: int
    votes: int = 0

    def chosen(self) -> dict[str, object]:
        """The exclusion and its selection as SQL parameters."""
        return {"arena": self.arena, "exclusion": self.exclusion, **self.selection.values()}


@dataclass(frozen=True, slots=True)
class ExclusionDetails:
    """The sessions whose votes an exclusion has, and who made and restored it, from the audit log."""

    #: The few sessions with most of its votes, and the number of all sessions.
    sessions: tuple[int, ...]
    among: int
    made_by: str | None
    restored_by: str | None
    restored_at: datetime | None
    #: Whether they are never restored: test votes, and votes of a voter who was erased.
    final: bool = False
    erased: bool = False


async def draft_exclusion(
    connection: Connection, arena: int, selection: VoteSelection, reason: str
) -> ExclusionDraft:
    """Select the matching votes of the log so far, while voting continues.

    This begins the transaction that `tiltyard.arena.log.event_log.append_batch` continues and commits: until then
    the draft is invisible to others, and it is rolled back if that fails.
    """
    await connection.execute(statement("log_begin"))
    about = {"arena": arena, "reason": reason}
    made = await fetch_one(connection, "exclusions_draft", about)
    draft = ExclusionDraft(arena, int(made[0]), selection, await read_log_head(connection, arena))
    values = draft.chosen() | {"upto": draft.upto}
    draft.votes = await _count(connection, "exclusions_choose", values)
    for _ in range(_CATCH_UP_ROUND_LIMIT):
        behind = await _follow(connection, draft, await read_log_head(connection, arena))
        if behind <= _CLOSE_ENOUGH_POSITIONS:
            break
    return draft


async def settle_exclusion(connection: Connection, draft: ExclusionDraft, position: int, at: datetime) -> int:
    """Add the votes cast meanwhile and return the number of votes.

    Call it under the arena's lock. The caller appends the event at ``position``.
    """
    await _follow(connection, draft, position - 1)
    values = {"exclusion": draft.exclusion, "position": position, "at": at}
    await connection.execute(statement("exclusions_settle"), values)
    return draft.votes


async def finish_exclusion(batch: LogBatch, draft: ExclusionDraft, reason: str, *, actor: str) -> int:
    """Settle an exclusion, append its event and note it in the audit; return the number of votes."""
    votes = await settle_exclusion(batch.connection, draft, batch.head + 1, batch.now)
    batch.add(LogKind.EXCLUDE, detail={"exclusion": draft.exclusion})
    about = {"exclusion": draft.exclusion, "votes": votes, "reason": reason, "excluded": [False, True]}
    await write_audit_entry(batch.connection, actor, "exclude votes", about, arena=batch.arena)
    return votes


async def list_exclusions(connection: Connection, arena: int) -> list[Exclusion]:
    """All exclusions, newest first."""
    found = await fetch_rows(connection, "exclusions_list", {"arena": arena})
    return [
        Exclusion(exclusion, reason, votes, excluded, restored, made_at)
        for exclusion, reason, excluded, restored, made_at, votes in found
    ]


async def read_exclusion_details(connection: Connection, arena: int) -> dict[int, ExclusionDetails]:
    """The details of all exclusions, by number."""
    values = {"arena": arena, "most": _NAMED_SESSION_LIMIT}
    found = await fetch_rows(connection, "exclusions_whose", values)
    return {row[0]: ExclusionDetails(tuple(row[1]), *row[2:]) for row in found}


async def _follow(connection: Connection, draft: ExclusionDraft, upto: int) -> int:
    """Remove votes that were undone since, and add new ones; return how many positions were processed."""
    behind = upto - draft.upto
    if behind:
        values = draft.chosen() | {"after": draft.upto, "upto": upto}
        draft.votes -= await _count(connection, "exclusions_drop_undone", values)
        draft.votes += await _count(connection, "exclusions_choose_since", values)
        draft.upto = upto
    return behind


async def _count(connection: Connection, named: str, values: Mapping[str, object]) -> int:
    row = await fetch_one(connection, named, values)
    return int(row[0])


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
    values = {**selection.values(), "arena": arena, "source": source, "upto": upto, "excluded": excluded}
    rows = await fetch_rows(connection, "exclusions_tally", values)
    return VoteTally(*np.array(rows, dtype=np.int64).reshape(-1, WRITTEN_TALLY_COLUMNS).T)


async def exclude(
    pool: ConnectionPool, arena: str, selection: VoteSelection, reason: str, *, actor: str
) -> Excluded:
    """Exclude matching votes from the ratings; they stay in the log and can be restored.

    They are selected while voting continues; the arena's lock is held only for the votes cast meanwhile.
    """
    if selection == VoteSelection():
        raise InputError("no votes to exclude were selected; give sessions, matchups, a time or a source")
    validate_reason(reason)
    async with connect_to_arena(pool, arena) as (connection, found):
        draft = await draft_exclusion(connection, found.arena, selection, reason)
        async with append_batch(connection, found.arena) as batch:
            position = batch.head + 1
            votes = await finish_exclusion(batch, draft, reason, actor=actor)
            if not votes:
                raise NotFound("no vote matches the selection; nothing was excluded")
    return Excluded(draft.exclusion, votes, position)


async def restore(pool: ConnectionPool, arena: str, exclusion: int, *, actor: str) -> int:
    """Restore the votes of an exclusion; return the position of the event."""
    async with (
        connect_to_arena(pool, arena) as (connection, found),
        append_batch(connection, found.arena) as batch,
    ):
        return await restore_votes(batch, exclusion, actor=actor)


async def restore_votes(batch: LogBatch, exclusion: int, *, actor: str) -> int:
    """The same, within a batch."""
    values = {"arena": batch.arena, "exclusion": exclusion, "position": batch.head + 1}
    row = await fetch_row(batch.connection, "exclusions_find", values)
    if row is None:
        raise NotFound(f"this arena has no exclusion {exclusion}; see the list of exclusions")
    restored, final, erased = row
    if erased:
        raise Conflict(f"exclusion {exclusion} has votes that their voter deleted; they cannot be restored")
    if final:
        raise Conflict(f"exclusion {exclusion} has the test votes of a draft, which are never rated")
    if restored is not None:
        raise Conflict(f"exclusion {exclusion} has already been restored")
    await batch.connection.execute(statement("exclusions_restore"), values)
    about = {"exclusion": exclusion, "excluded": [True, False]}
    await write_audit_entry(batch.connection, actor, "restore votes", about, arena=batch.arena)
    return batch.add(LogKind.RESTORE, detail={"exclusion": exclusion})


async def find_sessions_by_pseudonym(
    pool: ConnectionPool, keys: SecretKeys, arena: str, release: str, voters: Sequence[str]
) -> list[int]:
    """The sessions behind the pseudonyms of a release; `NotFound` names the unknown ones."""
    async with connect_to_arena(pool, arena) as (connection, found):
        rows = await fetch_rows(connection, "exclusions_sessions", {"arena": found.arena})
    known = {keys.pseudonym(release, session): session for (session,) in rows}
    unknown = [voter for voter in voters if voter not in known]
    if unknown:
        raise NotFound(
            f"release {release!r} has no voter {', '.join(map(repr, unknown[:5]))}; check the release"
        )
    return [known[voter] for voter in voters]


#: Seconds that a statement may take.
_STATEMENT_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class ExclusionEffect:
    """One model's rank and rating with and without the votes; ``None`` if undefined."""

    model: str
    rank: int | None
    rank_without: int | None
    rating: float | None
    rating_without: float | None
    #: Whether votes do not connect it to the largest group of models, now or without the votes; it has no rank then.
    apart: bool = False

    @property
    def climbs(self) -> int | None:
        """Ranks that it would gain."""
        if self.rank is None or self.rank_without is None:
            return None
        return self.rank - self.rank_without

    @property
    def gains(self) -> float | None:
        """Points that it would gain."""
        if self.rating is None or self.rating_without is None:
            return None
        return self.rating_without - self.rating

    @property
    def moves(self) -> bool:
        return self.rank != self.rank_without


@dataclass(frozen=True, slots=True)
class ExclusionPreview:
    """What excluding the votes of some sessions, or some votes, would change.

    The board's own ratings depend on the order of the votes and take a replay of the log; batch Bradley–Terry is a
    function of counts, so it is made twice, with the votes and without them.
    """

    selection: VoteSelection
    source: int
    #: Votes that would be excluded, and all votes that count now.
    votes: int
    among: int
    #: The last position of the log that it includes.
    position: int
    method: BradleyTerry
    effects: tuple[ExclusionEffect, ...]

    @property
    def moved(self) -> int:
        """The number of models whose rank would change."""
        return sum(one.moves for one in self.effects)

    @property
    def apart(self) -> int:
        """The number of models that cannot be compared with most others, now or without the votes."""
        return sum(one.apart for one in self.effects)


async def preview_exclusion(
    pool: ConnectionPool, arena: Arena, selection: VoteSelection, source: int
) -> ExclusionPreview:
    """Bradley–Terry on the votes that count now, with and without the selected ones. Nothing changes.

    Votes are selected by sessions and matchups.
    """
    async with pool.connection() as connection, limit_statement_time(connection, _STATEMENT_SECONDS):
        upto = await read_log_head(connection, arena.arena)
        whole = await read_tally(connection, arena.arena, source, upto=upto)
        own = await read_selected_tally(connection, arena.arena, source, selection, upto=upto)
        roster = await read_roster(connection, arena.arena)
    if not len(own):
        raise NotFound("the selection has no votes that count; they are already excluded, or there are none")
    found = await asyncio.to_thread(compute_effects, whole, own, roster)
    return ExclusionPreview(
        selection=selection,
        source=source,
        votes=int(own.count.sum()),
        among=int(whole.count.sum()),
        position=upto,
        method=BradleyTerry(),
        effects=found,
    )


def compute_effects(whole: VoteTally, own: VoteTally, roster: Roster) -> tuple[ExclusionEffect, ...]:
    """The effect on every model that is rated with or without the votes, in the order with them."""
    prompts = dict(enumerate(roster.prompts))

    def board_rows(tally: VoteTally) -> tuple[Row, ...]:
        if not len(tally):
            return ()
        return make_board(BradleyTerry()(table_from_tally(tally, roster.models, prompts)), None).rows

    before = board_rows(whole)
    after = {row.model: row for row in board_rows(subtract_tally(whole, own))}
    found = (_effect(row, after.get(row.model)) for row in before)
    return tuple(one for one in found if one.apart or one.rank is not None or one.rank_without is not None)


def subtract_tally(whole: VoteTally, own: VoteTally) -> VoteTally:
    """Subtract counts from counts that include them."""
    prompts = 1 + int(whole.prompt.max(initial=0))
    models = 1 + max(int(whole.a.max(initial=0)), int(whole.b.max(initial=0)))
    written = 1 + int(whole.free_prompt.max(initial=0))
    keys, taken = (
        (((one.a * models + one.b) * prompts + one.prompt) * written + one.free_prompt) * KIND_COUNT
        + one.kind
        for one in (whole, own)
    )
    left = whole.count.copy()
    left[np.searchsorted(keys, taken)] -= own.count
    return replace(whole, count=left)[left > 0]


def _effect(row: Row, without: Row | None) -> ExclusionEffect:
    """The effect on one model. Only the largest group has ranks and ratings, as groups cannot be compared."""
    now = row if row.group == 0 else None
    then = without if without is not None and without.group == 0 else None
    return ExclusionEffect(
        model=row.model,
        rank=None if now is None else now.rank,
        rank_without=None if then is None else then.rank,
        rating=None if now is None else now.rating,
        rating_without=None if then is None else then.rating,
        apart=any(one is not None and one.group not in (0, None) for one in (row, without)),
    )
