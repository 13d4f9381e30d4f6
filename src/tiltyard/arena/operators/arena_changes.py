"""Operators' changes to a running arena. Each change, its events and its audit entry are one transaction."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from typing import Any

from tiltyard.arena.accounts import write_audit_entry
from tiltyard.arena.content.answer_rows import validate_name
from tiltyard.arena.content.arenas import (
    Arena,
    change_arena,
    find_arena,
    find_model,
    find_prompt,
    lock_arena,
    read_policy,
    require_live,
)
from tiltyard.arena.content.blob_store import BlobStore
from tiltyard.arena.content.takedowns import (
    SeenMatchups,
    find_open_matchups,
    open_matchups_with,
    show_responses,
    withdraw_hidden_responses,
    withdraw_prompt_text,
    withdraw_responses,
)
from tiltyard.arena.log.event_log import LogBatch, LogKind, append_batch
from tiltyard.arena.operators.exclusions import (
    VoteSelection,
    draft_exclusion,
    read_sessions,
    restore_exclusion,
    settle_exclusion,
)
from tiltyard.arena.secret_keys import SecretKeys
from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.state.rating_fold import method_from_dict
from tiltyard.core.policy.state.standing import Standing
from tiltyard.errors import BadOption, Conflict, InputError, NotFound, StoreFault
from tiltyard.foundation.field_definitions import definitions
from tiltyard.postgres.connections import (
    Connection,
    ConnectionPool,
    connect_from_pool,
)
from tiltyard.settings.arena_settings import ArenaSettings
from tiltyard.wire.arenas import Withdrawn
from tiltyard.wire.moderation import Excluded

_LOG = logging.getLogger(__name__)

_MAX_REASON_CHARACTERS = 1000


async def change_settings(
    pool: ConnectionPool, arena: str, changed: Mapping[str, Any], *, title: str | None = None, actor: str
) -> Arena:
    """Change the given settings, and the title if given; return the arena."""
    async with connect_from_pool(pool) as connection, connection.transaction():
        found = await lock_arena(connection, arena)
        settings = ArenaSettings.from_dict(found.settings.to_dict() | dict(changed))
        if settings.stage != found.settings.stage:
            raise BadOption(
                f"stage is {settings.stage!r}; it is no setting to be edited: use the operator's page Stage"
            )
        if settings.kind != found.settings.kind:
            raise BadOption(
                f"kind is {settings.kind!r}; it is decided when an arena is made: make another arena for the other kind"
            )
        shown = found.title if title is None else validate_name("title", title)
        await change_arena(connection, found.arena, shown, settings)
        before, after = found.settings.to_dict(), settings.to_dict()
        different = {name: [before[name], after[name]] for name in after if before[name] != after[name]}
        if shown != found.title:
            different["title"] = [found.title, shown]
        about = {"title": shown, "settings": after, "changed": different}
        await write_audit_entry(connection, actor, "change settings", about, arena=found.arena)
    return replace(found, title=shown, settings=settings)


async def set_enabled(pool: ConnectionPool, arena: str, model: str, *, enabled: bool, actor: str) -> int:
    """Enable or retire a model; return the position of the event, or 0 if nothing changed.

    A retired model is no longer served. Its open matchups stay valid, and its battles count.
    """
    async with _changing(pool, arena, live=True) as (connection, batch):
        number, now = await find_model(connection, batch.arena, model)
        if now == enabled:
            return 0
        position = batch.add(LogKind.ENABLE if enabled else LogKind.RETIRE, a=number)
        action = "enable model" if enabled else "retire model"
        about = {"model": model, "enabled": [now, enabled]}
        await write_audit_entry(connection, actor, action, about, arena=batch.arena)
    return position


async def current_policy(pool: ConnectionPool, arena: str) -> Policy:
    """The current ranking policy."""
    async with connect_from_pool(pool) as connection:
        found = await find_arena(connection, arena)
        return method_from_dict(await read_policy(connection, found.arena))[0]


async def set_policy(pool: ConnectionPool, arena: str, changed: Mapping[str, Any], *, actor: str) -> Policy:
    """Change fields of the ranking policy; applies from the next event.

    Fields that determine what an arena stores cannot change: `BadOption` names them.
    """
    async with _changing(pool, arena, live=True) as (connection, batch):
        method = await read_policy(connection, batch.arena)
        old, _ = method_from_dict(method)
        new = apply_policy_changes(old, changed)
        Standing(old, (), ()).under(new)
        if new != old:
            batch.add(LogKind.POLICY, detail={**method, "policy": asdict(new)})
            await write_audit_entry(
                connection, actor, "change policy", _difference(old, new), arena=batch.arena
            )
    return new


async def exclude(
    pool: ConnectionPool, arena: str, selection: VoteSelection, reason: str, *, actor: str
) -> Excluded:
    """Exclude matching votes from the ratings; they stay in the log and can be restored.

    They are selected while voting continues; the arena's lock is held only for the votes cast meanwhile.
    """
    if selection == VoteSelection():
        raise InputError("no votes to exclude were selected; give sessions, matchups, a time or a source")
    validate_reason(reason)
    async with connect_from_pool(pool) as connection:
        found = await find_arena(connection, arena)
        draft = await draft_exclusion(connection, found.arena, selection, reason)
        async with append_batch(connection, found.arena) as batch:
            position = batch.head + 1
            votes = await settle_exclusion(connection, draft, position, batch.now)
            if not votes:
                raise NotFound("no vote matches the selection; nothing was excluded")
            batch.add(LogKind.EXCLUDE, detail={"exclusion": draft.exclusion})
            about = {
                "exclusion": draft.exclusion,
                "votes": votes,
                "reason": reason,
                "excluded": [False, True],
            }
            await write_audit_entry(connection, actor, "exclude votes", about, arena=batch.arena)
    return Excluded(draft.exclusion, votes, position)


async def restore(pool: ConnectionPool, arena: str, exclusion: int, *, actor: str) -> int:
    """Restore the votes of an exclusion; return the position of the event."""
    async with _changing(pool, arena) as (connection, batch):
        await restore_exclusion(connection, batch.arena, exclusion, batch.head + 1)
        position = batch.add(LogKind.RESTORE, detail={"exclusion": exclusion})
        about = {"exclusion": exclusion, "excluded": [True, False]}
        await write_audit_entry(connection, actor, "restore votes", about, arena=batch.arena)
    return position


async def withdraw(
    pool: ConnectionPool,
    blobs: BlobStore,
    arena: str,
    prompt: str,
    model: str | None = None,
    *,
    reason: str,
    actor: str,
) -> Withdrawn:
    """Withdraw a model's response to a prompt; without a model, the prompt and all its responses.

    Their bytes and text are deleted; names, hashes and battles are kept. Open matchups that show them expire at
    once. Bytes that cannot be deleted now are deleted at the next withdrawal, or when this one is repeated.
    """
    validate_reason(reason)
    async with connect_from_pool(pool) as connection:
        found = await find_arena(connection, arena)
        number, _ = await find_prompt(connection, found.arena, prompt)
        by = None if model is None else (await find_model(connection, found.arena, model))[0]
        _check_stored(found)
        seen = await find_open_matchups(connection, found.arena, number, by)
        async with append_batch(connection, found.arena) as batch:
            taken = await _take_down(connection, batch, number, by, seen)
            if taken is not None:
                responses, ended = taken
                about = {
                    "prompt": prompt,
                    "model": model,
                    "responses": len(responses),
                    "reason": reason,
                    "withdrawn": [False, True],
                }
                await write_audit_entry(connection, actor, "withdraw", about, arena=batch.arena)
    blobs.forget(() if taken is None else responses)
    await _sweep(blobs)
    if taken is None:
        what = f"prompt {prompt!r}" if by is None else f"a live response of {model!r} to {prompt!r}"
        raise Conflict(f"there is no {what}; it was withdrawn already, or never existed")
    return Withdrawn(len(responses), ended, batch.head)


async def hide(
    pool: ConnectionPool, blobs: BlobStore, arena: str, prompt: str, model: str | None = None, *, actor: str
) -> int:
    """Hide a model's response to a prompt, or all responses to it; return how many.

    They are served no more, and open matchups that show them end at once. Their bytes stay: `show_again` undoes it.
    """
    async with connect_from_pool(pool) as connection:
        found = await find_arena(connection, arena)
        number, _ = await find_prompt(connection, found.arena, prompt)
        by = None if model is None else (await find_model(connection, found.arena, model))[0]
        _check_stored(found)
        seen = await find_open_matchups(connection, found.arena, number, by)
        async with append_batch(connection, found.arena) as batch:
            responses = await withdraw_responses(connection, batch.arena, number, by, batch.now, hide=True)
            if not responses:
                raise Conflict(f"there is no response to {prompt!r} that could be hidden")
            await _end_shown(connection, batch, number, responses, seen)
            about = {"prompt": prompt, "model": model, "responses": len(responses), "hidden": [False, True]}
            await write_audit_entry(connection, actor, "hide", about, arena=batch.arena)
    blobs.forget(response for response, _ in responses)
    return len(responses)


async def show_again(
    pool: ConnectionPool, arena: str, prompt: str, model: str | None = None, *, actor: str
) -> int:
    """Serve hidden responses again: one model's, or all to a prompt; return how many."""
    async with _changing(pool, arena) as (connection, batch):
        number, withdrawn = await find_prompt(connection, batch.arena, prompt)
        by = None if model is None else (await find_model(connection, batch.arena, model))[0]
        responses = [] if withdrawn else await show_responses(connection, batch.arena, number, by)
        if not responses:
            raise Conflict(
                f"there is no hidden response to {prompt!r} that could be shown; it may have been replaced"
            )
        for response, whose in responses:
            batch.add(LogKind.RESPOND, a=whose, prompt=number, serial=response)
        about = {"prompt": prompt, "model": model, "responses": len(responses), "hidden": [True, False]}
        await write_audit_entry(connection, actor, "show again", about, arena=batch.arena)
    return len(responses)


