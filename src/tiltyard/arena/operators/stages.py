"""The stages of an arena: what it needs before its first vote, opening, closing, archiving, deletion.

Votes cast in a draft are test votes. Opening the arena ends all its open matchups and excludes all its votes for good,
in one transaction under the arena's lock, so that no test vote is ever rated, not even one that is on its way. The
log stays as it is: append-only.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from tiltyard.arena.accounts import write_audit_entry
from tiltyard.arena.content.arena_texts import read_texts
from tiltyard.arena.content.arenas import (
    Arena,
    change_arena,
    connect_to_arena,
    find_arena,
    list_prompts,
    lock_arena,
)
from tiltyard.arena.content.blob_store import BlobStore
from tiltyard.arena.log.buckets import fetch_one, fetch_row, fetch_rows
from tiltyard.arena.log.event_log import LogBatch, LogKind, append_batch
from tiltyard.arena.operators.arena_changes import withdraw
from tiltyard.arena.operators.exclusions import VoteSelection, draft_exclusion, settle_exclusion
from tiltyard.arena.operators.voter_data import erase_all_sessions
from tiltyard.errors import Conflict
from tiltyard.postgres.connections import Connection, ConnectionPool, Database
from tiltyard.postgres.statements import statement
from tiltyard.settings.arena_settings import Stage

#: How long an arena can be restored after its deletion was requested.
DELETION_GRACE_DAYS = 30
#: The stages that an operator can choose by `set_stage`, by the stage before. A draft is opened by `open_draft`.
STAGE_CHANGES: Mapping[Stage, tuple[Stage, ...]] = {
    "draft": (),
    "open": ("paused", "archived"),
    "paused": ("open", "archived"),
    "archived": ("open",),
    "deleting": (),
    "deleted": (),
}
_TEST_VOTES = "test votes, cast before the arena was opened"


@dataclass(frozen=True, slots=True)
class StageChange:
    """What a change of the stage did: test votes that were excluded, and open matchups that were ended."""

    stage: Stage
    test_votes: int = 0
    ended: int = 0


async def set_stage(pool: ConnectionPool, arena: str, stage: Stage, *, actor: str) -> StageChange:
    """Pause, resume, archive or reopen an arena; `Conflict` if its stage does not allow that.

    Pausing ends nothing: what voters have open can still be voted on until it expires. Archiving ends all open
    matchups.
    """
    async with _changing(pool, arena) as (connection, batch, found):
        now = found.settings.stage
        if stage not in STAGE_CHANGES[now]:
            raise Conflict(f"the arena is {now}; it cannot become {stage} now")
        ended = await _end_matchups(connection, batch) if stage == "archived" else 0
        await _write_stage(connection, found, stage)
        about = {"stage": [now, stage], "ended": ended}
        await write_audit_entry(connection, actor, "change stage", about, arena=found.arena)
    return StageChange(stage, 0, ended)


async def open_draft(pool: ConnectionPool, arena: str, *, actor: str) -> StageChange:
    """Open an arena for its voters. The votes before are test votes, which are never rated."""
    return await _clear(pool, arena, "open", actor)


async def clear_test_votes(pool: ConnectionPool, arena: str, *, actor: str) -> StageChange:
    """Exclude the test votes of a draft for good, without opening it."""
    return await _clear(pool, arena, "draft", actor)


async def count_test_votes(pool: ConnectionPool, arena: Arena) -> int:
    """The votes of a draft that were not cleared yet."""
    row = await _fetch(pool, "stages_test_votes", arena=arena.arena)
    return int(row[0])


async def request_deletion(pool: ConnectionPool, arena: str, *, actor: str) -> datetime:
    """Hide an arena, and have it deleted after a time in which it can be restored; return when that is."""
    async with _changing(pool, arena) as (connection, batch, found):
        now = found.settings.stage
        if now in ("deleting", "deleted"):
            raise Conflict("the arena is going to be deleted already")
        back: Stage = "draft" if now == "draft" else "archived"
        ended = await _end_matchups(connection, batch)
        grace = timedelta(days=DELETION_GRACE_DAYS)
        row = await _fetch(
            connection, "stages_ask_deletion", arena=found.arena, stage=back, actor=actor, grace=grace
        )
        await _write_stage(connection, found, "deleting")
        about = {"stage": [now, "deleting"], "due": row[0].isoformat(), "ended": ended}
        await write_audit_entry(connection, actor, "request deletion", about, arena=found.arena)
    due: datetime = row[0]
    return due


async def keep_arena(pool: ConnectionPool, arena: str, *, actor: str) -> StageChange:
    """Restore an arena that was going to be deleted: as an archived one, or as a draft if it was one."""
    async with pool.connection() as connection, connection.transaction():
        found = await lock_arena(connection, arena)
        row = await _fetch(connection, "stages_keep", arena=found.arena)
        if row is None:
            raise Conflict("the arena is not going to be deleted; there is nothing to restore")
        back: Stage = row[0]
        await _write_stage(connection, found, back)
        about = {"stage": [found.settings.stage, back]}
        await write_audit_entry(connection, actor, "restore arena", about, arena=found.arena)
    return StageChange(back)


async def read_deletions(pool: ConnectionPool) -> dict[int, datetime]:
    """When each arena that is going to be deleted will be, by number."""
    return dict(await fetch_rows(pool, "stages_deletions", {}))


async def _clear(pool: ConnectionPool, arena: str, stage: Stage, actor: str) -> StageChange:
    async with connect_to_arena(pool, arena) as (connection, found):
        if found.settings.stage != "draft":
            raise Conflict(f"the arena is {found.settings.stage}, not a draft; it has no test votes")
        draft = await draft_exclusion(connection, found.arena, VoteSelection(), _TEST_VOTES)
        async with append_batch(connection, found.arena) as batch:
            locked = await lock_arena(connection, arena)
            if locked.settings.stage != "draft":
                raise Conflict("the arena was opened meanwhile; nothing was changed")
            ended = await _end_matchups(connection, batch)
            votes = await settle_exclusion(connection, draft, batch.head + 1, batch.now)
            named = {"exclusion": draft.exclusion}
            if votes:
                await connection.execute(statement("stages_finalise_exclusion"), named)
                batch.add(LogKind.EXCLUDE, detail={"exclusion": draft.exclusion})
            else:
                await connection.execute(statement("stages_drop_draft"), named)
            await _write_stage(connection, locked, stage)
            about = {"stage": ["draft", stage], "test_votes": votes, "ended": ended}
            action = "open arena" if stage == "open" else "clear test votes"
            await write_audit_entry(connection, actor, action, about, arena=found.arena)
    return StageChange(stage, votes, ended)


async def _end_matchups(connection: Connection, batch: LogBatch) -> int:
    """End every open matchup. Call it under the arena's lock."""
    values = {"arena": batch.arena, "now": batch.now}
    rows = await fetch_rows(connection, "stages_open_matchups", values)
    for source, serial, session, ballot, unseen in rows:
        kind = LogKind.RELEASED if unseen else LogKind.EXPIRE
        batch.end(kind, source, serial, session=session, ballot=ballot)
    return len(rows)


