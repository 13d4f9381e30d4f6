"""Changes of the crowd: operators look at them, say why they happened, and see the board without each group of votes."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from psycopg.types.json import Jsonb

from tiltyard.arena.accounts import validate_reason, write_audit_entry
from tiltyard.arena.content.arenas import Arena, connect_to_arena, read_log_head
from tiltyard.arena.log.buckets import fetch_row
from tiltyard.arena.log.crowd_changes import explain_change
from tiltyard.arena.log.event_log import HUMAN, LogKind, append_batch
from tiltyard.arena.log.rosters import Roster, read_roster
from tiltyard.arena.log.votes import Ballots, VoteTally, limit_statement_time, read_ballots
from tiltyard.arena.operators.exclusions import (
    ExclusionEffect,
    VoteSelection,
    compute_effects,
    draft_exclusion,
    finish_exclusion,
    restore_votes,
)
from tiltyard.arena.rating.crowd_watch import HeldChange, LatestVotes, read_grouped_votes
from tiltyard.core.integrity.vote_groups import VOTE_GROUPS, group_flags
from tiltyard.errors import Conflict
from tiltyard.postgres.connections import ConnectionPool, connect_async


async def hold_crowd_change(url: str, arena: int, term: int, change: HeldChange) -> bool:
    """Append a change to the log, and take the votes of those who made it out of the ratings until it is explained.

    ``False`` if the term of the rater that found it has ended.
    """
    selection = VoteSelection(sessions=change.detail["sessions"], source=HUMAN)
    reason = f"change of the crowd: model {change.model}, votes of {VOTE_GROUPS[change.group]}"
    async with await connect_async(url, name="tiltyard crowd") as connection:
        draft = await draft_exclusion(connection, arena, selection, reason)
        with suppress(Conflict):
            async with append_batch(connection, arena) as batch:
                values = {
                    "arena": arena,
                    "term": term,
                    "position": batch.head + 1,
                    "at": batch.now,
                    "model": change.model,
                    "group": change.group,
                    "detail": Jsonb(change.detail),
                    "exclusion": draft.exclusion,
                }
                if await fetch_row(connection, "crowd_add", values) is None:
                    raise Conflict("another process rates the arena by now")
                batch.add(LogKind.CROWD_CHANGED, a=change.model, prompt=change.group, detail=change.detail)
                await finish_exclusion(batch, draft, reason, actor="rater")
            return True
    return False


async def explain_crowd_change(
    pool: ConnectionPool, arena: str, change: int, reason: str, *, keep_out: bool = False, actor: str
) -> int:
    """Say why the crowd changed, with the change's position; return the position of the event.

    From there on the votes that it held count again, unless they are kept out, and votes before it are no evidence of
    another change.
    """
    reason = validate_reason(reason)
    async with (
        connect_to_arena(pool, arena) as (connection, found),
        append_batch(connection, found.arena) as batch,
    ):
        position, exclusion = await explain_change(batch, change, reason)
        about = {"change": change, "explained": [False, True], "reason": reason}
        await write_audit_entry(connection, actor, "explain a change of the crowd", about, arena=found.arena)
        if exclusion is not None and not keep_out:
            # An operator may have restored them before.
            with suppress(Conflict):
                await restore_votes(batch, exclusion, actor=actor)
    return position


_ALL_VOTES = VOTE_GROUPS.index("all")
#: Seconds that a statement may take, and after which no further group is computed.
_STATEMENT_SECONDS = 20.0
_COMPUTATION_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class GroupPreview:
    """The board of people without one group of votes."""

    group: str
    votes: int
    #: The first models without it; several if their ranks are equal.
    first: tuple[str, ...]
    #: The model whose rank would change most; ``None`` if none would.
    moved_most: ExclusionEffect | None
    #: How many models would change rank.
    moved: int


@dataclass(frozen=True, slots=True)
class GroupPreviews:
    """The board of people without each group that has votes."""

    #: All votes that count; and the last position up to which it is known which groups votes belong to.
    votes: int
    position: int
    first: tuple[str, ...]
    #: The largest group first.
    groups: tuple[GroupPreview, ...]
    #: Groups for which there was no time.
    left_out: int


async def preview_groups(pool: ConnectionPool, arena: Arena) -> GroupPreviews | None:
    """Bradley–Terry on the votes of people that count now, and without each group of the latest ones. Nothing changes.

    ``None`` if the votes are not grouped yet.
    """
    async with pool.connection() as connection, limit_statement_time(connection, _STATEMENT_SECONDS):
        latest = await read_grouped_votes(connection, arena.arena)
        if latest is None:
            return None
        upto = await read_log_head(connection, arena.arena)
        ballots = await read_ballots(connection, arena.arena, HUMAN, upto=upto)
        roster = await read_roster(connection, arena.arena)
    position, votes = latest
    return await asyncio.to_thread(_compute_previews, ballots, votes, roster, position)


def _compute_previews(ballots: Ballots, votes: LatestVotes, roster: Roster, position: int) -> GroupPreviews:
    end = time.monotonic() + _COMPUTATION_SECONDS
    members, whole = group_flags(_groups_of(ballots, votes)), _tally(ballots)
    sizes = members.sum(axis=0)
    listed = [
        group
        for group in np.argsort(-sizes, kind="stable").tolist()
        if group != _ALL_VOTES and 0 < sizes[group] < len(ballots)
    ]
    found: list[GroupPreview] = []
    first: tuple[str, ...] = ()
    for group in listed:
        if found and time.monotonic() > end:
            break
        effects = compute_effects(whole, _tally(ballots[members[:, group]]), roster)
        first = tuple(one.model for one in effects if one.rank == 1)
        moved = [one for one in effects if one.climbs]
        preview = GroupPreview(
            group=VOTE_GROUPS[group],
            votes=int(sizes[group]),
            first=tuple(one.model for one in effects if one.rank_without == 1),
            moved_most=max(moved, key=lambda one: abs(one.climbs or 0), default=None),
            moved=sum(one.moves for one in effects),
        )
        found.append(preview)
    return GroupPreviews(len(ballots), position, first, tuple(found), len(listed) - len(found))


def _groups_of(ballots: Ballots, votes: LatestVotes) -> npt.NDArray[np.int64]:
    """The groups of each vote as bits; 0 if it is not among the latest.

    A vote that waited counts from another position on: it is found by its voter and models.
    """
    order = votes.position.argsort()
    place = np.minimum(votes.position[order].searchsorted(ballots.position), max(len(order) - 1, 0))
    groups = np.zeros(len(ballots), dtype=np.int64)
    if not len(order):
        return groups
    known = votes.position[order[place]] == ballots.position
    groups[known] = votes.groups[order[place[known]]]
    columns = (column.tolist() for column in (votes.session, votes.a, votes.b, votes.groups))
    by_pair = {(session, a, b): bits for session, a, b, bits in zip(*columns, strict=True)}
    for row in np.flatnonzero(~known).tolist():
        pair = int(ballots.session[row]), int(ballots.a[row]), int(ballots.b[row])
        groups[row] = by_pair.get(pair, 0)
    return groups


def _tally(ballots: Ballots) -> VoteTally:
    """How often each pair got each kind of vote on each prompt, in the order in which tallies are read."""
    columns = np.stack([ballots.a, ballots.b, ballots.prompt, ballots.free_prompt, ballots.kind])
    (a, b, prompt, written, kind), count = np.unique(columns, axis=1, return_counts=True)
    return VoteTally(a, b, prompt, kind, count, written)