async def find_sessions_by_pseudonym(
    pool: ConnectionPool, keys: SecretKeys, arena: str, release: str, voters: Sequence[str]
) -> list[int]:
    """The sessions behind the pseudonyms of a release; `NotFound` names the unknown ones."""
    async with connect_from_pool(pool) as connection:
        found = await find_arena(connection, arena)
        sessions = await read_sessions(connection, found.arena)
    known = {keys.pseudonym(release, session): session for session in sessions}
    unknown = [voter for voter in voters if voter not in known]
    if unknown:
        raise NotFound(
            f"release {release!r} has no voter {', '.join(map(repr, unknown[:5]))}; check the release"
        )
    return [known[voter] for voter in voters]


def validate_reason(reason: str) -> str:
    """Check the reason for a change; return it."""
    if not reason.strip() or len(reason) > _MAX_REASON_CHARACTERS or "\0" in reason:
        raise InputError(f"a reason of 1 to {_MAX_REASON_CHARACTERS} characters is required")
    return reason


def _check_stored(arena: Arena) -> None:
    """Raise `Conflict` for a live arena: its prompts are categories, and its responses stand for models."""
    if arena.settings.is_live:
        raise Conflict(
            f"in the arena {arena.name} models answer live: there is no stored response to withdraw or hide; retire"
            " the model, or erase what a voter wrote"
        )