async def _write_stage(connection: Connection, arena: Arena, stage: Stage) -> None:
    await change_arena(connection, arena.arena, arena.title, replace(arena.settings, stage=stage))


async def _fetch(database: Database, named: str, **values: object) -> Any:
    return await fetch_row(database, named, values)


@asynccontextmanager
async def _changing(pool: ConnectionPool, arena: str) -> AsyncIterator[tuple[Connection, LogBatch, Arena]]:
    """A batch under the arena's lock, and the arena as it is then."""
    async with pool.connection() as connection:
        number = (await find_arena(connection, arena)).arena
        async with append_batch(connection, number) as batch:
            yield connection, batch, await lock_arena(connection, arena)


#: Responses to one prompt that a preview chooses from.
_PREVIEWED_RESPONSE_LIMIT = 50


@dataclass(frozen=True, slots=True)
class OpeningChecklist:
    """What there is of what an arena needs."""

    prompts: int
    #: Enabled models.
    models: int
    #: Prompts to which two models or more have responses.
    matchable: int
    #: Invitations and passcodes that let somebody in.
    invitations: int
    #: Texts that the operator has written.
    texts: tuple[str, ...]
    test_votes: int
    entry: str

    @property
    def can_serve(self) -> bool:
        """Whether there is anything to vote on."""
        return self.models > 1 and self.matchable > 0

    @property
    def can_enter(self) -> bool:
        """Whether anybody could come in once the arena is open."""
        return self.entry == "open" or self.invitations > 0


