"""Votes that an operator excludes from the ratings and can restore. None is ever deleted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from tiltyard.arena.content.arenas import read_log_head
from tiltyard.arena.log.buckets import find_statement
from tiltyard.errors import Conflict, NotFound
from tiltyard.postgres.connections import Connection, translate_errors
from tiltyard.postgres.statements import statement
from tiltyard.wire.moderation import Exclusion

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


@dataclass(slots=True)
class ExclusionDraft:
    """An exclusion that is being made, with the votes up to a position."""

    arena: int
    exclusion: int
    selection: VoteSelection
    upto: int
    votes: int = 0

    def chosen(self) -> dict[str, object]:
        """The selection as SQL parameters."""
        one = self.selection
        return {
            "arena": self.arena,
            "exclusion": self.exclusion,
            "source": one.source,
            "sessions": None if one.sessions is None else list(one.sessions),
            "matchups": None if one.matchups is None else list(one.matchups),
            "since": one.since,
            "until": one.until,
        }


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
    with translate_errors("choose the votes to exclude"):
        await connection.execute(statement("log_begin"))
        about = {"arena": arena, "reason": reason}
        made = await (await connection.execute(statement("exclusions_draft"), about)).fetchone()
        assert made is not None
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


async def list_exclusions(connection: Connection, arena: int) -> list[Exclusion]:
    """All exclusions, newest first."""
    with translate_errors("list the exclusions"):
        found = await connection.execute(statement("exclusions_list"), {"arena": arena})
        return [
            Exclusion(exclusion, reason, votes, excluded, restored, made_at)
            for exclusion, reason, excluded, restored, made_at, votes in await found.fetchall()
        ]


async def read_exclusion_details(connection: Connection, arena: int) -> dict[int, ExclusionDetails]:
    """The details of all exclusions, by number."""
    with translate_errors("read whose votes are excluded"):
        values = {"arena": arena, "most": _NAMED_SESSION_LIMIT}
        found = await connection.execute(await find_statement(connection, "exclusions_whose", values), values)
        return {row[0]: ExclusionDetails(tuple(row[1]), *row[2:]) for row in await found.fetchall()}


async def restore_exclusion(connection: Connection, arena: int, exclusion: int, position: int) -> None:
    """Mark an exclusion as restored. The caller appends the event."""
    values = {"arena": arena, "exclusion": exclusion, "position": position}
    row = await (await connection.execute(statement("exclusions_find"), values)).fetchone()
    if row is None:
        raise NotFound(f"this arena has no exclusion {exclusion}; see the list of exclusions")
    if row[2]:
        raise Conflict(f"exclusion {exclusion} has votes that their voter deleted; they cannot be restored")
    if row[1]:
        raise Conflict(f"exclusion {exclusion} has the test votes of a draft, which are never rated")
    if row[0] is not None:
        raise Conflict(f"exclusion {exclusion} has already been restored")
    await connection.execute(statement("exclusions_restore"), values)


async def read_sessions(connection: Connection, arena: int) -> list[int]:
    """All sessions that were ever served a matchup in this arena."""
    with translate_errors("read the sessions of an arena"):
        values = {"arena": arena}
        text = await find_statement(connection, "exclusions_sessions", values)
        found = await connection.execute(text, values)
        return sorted(int(session) for (session,) in await found.fetchall())


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
    text = await find_statement(connection, named, values)
    row = await (await connection.execute(text, values)).fetchone()
    assert row is not None
    return int(row[0])