async def _sweep(blobs: BlobStore) -> None:
    """Delete unreferenced bytes. The withdrawal remains in effect even if this fails."""
    try:
        await blobs.sweep()
    except StoreFault as error:
        _LOG.warning("bytes of withdrawn responses were not removed yet; withdraw again to retry: %s", error)


async def _take_down(
    connection: Connection, batch: LogBatch, prompt: int, model: int | None, seen: SeenMatchups
) -> tuple[list[int], int] | None:
    """Withdraw responses and expire the open matchups that show them; ``None`` if there is nothing to withdraw.

    Returns the numbers of the responses, and how many matchups expired.
    """
    responses = await withdraw_responses(connection, batch.arena, prompt, model, batch.now)
    hidden = await withdraw_hidden_responses(connection, batch.arena, prompt, model)
    if model is None:
        if not await withdraw_prompt_text(connection, batch.arena, prompt, batch.now):
            return None
    elif not responses and not hidden:
        return None
    ended = await _end_shown(connection, batch, prompt, responses, seen)
    return [*(response for response, _ in responses), *hidden], ended


async def _end_shown(
    connection: Connection,
    batch: LogBatch,
    prompt: int,
    responses: Sequence[tuple[int, int]],
    seen: SeenMatchups,
) -> int:
    """Log that responses are gone, and end the open matchups that show them; return how many these are."""
    numbers = [response for response, _ in responses]
    shown = await open_matchups_with(connection, batch.arena, numbers, seen, batch.now)
    for one in shown:
        kind = LogKind.RELEASED if one.unseen else LogKind.EXPIRE
        batch.end(kind, one.source, one.serial, session=one.session, ballot=one.ballot)
    for _, by in responses:
        batch.add(LogKind.WITHDRAW, a=by, prompt=prompt)
    return len(shown)


@asynccontextmanager
async def _changing(
    pool: ConnectionPool, arena: str, *, live: bool = False
) -> AsyncIterator[tuple[Connection, LogBatch]]:
    """A batch under the arena's lock. With ``live``, not if the arena is archived or going to be deleted."""
    async with connect_from_pool(pool) as connection:
        found = await find_arena(connection, arena)
        if live:
            require_live(found)
        async with append_batch(connection, found.arena) as batch:
            yield connection, batch


def apply_policy_changes(old: Policy, changed: Mapping[str, Any]) -> Policy:
    """The policy with changed values, which may come from JSON."""
    known = definitions(Policy)
    if unknown := sorted(changed.keys() - known.keys()):
        raise BadOption(
            f"unknown policy fields: {', '.join(unknown)}; expected some of {', '.join(sorted(known))}"
        )
    given: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in changed.items()
    }
    for name, value in given.items():
        known[name].check(value)
        if known[name].kind is float:
            given[name] = float(value)
    return replace(old, **given)


def _difference(old: Policy, new: Policy) -> dict[str, list[object]]:
    before, after = asdict(old), asdict(new)
    return {name: [before[name], after[name]] for name in before if before[name] != after[name]}