class PreviewedResponse(NamedTuple):
    model: str
    response: int
    kind: str


@dataclass(frozen=True, slots=True)
class AnsweredPrompt:
    """A prompt with two responses or more."""

    prompt: int
    name: str
    text: str
    language: str | None
    responses: tuple[PreviewedResponse, ...]


async def read_checklist(pool: ConnectionPool, arena: Arena) -> OpeningChecklist:
    row = await fetch_one(pool, "checklist_counts", {"arena": arena.arena})
    prompts, models, matchable, invitations = row
    return OpeningChecklist(
        prompts=prompts,
        models=models,
        matchable=matchable,
        invitations=invitations,
        texts=tuple(await read_texts(pool, arena)),
        test_votes=await count_test_votes(pool, arena),
        entry=arena.settings.entry,
    )


async def find_answered_prompt(pool: ConnectionPool, arena: Arena, first: int) -> AnsweredPrompt | None:
    """The first prompt from number ``first`` on that a voter could see; ``None`` if there is none. Nothing is logged."""
    values = {"arena": arena.arena, "prompt": first, "limit": _PREVIEWED_RESPONSE_LIMIT}
    rows = await fetch_rows(pool, "checklist_pair", values)
    if not rows:
        return None
    prompt, name, text, language = rows[0][:4]
    return AnsweredPrompt(prompt, name, text, language, tuple(PreviewedResponse(*row[4:]) for row in rows))


_ACTOR = "schedule"
_REASON = "the arena was deleted"
#: Prompts that are read at once.
_PAGE_ROWS = 1000


async def delete_due_arenas(pool: ConnectionPool, blobs: BlobStore, now: datetime) -> list[str]:
    """Delete the texts, files and invitations of every arena that is due; return their names.

    What stays is what nobody can read anything from: the log with its numbers, names of models and prompts, hashes,
    boards and the audit log. Nothing of it is served any more, and the name of the arena stays taken. After a failure,
    the next run goes on.
    """
    rows = await fetch_rows(pool, "stages_due_deletions", {"now": now})
    for (name,) in rows:
        withdrawn = await _withdraw_everything(pool, blobs, name)
        erased = await erase_all_sessions(pool, name, reason=_REASON, actor=_ACTOR)
        async with pool.connection() as connection, connection.transaction():
            found = await lock_arena(connection, name)
            for one in (
                "stages_revoke_invitations",
                "stages_clear_texts",
                "stages_clear_entrants",
                "stages_deletion_done",
            ):
                await connection.execute(statement(one), {"arena": found.arena})
            await _write_stage(connection, found, "deleted")
            about = {
                "stage": [found.settings.stage, "deleted"],
                "prompts": withdrawn,
                "remarks": erased.remarks,
                "complaints": erased.complaints,
            }
            await write_audit_entry(connection, _ACTOR, "delete arena", about, arena=found.arena)
    return [name for (name,) in rows]


async def _withdraw_everything(pool: ConnectionPool, blobs: BlobStore, name: str) -> int:
    withdrawn, after = 0, -1
    async with pool.connection() as connection:
        number = (await find_arena(connection, name)).arena
    while True:
        async with pool.connection() as connection:
            prompts = await list_prompts(connection, number, after=after, limit=_PAGE_ROWS)
        if not prompts:
            return withdrawn
        for prompt in prompts:
            if prompt.withdrawn_at is None:
                await withdraw(pool, blobs, name, prompt.prompt, reason=_REASON, actor=_ACTOR)
                withdrawn += 1
        after = prompts[-1].number
